"""Options that are pairs: `--reconfigure 10s:cap=64,idle_ttl=30s` and `--agent-option model=x`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, cast

from greenroom.stress._workload import Change
from greenroom.stress.command._file import meant, policy_names
from greenroom.stress.command._options import OPTIONS, POLICY_KINDS
from greenroom.stress.command._values import KINDS, is_none

__all__ = ["bound_of", "change_of", "pair_of"]


def bound_of(name: str, given: Any) -> Any:
    """The value of one of the room's bounds. Raises `ValueError` with the end of a sentence."""
    nullable = OPTIONS[name].may_be_none if name in OPTIONS else name == "store_timeout"
    return None if nullable and is_none(given) else KINDS[POLICY_KINDS[name]](given)


def change_of(given: Any) -> Change:
    """A change of the room's bounds: a table of the file, or a text."""
    at, changes = _table(cast("Mapping[str, Any]", given)) if isinstance(given, dict) else _text(given)
    parsed: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in policy_names():
            msg = f"names {name!r}, which is no bound of a room{meant(name, policy_names())}"
            raise ValueError(msg)
        try:
            parsed[name] = bound_of(name, value)
        except ValueError as error:
            msg = f"has a {name} that {error}"
            raise ValueError(msg) from None
    return Change(at=KINDS["seconds"](at), changes=parsed)


def _table(given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    return given.get("at"), {name: value for name, value in given.items() if name != "at"}


def _text(given: str) -> tuple[Any, dict[str, Any]]:
    at, colon, rest = given.partition(":")
    pairs = [part.partition("=") for part in rest.split(",")]
    if not colon or not all(name.strip() and equals and value for name, equals, value in pairs):
        msg = f"must be a moment and what changes then, such as 10s:cap=64,idle_ttl=30s, not {given!r}"
        raise ValueError(msg)
    return at, {name.strip().replace("-", "_"): value for name, _, value in pairs}


def pair_of(given: str) -> tuple[str, Any]:
    """A name and a value, as TOML or plain text.

    >>> pair_of("seconds=0.5"), pair_of("name=Ada")
    (('seconds', 0.5), ('name', 'Ada'))
    """
    name, equals, value = given.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name.isidentifier():
        msg = f"must be NAME=VALUE, not {given!r}"
        raise ValueError(msg)
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return name, value
    return name, parsed["value"] if len(parsed) == 1 else value
