"""What is expected of a room with a store, and whether the run at hand meets it."""

from __future__ import annotations

from benchmarks.bars import Bar, at_least, at_most
from benchmarks.results import Results, Spread
from benchmarks.stores import NO_STORE, POSTGRES_FULL, READS_ONLY, SQLITE_FULL, TITLES

LOOK_MICROSECONDS = 25
"""For seeing, in one turn, that nobody else wrote."""

TOGETHER = 8
"""How many times as many turns 64 sessions get done as one, because they wait for the disk together."""


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = []
    look = look_cost(results)
    if look is not None:
        bars.append(at_most("Seeing that nobody wrote", look, LOOK_MICROSECONDS, "µs"))
    for name in (SQLITE_FULL, POSTGRES_FULL):
        together = results.growth(name, "rate", "turn_64", "turn")
        if together is not None:
            what = f"{TITLES[name]}: turns a second, 64 sessions ÷ 1"
            bars.append(at_least(what, together, TOGETHER, "×"))
    return bars


def look_cost(results: Results) -> Spread | None:
    """Microseconds that a typical turn takes longer if its room looks at the store."""
    return results.difference("turn", "p50", READS_ONLY, NO_STORE)
