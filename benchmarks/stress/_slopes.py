"""How fast memory, threads and files grow: a line through a run's samples, and how sure that is. Pure.

The first tenth of a run is left out (two minutes at most): agents are built for the first time, modules
are loaded, pools fill up. The rest is fitted by least squares.

Neighbouring samples are alike (what is allocated now is still there in a second), so that a thousand of
them say less than a thousand independent ones, and the textbook's error would be far too small. It is
widened by the number of samples that would say as much: n * (1 - r) / (1 + r), with r the correlation of
each residual with the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from greenroom.stress._result import Second, Slope

__all__ = ["FEWEST", "line_through", "slopes"]

FEWEST = 10
"""Samples. Through fewer, no line is drawn."""

_WARM_UP = 0.1
_LONGEST_WARM_UP = 120.0
_HOUR = 3600.0


def slopes(series: Sequence[Second]) -> tuple[Slope, ...]:
    """The slopes of a run, as far as there are enough samples."""
    begins = min(_WARM_UP * series[-1].at, _LONGEST_WARM_UP) if series else 0.0
    found: list[Slope] = []
    for name in ("memory", "threads", "files"):
        samples = [(one.at, getattr(one, name)) for one in series if one.at > begins]
        known = [(at, float(value)) for at, value in samples if value is not None]
        if len(known) >= FEWEST:
            found.append(line_through(name, [at for at, _ in known], [value for _, value in known]))
    return tuple(found)


def line_through(name: str, at: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a line. `at` is in seconds."""
    count = len(at)
    mean_at, mean = math.fsum(at) / count, math.fsum(values) / count
    spread = math.fsum((one - mean_at) ** 2 for one in at)
    slope = 0.0
    if spread:
        slope = math.fsum((a - mean_at) * (v - mean) for a, v in zip(at, values, strict=True)) / spread
    residuals = [v - mean - slope * (a - mean_at) for a, v in zip(at, values, strict=True)]
    return Slope(
        name=name,
        an_hour=slope * _HOUR,
        error=_error(residuals, spread) * _HOUR,
        first=mean + slope * (at[0] - mean_at),
        last=mean + slope * (at[-1] - mean_at),
        samples=count,
    )


def _error(residuals: Sequence[float], spread: float) -> float:
    squares = math.fsum(one * one for one in residuals)
    count = len(residuals)
    if not squares or not spread or count < 3:
        return 0.0
    neighbours = math.fsum(a * b for a, b in itertools.pairwise(residuals))
    # Less than nothing would make the error smaller than the textbook's; that is luck, not knowledge.
    alike = min(max(neighbours / squares, 0.0), 1.0 - 1.0 / count)
    plain = math.sqrt(squares / (count - 2) / spread)
    return plain * math.sqrt((1.0 + alike) / (1.0 - alike))
