"""What is expected of `greenroom.integrations.hermes_webui`, and whether the run at hand meets it."""

from __future__ import annotations

from benchmarks.bars import Bar, at_most
from benchmarks.contenders import LOCK, OURS
from benchmarks.results import Results, spread
from benchmarks.webui.scenarios import CAST

RATIOS = (("waiting", "cpu", "processor time", 0.5), ("drain", "seconds", "seconds", 0.2))
"""Scenario, figure, what that is, and how much of the peer's is the most."""

WEDGED = 1
"""Sessions that may stay uncommitted: the one whose provider hangs."""


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = []
    for scenario, figure, words, bound in RATIOS:
        found = results.ratio(scenario, figure, OURS, LOCK)
        if found is not None:
            what = f"{CAST.scenarios[scenario]}, {words}: ÷ {CAST.contenders[LOCK]}"
            bars.append(at_most(what, found, bound, "×"))
    left = results.figure("wedged", OURS, "uncommitted")
    if left is not None:
        # The most of all repetitions: one session that is lost now and then is lost.
        what = f"{CAST.scenarios['wedged']}: uncommitted"
        bars.append(at_most(what, spread([left.high]), WEDGED))
    return bars
