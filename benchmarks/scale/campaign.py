"""The order of a run: every repetition goes through the sizes, each in a fresh process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.campaign import Say
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.scale import DISTRIBUTIONS, SIZES
from benchmarks.scale.measures import Effort
from benchmarks.workers import Worker

WORKER = "benchmarks.scale.worker"

PATIENCE = 900.0
"""Seconds for one request. A million sessions take minutes to move in and to be drained."""

REPETITIONS = {100: 5, 1_000: 5, 10_000: 5, 100_000: 3, 1_000_000: 2}
"""The large ones take long, and their spread is small: they do everything often."""

EFFORT = Effort(turns=50_000, inserts=2_000)
QUICK_EFFORT = Effort(turns=5_000, inserts=300)
QUICK_LIMIT = 10_000


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures: by what was measured, by size, by repetition."""
    sizes = [int(name) for name in names if not quick or int(name) <= QUICK_LIMIT]
    effort = QUICK_EFFORT if quick else EFFORT
    repetitions = {size: 1 if quick else REPETITIONS[size] for size in sizes}
    results = Results(
        machine=describe_machine(),
        versions=versions_of(DISTRIBUTIONS),
        settings={**asdict(effort), "repetitions": {str(s): r for s, r in repetitions.items()}},
        not_offered={str(size): {} for size in sizes},
    )
    for repetition in range(max(repetitions.values())):
        for size in sizes:
            if repetition < repetitions[size]:
                one_size(size, repetition, effort, results, say)
    return results


def one_size(size: int, repetition: int, effort: Effort, results: Results, say: Say) -> None:
    begin = time.monotonic()
    # A million sessions are drained once: it takes as long as all the rest.
    drain = repetition == 0 or size < max(SIZES)
    with Worker(f"{size:,} sessions", WORKER, PATIENCE) as worker:
        for name, figures in worker.ask("measure", size, asdict(effort), drain).items():
            results.add(name, str(size), figures)
    if repetition == 0:  # memory is the same every time
        with Worker(f"{size:,} sessions", WORKER, PATIENCE) as worker:
            results.add("known", str(size), worker.ask("known", size))
    say(f"{size:,} sessions, repetition {repetition + 1} ({time.monotonic() - begin:.0f} s)")
