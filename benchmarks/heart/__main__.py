"""The command line: `python -m benchmarks.heart [--quick | --whole] [--write | --no-write]`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks import document
from benchmarks.__main__ import say
from benchmarks.contenders import OURS
from benchmarks.document import RESULTS
from benchmarks.heart import DISTRIBUTIONS, FULL, QUICK, Effort, bars, lines, section, turns
from benchmarks.machine import describe_machine, versions_of
from benchmarks.results import Results
from benchmarks.scale import measures
from benchmarks.workers import Worker

WORKER = "benchmarks.heart.costs"

PATIENCE = 1800.0
"""Seconds for one request, of which one fills a room with a million sessions."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heart", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a minute; writes nothing")
    size.add_argument("--whole", action="store_true", help="with a million sessions")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    effort = QUICK if options.quick else replace(FULL, sessions=1_000_000) if options.whole else FULL
    results = run(effort)
    found = bars.judge(results)
    print("\n" + section.report(results, found))
    if not options.quick if options.write is None else options.write:
        results.write(options.output / "heart.json", [bar.as_dict() for bar in found])
        if options.output == RESULTS:
            for page in document.write():
                print(f"Written anew: {page}")
    return 0


def run(effort: Effort) -> Results:
    logging.disable(logging.ERROR)  # over the cap, a slow handler: that is what is measured here
    results = Results(
        machine=describe_machine(),
        versions=versions_of(DISTRIBUTIONS),
        settings={
            **asdict(effort),
            "load": os.getloadavg()[0],
            "pace": min(measures.paced() for _ in range(20)) * 1e3,
        },
    )
    begin = time.monotonic()
    parts = (
        turns.warm,
        turns.on_loop,
        turns.contended,
        turns.median_turn,
        turns.among_others,
        turns.without_gil,
    )
    for part in parts:
        part(results, effort)
        say(f"{part.__name__} ({time.monotonic() - begin:.0f} s)")
    results.add("lines", OURS, lines.count())
    requests = (
        ("worked", effort.inserts, effort.rounds),
        ("crowded", effort.sessions, effort.batches * effort.repetitions),
        ("known", effort.sessions),
    )
    for request in requests:
        with Worker("costs", WORKER, PATIENCE) as worker:
            for name, figures in worker.ask(*request).items():
                results.add(name, OURS, figures)
        say(f"{request[0]} ({time.monotonic() - begin:.0f} s)")
    return results


if __name__ == "__main__":
    sys.exit(main())
