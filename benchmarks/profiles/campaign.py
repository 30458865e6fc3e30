"""A whole run: the floor in several processes, then each workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from benchmarks.machine import describe_machine, versions_of
from benchmarks.profiles import TITLES
from benchmarks.profiles.groups import hottest, shares
from benchmarks.profiles.recorder import RATE, Stacks, only, record
from benchmarks.results import Results
from benchmarks.workers import Worker

FLOOR = "benchmarks.profiles.floor"

OUTSIDE = ("(threading.py)", "(runpy.py)", "(<frozen runpy>)")
"""How every thread and module begins."""

FILLING = ("move_in (", "Greenroom.__init__ (")
"""What is done before a drain."""


def run(*, quick: bool, say: Callable[[str], None]) -> tuple[Results, dict[str, Stacks]]:
    repetitions, seconds = (1, 4) if quick else (5, 30)
    results = Results(
        machine=describe_machine(),
        versions=versions_of(("greenroom", "pykka", "py-spy")),
        settings={"repetitions": repetitions, "seconds": seconds, "rate": RATE},
    )
    for repetition in range(repetitions):
        with Worker("floor", FLOOR) as worker:
            for name, figures in worker.ask("measure").items():
                results.add("floor", name, figures)
        say(f"floor, repetition {repetition + 1}")
    found: dict[str, Stacks] = {}
    for workload, title in TITLES.items():
        found[workload] = stacks = of_interest(workload, record(workload, seconds))
        for group, share in shares(stacks).items():
            results.add(f"profile_{workload}", group, {"share": share})
        for frame, share in hottest(stacks):
            results.add(f"hottest_{workload}", frame, {"share": share})
        say(f"{title}: {sum(stacks.values()):,} samples")
    return results, found


def of_interest(workload: str, stacks: Stacks) -> Stacks:
    """Without what the workload does before it comes to the point."""
    if workload == "warm":
        return only(stacks, "Contestant.begin_end")
    found: Stacks = Counter()
    for stack, count in stacks.items():
        kept = tuple(frame for frame in stack if frame and not frame.endswith(OUTSIDE))
        filling = workload == "drain" and any(frame.startswith(FILLING) for frame in stack)
        if kept and not filling:
            found[kept] += count
    return found
