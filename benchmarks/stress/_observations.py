"""What is seen of a room while it runs: a log that many threads write, and one reads.

Its order is the order of the appends, which `deque` makes one at a time. It says something about the
room only because of where each is made:

    ASKED       by whoever wants a turn, before the room hears of it
    BEGAN       inside the turn, as its first act
    ENDED       inside the turn, as its last act: the room has not got the agent back yet
    LEFT        after the turn: the room has it back, and has counted it
    REFUSED     in the place of BEGAN and the rest
    GAVE_UP     whoever wanted it does not wait any more
    BUILDING    by the build, as its first act
    BUILT       by the build, as its last act: the room has not got the agent yet
    UNBUILT     in its place, if there is no agent
    COMMIT      by the hook, as its first act
    COMMITTED   by the hook, as its last act: the room does not know yet
    TEARDOWN    by the first hook of a release or close, as its first act
    TORN        by the last of them, as its last act
    PLANNED     by whatever failed because the workload asked for it
    DRAINING    before the drain is begun
    OVER        after it: what ends now was let go, and says nothing

So between BEGAN and ENDED the agent is in its turn for certain, and a TEARDOWN between them is a fault
of the room, whatever the threads did; and a COMMIT after LEFT is one that could have had that turn.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from typing import Any, NamedTuple

__all__ = ["Kind", "Log", "Seen"]


class Kind(enum.IntEnum):
    """What was seen."""

    ASKED = 0
    BEGAN = 1
    ENDED = 2
    LEFT = 3
    REFUSED = 4
    GAVE_UP = 5
    BUILDING = 6
    BUILT = 7
    UNBUILT = 8
    COMMIT = 9
    COMMITTED = 10
    TEARDOWN = 11
    TORN = 12
    PLANNED = 13
    DRAINING = 14
    OVER = 15


class Seen(NamedTuple):
    """One observation."""

    kind: Kind
    at: float
    """On `time.perf_counter()`."""

    key: str
    agent: int = 0
    """The number of the agent it is about, or of the build."""

    what: Any = None
    """BEGAN: how long it waited, if nothing of its own session was in its way; else `None`.
    LEFT: the generation, if the turn was completed; `None` if not; 0 if it was and nobody knows.
    COMMIT: the generation up to which; `None` if nobody told. COMMITTED: whether it succeeded."""


class Log:
    """Any thread writes, the run's loop takes it out."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque()

    def write(self, kind: Kind, key: str, agent: int = 0, what: Any = None) -> None:
        """Append one, now."""
        self._seen.append(Seen(kind, time.perf_counter(), key, agent, what))

    def take(self, most: int | None = None) -> list[Seen]:
        """Take out what there is, oldest first, or `most` of it."""
        there, popleft = len(self._seen), self._seen.popleft
        return [popleft() for _ in range(there if most is None else min(there, most))]
