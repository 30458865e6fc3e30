"""The books of a run: what is counted as turns end, second by second and in all. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from greenroom.stress._figures import Histogram, Series
from greenroom.stress._result import Latency, Second, Totals
from greenroom.stress._target import Level, Outcome, Planned

__all__ = ["Books"]

_MOST_ERRORS = 50
"""Different texts of errors that are kept. The rest is counted together."""


class Books:
    """What is counted."""

    def __init__(self) -> None:
        self.series = Series()
        self.lag = Histogram()
        self.arrived = 0
        self.dropped = 0
        self.cut_at: float | None = None
        """The second of the plan from which on nothing was begun, because the run was too far behind."""
        self._turns = 0
        self._failures = 0
        self._refused = 0
        self._wedged = 0
        self._errors: Counter[str] = Counter()
        self._times = {name: Histogram() for name in ("start", "hit", "build", "turn")}
        self._starts = Histogram()
        """Since the last second; then they are in `_times`, too."""
        self._last = (0, 0, 0, 0)

    def note(self, outcome: Outcome) -> None:
        """A turn is over."""
        if outcome.start is not None:
            self._starts.add(outcome.start)
            if outcome.built is not None:
                self._times["build" if outcome.built else "hit"].add(outcome.start)
            self._times["turn"].add(outcome.turn)
        if outcome.refused:
            self._refused += 1
        elif outcome.error is not None:
            self.fail(outcome.error)
        elif outcome.start is not None and not outcome.planned.fails:
            self._turns += 1

    def cancelled(self, planned: Planned, after: float) -> None:
        """It did not end of itself: as planned, or not."""
        if planned.seconds >= after:  # it cannot have ended by now, whatever the room did
            self._wedged += 1
        else:
            self.fail(f"still not over when the run was: planned for {planned.seconds:.1g} s")

    def fail(self, error: str) -> None:
        """Something failed that should not have."""
        self._failures += 1
        known = error in self._errors or len(self._errors) < _MOST_ERRORS
        self._errors[error if known else "others"] += 1

    def second(self, at: float, before: Level, now: Level, in_flight: int) -> Second:
        """What happened since the last one."""
        counts = self._turns, self.arrived, self._failures, self._wedged
        turns, arrived, failures, wedged = (
            count - last for count, last in zip(counts, self._last, strict=True)
        )
        self._last = counts
        starts, self._starts = self._starts, Histogram()
        self._times["start"].merge(starts)
        evictions = None
        if now.evictions is not None:
            evictions = sum(now.evictions.values()) - sum((before.evictions or {}).values())
        second = Second(
            at=at,
            turns=turns,
            arrived=arrived,
            failures=failures,
            planned_failures=wedged + now.planned_failures - before.planned_failures,
            p50=starts.percentile(0.5),
            p99=starts.percentile(0.99),
            in_flight=in_flight,
            cached=now.cached,
            cap=now.cap,
            in_turn=now.in_turn,
            waiting=now.waiting,
            dirty=now.dirty,
            sessions=now.sessions,
            builds=_since(before.builds, now.builds),
            hits=_since(before.hits, now.hits),
            evictions=evictions,
            commits=_since(before.commits, now.commits),
            commit_failures=_since(before.commit_failures, now.commit_failures),
            memory=now.memory,
            threads=now.threads,
            files=now.files,
        )
        self.series.add(second)
        return second

    def totals(self, level: Level) -> Totals:
        """The whole run."""
        return Totals(
            arrived=self.arrived,
            turns=self._turns,
            failures=self._failures,
            planned_failures=self._wedged + level.planned_failures,
            refused=self._refused,
            builds=level.builds,
            rebuilds=level.rebuilds,
            hits=level.hits,
            commits=level.commits,
            commit_failures=level.commit_failures,
            workers_lost=level.workers_lost,
            evictions=dict(level.evictions or {}),
            errors=dict(self._errors.most_common()),
        )

    def latencies(self, hooks: Mapping[str, Sequence[float] | Latency]) -> dict[str, Latency]:
        """Those that happened."""
        self._times["start"].merge(self._starts)
        self._starts = Histogram()
        found = {name: times.latency() for name, times in self._times.items()}
        for name, taken in hooks.items():
            found[name] = taken if isinstance(taken, Latency) else Histogram(taken).latency()
        return {name: latency for name, latency in found.items() if latency is not None}

    def generator(self) -> dict[str, Any]:
        """How far behind its own plan the run was, and what it never came to."""
        lag = self.lag.latency()
        return {
            "lag_p50": None if lag is None else lag.p50,
            "lag_p99": None if lag is None else lag.p99,
            "lag_worst": None if lag is None else lag.worst,
            "never_begun": self.dropped,
            "cut_at": self.cut_at,
        }


def _since(before: int | None, now: int | None) -> int | None:
    return None if now is None else now - (before or 0)
