"""From the time of every call to a rate and four percentiles."""

from __future__ import annotations

from collections.abc import Sequence

Figures = dict[str, float]
"""`rate` (calls a second), `p50`, `p99`, `p999`, `max` (microseconds), `samples`."""

PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


def figures_of(nanoseconds: Sequence[int], *, rate: float | None = None) -> Figures:
    """Sum up. Without a rate of its own, it is what the calls one after another amount to."""
    ordered = sorted(nanoseconds)
    last = len(ordered) - 1
    if rate is None:
        rate = len(ordered) / (sum(ordered) / 1e9)
    figures: Figures = {"rate": rate, "samples": float(len(ordered))}
    for name, share in PERCENTILES.items():
        figures[name] = ordered[min(last, int(share * len(ordered)))] / 1e3
    return figures
