"""The results as a section of a document, in Markdown."""

from __future__ import annotations

from pathlib import Path

from benchmarks.profiles import TITLES
from benchmarks.profiles.floor import TITLES as FLOOR_TITLES
from benchmarks.profiles.groups import GROUPS
from benchmarks.results import Results, Spread
from benchmarks.scale.growth import load

INTRODUCTION = """\
## Where the time goes

Measured with `make profile`: py-spy looks at the stacks of a process that does one thing over and over.
The share of the samples in which a function of the group was the innermost:"""

FLOOR = """\
### The floor

What the least costs that any cache of agents must do, in one process and in turns with greenroom's own.
Processor time in microseconds, the lower twentieth of many short measurements; lowest to highest of the
repetitions in brackets."""


def section(results_dir: Path) -> str | None:
    """The section of docs/benchmarks.md, or `None` if nothing was measured yet."""
    path = results_dir / "profiles.json"
    if not path.exists():
        return None
    results = load(path)
    graphs = [f"![Flame graph: {title}](flame-{name}.svg)" for name, title in TITLES.items()]
    return "\n\n".join([INTRODUCTION, table(results), *graphs, FLOOR, floor(results), summary(results)])


def table(results: Results) -> str:
    lines = [f"| | {' | '.join(TITLES.values())} |", "|---|" + "---:|" * len(TITLES)]
    for group in GROUPS:
        found = [results.figure(f"profile_{name}", group, "share") for name in TITLES]
        cells = ["–" if share is None else f"{100 * share.middle:.0f} %" for share in found]
        lines.append(f"| {group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def floor(results: Results) -> str:
    lines = ["| | µs |", "|---|---:|"]
    for name, title in FLOOR_TITLES.items():
        found = results.figure("floor", name, "cpu")
        if found is not None:
            lines.append(f"| {title} | {found.middle:.2f} ({found.low:.2f}–{found.high:.2f}) |")
    return "\n".join(lines)


def summary(results: Results) -> str:
    warm = results.ratio("floor", "cpu", "warm", "turn")
    insert = results.ratio("floor", "cpu", "insert", "hop")
    if warm is None or insert is None:
        return ""
    return (
        f"So greenroom's warm turn is {times(warm)} the floor, and its insert {times(insert)} a call on"
        " another thread. What the least turn leaves out: waiting turns and their time limits,"
        " uncommitted generations, the order of rest, callers that already hold the turn, statistics,"
        " a session that fails and is restarted, interrupts at any point."
    )


def times(found: Spread) -> str:
    return f"{found.middle:.1f}× ({found.low:.1f}–{found.high:.1f})"
