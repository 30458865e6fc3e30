"""Which options go together, and what to say of those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Literal

from greenroom.stress.command._options import OPTIONS

__all__ = ["FOR_BURSTS", "FOR_WAVES", "NEEDS", "Mode", "allowed", "contradiction", "lead"]

Mode = Literal["room", "server", "record", "replay", "synthesize"]

FOR_BURSTS = ("burst",)
FOR_WAVES = ("wave_period", "wave_depth")

NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "agent_option": ("agent",),
        "build_seconds": ("replay",),
        "message": ("url", "agent"),
        "model": ("url",),
        "perform": ("agent",),
        "plain_keys": ("record",),
        "record": ("url",),
        "speed": ("trace",),
        "stream": ("url",),
        "timeout": ("url",),
        "token": ("url",),
    }
)
"""Options that mean nothing without one of these."""

_LEADERS: tuple[tuple[str, Mode], ...] = (
    ("synthesize", "synthesize"),
    ("replay", "replay"),
    ("record", "record"),
    ("url", "server"),
)
_MINE = ("agent", "perform", "store")
"""These speak of a room in this process."""

_POLICY = frozenset(option.name for option in OPTIONS.values() if option.part == "policy")
_HOOKS = frozenset({"build", "commit", "teardown", "fail_build", "fail_commit", "fail_teardown"})
_ROOM_ONLY = (
    _POLICY
    | _HOOKS
    | {"agent", "agent_option", "perform", "store", "agent_bytes", "drain_deadline", "reconfigure"}
)
_BY_THE_TRACE = frozenset(
    {"sessions", "rate", "arrivals", *FOR_BURSTS, *FOR_WAVES, "popularity", "end", "fail_turn"}
)
_WITH: Mapping[Mode, frozenset[str]] = MappingProxyType(
    {
        "synthesize": frozenset({"synthesize", "seed"}),
        "replay": frozenset({"replay", "cap", "idle_ttl", "session_ttl", "sweep_every", "max_waiting"})
        | {"memory_budget", "agent_bytes", "turn", "build_seconds", "seed", "json", "quiet"},
        "record": frozenset({"record", "url", "token", "duration", "plain_keys", "quiet"}),
    }
)
_BECAUSE: Mapping[Mode, str] = MappingProxyType(
    {
        "synthesize": "a trace is made up of its name and --seed alone",
        "replay": "a replay walks through a trace in virtual time, and drives nothing",
        "record": "recording listens to the server, and drives nothing",
        "server": "the server has a room, agents and a store of its own",
        "room": "either a room in this process is stressed or a server",
    }
)


def lead(names: Set[str]) -> Mode | None:
    """What the command is to do, by the options that say so."""
    for name, mode in _LEADERS:
        if name in names:
            return mode
    return "room" if any(name in names for name in _MINE) else None


def allowed(mode: Mode, *, traced: bool, given: Set[str], message: str) -> frozenset[str]:
    """The options that mean something. `message` is what is said in a turn."""
    names = frozenset(OPTIONS) | frozenset(given)
    if mode in _WITH:
        return _WITH[mode]
    names -= {"synthesize", "replay", "record"}
    if traced:
        names -= _BY_THE_TRACE
    if mode == "room":
        return names - ({"url"} if lead(given - {"url"}) == "room" else set())
    planned = set[str]() if "{seconds}" in message else {"turn"}
    return names - _ROOM_ONLY - (set(given) - frozenset(OPTIONS)) - {"fail_turn"} - planned


def contradiction(mode: Mode, name: str, *, traced: bool, given: Set[str]) -> tuple[str, str]:
    """With which other option one cannot be, and why."""
    if traced and name in _BY_THE_TRACE and mode in ("room", "server"):
        return "trace", "the trace says who comes, and when"
    if mode == "room":
        return next(one for one in _MINE if one in given), _BECAUSE[mode]
    other = next(leader for leader, led in _LEADERS if led == mode)
    if mode == "server" and name == "reconfigure":
        return other, "a server's bounds are changed in its configuration, not over HTTP"
    if mode == "server" and name == "turn":
        return (
            other,
            "a turn takes what the server's agent takes; one may be told, with {seconds} in --message",
        )
    if mode == "server" and name == "fail_turn":
        return other, "whether a turn fails is up to the server's agent"
    return other, _BECAUSE[mode]
