"""The process in which one room lives. Requests are `["offers"]` and `["measure", scenario, scale]`."""

from __future__ import annotations

import gc
from typing import Any

from benchmarks import rooms, worker
from benchmarks.latency import Figures
from benchmarks.rooms.scenarios import SCENARIOS, Scale


class RoomDesk:
    def __init__(self, name: str) -> None:
        self._room_class = rooms.load(name)

    def offers(self) -> dict[str, str]:
        """The scenarios that the room cannot do, and why."""
        return dict(self._room_class.declines)

    def measure(self, name: str, scale: dict[str, Any]) -> Figures:
        scenario = next(s for s in SCENARIOS if s.name == name)
        gc.collect()
        return scenario.measure(self._room_class, Scale(**scale))

    def close(self) -> None:
        """Every scenario has closed its room."""


if __name__ == "__main__":
    worker.main(RoomDesk)
