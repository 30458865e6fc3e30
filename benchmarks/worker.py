"""The process in which one contender lives: reads a request a line, answers a line, as JSON.

A request is the name of a method of the contender's desk, with arguments. The runtime's desk has
`["offers"]`, `["measure", scenario, seconds]`, `["settle", count]` (start a population that stays)
and `["stop", count]` (stop so many of it). The end of the input ends the process.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from benchmarks import contenders
from benchmarks.contender import Contender, Population
from benchmarks.latency import figures_of
from benchmarks.machine import memory_in_use, threads_in_use
from benchmarks.scenarios import SCENARIOS, STOP, measure, offered


class Desk(Protocol):
    """Answers requests for one contender, each by the method of its name."""

    def close(self) -> None:
        """Leave nothing running."""


class RuntimeDesk:
    """Answers requests for one contender of the runtime's benchmarks."""

    def __init__(self, name: str) -> None:
        self._contender: Contender = contenders.load(name)
        self._settled: Population | None = None

    def offers(self) -> dict[str, str]:
        """The scenarios that the contender cannot do, and why."""
        reasons = {s.name: offered(self._contender, s) for s in (*SCENARIOS, STOP)}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def measure(self, name: str, seconds: float) -> dict[str, float]:
        scenario = next(s for s in SCENARIOS if s.name == name)
        gc.collect()
        return measure(self._contender, scenario, seconds)

    def settle(self, count: int) -> dict[str, float]:
        """Start a population and weigh it, the first actor apart: it may bring the runtime up."""
        population = self._settled = self._contender.population()
        count = min(count, population.ceiling)
        population.grow(1)
        gc.collect()
        memory, threads = memory_in_use(), threads_in_use()
        population.grow(count - 1)
        gc.collect()
        return {
            "actors": count,
            "bytes_each": (memory_in_use() - memory) / (count - 1),
            "threads": threads_in_use() - threads,
        }

    def stop(self, count: int) -> dict[str, float]:
        assert self._settled is not None, "settle first"
        return figures_of(self._settled.shrink(self._settled.pick(count)))

    def close(self) -> None:
        self._contender.close()


def serve(desk_for: Callable[[str], Desk], name: str, requests: TextIO, answers: TextIO) -> None:
    try:
        desk = desk_for(name)
    except ImportError as error:
        print(json.dumps({"error": f"cannot be imported: {error}"}), file=answers, flush=True)
        return
    print(json.dumps({"answer": "ready"}), file=answers, flush=True)
    for line in requests:
        verb, *arguments = json.loads(line)
        answer: Any = getattr(desk, verb)(*arguments)
        print(json.dumps({"answer": answer}), file=answers, flush=True)
    desk.close()


def main(desk_for: Callable[[str], Desk]) -> None:
    # Whatever a library prints must not end up between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(desk_for, sys.argv[1], sys.stdin, answers)
    answers.close()
    # Actors that are still there, some with a thread each, are not worth an orderly end.
    os._exit(0)


if __name__ == "__main__":
    main(RuntimeDesk)
