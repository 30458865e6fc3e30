"""Values as people write them, in a variable, an option or a file: `30s`, `1 MiB`, `50%`.

Each function takes what was written, a text or a value that TOML has made of it, and raises `ValueError`
with the end of a sentence: "must be …, not …". Whether the value makes sense is for `_rules.py` to say.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard, cast

__all__ = [
    "KINDS",
    "amount",
    "names",
    "octets",
    "seconds",
    "share",
    "text",
    "toml_or_text",
    "whole",
    "written",
]

_NUMBER = re.compile(r"([0-9]{1,18}(?:_[0-9]{1,18})*(?:\.[0-9]{1,18})?)\s*([A-Za-z%]*)")
_TIMES = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def text(given: Any) -> str:
    """A text."""
    if not isinstance(given, str):
        msg = f"must be a text, not {given!r}"
        raise ValueError(msg)
    return given.strip()


def whole(given: Any) -> int:
    """A whole number."""
    if isinstance(given, str) and re.fullmatch(r"-?[0-9]{1,18}(_[0-9]{1,18})*", given.strip()):
        return int(given)
    if isinstance(given, float) and given.is_integer():
        return int(given)
    if _is_number(given) and isinstance(given, int):
        return given
    msg = f"must be a whole number, not {given!r}"
    raise ValueError(msg)


def seconds(given: Any) -> float:
    """A duration.

    >>> seconds("1.5"), seconds("10m"), seconds("250 ms"), seconds(7)
    (1.5, 600.0, 0.25, 7.0)
    """
    if _is_number(given):
        return _float(given)
    number, unit = _split(given)
    if number is None or unit not in _TIMES:
        msg = f"must be seconds, or a duration such as 500ms, 30s, 10m, 1h or 7d, not {given!r}"
        raise ValueError(msg)
    return float(number) * _TIMES[unit]


def octets(given: Any) -> int:
    """A size.

    >>> octets("1 MiB"), octets("64kB"), octets(512)
    (1048576, 64000, 512)
    """
    if _is_number(given):
        return whole(given)
    number, unit = _split(given)
    if number is None or unit.lower() not in _SIZES:
        msg = f"must be bytes, or a size such as 64 KiB or 1 MiB, not {given!r}"
        raise ValueError(msg)
    return int(float(number) * _SIZES[unit.lower()])


def share(given: Any) -> float:
    """A part of the whole: `0.9` or `90%`."""
    if _is_number(given):
        return _float(given)
    number, unit = _split(given)
    if number is None or unit not in ("", "%"):
        msg = f"must be a share such as 0.9 or 90%, not {given!r}"
        raise ValueError(msg)
    return float(number) / (100 if unit == "%" else 1)


def amount(given: Any) -> float:
    """Memory: a share if it is written as one, else bytes.

    >>> amount("50%"), amount("0.5"), amount("2 GiB"), amount("1000000")
    (0.5, 0.5, 2147483648, 1000000)
    """
    if _is_number(given):
        return given
    number, unit = _split(given)
    if number is not None and (unit == "%" or (not unit and "." in number)):
        return share(given)
    try:
        return octets(given)
    except ValueError:
        msg = f"must be a size such as 512 MiB, or a share of the memory such as 50%, not {given!r}"
        raise ValueError(msg) from None


def names(given: Any) -> tuple[str, ...]:
    """Several texts: a list, or one text with commas."""
    parts: Any = given.split(",") if isinstance(given, str) else given
    listed: list[Any] = list(cast("list[Any]", parts)) if isinstance(parts, (list, tuple)) else [None]
    if not all(isinstance(part, str) for part in listed):
        msg = f"must be a list of texts, not {given!r}"
        raise ValueError(msg)
    return tuple(part.strip() for part in listed if part.strip())


def written(kind: str, value: Any) -> str:
    """A value as one would write it.

    >>> written("seconds", 86_400.0), written("seconds", 90.0), written("octets", 1_048_576)
    ('1d', '90s', '1MiB')
    """
    if value is None:
        return "none"
    if kind == "names":
        return ",".join(value)
    if kind not in ("seconds", "octets"):
        return f"{value:g}" if isinstance(value, float) else str(value)
    units = ("d", "h", "m") if kind == "seconds" else ("GiB", "MiB", "KiB")
    for unit in units:
        size = _TIMES[unit] if kind == "seconds" else _SIZES[unit.lower()]
        if value and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}s" if kind == "seconds" else str(value)


def toml_or_text(given: str) -> Any:
    """What TOML makes of it, or the text itself.

    >>> toml_or_text("0.5"), toml_or_text("true"), toml_or_text("hello"), toml_or_text('["a"]')
    (0.5, True, 'hello', ['a'])
    """
    try:
        parsed = tomllib.loads(f"value = {given}")
    except tomllib.TOMLDecodeError:
        return given
    return parsed["value"] if len(parsed) == 1 else given


KINDS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "amount": amount,
        "names": names,
        "octets": octets,
        "seconds": seconds,
        "share": share,
        "text": text,
        "whole": whole,
    }
)


def _split(given: Any) -> tuple[str | None, str]:
    found = _NUMBER.fullmatch(given.strip()) if isinstance(given, str) else None
    return (None, "") if found is None else (found[1], found[2])


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # TOML knows no largest number
        return math.inf


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
