"""Where an axis has its ticks, and what they say. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from greenroom.stress.report import _words as words

__all__ = ["Axis", "linear_axis", "log_axis", "time_axis"]

FLOOR = 1e-6
"""A logarithmic axis knows nothing below: what took less took a microsecond."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
"""The steps in seconds that people count time in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A scale from `lowest` to `highest`, with its ticks in order."""

    lowest: float
    highest: float
    ticks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where a value stands: 0 is the lowest, 1 the highest."""
        low, high = self.lowest, self.highest
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, FLOOR))
        return min(max((value - low) / (high - low), 0.0), 1.0)


def linear_axis(
    values: Iterable[float | None],
    say: Callable[[float], str],
    *,
    least: float = 1.0,
    whole: bool = False,
    top: float | None = None,
) -> Axis:
    """From 0 to a round number that no value is above (or to `top`), with at most six ticks."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    highest = max([least, *found]) if top is None else top
    step = _round_up(highest / 5.0, (1.0, 2.0, 2.5, 5.0, 10.0))
    if whole:
        step = max(1.0, math.ceil(step))
    steps = math.ceil(highest / step - 1e-9)
    ticks = [index * step for index in range(steps + 1)]
    return Axis(
        lowest=0.0,
        highest=steps * step,
        ticks=tuple((tick, say(tick) if tick else "0") for tick in ticks),
    )


def log_axis(values: Iterable[float | None], say: Callable[[float], str]) -> Axis:
    """Around the values that are there, with ticks at 1, 10, 100 or, where it is short, 1, 2, 5, 10."""
    found = [max(value, FLOOR) for value in values if value is not None and math.isfinite(value)]
    low, high = (min(found), max(found)) if found else (1e-3, 1.0)
    lowest = _round_down(low, (1.0, 2.0, 5.0))
    highest = _round_up(high, (1.0, 2.0, 5.0, 10.0))
    if highest < lowest * 9.99:
        lowest, highest = _round_down(lowest / 2.0, (1.0, 2.0, 5.0)), _round_up(highest * 2.0)
    decades = math.log10(highest / lowest)
    mantissas = (1.0, 2.0, 5.0) if decades <= 2.0 else (1.0,)
    every = 1 if decades <= 6.0 else 2
    first, last = math.floor(math.log10(lowest) + 1e-9), math.ceil(math.log10(highest) - 1e-9)
    ticks = [mantissa * 10.0**power for power in range(first, last + 1, every) for mantissa in mantissas]
    inside = [tick for tick in ticks if lowest * 0.999 <= tick <= highest * 1.001]
    return Axis(
        lowest=lowest,
        highest=highest,
        ticks=tuple((tick, say(tick)) for tick in inside),
        logarithmic=True,
    )


def time_axis(end: float) -> Axis:
    """From the run's beginning to its end, in seconds, minutes or hours. The last tick says which."""
    end = max(end, 1e-3)
    step = next((float(step) for step in STEPS if end / step <= 6.0), None)
    step = step or _round_up(end / 6.0 / 86400.0) * 86400.0
    if end < 2.0:
        step = _round_up(end / 4.0)
    unit, name = (1.0, "s") if end <= 180.0 else (60.0, "min") if end <= 10800.0 else (3600.0, "h")
    values = [index * step for index in range(math.floor(end / step + 1e-9) + 1)]
    texts = [words.significant(value / unit, 6) for value in values]
    texts[-1] = f"{texts[-1]} {name}"
    return Axis(lowest=0.0, highest=end, ticks=tuple(zip(values, texts, strict=True)))


def _round_up(value: float, mantissas: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return next(m for m in (*mantissas, 10.0) if m * power >= value * (1.0 - 1e-9)) * power


def _round_down(value: float, mantissas: tuple[float, ...]) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return max(m for m in mantissas if m * power <= value * (1.0 + 1e-9)) * power
