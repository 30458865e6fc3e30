"""What a session actor knows, all in one place, so that the next incarnation can be given it."""

from __future__ import annotations

from collections import Counter
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.actors.ledger._bound_store import Fences
from greenroom.actors.session.machine import SessionMachine

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors.ledger.coherence import Remembered, Sight
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.resources import Resources
    from greenroom.messages import BeginTurn, CommitSession, DrainSession, ReleaseAnswered

__all__ = ["PINNED", "Account", "Answer", "LedgerState", "Rescue", "SessionState", "Tenant", "Waiter"]


@dataclass(slots=True)
class Tenant:
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


@dataclass(slots=True)
class Account:
    """A session id in the ledger, as long as this room is the last that had it, as far as it knows."""

    session_id: str
    epoch: int
    generation: int
    """How many of its turns are completed."""

    committed: int
    recorded: int
    """How many of the completed turns the store knows of."""

    until: float
    """Until when it is this room's for sure, on the runtime's clock: `PINNED` in a turn."""

    loose: bool = False
    """The store may think that a turn is running: it could not be told otherwise."""

    asked: int = 0
    """How much is being asked about it, or told, that no turn waits for."""

    tries: int = 0
    timer: Timer | None = None
    """The store will be told again."""

    @property
    def unrecorded(self) -> bool:
        """Whether there are completed turns that the store does not know of."""
        return self.generation > self.recorded

    @property
    def untold(self) -> bool:
        """Whether the store should be told something, once no turn is running."""
        return self.unrecorded or self.loose or self.until == PINNED

    def heard(self) -> None:
        """There was an answer, perhaps to what nobody waits for any more."""
        self.asked = max(0, self.asked - 1)


PINNED = float("inf")


@dataclass(slots=True)
class Rescue:
    """A session id that is being recovered."""

    reply: Reply
    tries: int
    """How often that has failed before."""

    incarnation: int = 0
    """The agent that was built for it. 0: it is not this room's yet."""


class LedgerState:
    """What a session knows of the store."""

    __slots__ = (
        "accounts",
        "asked",
        "doubts",
        "ender",
        "fences",
        "holder",
        "last",
        "lease_timer",
        "rescues",
        "sight",
        "ticket",
        "trouble",
    )

    def __init__(self, owner: str) -> None:
        self.accounts: dict[str, Account] = {}
        self.fences = Fences(owner)
        self.last: Account | None = None
        """The account that was closed last: for people, who want to see its figures."""
        self.ticket = 0
        """Numbers what was asked for turns that are to begin: only the last answer counts."""
        self.sight: Sight | None = None
        """What was last seen of the transcript of the turn that is to begin."""
        self.holder: str | None = None
        """Which other room was last seen to have the session."""
        self.trouble: BaseException | None = None
        """Why the store could not be asked, the last time."""
        self.ender: Reply | None = None
        """Who waits for the end of a turn to be recorded."""
        self.lease_timer: Timer | None = None
        self.asked: Counter[str] = Counter()
        """Session ids that were asked for, and how many answers are still to come."""
        self.doubts: dict[str, int] = {}
        """Session ids that the store may have given to this room without its knowing, and how often it
        was told that they are not wanted."""
        self.rescues: dict[str, Rescue] = {}
        """The session ids that are being recovered."""


class SessionState:
    """All that a session actor knows: what is handed to its next incarnation."""

    __slots__ = (
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
        "key",
        "last_error",
        "ledger",
        "left_out",
        "problem",
        "resources",
        "retry_timer",
        "session_id",
        "settings",
        "stage",
        "tenants",
        "waiters",
    )

    def __init__(self, key: str, card: Card, owner: str | None = None) -> None:
        """`owner` is what the room is called in its store, if it has one."""
        self.key = key
        self.card = card
        self.stage = SessionMachine(has_store=owner is not None)
        self.ledger = None if owner is None else LedgerState(owner)
        self.tenants: dict[int, Tenant] = {}
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
        self.failing: BaseException | None = None
        """The actor failed with this once too often: it has still to say so, and to begin no turn."""
        self.left_out: Any = None
        """The message or effect on which it failed."""
        self.answers: list[Answer] | None = None
        """Callers to answer, behind what the supervisor is told."""
        self.answer: ReleaseAnswered | None = None
        """What the supervisor is to be told about a release."""
        self.retry_timer: Timer | None = None

    def forget_tenant(self, incarnation: int) -> None:
        """Let go of an agent, and of the table it was in: most sessions that are known have none."""
        self.tenants.pop(incarnation, None)
        if not self.tenants:
            self.tenants.clear()
