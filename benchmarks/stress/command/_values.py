"""Values as people write them, in an option or in a file: `30s`, `64 MiB`, `2%`.

Each function takes what was written, a text or a value that TOML has made of it, and raises `ValueError`
with the end of a sentence: "must be …, not …". Whether the value makes sense is for the workload to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from greenroom.stress._workload import Length

__all__ = ["KINDS", "HomelessPath", "file_of", "is_none"]

_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z%]*)")
_TIMES = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

MOST_DIGITS = 18
"""Of a whole number."""


def is_none(given: Any) -> bool:
    """Whether somebody has written that there is to be none."""
    return isinstance(given, str) and given.strip().lower() == "none"


class HomelessPath(ValueError):
    """A path begins with the name of somebody who has no home here."""


def file_of(given: str) -> Path:
    """Where a file is: `~/x` is in one's home."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        msg = f"there is no home folder as in {given!r}: write the whole path"
        raise HomelessPath(msg) from None


def text(given: Any) -> str:
    """A text."""
    if not isinstance(given, str) or not given.strip():
        msg = f"must be a text, not {given!r}"
        raise ValueError(msg)
    return given.strip()


def switch(given: Any) -> bool:
    """Yes or no."""
    if not isinstance(given, bool):
        msg = f"must be true or false, not {given!r}"
        raise ValueError(msg)
    return given


def whole(given: Any) -> int:
    """A whole number.

    >>> whole("1_000"), whole(12)
    (1000, 12)
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if isinstance(given, str) and re.fullmatch(r"-?[0-9]+(_[0-9]+)*", given.strip()):
        if sum(character.isdigit() for character in given) <= MOST_DIGITS:
            return int(given)
        msg = f"must have at most {MOST_DIGITS} digits, not {given!r}"
        raise ValueError(msg)
    msg = f"must be a whole number, not {given!r}"
    raise ValueError(msg)


def number(given: Any) -> float:
    """A number."""
    try:
        return float(_plain_number(given))
    except ValueError:
        msg = f"must be a number, not {given!r}"
        raise ValueError(msg) from None


def seconds(given: Any) -> float:
    """A duration.

    >>> seconds("1.5"), seconds("10m"), seconds("250 ms"), seconds(7)
    (1.5, 600.0, 0.25, 7.0)
    """
    amount, unit = _split(given)
    if amount is None or unit not in _TIMES:
        msg = f"must be seconds, or a duration such as 500ms, 30s, 10m, 1h or 7d, not {given!r}"
        raise ValueError(msg)
    return amount * _TIMES[unit]


def octets(given: Any) -> int:
    """A size.

    >>> octets("1 MiB"), octets("64kB"), octets(512)
    (1048576, 64000, 512)
    """
    amount, unit = _split(given)
    if amount is None or not math.isfinite(amount) or unit.lower() not in _SIZES:
        msg = f"must be bytes, or a size such as 64 KiB or 1 MiB, not {given!r}"
        raise ValueError(msg)
    return int(amount * _SIZES[unit.lower()])


def share(given: Any) -> float:
    """A part of the whole.

    >>> share("2%"), share("0.02")
    (0.02, 0.02)
    """
    amount, unit = _split(given)
    if amount is None or unit not in ("", "%"):
        msg = f"must be a share such as 0.02 or 2%, not {given!r}"
        raise ValueError(msg)
    return amount / (100 if unit == "%" else 1)


def memory(given: Any) -> float:
    """Memory: a share if it is written as one, else bytes.

    >>> memory("50%"), memory("0.5"), memory("2 GiB"), memory(1000000)
    (0.5, 0.5, 2147483648, 1000000)
    """
    amount, unit = _split(given)
    fraction = amount is not None and math.isfinite(amount) and not float(amount).is_integer()
    if unit == "%" or (fraction and not unit):
        return share(given)
    try:
        return octets(given)
    except ValueError:
        msg = f"must be a size such as 512 MiB, or a share of the memory such as 50%, not {given!r}"
        raise ValueError(msg) from None


def length(given: Any) -> Length:
    """How long something takes: see `Length.parse`."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        msg = f"must be a time such as 200ms, or a text such as '200ms~0.8', not {given!r}"
        raise ValueError(msg)
    return Length.parse(str(given))


KINDS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "length": length,
        "memory": memory,
        "number": number,
        "octets": octets,
        "seconds": seconds,
        "share": share,
        "switch": switch,
        "text": text,
        "whole": whole,
    }
)


def _split(given: Any) -> tuple[float | None, str]:
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return float(given), ""
    found = _NUMBER.fullmatch(given.strip()) if isinstance(given, str) else None
    return (None, "") if found is None else (float(found[1]), found[2])


def _plain_number(given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise ValueError
    return given
