"""The order of a run: every contender in turn, so that the machine's noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

from benchmarks import contenders
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS, STOP
from benchmarks.workers import Worker, WorkerFailed

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    repetitions: int
    seconds: float
    """For one measurement of one contender."""

    contended_seconds: float
    """The same with many threads. They need longer to show what they come to: a lock may take a
    second until its waiters form a convoy, or until one of them has starved for all to see."""

    idle_actors: int
    stops: int
    """Actors stopped in one repetition."""


FULL = Settings(repetitions=7, seconds=0.5, contended_seconds=1.6, idle_actors=100_000, stops=50)
QUICK = Settings(repetitions=3, seconds=0.1, contended_seconds=0.3, idle_actors=10_000, stops=20)

WARM_UP = 0.05
"""Seconds that every contender spends on a scenario before it counts."""

WORKER = "benchmarks.worker"


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    settings = QUICK if quick else FULL
    results = Results(
        machine=describe_machine(),
        versions=versions_of(contenders.DISTRIBUTIONS),
        settings=asdict(settings),
    )
    with start_workers(names, results, say, WORKER) as workers:
        measure_calls(workers, settings, results, say)
    with start_workers(names, results, say, WORKER) as workers:
        measure_populations(workers, settings, results, say)
    return results


@contextmanager
def start_workers(
    names: Sequence[str], results: Results, say: Say, module: str
) -> Iterator[list[Worker]]:
    """A process each for those who can take part; who cannot is noted in the results."""
    with ExitStack() as stack:
        workers = []
        for name in names:
            if name in results.missing:
                continue
            try:
                worker = stack.enter_context(Worker(name, module))
            except WorkerFailed as failure:
                if name == contenders.OURS:
                    raise
                results.missing[name] = str(failure)
                say(f"left out: {failure}")
                continue
            if name not in results.not_offered:
                results.not_offered[name] = worker.ask("offers")
            workers.append(worker)
        yield workers


def measure_calls(workers: list[Worker], settings: Settings, results: Results, say: Say) -> None:
    begin = time.monotonic()
    for repetition in range(settings.repetitions):
        for scenario in SCENARIOS:
            contended = scenario.threads > 1
            seconds = settings.contended_seconds if contended else settings.seconds
            for worker in rotated(workers, repetition):
                if scenario.name in results.not_offered[worker.name]:
                    continue
                if repetition == 0:
                    worker.ask("measure", scenario.name, WARM_UP)
                figures = worker.ask("measure", scenario.name, seconds)
                results.add(scenario.name, worker.name, figures)
        passed = time.monotonic() - begin
        say(f"repetition {repetition + 1} of {settings.repetitions} ({passed:.0f} s)")


def measure_populations(workers: list[Worker], settings: Settings, results: Results, say: Say) -> None:
    """Idle actors, in processes that have done nothing else, and stopping some of them."""
    populated = [w for w in workers if STOP.name not in results.not_offered[w.name]]
    for worker in populated:
        idle = results.idle[worker.name] = worker.ask("settle", settings.idle_actors)
        say(f"{idle['actors']:,} idle actors of {contenders.TITLES[worker.name]}")
    for repetition in range(settings.repetitions):
        for worker in rotated(populated, repetition):
            results.add(STOP.name, worker.name, worker.ask("stop", settings.stops))


def rotated(contestants: list[T], by: int) -> list[T]:
    """Another one begins each time, so that nobody always comes after the same neighbour."""
    first = by % max(1, len(contestants))
    return contestants[first:] + contestants[:first]
