"""The order of a run: in every repetition each scenario, and in each scenario one contender after
another, so that the machine's noise hits all alike.

Warm turns and turns during teardowns are measured in processes that stay, all others in a process
each, because threads and memory that are left over would count for the next one. Who brings servers
of its own (`Peer.heavy`) has one process a repetition, for all scenarios, at the end of it.

A contender that fails in a scenario has that in the place of its figures, and goes on with the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.campaign import WARM_UP, Say, rotated, start_workers
from benchmarks.contenders import OURS
from benchmarks.machine import versions_of
from benchmarks.peers import DISTRIBUTIONS, TITLES, system
from benchmarks.peers.scenarios import FULL, QUICK, SCENARIOS, Scale, Scenario
from benchmarks.results import Results
from benchmarks.workers import Worker, WorkerFailed

WORKER = "benchmarks.peers.worker"

PATIENCE = 180.0
"""Seconds for one request, of which some fill a room with 100,000 sessions."""


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    results = Results(
        machine=system.describe(),
        versions=versions_of(DISTRIBUTIONS) | {"benchmark": digest()},
        settings=asdict(scale),
    )
    system.adopt_orphans()  # of a worker that hung and was killed
    with temporary_files(), start_workers(names, results, say, WORKER) as workers:
        heavy = [worker.name for worker in workers if worker.ask("heavy")]
        with ExitStack() as stack:
            campaign = Campaign(results, scale, say, stack, workers, heavy)
            for repetition in range(scale.repetitions):
                campaign.repeat(repetition)
    return results


@contextmanager
def temporary_files() -> Iterator[None]:
    """A folder for those of all workers. It goes at the end, whatever became of them."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="p-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder  # the name is short: those of Ray's sockets have a limit
        try:
            yield
        finally:
            system.end_descendants()
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before


def digest() -> str:
    """Which version of these scenarios it was."""
    folder = Path(__file__).parent
    paths = sorted([*folder.glob("*.py"), *(folder.parent / "rooms").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


class Campaign:
    def __init__(
        self,
        results: Results,
        scale: Scale,
        say: Say,
        stack: ExitStack,
        workers: Sequence[Worker],
        heavy: Sequence[str],
    ) -> None:
        self._results = results
        self._scale = scale
        self._say = say
        self._stack = stack
        self._workers = {worker.name: worker for worker in workers if worker.name not in heavy}
        self._heavy = heavy
        self._begin = time.monotonic()

    def repeat(self, repetition: int) -> None:
        scale = replace(self._scale, seed=repetition)
        due = [s for s in SCENARIOS if repetition < s.repetitions(scale)]
        for scenario in due:
            for name in rotated(list(self._workers), repetition):
                if scenario.apart:
                    self._measure_apart(name, scenario, scale)
                else:
                    self._measure_together(name, scenario, scale, warm_up=repetition == 0)
        if repetition < scale.heavy:
            for name in self._heavy:
                self._measure_in_one_go(name, due, scale)
        passed = time.monotonic() - self._begin
        self._say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")

    def _measure_together(self, name: str, scenario: Scenario, scale: Scale, *, warm_up: bool) -> None:
        if not self._able(name, scenario):
            return
        worker = self._workers[name]
        if warm_up:
            short = replace(scale, seconds=WARM_UP, contended_seconds=WARM_UP, bursts=1)
            with contextlib.suppress(WorkerFailed):
                worker.ask("measure", scenario.name, asdict(short))
        if not self._measure(worker, scenario, scale):
            # Whatever state it is in, the next scenario shall not suffer from it.
            self._workers[name] = self._stack.enter_context(Worker(name, WORKER, PATIENCE))

    def _measure_apart(self, name: str, scenario: Scenario, scale: Scale) -> None:
        if self._able(name, scenario):
            with Worker(name, WORKER, PATIENCE) as worker:
                self._measure(worker, scenario, scale)

    def _measure_in_one_go(self, name: str, due: Sequence[Scenario], scale: Scale) -> None:
        able = [scenario for scenario in due if self._able(name, scenario)]
        for run in runs_of(able):
            with Worker(name, WORKER, PATIENCE) as worker:
                for scenario in run:
                    if not self._measure(worker, scenario, scale):
                        break

    def _able(self, name: str, scenario: Scenario) -> bool:
        return scenario.name not in self._results.not_offered[name]

    def _measure(self, worker: Worker, scenario: Scenario, scale: Scale) -> bool:
        """Whether there are figures."""
        try:
            found = worker.ask("measure", scenario.name, asdict(scale))
        except WorkerFailed as failure:
            found = str(failure)
        if not isinstance(found, str):
            self._results.add(scenario.name, worker.name, found)
            return True
        if worker.name == OURS:
            raise WorkerFailed(f"{TITLES[OURS]}, {scenario.title}: {found}")
        self._say(f"{TITLES[worker.name]}, {scenario.title}: {found}")
        self._results.not_offered[worker.name][scenario.name] = f"failed in this run ({found})"
        self._results.measurements.get(scenario.name, {}).pop(worker.name, None)
        return False


def runs_of(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """Those that one process can go through: it ends after one that leaves it in a bad state."""
    runs: list[list[Scenario]] = [[]]
    for scenario in scenarios:
        runs[-1].append(scenario)
        if scenario.breaks:
            runs.append([])
    return [run for run in runs if run]
