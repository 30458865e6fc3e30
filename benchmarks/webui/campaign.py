"""The order of a run: as that of the runtime (`benchmarks.campaign`), but with a new process for each
measurement: the state of a contender is its process's, and a hook that hung would count for the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.campaign import WARM_UP, Say, rotated
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.webui import DISTRIBUTIONS
from benchmarks.webui.scenarios import FULL, QUICK, SCENARIOS, Scale, Scenario
from benchmarks.workers import Worker

WORKER = "benchmarks.webui.worker"


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    results = Results(
        machine=describe_machine(),
        versions=versions_of(DISTRIBUTIONS),
        settings=asdict(scale),
        not_offered={name: {} for name in names},
    )
    begin = time.monotonic()
    for repetition in range(scale.repetitions):
        for scenario in SCENARIOS:
            for name in rotated(list(names), repetition):
                measure(name, scenario, scale, results)
        passed = time.monotonic() - begin
        say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")
    return results


def measure(name: str, scenario: Scenario, scale: Scale, results: Results) -> None:
    with Worker(name, WORKER) as worker:
        if scenario.warmed:
            warm_up = replace(scale, seconds=WARM_UP, marks=2)
            worker.ask("measure", scenario.name, asdict(warm_up))
        results.add(scenario.name, name, worker.ask("measure", scenario.name, asdict(scale)))
