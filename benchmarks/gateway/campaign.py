"""The order of a run: as the runtime's (`benchmarks.campaign`), with the load from another process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.campaign import Say, rotated, start_workers
from benchmarks.gateway import DISTRIBUTIONS
from benchmarks.gateway.scenarios import FULL, QUICK, SCENARIOS, STREAMS, Scale, Scenario
from benchmarks.latency import Figures
from benchmarks.machine import describe_machine, file_system_of, versions_of
from benchmarks.results import Results
from benchmarks.workers import ROOT, Worker

WORKER = "benchmarks.gateway.worker"
LOAD_WORKER = "benchmarks.gateway.load_worker"

# Not the system's folder for temporary files, which may be in memory: nothing there waits for a disk.
FOLDER = ROOT / "build"


def run(*, quick: bool, names: Sequence[str], say: Say) -> Results:
    """Measure all, and return the raw figures."""
    scale = QUICK if quick else FULL
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gateway-", dir=FOLDER) as folder:
        results = Results(
            machine={**describe_machine(), "file_system": file_system_of(Path(folder))},
            versions=versions_of(DISTRIBUTIONS),
            settings=asdict(scale),
        )
        with Worker("load", LOAD_WORKER) as load:
            with start_workers(names, results, say, WORKER) as workers:
                ports = {worker.name: serve(worker, folder) for worker in workers}
                measure_together(load, workers, ports, scale, results, say)
            measure_streams(load, folder, scale, results, say)
    return results


def serve(worker: Worker, folder: str) -> int:
    """Have it serve; the port."""
    port: int = worker.ask("open", f"sqlite:///{folder}/{worker.name}.db")
    return port


def measure_together(
    load: Worker,
    workers: list[Worker],
    ports: dict[str, int],
    scale: Scale,
    results: Results,
    say: Say,
) -> None:
    begin = time.monotonic()
    for repetition in range(scale.repetitions):
        for scenario in SCENARIOS:
            for worker in rotated(workers, repetition):
                port = ports[worker.name]
                if repetition == 0:
                    measure(load, worker, port, scenario, scale.warm_up)
                figures = measure(load, worker, port, scenario, scale.seconds)
                results.add(scenario.name, worker.name, figures)
        passed = time.monotonic() - begin
        say(f"repetition {repetition + 1} of {scale.repetitions} ({passed:.0f} s)")
    for worker in workers:
        worker.ask("check")


def measure(load: Worker, worker: Worker, port: int, scenario: Scenario, seconds: float) -> Figures:
    """Time, and what the server's process took of the processor for each request."""
    figures: Figures
    if not scenario.connections:
        figures = worker.ask("drive", scenario.kind, seconds)
        return figures
    before = worker.ask("usage")
    figures = load.ask("ask_without_pause", port, scenario.kind, scenario.connections, seconds)
    cpu = worker.ask("usage")["cpu"] - before["cpu"]
    return figures | {"cpu": cpu * 1e6 / figures["samples"]}


def measure_streams(load: Worker, folder: str, scale: Scale, results: Results, say: Say) -> None:
    able = [name for name in results.present if name in STREAMS.contenders]
    begin = time.monotonic()
    for repetition in range(scale.stream_repetitions):
        for name in rotated(able, repetition):
            with Worker(name, WORKER) as worker:
                port = serve(worker, folder)
                figures = listen(load, worker, port, scale)
                worker.ask("check")
            results.add(STREAMS.name, name, figures)
    if able:
        say(f"{scale.streams:,} {STREAMS.title} ({time.monotonic() - begin:.0f} s)")


def listen(load: Worker, worker: Worker, port: int, scale: Scale) -> Figures:
    """All streams once. The first request brings up what all need, and is not one of them."""
    measure(load, worker, port, SCENARIOS[0], 0.0)
    before = worker.ask("usage")
    figures: Figures = load.ask(
        "listen_to_many", port, scale.streams, scale.stream_pieces, scale.pace, scale.ramp
    )
    after = worker.ask("usage")
    return figures | {
        "cpu": (after["cpu"] - before["cpu"]) * 1e6 / (scale.streams * scale.stream_pieces),
        "peak_megabytes": after["peak"] / 1e6,
        "bytes_each": (after["peak"] - before["memory"]) / scale.streams,
    }
