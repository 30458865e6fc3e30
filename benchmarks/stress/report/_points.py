"""A run's seconds as the points of a line: at most a few hundred, and no peak lost.

A screen has no room for an hour of seconds. Neighbouring rows are taken together: of counts the
average a second, of levels and high percentiles the highest, because it is the peaks that one looks for.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from greenroom.stress._result import Second

__all__ = ["MOST", "Points", "middle", "peak"]

MOST = 400
"""Points in a line."""

SHORTEST = 0.3
"""Seconds. What was counted in less makes no rate."""

Values: TypeAlias = "list[float | None]"
Reduce: TypeAlias = Callable[[Sequence[float]], float]

middle: Reduce = statistics.median
peak: Reduce = max


class Points:
    """The series of a run, taken together into at most `MOST` points."""

    def __init__(self, series: Sequence[Second], most: int = MOST) -> None:
        each = -(-len(series) // most) if series else 1
        self.each = each
        """How many rows a point stands for."""

        self.groups = [series[first : first + each] for first in range(0, len(series), each)]
        self.at = [group[-1].at for group in self.groups]
        """When each point's rows end."""

        ends = [second.at for second in series]
        self._spans = {now: now - before for before, now in itertools.pairwise([0.0, *ends])}

    def values(self, pick: Callable[[Second], float | None], reduce: Reduce) -> Values:
        """A value for each point. `None` where none of its rows has one."""
        return [self._one(map(pick, group), reduce) for group in self.groups]

    @staticmethod
    def _one(values: Iterable[float | None], reduce: Reduce) -> float | None:
        known = [value for value in values if value is not None]
        return reduce(known) if known else None

    def rates(self, pick: Callable[[Second], int | None]) -> Values:
        """Of a count: how many a second. `None` where it is not known."""
        return self.values(lambda second: self._rate(second, pick(second)), statistics.fmean)

    def _rate(self, second: Second, counted: int | None) -> float | None:
        """A row's count is of the time since the row before it. The shortest moments say nothing."""
        span = self._spans[second.at]
        if counted is None or (span < SHORTEST and len(self._spans) > 1):
            return None
        return counted / max(span, SHORTEST)

    def shares(
        self, part: Callable[[Second], int | None], rest: Callable[[Second], int | None]
    ) -> Values:
        """For each point, which share `part` is of both. `None`: neither is there, or known."""
        return [self._share(group, part, rest) for group in self.groups]

    @staticmethod
    def _share(
        group: Sequence[Second],
        part: Callable[[Second], int | None],
        rest: Callable[[Second], int | None],
    ) -> float | None:
        pairs = [(part(second), rest(second)) for second in group]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        whole = sum(a + b for a, b in known)
        return sum(a for a, _ in known) / whole if whole else None
