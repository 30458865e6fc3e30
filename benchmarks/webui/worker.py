"""The process in which one module lives. Its request is `["measure", scenario, scale]`."""

from __future__ import annotations

import gc
import logging
from typing import Any

from benchmarks import webui, worker
from benchmarks.latency import Figures
from benchmarks.webui.scenarios import SCENARIOS, Scale


class WebuiDesk:
    def __init__(self, name: str) -> None:
        # Both warn of what a drain leaves behind. Here that is counted.
        logging.disable(logging.WARNING)
        self._lifecycle = webui.load(name)

    def measure(self, name: str, scale: dict[str, Any]) -> Figures:
        scenario = next(s for s in SCENARIOS if s.name == name)
        gc.collect()
        return scenario.measure(self._lifecycle, Scale(**scale))

    def close(self) -> None:
        """What is left ends with the process."""


if __name__ == "__main__":
    worker.main(WebuiDesk)
