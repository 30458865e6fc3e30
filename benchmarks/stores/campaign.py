"""The order of a run: as that of the runtime (`benchmarks.campaign`), each time on a fresh database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.campaign import WARM_UP, Say, rotated, start_workers
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.stores import DISTRIBUTIONS, PARTS
from benchmarks.stores.databases import Databases, start_databases
from benchmarks.stores.scenarios import FULL, QUICK, SCENARIOS, Scale, Scenario
from benchmarks.workers import Worker

WORKER = "benchmarks.stores.worker"


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    with start_databases() as databases:
        results = Results(
            machine={**describe_machine(), **databases.machine()},
            versions=versions_of(DISTRIBUTIONS) | databases.versions(),
            settings=asdict(scale),
        )
        with start_workers(names, results, say, WORKER) as workers:
            measure_together(workers, scale, databases, results, say)
    return results


def measure_together(
    workers: list[Worker], scale: Scale, databases: Databases, results: Results, say: Say
) -> None:
    for worker in workers:
        # All scenarios go the same ways, and with many threads even a short one takes seconds.
        measure(worker, SCENARIOS[0], replace(scale, seconds=WARM_UP), databases)
    begin = time.monotonic()
    for repetition in range(scale.repetitions):
        for scenario in SCENARIOS:
            able = [worker for worker in workers if takes_part(worker.name, scenario, results)]
            for worker in rotated(able, repetition):
                figures = measure(worker, scenario, scale, databases)
                results.add(scenario.name, worker.name, figures)
        passed = time.monotonic() - begin
        say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")


def takes_part(name: str, scenario: Scenario, results: Results) -> bool:
    return name in scenario.contenders and scenario.name not in results.not_offered[name]


def measure(worker: Worker, scenario: Scenario, scale: Scale, databases: Databases) -> dict[str, float]:
    url = databases.fresh(PARTS[worker.name].database)
    figures: dict[str, float] = worker.ask("measure", scenario.name, asdict(scale), url)
    return figures
