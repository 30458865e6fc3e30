"""Figures of a run, in constant memory however long it lasts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from greenroom.stress._result import Latency, Second

__all__ = ["MOST_ROWS", "Histogram", "Series"]

MOST_ROWS = 2000
"""Rows of a series. One more, and neighbours are taken together."""

_SHORTEST = 1e-6
_GROWTH = 1.02
"""Each bucket is 2 % wider than the one before: that is how exact a percentile is."""

_SCALE = 1.0 / math.log(_GROWTH)


class Histogram:
    """Times in buckets that grow with them."""

    __slots__ = ("_buckets", "_sum", "count", "worst")

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._buckets: dict[int, int] = {}
        self._sum = 0.0
        self.count = 0
        self.worst = 0.0
        for one in seconds:
            self.add(one)

    def add(self, seconds: float) -> None:
        """Note one."""
        bucket = 0 if seconds <= _SHORTEST else int(math.log(seconds / _SHORTEST) * _SCALE) + 1
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._sum += seconds
        self.count += 1
        if seconds > self.worst:
            self.worst = seconds

    def merge(self, other: Histogram) -> None:
        """Note all that another one has."""
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._sum += other._sum
        self.count += other.count
        self.worst = max(self.worst, other.worst)

    def percentile(self, share: float) -> float | None:
        """What this share of them did not take longer than. `None`: there are none."""
        left = math.ceil(share * self.count)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                # The middle of the bucket, and not more than there was.
                return min(_SHORTEST * math.pow(_GROWTH, bucket - 0.5), self.worst)
        return None

    def latency(self) -> Latency | None:
        """All of it. `None`: there are none."""
        if not self.count:
            return None
        p50, p90, p99, p999 = (self.percentile(share) or 0.0 for share in (0.5, 0.9, 0.99, 0.999))
        return Latency(
            count=self.count,
            mean=self._sum / self.count,
            p50=p50,
            p90=p90,
            p99=p99,
            p999=p999,
            worst=self.worst,
        )


_COUNTS = (
    "turns",
    "arrived",
    "failures",
    "planned_failures",
    "builds",
    "hits",
    "evictions",
    "commits",
    "commit_failures",
)


class Series:
    """The seconds of a run. In a long one neighbours are taken together: a row then stands for all the
    time since the row before it, with what was counted in it, the average median and the highest p99."""

    __slots__ = ("_each", "_most", "_open", "_rows", "_seconds")

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._rows: list[Second] = []
        self._open: list[Second] = []
        self._seconds = 0
        """In the open row, so far."""
        self._each = 1
        """In every other."""
        self._most = max(2, most)

    def add(self, second: Second) -> None:
        """Note one."""
        self._open.append(second)
        self._seconds += 1
        if self._seconds < self._each:
            return
        self._rows.append(_together(self._open))
        self._open, self._seconds = [], 0
        if len(self._rows) > self._most:
            pairs = [self._rows[first : first + 2] for first in range(0, len(self._rows), 2)]
            if len(pairs[-1]) == 1:  # an odd one: it is half of the next row
                self._open, self._seconds = pairs.pop(), self._each
            self._rows = [_together(pair) for pair in pairs]
            self._each *= 2

    def rows(self) -> tuple[Second, ...]:
        """All of them, in order."""
        return (*self._rows, *([_together(self._open)] if self._open else []))


def _together(seconds: list[Second]) -> Second:
    if len(seconds) == 1:
        return seconds[0]
    counts: dict[str, Any] = {name: _sum([getattr(one, name) for one in seconds]) for name in _COUNTS}
    return replace(
        seconds[-1],
        **counts,
        p50=_average([one.p50 for one in seconds]),
        p99=max((one.p99 for one in seconds if one.p99 is not None), default=None),
    )


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _average(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
