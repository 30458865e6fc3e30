"""The order of a run: every contender in turn, each time on a fresh database in processes of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.campaign import Say, rotated, start_workers
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.stores import DISTRIBUTIONS
from benchmarks.stores.databases import start_databases
from benchmarks.stores.scenarios import FULL, QUICK, SCENARIOS, WORKER, Contestant, Scenario


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    with start_databases() as databases:
        results = Results(
            machine={**describe_machine(), **databases.machine()},
            versions=versions_of(DISTRIBUTIONS) | databases.versions(),
            settings={**asdict(scale), "load": os.getloadavg()[0]},
        )
        with start_workers(names, results, say, WORKER) as able:
            contestants = [Contestant(worker.name, databases) for worker in able]
        begin = time.monotonic()
        for repetition in range(scale.repetitions):
            for scenario in SCENARIOS:
                if repetition < scenario.repetitions(scale):
                    taking_part = [c for c in contestants if takes_part(c.name, scenario, results)]
                    for contestant in rotated(taking_part, repetition):
                        figures = scenario.measure(contestant, scale)
                        results.add(scenario.name, contestant.name, figures)
            passed = time.monotonic() - begin
            say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")
    return results


def takes_part(name: str, scenario: Scenario, results: Results) -> bool:
    return name in scenario.contenders and scenario.name not in results.not_offered[name]
