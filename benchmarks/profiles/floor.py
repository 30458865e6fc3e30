"""The floor: what the least costs that any cache of agents must do, beside what greenroom does.

All of it in one process and in turns, a little of each, so that what slows down the machine slows down
all alike. The figure is the lower twentieth of many short measurements of processor time: as fast as
it goes when nobody disturbs.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import process_time, thread_time
from typing import Any

from benchmarks.latency import Figures
from benchmarks.rooms.ours import SPEC, Contestant
from benchmarks.rooms.room import SIGNATURE, Agency
from benchmarks.rooms.scenarios import CAP, IDLE_TTL, names
from greenroom import Greenroom, Policy

SESSIONS = 100
ROUNDS = 400

TITLES = {
    "call": "a Python call",
    "lock": "a lock, taken and given back",
    "touch": "a lock and `move_to_end` in an ordered dict",
    "manager": "an empty `@contextmanager` block",
    "turn": "the least turn: a `with` block that locks, looks up, compares and notes at both ends",
    "warm": "greenroom's warm turn",
    "hop": "a call on another thread, and its result (`ThreadPoolExecutor`)",
    "insert": "greenroom's insert: a build on another thread",
    "insert_full": "greenroom's insert at the cap: a build, a commit and a release on other threads",
}


class LeastTurn:
    """What one would write who needs nothing but the order of use and one turn at a time."""

    __slots__ = ("_cache", "_key")

    def __init__(self, cache: LeastCache, key: str) -> None:
        self._cache = cache
        self._key = key

    def __enter__(self) -> object:
        cache, key = self._cache, self._key
        with cache.lock:
            entry = cache.entries[key]
            if entry[0] != SIGNATURE or entry[1]:
                raise RuntimeError(key)
            entry[1] = True
            cache.entries.move_to_end(key)
        return entry

    def __exit__(self, *_: object) -> None:
        with self._cache.lock:
            entry = self._cache.entries[self._key]
            entry[1] = False
            entry[2] += 1


class LeastCache:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: OrderedDict[str, list[Any]] = OrderedDict(
            (key, [SIGNATURE, False, 0]) for key in names(SESSIONS)
        )

    def turn(self, key: str) -> LeastTurn:
        return LeastTurn(self, key)


@contextmanager
def nothing() -> Iterator[None]:
    yield


def call() -> None:
    pass


def measure() -> dict[str, Figures]:
    """Microseconds of processor time for each, as `cpu`."""
    cache, keys = LeastCache(), list(names(SESSIONS))
    room = Contestant(Agency().build, cap=CAP, idle_ttl=IDLE_TTL)
    for key in keys:
        room.begin_end(key)
    work = floors(cache, keys) | {"warm": lambda: begin_end(room, keys)}
    taken: dict[str, list[float]] = {name: [] for name in TITLES}
    for _ in range(ROUNDS):
        for name, run in work.items():
            taken[name].append(timed(run, SESSIONS, thread_time))
    with ThreadPoolExecutor(1) as pool:
        free = Greenroom(Agency().build, policy=Policy(cap=None, sweep_every=None))
        full = Contestant(Agency().build, cap=CAP, idle_ttl=IDLE_TTL)
        for turn in range(ROUNDS):
            new = [f"new:{turn}:{number}" for number in range(5)]
            taken["hop"].append(timed(lambda: [pool.submit(call).result() for _ in range(5)], 5))
            taken["insert"].append(timed(lambda: visit(free, new), 5))  # noqa: B023  # called at once
            taken["insert_full"].append(timed(lambda: begin_end(full, new), 5))  # noqa: B023
    return {name: {"cpu": sorted(values)[len(values) // 20]} for name, values in taken.items()}


def floors(cache: LeastCache, keys: list[str]) -> dict[str, Callable[[], object]]:
    lock, touch = cache.lock, cache.entries.move_to_end

    def calls() -> None:
        for _ in keys:
            call()

    def locks() -> None:
        for _ in keys:
            with lock:
                pass

    def touches() -> None:
        for key in keys:
            with lock:
                touch(key)

    def managers() -> None:
        for _ in keys:
            with nothing():
                pass

    def turns() -> None:
        for key in keys:
            with cache.turn(key):
                pass

    return {"call": calls, "lock": locks, "touch": touches, "manager": managers, "turn": turns}


def begin_end(room: Contestant, keys: list[str]) -> None:
    for key in keys:
        room.begin_end(key)


def visit(room: Greenroom, keys: list[str]) -> None:
    for key in keys:
        with room.turn(key, SPEC):
            pass


def timed(work: Callable[[], object], count: int, clock: Callable[[], float] = process_time) -> float:
    begin = clock()
    work()
    return (clock() - begin) / count * 1e6


class FloorDesk:
    """For `benchmarks.worker`."""

    def __init__(self, _: str) -> None:
        logging.disable(logging.ERROR)
        sys.setswitchinterval(0.005)

    def measure(self) -> dict[str, Figures]:
        return measure()

    def close(self) -> None:
        """The process ends."""


if __name__ == "__main__":
    from benchmarks import worker

    worker.main(FloorDesk)
