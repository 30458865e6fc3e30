"""What is expected of a room that grows, and whether the run at hand meets it."""

from __future__ import annotations

from benchmarks.bars import Bar, at_most
from benchmarks.results import Results
from benchmarks.scale import SMALLEST, SWEPT
from benchmarks.scale.growth import growth, ratio, sizes

FLAT = 1.5
KNOWN_BYTES = 2048

TITLES = {
    "warm": "a warm turn",
    "insert": "an insert without a cap",
    "insert_full": "an insert at the cap",
    "sweep_10": "a sweep of ten",
}


def judge(results: Results) -> list[Bar]:
    largest = sizes(results)[-1]
    bars = []
    for name, title in TITLES.items():
        found = growth(results, name, largest)
        if found is not None:
            bars.append(at_most(f"{title}: {largest:,} sessions ÷ {SMALLEST}", found, FLAT, "×"))
    most = max(count for count in SWEPT if f"sweep_{count}" in results.measurements)
    found = ratio(results, "paced", (f"sweep_{most}", largest), ("sweep_100", largest), most / 100)
    if found is not None:
        what = f"an eviction, in a sweep of {most:,} ÷ of 100, of {largest:,} sessions"
        bars.append(at_most(what, found, FLAT, "×"))
    known = results.figure("known", str(largest), "bytes_each")
    if known is not None:
        bars.append(
            at_most(f"a known session without an agent, of {largest:,}", known, KNOWN_BYTES, "B")
        )
    return bars
