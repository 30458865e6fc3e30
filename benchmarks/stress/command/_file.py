"""A workload as a TOML file, by the names of the options.

    sessions = 5000
    turn = "200ms~0.8"

    [policy]                    # the room's bounds
    cap = 256

    [[reconfigure]]             # … and how they change
    at = "10s"
    cap = 64

    [agent_options]             # what a factory of your own is given

What the file says is given back as it stands there. All that is wrong with it is told at once.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, cast

from greenroom import Policy
from greenroom.stress.command._options import OPTIONS

__all__ = ["BadInput", "meant", "policy_names", "read_file"]


class BadInput(ValueError):
    """What was asked for makes no sense. Each problem is a sentence."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def meant(name: str, known: Iterable[str]) -> str:
    """Say what may have been meant, as the end of a sentence. Empty if nothing comes close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f". Did you mean {close[0]}?" if close else ""


def policy_names() -> tuple[str, ...]:
    """The bounds of a room that can be written down."""
    return tuple(name for name in Policy.names() if name != "weigh")


def read_file(path: Path) -> dict[str, Any]:
    """What the file says, by option; `policy`, `reconfigure` and `agent_option` are tables."""
    try:
        with path.open("rb") as source:
            found = tomllib.load(source)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no TOML: {error}") from None
    problems = [f"{path}: {problem}" for problem in _problems(found)]
    if problems:
        raise BadInput(*problems)
    if "agent_options" in found:
        found["agent_option"] = found.pop("agent_options")
    return found


def _problems(found: Mapping[str, Any]) -> Iterable[str]:
    known = _names()
    for name, value in found.items():
        if name in ("policy", "agent_options"):
            if not isinstance(value, dict):
                yield f"{name} must be a table, [{name}], not {value!r}"
            elif name == "policy":
                yield from _unknown(cast("dict[str, Any]", value), policy_names(), "the policy has no")
        elif name == "reconfigure":
            yield from _changes(value)
        elif name in policy_names():
            yield f"{name} belongs to the room: put it below [policy]"
        elif name not in known:
            yield from _unknown([name], known, "there is no")


def _names() -> tuple[str, ...]:
    own = (one.name for one in OPTIONS.values() if one.in_file and one.part != "policy")
    return (*(name for name in own if name not in ("file", "agent_option")), "policy", "agent_options")


def _unknown(names: Iterable[str], known: Iterable[str], what: str) -> Iterable[str]:
    known = tuple(known)
    for name in names:
        if name not in known:
            yield f"{what} {name!r}{meant(name, known)}"


def _changes(value: Any) -> Iterable[str]:
    if not _are_tables(value):
        yield f"reconfigure must be tables, [[reconfigure]] each, not {value!r}"
        return
    for number, change in enumerate(value, 1):
        which = f"reconfigure number {number}"
        if "at" not in change:
            yield f"{which} does not say when: at = 10, in seconds"
        if not change.keys() - {"at"}:
            yield f"{which} does not say what: cap = 64, say"
        yield from _unknown(change, ("at", *policy_names()), f"{which} has no")


def _are_tables(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(one, dict) for one in cast("list[object]", value))
