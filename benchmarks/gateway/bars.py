"""What is expected of the gateway, and whether the run at hand meets it."""

from __future__ import annotations

from benchmarks.bars import Bar, at_least, at_most
from benchmarks.contenders import OURS
from benchmarks.gateway import PLAIN
from benchmarks.gateway.scenarios import CAST, STREAMS
from benchmarks.results import Results, spread
from benchmarks.stores import SQLITE_NORMAL

OVER_PLAIN = 1.15
"""How much longer a trivial turn may take than the same route without greenroom."""

OVER_PLAIN_WITH_STORE = 1.4
"""The same for one that is in the ledger before it is answered."""

FIRST_OVER_PLAIN = 1.5
"""How much longer the first event of a thousand streams that begin together may take."""

FIGURES = {"each": "time a request", "p99": "p99"}


def judge(results: Results) -> list[Bar]:
    """Hold the results against every expectation whose figures were measured."""
    bars = []
    for scenario in ("whole_1", "whole_32"):
        for figure, title in FIGURES.items():
            found = results.ratio(scenario, figure, OURS, PLAIN)
            if found is not None:
                what = f"{CAST.scenarios[scenario]}, {title}: ÷ {CAST.contenders[PLAIN]}"
                bars.append(at_most(what, found, OVER_PLAIN, "×"))
        found = results.ratio(scenario, "each", SQLITE_NORMAL, PLAIN)
        if found is not None:
            stored = CAST.contenders[SQLITE_NORMAL]
            what = f"{CAST.scenarios[scenario]}, {stored}: ÷ {CAST.contenders[PLAIN]}"
            bars.append(at_most(what, found, OVER_PLAIN_WITH_STORE, "×"))
    return bars + judge_streams(results)


def judge_streams(results: Results) -> list[Bar]:
    """All of them at once on one process, and each to its end, in every repetition."""
    bars = []
    for figure, title in (("most", "at once"), ("complete", "complete")):
        repetitions = results.measurements.get(STREAMS.name, {}).get(OURS)
        if repetitions:
            fewest = spread([min(figures[figure] for figures in repetitions)])
            bars.append(at_least(f"Slow streams: {title}", fewest, results.settings["streams"]))
    first = results.ratio(STREAMS.name, "first_p99", OURS, PLAIN)
    if first is not None:
        what = f"Slow streams, first event, p99: ÷ {CAST.contenders[PLAIN]}"
        bars.append(at_most(what, first, FIRST_OVER_PLAIN, "×"))
    return bars
