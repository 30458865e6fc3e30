"""Processor time and memory of a session without hooks, each in a process that does nothing else."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter

from benchmarks import worker
from benchmarks.heart import FEW, TURNS, alternating
from benchmarks.latency import Figures
from benchmarks.machine import memory_in_use
from benchmarks.scale import measures
from benchmarks.scale.population import IDLE_TTL, Population

MANY = 10_000
"""Sessions that are swept, or drained."""

INSERTS = 200
"""Of a batch."""

CAP = 1_000


def crowded(size: int, batches: int) -> dict[str, Figures]:
    """The memory of so many sessions, and a turn of any of them beside one in a small room."""
    small, large = Population(), Population()
    few, many = list(measures.names(0, FEW)), list(measures.names(0, size))
    small.settle(few)
    gc.collect()
    before = memory_in_use()
    large.settle(many)
    gc.collect()
    bytes_each = (memory_in_use() - before) / size
    large.check(agents=size)
    works = {
        "small": partial(turns_of, small, measures.scattered(few, TURNS * batches)),
        "large": partial(turns_of, large, measures.scattered(many, TURNS * batches)),
    }
    found: dict[str, Figures] = {
        f"warm_{name}": {"each": seconds / TURNS * 1e6}
        for name, seconds in alternating(works, batches).items()
    }
    return found | {"with_agent": {"bytes_each": bytes_each}}


def turns_of(population: Population, keys: list[str]) -> float:
    """Visit the next of these, and take them off the list: a batch finds nothing in the cache."""
    batch = keys[-TURNS:]
    del keys[-TURNS:]
    begin = perf_counter()
    population.visit(batch)
    return perf_counter() - begin


def inserted(batches: int) -> Figures:
    """New sessions at the cap, until who leaves for them is gone."""
    population = Population()
    population.settle(measures.names(0, CAP))
    population.room.configure(cap=CAP)
    taken = []
    for batch in range(batches):
        keys = measures.new(f"batch {batch}", INSERTS)
        taken.append(measures.timed(partial(visit_and_rest, population, keys), INSERTS)["cpu"])
    population.check(agents=CAP)
    return {"cpu": min(taken)}


def visit_and_rest(population: Population, keys: list[str]) -> None:
    population.visit(keys)
    population.come_to_rest()


def swept(rounds: int) -> Figures:
    """A sweep that finds everybody idle."""
    population = Population()

    def once() -> float:
        population.settle(measures.names(0, MANY))
        population.come_to_rest()
        population.clock.put_forward(IDLE_TTL + 1.0)
        return measures.timed(partial(measures.swept, population, MANY), MANY)["cpu"]

    return {"cpu": best(once, rounds)}


def drained(rounds: int) -> Figures:
    """A room in which each session has an agent and a turn that is not committed."""

    def once() -> float:
        population = Population()
        population.settle(measures.names(0, MANY))
        population.come_to_rest()
        return measures.drained(population, MANY)["cpu"]

    return {"cpu": best(once, rounds)}


def best(once: Callable[[], float], rounds: int) -> float:
    return min(once() for _ in range(rounds))


class CostDesk:
    """For `benchmarks.worker`."""

    def __init__(self, _: str) -> None:
        logging.disable(logging.ERROR)

    def crowded(self, size: int, batches: int) -> dict[str, Figures]:
        return crowded(size, batches)

    def known(self, size: int) -> dict[str, Figures]:
        return {"known": measures.known(size)}

    def worked(self, batches: int, rounds: int) -> dict[str, Figures]:
        return {"insert_full": inserted(batches), "sweep": swept(rounds), "drain": drained(rounds)}

    def close(self) -> None:
        """The process ends, and the rooms with it."""


if __name__ == "__main__":
    worker.main(CostDesk)
