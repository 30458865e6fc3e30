"""From what was asked to a run: its target, its turns, and what the report calls it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from greenroom.stress._arrivals import planned
from greenroom.stress._room_target import RoomTarget
from greenroom.stress._target import Planned, Target
from greenroom.stress.command._asked import Asked
from greenroom.stress.command._asking import asking
from greenroom.stress.command._file import BadInput
from greenroom.stress.command._find import find, find_agent
from greenroom.stress.command._rules import allowed
from greenroom.stress.server._target import ServerTarget
from greenroom.stress.traces._names import open_trace
from greenroom.stress.traces._trace import TraceError, turns_of

__all__ = ["Drive", "drive_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """What a run is made of."""

    target: Target
    turns: Iterable[Planned]
    duration: float
    title: str
    headline: str
    """Above the live view: what is going on, in a line."""
    settings: Mapping[str, Any]


def drive_of(asked: Asked) -> Drive:
    """Make everything that a run needs. Raises `BadInput`."""
    try:
        target = _server(asked) if asked.mode == "server" else _room(asked)
        turns, duration = _turns(asked)
    except (TraceError, BadInput):
        raise
    except ValueError as error:
        raise BadInput(str(error)) from None
    headline = f"{_load(asked)}, {target.name}"
    return Drive(
        target=target,
        turns=turns,
        duration=duration,
        title=asked.values.get("title") or _load(asked),
        headline=headline,
        settings=_settings(asked, duration),
    )


def _room(asked: Asked) -> RoomTarget:
    values = asked.values
    factory = perform = None
    if "agent" in values:
        factory = find_agent(values["agent"], values.get("agent_option", {}))
        if "perform" in values:
            perform = find(values["perform"], "--perform")
        else:
            perform = asking(values.get("message"))
    more = {"deadline": values["drain_deadline"]} if "drain_deadline" in values else {}
    store = values.get("store")
    return RoomTarget(
        asked.workload,
        factory=factory,
        perform=perform,
        store=None if store == "none" else store,
        **more,
    )


def _server(asked: Asked) -> ServerTarget:
    given = {name: asked.values[name] for name in ("message", "timeout") if name in asked.values}
    return ServerTarget(
        asked.values["url"],
        token=asked.values["token"],
        model=asked.values.get("model"),
        stream=asked.values.get("stream", False),
        seed=asked.workload.seed,
        **given,
    )


def _turns(asked: Asked) -> tuple[Iterable[Planned], float]:
    workload, values = asked.workload, asked.values
    if "trace" not in values:
        return planned(workload), workload.duration
    chance = random.Random(workload.seed)
    turns = list(
        turns_of(
            open_trace(values["trace"], seed=workload.seed),
            speed=values.get("speed", 1.0),
            seconds=lambda: workload.turn.draw(chance),
        )
    )
    if not turns:
        raise BadInput(f"the trace {values['trace']} has no turns in it")
    duration = workload.duration if "duration" in asked.said else turns[-1].at + 1.0
    return [turn for turn in turns if turn.at <= duration], duration


def _load(asked: Asked) -> str:
    workload, values = asked.workload, asked.values
    if "trace" in values:
        speed = f", {values['speed']:g} times as fast" if "speed" in values else ""
        return f"The trace {values['trace']}{speed}"
    return f"{workload.sessions:,} sessions, {workload.rate:g} turns a second, {workload.arrivals}"


def _settings(asked: Asked, duration: float) -> dict[str, Any]:
    """What the report shows: what had a meaning in this run, and no secret."""
    values = asked.values
    may = allowed(
        asked.mode,
        traced="trace" in values,
        given=asked.said,
        message=str(values.get("message", "")),
    )
    if asked.mode == "room":
        may |= {"policy"}
    shown = {name: value for name, value in asked.workload.to_json().items() if name in may}
    shown["duration"] = duration
    for name in ("agent", "perform", "trace", "speed", "timeout", "drain_deadline"):
        if name in values:
            shown[name] = values[name]
    if "agent_option" in values:
        shown["agent_options"] = sorted(values["agent_option"])
    return shown
