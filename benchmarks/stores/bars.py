"""What is expected of a room with a store, and whether the run at hand meets it."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bars import Bar, at_least, at_most
from benchmarks.results import Results, Spread
from benchmarks.stores import (
    BESIDE,
    NO_STORE,
    POSTGRES_FULL,
    READS_ONLY,
    SQLITE_FULL,
    SQLITE_NORMAL,
    TITLES,
)

Row = tuple[str, str, str, Callable[..., Bar], float, str]
"""Scenario, contender, figure; and what it must reach. A figure in "×" is through the bare driver's."""

ROWS: tuple[Row, ...] = (
    ("turn", SQLITE_NORMAL, "each", at_most, 5, "×"),
    ("turn", SQLITE_FULL, "each", at_most, 5, "×"),
    ("turn", POSTGRES_FULL, "each", at_most, 2, "×"),
    ("turn_64", SQLITE_NORMAL, "rate", at_least, 8_000, "turns/s"),
    ("turn_64", SQLITE_NORMAL, "p99_ms", at_most, 20, "ms"),
    ("turn_64", SQLITE_FULL, "rate", at_least, 5_000, "turns/s"),
    ("turn_64", POSTGRES_FULL, "rate", at_least, 4_000, "turns/s"),
    *(("restart", name, "seconds", at_most, 1.5, "s") for name in (SQLITE_FULL, POSTGRES_FULL)),
    *(("hop", name, "p99_ms", at_most, 100, "ms") for name in (SQLITE_FULL, POSTGRES_FULL)),
    *(("recover", name, "seconds", at_most, 1, "s") for name in (SQLITE_FULL, POSTGRES_FULL)),
)

WHAT = {
    ("turn", "each"): "an empty warm turn",
    ("turn_64", "rate"): "64 sessions",
    ("turn_64", "p99_ms"): "64 sessions, p99",
    ("restart", "seconds"): "first turn of a session whose room was killed",
    ("hop", "p99_ms"): "a turn in another process than the last, p99",
    ("recover", "seconds"): "{orphans} sessions of a dead room, hooks of 1 ms",
}

LOOK_MICROSECONDS = 12
"""For seeing, in one turn, that nobody else wrote."""


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = []
    for scenario, name, figure, reaches, bound, unit in ROWS:
        found = results.figure(scenario, name, figure)
        if unit == "×":
            found = results.ratio(scenario, figure, name, BESIDE[name])
        if found is not None:
            what = WHAT[scenario, figure].format_map(results.settings)
            beside = f" ÷ {TITLES[BESIDE[name]]}" if unit == "×" else ""
            bars.append(reaches(f"{TITLES[name]}: {what}{beside}", found, bound, unit))
    look = look_cost(results)
    if look is not None:
        bars.append(at_most("Seeing that nobody wrote", look, LOOK_MICROSECONDS, "µs"))
    return bars


def look_cost(results: Results) -> Spread | None:
    """Microseconds that a typical turn takes longer if its room looks at the store."""
    return results.difference("turn", "p50", READS_ONLY, NO_STORE)
