"""What is expected of greenroom, and whether the run at hand meets it.

Every bar is a ratio to a contender measured in the same run (or a plain amount, for idle actors):
figures of one machine say nothing about another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.results import Cast, Results, Spread, spread
from benchmarks.scenarios import CAST

IDLE_ACTORS = 100_000
IDLE_MEGABYTES = 200


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """greenroom's figure through another's is at least, or at most, so much."""

    scenario: str
    figure: str
    beside: str
    bound: float
    at_least: bool


def faster(scenario: str, beside: str, bound: float) -> Expectation:
    return Expectation(scenario=scenario, figure="rate", beside=beside, bound=bound, at_least=True)


def shorter(scenario: str, figure: str, beside: str, bound: float) -> Expectation:
    return Expectation(scenario=scenario, figure=figure, beside=beside, bound=bound, at_least=False)


EXPECTATIONS = (
    faster("ask", THREADING, 15),
    faster("proxy", THREADING, 8),
    faster("ask_8_8", THREADING, 20),
    faster("ask_8_1", THREADING, 12),
    faster("spawn", THREADING, 12),
    faster("ask_8_1", LOCK, 1.2),
    shorter("ask_8_1", "p99", LOCK, 0.1),
    shorter("ask_8_1", "p999", THREADING, 1),
    shorter("ask_8_1", "max", THREADING, 1),
    shorter("ask_64_1", "p999", THREADING, 1),
    shorter("ask_64_1", "max", THREADING, 1),
)

FIGURES = {"rate": "calls a second", "p99": "p99", "p999": "p99.9", "max": "maximum"}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One expectation, with what was found."""

    what: str
    expected: str
    found: Spread
    unit: str
    met: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = judge_ratios(results, EXPECTATIONS, CAST)
    if OURS in results.idle:
        bars += judge_idle(results.idle[OURS])
    return bars


def judge_ratios(results: Results, expectations: Sequence[Expectation], cast: Cast) -> list[Bar]:
    bars = []
    for expectation in expectations:
        found = results.ratio(expectation.scenario, expectation.figure, OURS, expectation.beside)
        if found is not None:
            bars.append(judge_ratio(expectation, found, cast))
    return bars


def judge_ratio(expectation: Expectation, found: Spread, cast: Cast) -> Bar:
    bound = expectation.bound
    figure = "" if expectation.figure == "rate" else f", {FIGURES[expectation.figure]}"
    return Bar(
        what=f"{cast.scenarios[expectation.scenario]}{figure}: ÷ {cast.contenders[expectation.beside]}",
        expected=f"{'≥' if expectation.at_least else '≤'} {bound:g}",
        found=found,
        unit="×",
        met=found.middle >= bound if expectation.at_least else found.middle <= bound,
    )


def judge_idle(idle: dict[str, float]) -> list[Bar]:
    memory = f"{IDLE_ACTORS:,} idle actors: memory"
    megabytes = spread([idle["bytes_each"] * IDLE_ACTORS / 1e6])
    threads = f"{idle['actors']:,.0f} idle actors: threads of their own"
    return [
        at_most(memory, megabytes, IDLE_MEGABYTES, "MB"),
        at_most(threads, spread([idle["threads"]]), 0),
    ]


def at_most(what: str, found: Spread, bound: float, unit: str = "") -> Bar:
    """A plain amount that must not be exceeded."""
    return Bar(what=what, expected=f"≤ {bound:g}", found=found, unit=unit, met=found.middle <= bound)


def at_least(what: str, found: Spread, bound: float, unit: str = "") -> Bar:
    """An amount that must be reached."""
    return Bar(what=what, expected=f"≥ {bound:g}", found=found, unit=unit, met=found.middle >= bound)
