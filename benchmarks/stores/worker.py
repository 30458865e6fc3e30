"""The process in which one contender lives. Requests are `["offers"]` and `["measure", scenario, scale,
url]`, the URL of a database that nobody has used."""

from __future__ import annotations

import gc
import logging
from typing import Any

from benchmarks import stores, worker
from benchmarks.latency import Figures
from benchmarks.stores.scenarios import SCENARIOS, Scale


class StoreDesk:
    def __init__(self, name: str) -> None:
        # A look at a file lets go of the GIL, and among 64 busy threads it may be a while until it is
        # had again. A runtime warns of handlers that take long; here the latencies tell.
        logging.getLogger("greenroom.actors").addFilter(lambda record: record.funcName != "_report_slow")
        self._name = name
        self._make = stores.load(name)

    def offers(self) -> dict[str, str]:
        """The scenarios that the contender cannot do, and why."""
        return stores.PARTS[self._name].declines

    def measure(self, name: str, scale: dict[str, Any], url: str) -> Figures:
        scenario = next(s for s in SCENARIOS if s.name == name)
        contender = self._make(url)
        gc.collect()
        return scenario.measure(contender, Scale(**scale))

    def close(self) -> None:
        """Every measurement has closed what it opened."""


if __name__ == "__main__":
    worker.main(StoreDesk)
