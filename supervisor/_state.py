"""What outlives a crash of the supervisor."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
    DrainReport,
    Event,
    HookFailure,
    OwnershipLost,
    RecoveryFailure,
    SessionEnded,
    SessionRecovered,
    StoreFailure,
)
from greenroom.supervisor.announcer import Announcer
from greenroom.supervisor.drain import DrainBooks

if TYPE_CHECKING:
    from greenroom.actors import ActorRef, Reply

__all__ = ["COUNTED", "COUNTERS", "SupervisorState", "Sweep"]

COUNTED: dict[type[Event], str] = {
    AgentBuilt: "builds",
    AgentReleased: "releases",
    AgentClosed: "closes",
    CommitSucceeded: "commits",
    CommitFailure: "commit_failures",
    BuildFailure: "build_failures",
    HookFailure: "hook_failures",
    OwnershipLost: "ownership_lost",
    RecoveryFailure: "recovery_failures",
    SessionEnded: "sessions_ended",
    SessionRecovered: "recovered",
    StoreFailure: "store_failures",
}
"""Which counter an event is for."""

COUNTERS = (
    "hits",
    "builds",
    "rebuilds",
    "adopted",
    "releases",
    "closes",
    "commits",
    "commit_failures",
    "build_failures",
    "hook_failures",
    "ownership_lost",
    "recovered",
    "recovery_failures",
    "restarts",
    "sessions_ended",
    "store_failures",
)


class Sweep:
    """A sweep that waits for the answers of those it asked."""

    __slots__ = ("complete", "pending", "released", "reply")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.pending: set[str] = set()
        self.released = 0
        self.complete = False
        """Nobody else will be asked."""

    def found_all(self) -> bool:
        """Nobody else is idle. True if all have answered."""
        self.complete = True
        return self._over()

    def answered(self, key: str, *, accepted: bool) -> bool:
        """Note an answer. True if it was the last."""
        if key not in self.pending:
            return False
        self.pending.discard(key)
        self.released += accepted
        return self._over()

    def _over(self) -> bool:
        if self.pending or not self.complete:
            return False
        self.reply.set(self.released)
        return True


class SupervisorState:
    """What outlives a crash of the supervisor. The order of sessions does not: it is on their cards."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.listeners: dict[int, ActorRef[Announcer]] = {}
        self.hit_listeners: dict[int, ActorRef[Announcer]] = {}
        """Those of them that hear of warm turns, too."""
        self.listener_numbers = 0
        self.restarts: dict[str, tuple[float, ...]] = {}
        self.settling: list[Reply] = []
        self.sweeps: list[Sweep] = []
        self.asked: dict[str, int] = {}
        """Who was asked to release, or to expire, and the number of the last request."""
        self.requests = 0
        self.drain: DrainBooks | None = None
        self.draining: list[Reply] = []
        self.report: DrainReport | None = None
        self.books_closed = False
        """Whoever waits for the drain has been answered, and the next one may be at once."""
