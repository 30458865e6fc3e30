"""greenroom's room beside a dict with a lock and beside an actor with a thread for every session.

All of them keep agents by the same rules (`room`): one turn at a time for each session, first come
first served; at most `cap` agents, the least recently used leave, a session in a turn never; a turn
that ended makes its session dirty; whoever leaves commits first. The two peers were written for this
purpose, as well as one can without knowing more than they do: see `locked` and `threading_actors`.

What is measured is in `scenarios`, what is expected in `bars`.
"""

from __future__ import annotations

import importlib

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.rooms.room import Room

MODULES = {OURS: "ours", LOCK: "locked", THREADING: "threading_actors"}
NAMES = tuple(MODULES)

NOTES = {
    LOCK: (
        "an ordered dict behind one lock, a thread for each eviction, a sweep that walks the whole dict"
        " (it could stop at the first that is young), a serial drain: as gateways do it today"
    ),
    THREADING: (
        "a session actor and a supervisor on pykka's ThreadingActor; callers find a session in a shared"
        " dict, ask it to begin, and only tell it to end and the supervisor that it was used"
    ),
}

DISTRIBUTIONS = ("greenroom", "pykka")


def load(name: str) -> type[Room]:
    """The room of that name. Raises ImportError where its library is missing."""
    module = importlib.import_module(f"benchmarks.rooms.{MODULES[name]}")
    room: type[Room] = module.Contestant
    assert issubclass(room, Room)
    return room
