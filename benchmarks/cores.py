"""Do actors and turns run side by side? `python -m benchmarks.cores`

Asks of one thread, and of one for each core, each to an actor of its own; then warm turns, each in a
session of its own: in a room, and in a dict behind a lock. With a GIL more threads gain nothing. This
needs `pip install greenroom` and nothing else, so that it runs on a Python without a GIL as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks import rooms
from benchmarks.contenders import LOCK, OURS
from benchmarks.machine import describe_machine
from benchmarks.rooms.room import Agency
from greenroom.actors import Actor, Runtime

REPETITIONS, SECONDS = 5, 0.5

APART = 40
"""One in so many actors and sessions is used. Two that were made one after the other lie side by side in
memory, where writes to one slow down the other; those that are in use at once seldom do."""

Calls = list[Callable[[], object]]
"""One for each thread, and nothing in common: what two threads refer to is counted by both."""


def rate(calls: Calls) -> float:
    """Make each call on a thread of its own, again and again, and return how many a second they made."""
    counts, over, begin = [0] * len(calls), threading.Event(), threading.Barrier(len(calls) + 1)

    def run(number: int, call: Callable[[], object]) -> None:
        begin.wait()
        while not over.is_set():
            for _ in range(200):
                call()
            counts[number] += 200

    threads = [threading.Thread(target=run, args=(n, call)) for n, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    begin.wait()
    began = time.perf_counter()
    time.sleep(SECONDS)
    over.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


class Echo(Actor):
    def on_receive(self, message: object) -> object:
        return message


@contextmanager
def asks(cores: int) -> Iterator[Calls]:
    with Runtime() as runtime:
        refs = [runtime.start(Echo) for _ in range(APART * cores)][::APART]
        yield [lambda ref=ref: ref.ask(1) for ref in refs]  # type: ignore[misc]  # mypy cannot infer it


@contextmanager
def turns(name: str, cores: int) -> Iterator[Calls]:
    with rooms.load(name)(Agency().build, cap=APART * cores, idle_ttl=3600.0) as room:
        keys = [f"session {number}" for number in range(APART * cores)]
        for key in keys:
            room.begin_end(key)
        yield [lambda key=key: room.begin_end(key) for key in keys[::APART]]  # type: ignore[misc]  # as above


def main() -> None:
    machine = describe_machine()
    cores = max(2, int(machine["cores"]))
    print(f"Python {machine['python']}, GIL {machine['gil']}, {machine['cores']} cores")
    measured = {
        "asks": asks(cores),
        "warm turns": turns(OURS, cores),
        "dict and lock": turns(LOCK, cores),
    }
    for name, made in measured.items():
        with made as calls:
            pairs = [(rate(calls[:1]), rate(calls)) for _ in range(REPETITIONS)]
        one, many = (median(rates) for rates in zip(*pairs, strict=True))
        gain = median(after / before for before, after in pairs)
        print(f"{name:14} 1 thread {one:9,.0f}/s   {cores} threads {many:9,.0f}/s   {gain:.2f}x")


if __name__ == "__main__":
    main()
