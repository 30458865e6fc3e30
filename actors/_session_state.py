"""What a session actor knows, all in one place, so that the next incarnation can be given it."""

from __future__ import annotations

from collections import Counter, deque
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.actors._bound_store import Fences
from greenroom.actors.stage import Stage

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors._reply import Reply
    from greenroom.actors._timers import Timer
    from greenroom.actors.coherence import Remembered, Sight
    from greenroom.actors.effects import Effect
    from greenroom.actors.resources import Resources
    from greenroom.messages import (
        AgentReused,
        BeginTurn,
        CommitSession,
        DrainSession,
        Standing,
        TurnGranted,
    )

__all__ = ["PINNED", "Account", "LedgerState", "Rescue", "SessionState", "Tenant", "Waiter"]


@dataclass(slots=True)
class Tenant:
    """An agent that the session holds."""

    agent: Any
    session_id: str
    loop: asyncio.AbstractEventLoop | None
    reused: AgentReused
    granted: TurnGranted | None = None
    """What the supervisor and the caller are told for every turn that gets it: always the same."""

    remembered: Remembered | None = None
    """What it knows of its transcripts, where there is a store to compare with."""

    weight: int = 0
    seconds: float = 0.0
    adopted: bool = False


@dataclass(slots=True)
class Waiter:
    """Somebody who waits for a turn, or for a commit."""

    reply: Reply
    context: Context | None
    due: float | None
    timer: Timer | None = None
    target: int = 0
    before: int = 0
    disowned: int = 0


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
        "committers",
        "drain",
        "drained_from",
        "ended",
        "failure",
        "forced",
        "idle_since",
        "key",
        "last_error",
        "ledger",
        "left_out",
        "problem",
        "redo",
        "resources",
        "retry_timer",
        "sent",
        "session_id",
        "settings",
        "stage",
        "strikes",
        "struck",
        "tenants",
        "todo",
        "used",
        "waiters",
    )

    def __init__(self, key: str, owner: str | None = None) -> None:
        """`owner` is what the room is called in its store, if it has one."""
        self.key = key
        self.stage = Stage(checked=owner is not None)
        self.ledger = None if owner is None else LedgerState(owner)
        self.tenants: dict[int, Tenant] = {}
        self.waiters: dict[BeginTurn, Waiter] | None = None
        self.committers: dict[CommitSession, Waiter] | None = None
        self.settings: dict[str, Any] | None = None
        self.resources: Resources | None = None
        self.ended: dict[int, Resources | None] | None = None
        """The resources of sessions that have ended and are not yet closed."""
        self.session_id: str | None = None
        self.used = 0
        self.idle_since: float | None = None
        self.sent: Standing | None = None
        """What the supervisor was told last. `None`: something else, so it is told anew."""
        self.todo: deque[Effect] | None = None
        self.redo: Any = None
        self.attempt = 0
        self.last_error: str | None = None
        self.problem: str | None = None
        self.drain: DrainSession | None = None
        self.drained_from = 0
        self.forced = False
        self.answers: list[tuple[Reply, Any, BeginTurn | None]] | None = None
        """Whoever is to be answered, behind the session's new standing."""
        self.answer: bool | None = None
        """What the supervisor is to be told about a release, behind the session's new standing."""
        self.retry_timer: Timer | None = None
        self.struck: Any = None
        self.strikes = 0
        self.failure: BaseException | None = None
        """What the actor failed on once too often, until the session has been told to take no turn."""
        self.left_out: list[Any] | None = None
        """The messages and effects that were left out, until that has been acted on."""

    def forget_tenant(self, incarnation: int) -> None:
        """Let go of an agent, and of the table it was in: most sessions that are known have none."""
        self.tenants.pop(incarnation, None)
        if not self.tenants:
            self.tenants.clear()

    def strike(self, most: int) -> bool:
        """The actor has failed. What it fails on again and again is left out, the rest is still done.

        Returns whether something was left out just now.
        """
        on = self.todo[0] if self.todo else self.redo
        self.strikes = self.strikes + 1 if on is self.struck else 1
        self.struck = on
        if self.strikes <= most:
            return False
        self.struck = None
        self.left_out = [*(self.left_out or ()), on]
        if self.todo:
            self.todo.popleft()
        else:
            self.redo = None
        return True
