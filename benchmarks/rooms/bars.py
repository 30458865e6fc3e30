"""What is expected of greenroom's room, and whether the run at hand meets it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bars import Bar, at_most, faster, judge_ratios, shorter
from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.results import Results
from benchmarks.rooms.scenarios import CAST

EXPECTATIONS = (
    faster("turn_8_8", THREADING, 10),
    faster("turn_8_64", THREADING, 10),
    faster("turn_8_8", LOCK, 1),
    faster("turn_8_64", LOCK, 1),
    shorter("turn_8_8", "p99", LOCK, 1),
    shorter("turn_8_64", "p99", LOCK, 1),
    faster("turn", LOCK, 0.2),
    faster("drain", LOCK, 10),
)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A figure of greenroom's own that must not be exceeded."""

    scenario: str
    figure: str
    what: str
    bound: float
    unit: str = ""


LIMITS = (
    Limit(scenario="evicting", figure="over_quiet", what="p99 ÷ quiet p99", bound=2, unit="×"),
    Limit(scenario="sweep", figure="milliseconds", what="time", bound=1, unit="ms"),
    # Not one for each eviction: these are as many as a room may have at work at once.
    Limit(scenario="insert", figure="threads", what="threads started", bound=64),
)


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = judge_ratios(results, EXPECTATIONS, CAST)
    for limit in LIMITS:
        found = results.figure(limit.scenario, OURS, limit.figure)
        if found is not None:
            what = f"{CAST.scenarios[limit.scenario]}: {limit.what}"
            bars.append(at_most(what, found, limit.bound, limit.unit))
    return bars
