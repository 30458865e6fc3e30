"""What a session actor knows, all in one place, so that the next incarnation can be given it."""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors.session.machine.rare import HasRare, Rare

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors.ledger._ledger import LedgerState
    from greenroom.actors.ledger.coherence import Remembered
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.machine import SessionMachine
    from greenroom.actors.session.resources import Resources
    from greenroom.messages import BeginTurn

__all__ = ["NOBODY", "Answer", "HeldAgent", "SessionState", "Waiter"]


@dataclass(slots=True, eq=False)
class HeldAgent:
    """An agent that the session holds."""

    incarnation: int
    agent: Any
    session_id: str
    loop: asyncio.AbstractEventLoop | None = None
    bound: asyncio.AbstractEventLoop | None = None
    """The same, if the agent is of no use on another one."""

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
    since: float = 0.0
    """For a turn: since when it waits."""

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


@dataclass(slots=True, eq=False, kw_only=True)
class SessionState(HasRare):
    """All that a session actor knows: what is handed to its next incarnation."""

    key: str
    card: Card
    machine: SessionMachine
    ledger: LedgerState | None = None
    agents: tuple[HeldAgent, ...] = ()
    here: HeldAgent = NOBODY
    """The agent in its place, as of the end of the last message."""

    waiters: dict[BeginTurn, Waiter] | None = None
    answers: tuple[Answer, ...] = ()
    """Callers to answer, behind what the supervisor is told."""

    resources: Resources | None = None
    session_id: str | None = ""
    """Of the last turn, as its caller gave it. Empty: there was none."""

    attempt: int = 0
    """The number of the last commit that was sent on its way."""

    handed_in: int = 0
    """The last incarnation that the caller of a turn has built and handed in."""

    committers = Rare[dict[Any, Waiter] | None](None)
    """Who waits for a commit, by the `CommitSession` that they sent."""

    watch = Rare[Any](None)
    """A weak reference to the running turn that tells when it is garbage, while a caller waits."""

    settings = Rare[dict[str, Any] | None](None)
    ended = Rare["dict[int, Resources | None] | None"](None)
    """The resources of sessions that have ended and are not yet closed."""

    last_error = Rare[str | None](None)
    retry_timer = Rare["Timer | None"](None)

    # In a drain.

    deadline = Rare[float | None](None)
    """When the drain is to be over. `None`: there is none."""

    drained_from = Rare(0)
    forced = Rare(False)
    problem = Rare[str | None](None)

    # After a crash.

    restarted = Rare(False)
    """The next incarnation of the actor goes on with this."""

    failing = Rare[BaseException | None](None)
    """The actor failed with this once too often: it has still to say so, and to begin no turn."""

    left_out = Rare[Any](None)
    """The message or effect on which it failed."""

    @property
    def current_id(self) -> str:
        """The session id of the last turn."""
        return self.session_id or self.machine.conversation or self.key

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
