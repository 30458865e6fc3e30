"""The order of a run: as that of the runtime (`benchmarks.campaign`), but for what needs a process
of its own each time: threads that were left over, and memory, would count for the next one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.campaign import WARM_UP, Say, rotated, start_workers
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.rooms import DISTRIBUTIONS
from benchmarks.rooms.scenarios import FULL, QUICK, SCENARIOS, Scale, Scenario
from benchmarks.workers import Worker

WORKER = "benchmarks.rooms.worker"

PATIENCE = 300.0
"""Seconds for one request, of which some fill a room with 100,000 sessions."""


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    results = Results(
        machine=describe_machine(),
        versions=versions_of(DISTRIBUTIONS),
        settings=asdict(scale),
    )
    with start_workers(names, results, say, WORKER) as workers:
        measure_together(workers, scale, results, say)
    for scenario in SCENARIOS:
        if scenario.apart:
            measure_apart(scenario, scale, results, say)
    return results


def measure_together(workers: list[Worker], scale: Scale, results: Results, say: Say) -> None:
    warm_up = asdict(replace(scale, seconds=WARM_UP, contended_seconds=WARM_UP, bursts=1))
    begin = time.monotonic()
    for repetition in range(scale.repetitions):
        for scenario in SCENARIOS:
            if scenario.apart:
                continue
            for worker in rotated(workers, repetition):
                if repetition == 0:
                    worker.ask("measure", scenario.name, warm_up)
                figures = worker.ask("measure", scenario.name, asdict(scale))
                results.add(scenario.name, worker.name, figures)
        passed = time.monotonic() - begin
        say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")


def measure_apart(scenario: Scenario, scale: Scale, results: Results, say: Say) -> None:
    able = [name for name in results.present if scenario.name not in results.not_offered[name]]
    begin = time.monotonic()
    for repetition in range(scenario.repetitions(scale)):
        for name in rotated(able, repetition):
            with Worker(name, WORKER, PATIENCE) as worker:
                figures = worker.ask("measure", scenario.name, asdict(scale))
                results.add(scenario.name, name, figures)
    say(f"{scenario.title} ({time.monotonic() - begin:.0f} s)")
