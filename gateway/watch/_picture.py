"""What a room looks like to a person, as JSON: rows, what happened, and what has changed since.

A picture is a dict: `sessions` (rows by key, the most interesting first) and anything else by name.
`difference(old, new)` is what turns one into the other:

    set     what has another value now, by name
    rows    rows that are new or have changed
    gone    keys that are not shown any more
    order   the keys in order, if the order is not what follows from the above

No row holds a time that runs: `idle_at` and `turn_at` are moments, so that an idle session is told once.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from greenroom import RoomStats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom import Event, SessionRow
    from greenroom.gateway._stage import Stage

__all__ = [
    "LONGEST_TEXT",
    "STATES",
    "best_rows",
    "describe_room",
    "difference",
    "error_text",
    "event_of",
    "matches",
    "row_of",
    "shorten",
]

LONGEST_TEXT = 300
"""How many characters of an error are told."""

_FIRST = ("failed", "retained", "in turn", "entering", "building", "leaving", "closing")
"""States in which something is going on, or wrong: before all others, in this order."""

STATES = (*_FIRST, "idle", "known", "dirty")
"""What can be asked for. `dirty` is not a state of a session but of its work."""

_ALSO = {
    "in turn": frozenset({"in turn", "entering", "building"}),
    "leaving": frozenset({"leaving", "closing"}),
    "failed": frozenset({"failed", "retained"}),
}
"""Who asks for one of these asks for the others, too: people see no difference."""

_COUNTERS = tuple(field.name for field in fields(RoomStats))

Row = dict[str, Any]


def row_of(row: SessionRow, now: float, turn_at: float | None = None, before: Row | None = None) -> Row:
    """One session. `before` is its last row: a moment that has not moved keeps its very figure."""
    idle_at = None if row.idle_seconds is None else round(now - row.idle_seconds, 1)
    if before is not None and idle_at is not None and before["idle_at"] is not None:
        # Two clocks are subtracted here, which differ a little every time.
        idle_at = before["idle_at"] if abs(before["idle_at"] - idle_at) < 0.5 else idle_at
    return {
        "key": row.key,
        "state": row.state,
        "cached": row.cached,
        "turns": row.generation,
        "dirty": row.generation - row.committed,
        "waiting": row.waiting,
        "retained": row.retained,
        "idle_at": idle_at,
        "turn_at": turn_at if row.state == "in turn" else None,
        "weight": row.weight,
        "agents": row.agents,
        "reason": None if row.last_reason is None else str(row.last_reason),
        "error": None if row.last_error is None else shorten(row.last_error),
        "used": row.used,
    }


def _interest(row: Row) -> tuple[int, int]:
    state = row["state"]
    if state in _FIRST:
        return _FIRST.index(state), -row["used"]
    return (len(_FIRST) if row["dirty"] else len(_FIRST) + 1), -row["used"]


def best_rows(rows: Iterable[Row], most: int) -> dict[str, Row]:
    """The most interesting ones, by key: what is wrong or going on, dirty ones, those used last."""
    return {row["key"]: row for row in heapq.nsmallest(most, rows, key=_interest)}


def matches(row: Row, text: str, state: str) -> bool:
    """Whether a row is one of those that are asked for. Empty asks for all."""
    if text and text not in row["key"].casefold():
        return False
    if state == "dirty":
        return bool(row["dirty"])
    return not state or row["state"] in _ALSO.get(state, (state,))


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What turns one picture into the other. Empty if nothing does."""
    found: dict[str, Any] = {}
    changed = {
        name: value for name, value in new.items() if name != "sessions" and old.get(name) != value
    }
    if changed:
        found["set"] = changed
    before, after = old["sessions"], new["sessions"]
    rows = [row for key, row in after.items() if before.get(key) != row]
    gone = [key for key in before if key not in after]
    if rows:
        found["rows"] = rows
    if gone:
        found["gone"] = gone
    order = list(after)
    if order != [key for key in before if key in after] + [key for key in after if key not in before]:
        found["order"] = order
    return found


# The room.


def describe_room(
    stage: Stage, stats: RoomStats, running: int, waiting: int, held: int | None
) -> dict[str, Any]:
    """Everything about a room but its sessions. `held` is the memory of the process."""
    policy, config = stage.room.policy, stage.config
    return {
        "agent": config.agent,
        "model": config.model,
        "draining": stage.draining or stats.draining,
        "stats": {name: _jsonable(getattr(stats, name)) for name in _COUNTERS},
        "policy": {name: getattr(policy, name) for name in ("cap", "idle_ttl", "session_ttl")},
        "turns": {
            "running": running,
            "most": config.max_running,
            "waiting": waiting,
            "most_waiting": config.max_waiting_total,
        },
        "memory": {
            "held": stats.weight if policy.weigh is not None else held,
            "budget": stats.memory_budget,
            "weighed": policy.weigh is not None,
        },
    }


def _jsonable(value: Any) -> Any:
    """JSON has dicts and lists only."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, int]", value))
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


# What happened.


def event_of(event: Event) -> dict[str, Any] | None:
    """What is told of an event. `None` for one that happens with every turn."""
    if event.kind == "hit":
        return None
    told: dict[str, Any] = {"kind": event.kind, "key": event.key}
    for name in ("reason", "seconds", "turns", "tries", "hook", "what", "problem"):
        value = getattr(event, name, None)
        if value is not None:
            told[name] = round(value, 3) if isinstance(value, float) else _plain(value)
    if getattr(event, "adopted", False):
        told["adopted"] = True
    error = getattr(event, "error", None)
    if error is not None:
        told["error"] = error_text(error)
    if event.kind == "failure":
        told["failed"] = type(event).__name__.removesuffix("Failure").lower()
    return told


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else shorten(str(value))


def error_text(error: BaseException) -> str:
    """What an error says, short: its kind, and its first words."""
    text = shorten(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shorten(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 2 * LONGEST_TEXT].split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 1]}…"
