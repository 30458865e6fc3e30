"""What the cache supervisor is asked and told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from greenroom.messages._protocol import Notice, Request, message

__all__ = [
    "Configure",
    "CountAgents",
    "DrainReport",
    "DrainRoom",
    "FlushEvents",
    "GetStats",
    "Listen",
    "OpenSession",
    "ReleaseAnswered",
    "RoomStats",
    "SessionChanged",
    "SessionDrained",
    "SessionStopped",
    "SettleRoom",
    "StopListening",
    "SweepRoom",
]


@message()
class OpenSession(Request[Any]):
    """Return the reference of the session actor of this key, starting it if there is none."""

    key: str
    session_id: str | None = None
    """What is to be recovered there, for the one who asks."""


# From sessions.


@message()
class SessionChanged(Notice):
    """Look at the card of this session: it got an agent or let it go, its turn is over and the
    supervisor wants to hear of it, or nothing is under way there any more."""

    key: str


@message()
class ReleaseAnswered(Notice):
    """The answer to `ReleaseAgent`."""

    key: str
    number: int
    """Of the request."""

    accepted: bool
    held: bool = False
    """It is in a turn, and tells when that is over."""


@message()
class SessionDrained(Notice):
    """A session has done all that a drain asks of it."""

    key: str
    committed: bool
    """It had uncommitted turns, and has none now."""

    left: int
    """How many turns it could not commit."""

    abandoned: bool
    """Its turn or its commit was still running at the deadline."""

    problem: str | None
    """What went wrong, if anything did."""


@message()
class SessionStopped(Notice):
    """A session actor has stopped: there was nothing left to remember."""

    key: str
    ref: Any


# From the room.


@message()
class SweepRoom(Request[int]):
    """Release what has been idle too long, close what has expired. Answered with how many were
    released."""


@message()
class Configure(Request[Any]):
    """Change the policy. Answered with the new one."""

    changes: Mapping[str, Any]


@message()
class CountAgents(Request[int]):
    """Say how many sessions have an agent."""


@message()
class RoomStats:
    """Counters of a room: what is now, and what has been since it was opened."""

    cached: int = 0
    """Sessions with an agent."""

    cap: int | None = None
    over_cap: int = 0
    """Sessions with an agent over the cap, which cannot be released before their turns end."""

    known: int = 0
    """Sessions, with an agent or without."""

    in_turn: int = 0
    waiting: int = 0
    """Turns that wait for their session."""

    dirty: int = 0
    """Sessions with uncommitted turns."""

    retained: int = 0
    """Agents retained for a commit that failed and is retried."""

    busy: int = 0
    """Sessions with a build, commit, release or close under way."""

    failed: int = 0
    """Sessions whose actor was given up."""

    weight: int = 0
    """What the cached agents weigh together, where `weigh` is given."""

    memory_budget: int | None = None
    """`memory_budget` in bytes, also where it is given as a share."""

    hits: int = 0
    builds: int = 0
    rebuilds: int = 0
    adopted: int = 0
    releases: int = 0
    """Agents that were released: their sessions go on."""

    closes: int = 0
    """Agents that were closed: their sessions are over."""

    commits: int = 0
    commit_failures: int = 0
    build_failures: int = 0
    hook_failures: int = 0
    restarts: int = 0
    """Session actors that failed and were restarted."""

    sessions_ended: int = 0
    store_failures: int = 0
    """How often the store could not be asked, or told."""

    ownership_lost: int = 0
    """How often another room took a session over."""

    recovered: int = 0
    """Sessions that another room had left uncommitted, and that were committed."""

    recovery_failures: int = 0
    unrecorded: int = 0
    """Sessions with completed turns that the store could not be told of yet."""

    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """Releases and closes by reason."""

    events_dropped: int = 0
    """Events that a listener was too slow for."""

    workers: int = 0
    workers_busy: int = 0
    work_queued: int = 0
    workers_lost: int = 0
    """Workers written off because a hook was stuck."""

    stuck: tuple[str, ...] = ()
    """The hooks that are stuck now."""

    draining: bool = False


@message()
class GetStats(Request[tuple[RoomStats, list[Any]]]):
    """Hand out the counters, and the cards that the rest is counted from: on the asker's own thread, as
    there may be a million."""


@message()
class Listen(Request[int]):
    """Call back with every event from now on. Answered with the number of the listener."""

    callback: Any
    hits: bool = True
    """Whether it wants to hear of turns that found their agent: nearly all do."""


@message()
class FlushEvents(Request[Any]):
    """Have the listeners called with every event that there is. Answered with a future for each, which
    the actor that calls it resolves."""


@message()
class StopListening(Request[None]):
    """Call back no more."""

    number: int


@message()
class SettleRoom(Request[bool]):
    """Answer when nothing is under way."""


@message()
class DrainReport:
    """What a drain came to, by key."""

    committed: tuple[str, ...] = ()
    """Sessions that had uncommitted turns and have none now."""

    failed: tuple[str, ...] = ()
    """Sessions whose commit, release or close went wrong."""

    abandoned: tuple[str, ...] = ()
    """Sessions that were not done at the deadline."""

    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """What went wrong with those that failed or were abandoned."""

    seconds: float = 0.0

    def __bool__(self) -> bool:
        """True if nothing failed and nothing was abandoned."""
        return not self.failed and not self.abandoned


@message()
class DrainRoom(Request[DrainReport]):
    """Begin no turn any more, commit what is dirty, close everything."""

    deadline: float
    hurries: bool = False
    """Whether a drain that has begun with a later deadline gets this one. Else the first one counts."""
