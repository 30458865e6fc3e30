"""When turns arrive, and whose they are. Pure: a workload and its seed make the same turns everywhere.

steady    a Poisson process: nobody knows of anybody
bursty    bursts are a Poisson process; each has a geometric number of turns within a moment
wave      a Poisson process whose rate goes up and down: candidates come at the highest rate, and each
          is kept with the share that the rate of its moment is of that
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from greenroom.stress._target import Planned
from greenroom.stress._workload import Workload

__all__ = ["BURST_SPREAD", "Popularity", "moments", "planned"]

BURST_SPREAD = 0.1
"""Within how many seconds the turns of a burst come."""


class Popularity:
    """Draws sessions by Zipf's law, in O(log n): 1 is the most popular."""

    __slots__ = ("_sums", "_total", "sessions")

    def __init__(self, sessions: int, exponent: float) -> None:
        self.sessions = sessions
        self._sums: array[float] | None = None
        if exponent:
            weights = (rank**-exponent for rank in range(1, sessions + 1))
            self._sums = array("d", itertools.accumulate(weights))
        self._total = float(sessions) if self._sums is None else self._sums[-1]

    def draw(self, chance: random.Random) -> int:
        """Draw one."""
        point = chance.random() * self._total
        if self._sums is None:
            return int(point) + 1
        return min(bisect_right(self._sums, point), self.sessions - 1) + 1


def planned(workload: Workload) -> Iterator[Planned]:
    """The turns of a workload, in order, until its duration.

    What takes long for many sessions is done here, before a run has begun, and not at its first turn.
    """
    return _planned(workload, Popularity(workload.sessions, workload.popularity))


def _planned(workload: Workload, popularity: Popularity) -> Iterator[Planned]:
    chance = random.Random(workload.seed)
    turn, fails, ends = workload.turn, workload.fail_turn, workload.end
    for number, at in enumerate(moments(workload, chance), 1):
        yield Planned(
            at=at,
            number=number,
            key=f"chat:{popularity.draw(chance)}",
            seconds=turn.draw(chance),
            fails=chance.random() < fails,
            ends=chance.random() < ends,
        )


def moments(workload: Workload, chance: random.Random) -> Iterator[float]:
    """When turns arrive, in order, until the workload's duration."""
    process = {"steady": _steady, "bursty": _bursty, "wave": _wave}[workload.arrivals]
    return itertools.takewhile(lambda at: at < workload.duration, process(workload, chance))


def _steady(workload: Workload, chance: random.Random) -> Iterator[float]:
    at, rate = 0.0, workload.rate
    while True:
        at += chance.expovariate(rate)
        yield at


def _bursty(workload: Workload, chance: random.Random) -> Iterator[float]:
    """The end of one burst may overlap the beginning of the next: a turn goes out when nothing that is
    still to be drawn can come before it."""
    begins, waiting = 0.0, list[float]()
    while True:
        begins += chance.expovariate(workload.rate / workload.burst)
        while waiting and waiting[0] <= begins:
            yield heapq.heappop(waiting)
        for _ in range(_geometric(workload.burst, chance)):
            heapq.heappush(waiting, begins + chance.random() * BURST_SPREAD)


def _geometric(mean: int, chance: random.Random) -> int:
    if mean == 1:
        return 1
    return 1 + int(math.log(1.0 - chance.random()) / math.log1p(-1.0 / mean))


def _wave(workload: Workload, chance: random.Random) -> Iterator[float]:
    at, depth, turning = 0.0, workload.wave_depth, 2.0 * math.pi / workload.wave_period
    highest = workload.rate * (1.0 + depth)
    while True:
        at += chance.expovariate(highest)
        if chance.random() * (1.0 + depth) < 1.0 + depth * math.sin(turning * at):
            yield at
