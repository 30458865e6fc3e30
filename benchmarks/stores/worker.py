"""A process of one contender. It gets a database with each request that needs one."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks import scenarios, stores, worker
from benchmarks.latency import Figures


class StoreDesk:
    def __init__(self, name: str) -> None:
        # Of handlers that take long among 64 threads, and of sessions that another room takes: both are
        # what is measured here.
        logging.getLogger("greenroom").setLevel(logging.ERROR)
        self._name = name
        stores.load(name, "")
        self._life: Any = None

    def offers(self) -> dict[str, str]:
        """The scenarios that the contender cannot do, and why."""
        return stores.PARTS[self._name].declines

    def turns(self, url: str, sessions: int, seconds: float) -> Figures:
        """Empty turns of sessions that have their agent, one thread for each session."""
        load = scenarios.Scenario(name="", title="", kind="turn", threads=sessions, actors=sessions)
        gc.collect()
        return scenarios.measure(stores.load(self._name, url), load, seconds)

    def open(self, url: str, lease_ttl: float | None, hook: float) -> float:
        """Share a database with other processes. The seconds that it took."""

        def begin_life() -> None:
            self._life = stores.load(self._name, url).life(lease_ttl, hook)

        return seconds_of(begin_life)

    def do(self, what: str, *arguments: Any) -> float:
        """Call a method of the life that was opened. The seconds that it took."""
        return seconds_of(lambda: getattr(self._life, what)(*arguments))

    def close(self) -> None:
        """Every measurement has closed what it opened."""


def seconds_of(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin


if __name__ == "__main__":
    worker.main(StoreDesk)
