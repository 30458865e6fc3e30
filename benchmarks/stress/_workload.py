"""A workload: who comes, how often, what it takes and what goes wrong. Each figure is checked here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from greenroom import Policy
from greenroom.stress._length import Length, check_share, seconds_of

__all__ = ["ARRIVALS", "Change", "Length", "Workload", "seconds_of"]

ARRIVALS = ("steady", "bursty", "wave")

MOST_SESSIONS = 10_000_000
"""Zipf's law needs a figure for each: beyond this, a mistyped number would fill the memory."""

_TURN, _HOOK, _TEARDOWN = (Length.parse(text) for text in ("50ms~0.5", "20ms~0.5", "5ms"))
_LENGTHS = ("turn", "build", "commit", "teardown")
_SHARES = ("fail_turn", "fail_build", "fail_commit", "fail_teardown", "end", "wave_depth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the room's bounds while it runs."""

    at: float
    """Seconds after the run's beginning."""

    changes: Mapping[str, Any]
    """Fields of `greenroom.Policy`."""

    def __post_init__(self) -> None:
        _check_number("the time of a reconfiguration", self.at, 0.0, open_end=False)
        _check_names(self.changes)  # whether they fit depends on what was set before: see Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of a room. Immutable; a figure that makes no sense is a `ValueError`."""

    sessions: int = 1000
    duration: float = 30.0
    """For how many seconds turns arrive."""

    rate: float = 100.0
    """Turns a second, on average."""

    arrivals: str = "steady"
    """`steady`: a Poisson process. `bursty`: bursts come as one. `wave`: its rate rises and falls."""

    burst: int = 20
    """In a bursty workload, turns in a burst, on average."""

    wave_period: float = 60.0
    """Of a wave: seconds from peak to peak."""

    wave_depth: float = 0.8
    """Of a wave: `rate * (1 + depth * sin(…))`."""

    popularity: float = 1.0
    """The exponent of Zipf's law: the n-th session has 1/n**popularity of the first one's turns. 0: all
    have the same."""

    turn: Length = _TURN
    build: Length = _HOOK
    commit: Length = _HOOK
    teardown: Length = _TEARDOWN
    """A release, or a close."""

    fail_turn: float = 0.0
    fail_build: float = 0.0
    fail_commit: float = 0.0
    fail_teardown: float = 0.0
    end: float = 0.0
    """The share of turns after which the session is over."""

    agent_bytes: int = 0
    """What each agent holds."""

    at_once: int | None = None
    """At most so many turns at once; later ones wait, and their latency counts."""

    reconfigure: tuple[Change, ...] = ()
    seed: int = 0
    """The same seed, the same turns."""

    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `greenroom.Policy`: cap, idle_ttl, memory_budget, …"""

    def __post_init__(self) -> None:
        for name, least in (("sessions", 1), ("burst", 1), ("agent_bytes", 0)):
            _check_whole(name, getattr(self, name), least)
        if self.sessions > MOST_SESSIONS:
            msg = f"sessions must be at most {MOST_SESSIONS:,}, not {self.sessions:,}"
            raise ValueError(msg)
        if self.at_once is not None:
            _check_whole("at_once", self.at_once, 1, none="no bound")
        _check_whole("seed", self.seed, None)
        for name in ("duration", "rate", "wave_period"):
            _check_number(name, getattr(self, name), 0.0, open_end=True)
        _check_number("popularity", self.popularity, 0.0, open_end=False)
        for name in _SHARES:
            check_share(name, getattr(self, name))
        self._check_kinds()
        policy = policy_of(self.policy)
        for change in sorted(self.reconfigure, key=lambda change: change.at):
            policy = replace(policy, **change.changes)

    def _check_kinds(self) -> None:
        if self.arrivals not in ARRIVALS:
            msg = f"arrivals must be one of {', '.join(ARRIVALS)}, not {self.arrivals!r}"
            raise ValueError(msg)
        for name in _LENGTHS:
            if not isinstance(getattr(self, name), Length):
                msg = f"{name} must be a Length, such as Length.parse('200ms~0.8'), not "
                msg += repr(getattr(self, name))
                raise ValueError(msg)
        for change in self.reconfigure:
            if change.__class__ is not Change:
                msg = f"reconfigure must hold Change(at=…, changes=…), not {change!r}"
                raise ValueError(msg)

    def make_policy(self) -> Policy:
        """The room's policy."""
        return policy_of(self.policy)

    def to_json(self) -> dict[str, Any]:
        """Everything, by the names of a workload's file; lengths as they are written there."""
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        values.update((name, str(values[name])) for name in _LENGTHS)
        values["policy"] = plain(self.policy)
        values["reconfigure"] = [
            {"at": change.at, **plain(change.changes)} for change in self.reconfigure
        ]
        return values


def policy_of(given: Mapping[str, Any]) -> Policy:
    """A policy with these fields."""
    _check_names(given)
    return Policy(**given)


def _check_names(given: Mapping[str, Any]) -> None:
    known = Policy.names()
    for name in given:
        if name not in known:
            msg = f"policy: {name!r} is no field of greenroom.Policy; these are: {', '.join(known)}"
            raise ValueError(msg)


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy, as what `json` can write: of a function its name."""
    return {name: _name_of(value) if callable(value) else value for name, value in given.items()}


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _check_whole(name: str, value: object, least: int | None, none: str = "") -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or (least is not None and isinstance(value, int) and value < least):
        bound = "" if least is None else f", {least} or more"
        or_none = f" (or None for {none})" if none else ""
        msg = f"{name} must be a whole number{bound}{or_none}, not {value!r}"
        raise ValueError(msg)


def _check_number(name: str, value: object, least: float, *, open_end: bool) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if (
        not number
        or not isinstance(value, (int, float))
        or value < least
        or (open_end and value == least)
    ):
        bound = f"more than {least:g}" if open_end else f"{least:g} or more"
        msg = f"{name} must be {bound}, not {value!r}"
        raise ValueError(msg)
