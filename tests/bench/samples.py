"""Results as a run of the side-by-side benchmark leaves them, with figures that are easy to follow."""

from __future__ import annotations

from benchmarks.latency import Figures
from benchmarks.peers.scenarios import QUICK
from benchmarks.results import Results

MACHINE: dict[str, str | int] = {
    "system": "Linux",
    "architecture": "x86_64",
    "cores": 2,
    "python": "3.11.7",
    "implementation": "CPython",
    "gil": "on",
    "processor": "a processor",
}

CHURN: Figures = {
    "agents": 50,
    "turns": 90,
    "torn": 0,
    "lost": 0,
    "left": 0,
    "overlaps": 0,
    "over_cap": 0,
}


def results() -> Results:
    """greenroom, a dict that is faster at warm turns, a cache that loses turns, and one that failed."""
    found = Results(
        machine=dict(MACHINE),
        versions={"greenroom": "0.1.0", "benchmark": "abc"},
        settings={name: getattr(QUICK, name) for name in QUICK.__dataclass_fields__},
        not_offered={
            "greenroom": {},
            "lock": {},
            "cachetools_lru": {"sweep": "an LRUCache knows no time"},
        },
        missing={"ray_actors": "ray_actors cannot be imported: No module named 'ray'"},
    )
    for rate_of_ours, rate_of_lock in ((100.0, 200.0), (100.0, 400.0)):
        found.add("warm", "greenroom", warm(rate_of_ours, 10.0))
        found.add("warm", "lock", warm(rate_of_lock, 5.0))
    found.add("sweep", "greenroom", {"sessions": 3000, "milliseconds": 0.1, "worst_turn": 1.0})
    found.add("sweep", "lock", {"sessions": 3000, "milliseconds": 2.0, "worst_turn": 1.0})
    for _ in range(2):
        found.add("churn", "greenroom", dict(CHURN))
        found.add("churn", "cachetools_lru", CHURN | {"lost": 7, "left": 3})
    wedged = {"returned": 1.0, "seconds": 1.5, "others": 99, "uncommitted": 0}
    found.add("wedged", "greenroom", wedged)
    found.add("wedged", "lock", wedged | {"returned": 0.0, "seconds": 3.0, "uncommitted": 49})
    return found


def warm(rate: float, p50: float) -> Figures:
    return {"rate": rate, "samples": 10, "p50": p50, "p99": 2 * p50, "p999": 3 * p50, "max": 4 * p50}
