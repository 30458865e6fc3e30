"""What a session actor knows, all in one place, so that the next incarnation can be given it."""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors.ledger._ledger import LedgerState
from greenroom.actors.session.machine import SessionMachine
from greenroom.actors.session.machine.rare import HasRare, Rare

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors.ledger.coherence import Remembered
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.resources import Resources
    from greenroom.messages import BeginTurn, CommitSession

__all__ = ["NOBODY", "Answer", "HeldAgent", "SessionState", "Waiter"]


@dataclass(slots=True)
class HeldAgent:
    """An agent that the session holds."""

    incarnation: int
    agent: Any
    session_id: str
    loop: asyncio.AbstractEventLoop | None = None
    remembered: Remembered | None = None
    """What it knows of its transcripts, where there is a store to compare with."""

    weight: int = 0
    seconds: float = 0.0
    adopted: bool = False


NOBODY = HeldAgent(0, None, "")
"""Stands for the agent of a session that has none."""


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


class Answer(NamedTuple):
    """An effect of the actor itself: answer a caller."""

    reply: Reply
    answer: Any
    turn: BeginTurn | None = None
    """The turn that it was granted. If the caller is gone, nobody else will give it back."""


class SessionState(HasRare):
    """All that a session actor knows: what is handed to its next incarnation."""

    __slots__ = (
        "agents",
        "answers",
        "attempt",
        "card",
        "handed_in",
        "here",
        "key",
        "ledger",
        "machine",
        "resources",
        "session_id",
        "waiters",
    )

    def __init__(self, key: str, card: Card, owner: str | None = None) -> None:
        """`owner` is what the room is called in its store, if it has one."""
        super().__init__()
        self.key = key
        self.card = card
        self.machine = SessionMachine(has_store=owner is not None)
        self.ledger = None if owner is None else LedgerState(key, owner)
        self.agents: tuple[HeldAgent, ...] = ()
        self.here = NOBODY
        """The agent in its place, as of the end of the last message."""
        self.waiters: dict[BeginTurn, Waiter] | None = None
        self.answers: tuple[Answer, ...] = ()
        """Callers to answer, behind what the supervisor is told."""
        self.resources: Resources | None = None
        self.session_id: str | None = None
        self.attempt = 0
        """The number of the last commit that was sent on its way."""
        self.handed_in = 0
        """The last incarnation that the caller of a turn has built and handed in."""

    committers: Rare[dict[CommitSession, Waiter] | None] = Rare(None)
    settings: Rare[dict[str, Any] | None] = Rare(None)
    ended: Rare[dict[int, Resources | None] | None] = Rare(None)
    """The resources of sessions that have ended and are not yet closed."""

    last_error: Rare[str | None] = Rare(None)
    retry_timer: Rare[Timer | None] = Rare(None)

    # In a drain.

    deadline: Rare[float | None] = Rare(None)
    """When the drain is to be over. `None`: there is none."""

    drained_from: Rare[int] = Rare(0)
    forced: Rare[bool] = Rare(False)
    problem: Rare[str | None] = Rare(None)

    # After a crash.

    restarted: Rare[bool] = Rare(False)
    """The next incarnation of the actor goes on with this."""

    failing: Rare[BaseException | None] = Rare(None)
    """The actor failed with this once too often: it has still to say so, and to begin no turn."""

    left_out: Rare[Any] = Rare(None)
    """The message or effect on which it failed."""

    def hold(self, incarnation: int, agent: Any, session_id: str) -> HeldAgent:
        """Hold an agent under this number."""
        held = HeldAgent(incarnation, agent, session_id)
        self.agents = (*self.agents, held)
        return held

    def held(self, incarnation: int) -> HeldAgent | None:
        """The agent of this number, if it is held."""
        for held in self.agents:
            if held.incarnation == incarnation:
                return held
        return None

    def forget_agent(self, incarnation: int) -> None:
        """Let go of an agent."""
        self.agents = tuple(held for held in self.agents if held.incarnation != incarnation)

    def answer_later(self, reply: Reply, answer: Any, turn: BeginTurn | None = None) -> None:
        """Answer somebody, once the supervisor has been told: whoever is answered may ask it at once."""
        self.answers = (*self.answers, Answer(reply, answer, turn))
