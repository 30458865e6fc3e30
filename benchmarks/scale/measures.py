"""What is measured in a room with so many sessions. Runs in a process that does nothing else."""

from __future__ import annotations

import gc
import random
import resource
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time

from benchmarks.latency import Figures
from benchmarks.machine import memory_in_use
from benchmarks.scale import swept_at
from benchmarks.scale.population import IDLE_TTL, PATIENCE, Population

GAP = IDLE_TTL / 8
"""Seconds by which one group has rested longer than the next."""

HOT = 100
"""So many sessions that a core's cache holds all there is to them."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often a thing is done, for one figure."""

    turns: int
    inserts: int


Measured = dict[str, Figures]


def measure(size: int, effort: Effort, *, drain: bool) -> Measured:
    """Put one room of this size through everything. The order matters: who was used last is known."""
    # The parts of the population that sweeps will find idle, oldest first, and everybody else.
    population = Population()
    measured: Measured = {}
    gc.collect()
    before = memory_in_use()
    groups = [[f"idle:{k}:{n}" for n in range(k)] for k in swept_at(size) if k]
    others = [f"telegram:{n}" for n in range(size - sum(map(len, groups)))]
    since = []
    for group in groups:
        population.settle(group)
        since.append(population.clock())
        population.clock.put_forward(GAP)
    population.settle(others)
    gc.collect()
    measured["with_agent"] = {"bytes_each": (memory_in_use() - before) / size}
    population.check(agents=size)

    measured |= warm_turns(population, others, effort.turns)
    measured["plain_dict"] = plain_dict(size, effort.turns)
    measured |= sweeps(population, dict(zip(map(len, groups), since, strict=True)), size)
    left = size - sum(map(len, groups))
    measured |= inserts(population, left, effort.inserts)
    if drain:
        measured["drain"] = drained(population, size + 3 * effort.inserts)
    return measured


def known(size: int) -> Figures:
    """Bytes for a session that is known and has no agent: all but the last have given theirs up."""
    population = Population(cap=1)
    first = min(100, size // 2)
    population.settle(names(0, first))
    population.come_to_rest()
    gc.collect()
    before = memory_in_use()
    population.settle(names(first, size))
    population.check(agents=1)
    gc.collect()
    bytes_each = (memory_in_use() - before) / (size - first)
    assert population.room.stats().known == size
    return {"bytes_each": bytes_each}


def names(first: int, last: int) -> Iterator[str]:
    return (f"telegram:{n}" for n in range(first, last))


# Warm turns


def warm_turns(population: Population, keys: list[str], turns: int) -> Measured:
    """Over all sessions; over few of them, so that caches help; without the garbage collector."""
    every = scattered(keys, turns)
    few = scattered(spread_out(keys), turns)
    population.visit(few[: turns // 10])
    measured = {
        "warm": timed(lambda: population.visit(every), turns),
        "warm_few": timed(lambda: population.visit(few), turns),
    }
    with no_collector():
        measured["warm_no_gc"] = timed(lambda: population.visit(every), turns)
    return measured


def scattered(keys: list[str], count: int) -> list[str]:
    return random.Random(count).choices(keys, k=count)


def spread_out(keys: list[str]) -> list[str]:
    """A few, from all over the memory."""
    return keys[:: max(1, len(keys) // HOT)][:HOT]


def plain_dict(size: int, turns: int) -> Figures:
    """The floor: what a cache that is a lock and a dict does for a hit, with as many entries."""
    entries = OrderedDict((f"plain:{n}", object()) for n in range(size))
    keys, lock = scattered(list(entries), turns), threading.Lock()

    def touch() -> None:
        for key in keys:
            with lock:
                entries.move_to_end(key)

    return timed(touch, turns)


# Sweeps


def sweeps(population: Population, groups: dict[int, float], size: int) -> Measured:
    """One after another, each when the next group has become idle: it, and nobody else. `groups` says
    how large each is, and since when it rests."""
    population.come_to_rest()  # what warm turns have left for the supervisor is not the sweep's
    measured = {"sweep_0": timed(partial(swept, population, 0), 1)}
    for count, since in groups.items():
        clock = population.clock
        clock.put_forward(since + IDLE_TTL + 1.0 - clock())
        measured[f"sweep_{count}"] = timed(partial(swept, population, count), 1)
    population.check(agents=size - sum(groups))
    return measured


def swept(population: Population, expected: int) -> None:
    found = population.room.sweep()
    population.come_to_rest()
    assert found == expected, f"swept {found} of {expected}"


# Inserts


def inserts(population: Population, agents: int, count: int) -> Measured:
    """New sessions: when there is no cap, when each pushes the oldest out, without the collector."""
    measured = {"insert": timed(lambda: population.visit(new("free", count)), count)}
    population.check(agents=agents + count)
    with no_collector():
        measured["insert_no_gc"] = timed(lambda: population.visit(new("quiet", count)), count)
    population.room.configure(cap=agents + 2 * count)
    measured["insert_full"] = timed(lambda: population.visit(new("full", count)), count)
    population.check(agents=agents + 2 * count)
    return measured


def new(name: str, count: int) -> list[str]:
    return [f"{name}:{n}" for n in range(count)]


# Drain


def drained(population: Population, sessions: int) -> Figures:
    """Everybody, each with a turn that is not committed or with no agent any more."""

    def drain() -> None:
        report = population.room.drain(PATIENCE)
        assert not report.failed, report
        assert not report.abandoned, report

    return timed(drain, sessions)


# What all of them need


def timed(work: Callable[[], object], count: int) -> Figures:
    """Microseconds of processor time for each, of the clock on the wall, and page faults.

    `paced` is the processor time through that of a loop which does the same every time, before and
    behind: a core that others slow down is as slow for both.
    """
    faults, pauses, pace = page_faults(), Pauses(), paced()
    with pauses:
        wall, cpu = perf_counter(), process_time()
        work()
        cpu, wall = process_time() - cpu, perf_counter() - wall
    pace = (pace + paced()) / 2
    return {
        "cpu": cpu / count * 1e6,
        "paced": cpu / count / pace,
        "wall": wall / count * 1e6,
        "page_faults": (page_faults() - faults) / count,
        "collector": pauses.seconds / count * 1e6,
    }


def paced() -> float:
    """Seconds that a loop takes now which needs no memory to speak of."""
    begin = process_time()
    table = dict.fromkeys(range(100), 0)
    for number in range(200_000):
        table[number % 100] += 1
    return process_time() - begin


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Pauses:
    """The time that the garbage collector takes while this is entered."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def _called(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = process_time()
        else:
            self.seconds += process_time() - self._began

    def __enter__(self) -> None:
        gc.callbacks.append(self._called)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._called)


@contextmanager
def no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
