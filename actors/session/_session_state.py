"""What a session actor knows, all in one place, so that the next incarnation can be given it."""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.actors.ledger._bound_store import Fences
from greenroom.actors.ledger._ledger import LedgerState
from greenroom.actors.ledger.accounts import Accounts
from greenroom.actors.session.machine import SessionMachine

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors.ledger.coherence import Remembered
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.resources import Resources
    from greenroom.messages import BeginTurn, CommitSession, DrainSession, ReleaseAnswered

__all__ = ["Answer", "HeldAgent", "SessionState", "Waiter"]


@dataclass(slots=True)
class HeldAgent:
    """An agent that the session holds."""

    agent: Any
    session_id: str
    loop: asyncio.AbstractEventLoop | None
    remembered: Remembered | None = None
    """What it knows of its transcripts, where there is a store to compare with."""

    weight: int = 0
    seconds: float = 0.0
    adopted: bool = False


@dataclass(slots=True)
class Waiter:
    """A caller that waits for a turn, or for a commit."""

    reply: Reply | None
    """`None`: it builds the agent itself, and asks again when it has."""

    context: Context | None
    due: float | None
    timer: Timer | None = None
    target: int = 0
    before: int = 0
    disowned: int = 0
    builds: int = 0
    """The incarnation that it builds itself."""

    refusal: BaseException | None = None
    """What it is told when it has built: the turn was refused meanwhile."""


@dataclass(slots=True)
class Answer:
    """An effect of the actor itself: answer a caller."""

    reply: Reply
    answer: Any
    turn: BeginTurn | None = None
    """The turn that it was granted. If the caller is gone, nobody else will give it back."""


class SessionState:
    """All that a session actor knows: what is handed to its next incarnation."""

    __slots__ = (
        "agents",
        "answer",
        "answers",
        "attempt",
        "card",
        "committers",
        "drain",
        "drained_from",
        "ended",
        "failing",
        "forced",
        "handed_in",
        "key",
        "last_error",
        "ledger",
        "left_out",
        "machine",
        "problem",
        "resources",
        "retry_timer",
        "session_id",
        "settings",
        "waiters",
    )

    def __init__(self, key: str, card: Card, owner: str | None = None) -> None:
        """`owner` is what the room is called in its store, if it has one."""
        self.key = key
        self.card = card
        self.machine = SessionMachine(has_store=owner is not None)
        self.ledger = None if owner is None else LedgerState(Accounts(key), Fences(owner))
        self.agents: dict[int, HeldAgent] = {}
        self.waiters: dict[BeginTurn, Waiter] | None = None
        self.committers: dict[CommitSession, Waiter] | None = None
        self.settings: dict[str, Any] | None = None
        self.resources: Resources | None = None
        self.ended: dict[int, Resources | None] | None = None
        """The resources of sessions that have ended and are not yet closed."""
        self.session_id: str | None = None
        self.attempt = 0
        self.last_error: str | None = None
        self.problem: str | None = None
        self.drain: DrainSession | None = None
        self.drained_from = 0
        self.forced = False
        self.handed_in = 0
        """The last incarnation that the caller of a turn has built and handed in."""
        self.failing: BaseException | None = None
        """The actor failed with this once too often: it has still to say so, and to begin no turn."""
        self.left_out: Any = None
        """The message or effect on which it failed."""
        self.answers: list[Answer] | None = None
        """Callers to answer, behind what the supervisor is told."""
        self.answer: ReleaseAnswered | None = None
        """What the supervisor is to be told about a release."""
        self.retry_timer: Timer | None = None

    def hold(self, incarnation: int, agent: Any, session_id: str) -> HeldAgent:
        """Hold an agent under this number."""
        self.agents[incarnation] = held = HeldAgent(agent, session_id, None)
        return held

    def forget_agent(self, incarnation: int) -> None:
        """Let go of an agent, and of the table it was in: most sessions that are known have none."""
        self.agents.pop(incarnation, None)
        if not self.agents:
            self.agents.clear()

    def answer_later(self, reply: Reply, answer: Any, turn: BeginTurn | None = None) -> None:
        """Answer somebody, once the supervisor has been told: whoever is answered may ask it at once."""
        if self.answers is None:
            self.answers = []
        self.answers.append(Answer(reply, answer, turn))
