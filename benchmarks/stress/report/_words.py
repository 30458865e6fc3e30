"""How figures read: `38 ms`, `1.2 GB`, `92.1 %`. In a report, always with a unit."""

from __future__ import annotations

import math
from datetime import datetime

__all__ = [
    "count",
    "counted",
    "duration",
    "growth",
    "moment",
    "percent",
    "rate",
    "seconds",
    "shortened",
    "significant",
    "size",
    "wall_clock",
]

SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
UNKNOWN = "not known"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, whole ones in full: `0.42`, `38`, `12,300`."""
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0.0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if places <= 0 or rounded == round(rounded):
        return f"{rounded:,.0f}"
    # Rounding may have carried into one more digit: 9.996 is "10", and not "10.00".
    return f"{rounded:,.{places}f}".rstrip("0").rstrip(".")


def count(value: float | None) -> str:
    """How many."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """How many of what: `1 turn`, `2,000 turns`."""
    return f"{value:,} {one if value == 1 else many or f'{one}s'}"


def seconds(value: float) -> str:
    """A short time."""
    if not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 120.0:
        return duration(value)
    # The unit is that of the rounded value: 0.9999 is "1 s" and not "1,000 ms".
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if abs(value) * factor < 999.5:
            return f"{significant(value * factor)} {unit}" if value else "0 ms"
    return f"{significant(value)} s"


def duration(value: float) -> str:
    """A long time, in the two largest units that it has."""
    if value < 60.0:
        return f"{significant(value)} s"
    whole = round(value)
    if whole < 3600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 86400:
        return _two(whole, 3600, "h", 60, "min")
    return _two(whole, 86400, "d", 3600, "h")


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")


def moment(value: float) -> str:
    """A moment of a run, since its beginning."""
    return f"{value:.1f} s" if value < 120.0 else duration(value)


def size(value: float | None) -> str:
    """So many bytes."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    power = 0
    while abs(value) >= 999.5 and power < len(SIZES) - 1:
        value /= 1000.0
        power += 1
    return f"{significant(value)} {SIZES[power]}"


def rate(value: float) -> str:
    """So many a second."""
    return f"{significant(value)}/s" if value else "0"


def percent(share: float | None) -> str:
    """A share. Only all is 100 %, only nothing is 0 %."""
    if share is None:
        return UNKNOWN
    text = f"{100.0 * share:.1f}"
    if text == "100.0" and share < 1.0:
        return "> 99.9 %"
    if text == "0.0" and share > 0.0:
        return "< 0.1 %"
    return f"{text.removesuffix('.0')} %"


def growth(name: str, value: float) -> str:
    """A change of memory, threads or files, with its sign."""
    text = size(abs(value)) if name == "memory" else significant(abs(value))
    if text in (UNKNOWN, "0", "0 B"):
        return text
    return f"{'−' if value < 0 else '+'}{text}"


def shortened(text: str, most: int) -> str:
    """A text of somebody else's on one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def wall_clock(started: str) -> str:
    """A date and time of ISO 8601, as people write it. What is none stays as it is."""
    try:
        at = datetime.fromisoformat(started)
    except ValueError:
        return started
    zone = at.strftime("%z")
    offset = "" if not zone else " UTC" if zone == "+0000" else f" UTC{zone[:3]}:{zone[3:5]}"
    return f"{at.day} {at:%B %Y, %H:%M:%S}{offset}"
