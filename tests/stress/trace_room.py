"""A trace, had by a real room in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from greenroom import Greenroom, Overloaded, Policy
from greenroom.actors.simulation import Simulation
from greenroom.stress.traces._trace import Entry
from greenroom.testing import RecordingBuild

__all__ = ["have"]


def have(entries: Sequence[Entry], policy: Policy) -> dict[str, Any]:
    """Have every turn of a trace, each on a task of its own. No two things may happen at one moment.

    Work takes no time, and time passes only when nothing else can be done.
    """
    with Simulation(0, work_time=(0.0, 0.0), haste=0.0) as sim:
        room = Greenroom(RecordingBuild(), policy=policy, runtime=sim)
        refused: list[Entry] = []

        async def turn(entry: Entry) -> None:
            await sim.sleep(entry.time)
            if entry.event == "end":
                room.end(entry.key)
                return
            try:
                async with room.turn(entry.key):
                    await sim.sleep(entry.seconds or 0.0)
            except Overloaded:
                refused.append(entry)

        tasks = [sim.task(turn(entry), f"turn {number}") for number, entry in enumerate(entries)]
        for task in tasks:
            task.get()
        room.settle()
        stats = room.stats()
        room.close()
    return {
        "hits": stats.hits,
        "builds": stats.builds,
        "rebuilds": stats.rebuilds,
        "releases": dict(stats.reasons),
        "refused": len(refused),
        "cached": stats.cached,
    }
