"""From raw figures to ratios, and back from a file."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.results import Results, Spread, spread
from benchmarks.scale import SIZES, SMALLEST


def load(path: Path) -> Results:
    """What `Results.write()` has written."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("bars")
    return Results(**content)


def sizes(results: Results) -> list[int]:
    """Those that were measured, smallest first."""
    return [size for size in SIZES if str(size) in results.not_offered]


def growth(results: Results, name: str, size: int, figure: str = "paced") -> Spread | None:
    """A figure at this size through that at the smallest, of the same repetitions."""
    return ratio(results, figure, (name, size), (name, SMALLEST))


def ratio(
    results: Results, figure: str, one: tuple[str, int], other: tuple[str, int], through: float = 1.0
) -> Spread | None:
    """One figure through another, each named by what was measured at which size; and through a number.
    Where one was repeated less often, the first repetitions of both are compared."""
    ours, theirs = (results.measurements.get(name, {}).get(str(size)) for name, size in (one, other))
    if not ours or not theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    return spread([a[figure] / b[figure] / through for a, b in pairs])
