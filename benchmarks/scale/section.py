"""The results as a section of a document, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import Bar
from benchmarks.results import Results, Spread
from benchmarks.scale import SMALLEST, SWEPT, bars
from benchmarks.scale.growth import growth, load, ratio, sizes
from benchmarks.tables import judgements

PICTURE = "scale.png"

INTRODUCTION = """\
## Scale

How cost grows with the number of sessions in a room (`make bench-scale`). Cost is processor time of the
whole process, in microseconds; every repetition fills a room in a fresh process. The agents are as small
as can be and have no hooks, so this is greenroom's own work. The last column is the largest room through
the smallest, each through the time that a fixed loop takes at that moment, so that a core which others
slow down does not count: the median over repetitions, lowest to highest in brackets."""

LIMITING = "What limits each:"

ROWS = {
    "warm": ("Warm turn", "µs"),
    "warm_few": ("Warm turn, 100 of the sessions only", "µs"),
    "warm_no_gc": ("Warm turn, garbage collector off", "µs"),
    "plain_dict": ("A lock and `move_to_end` in a dict of that size", "µs"),
    "insert": ("Insert, no cap", "µs"),
    "insert_no_gc": ("Insert, garbage collector off", "µs"),
    "insert_full": ("Insert at the cap (one leaves for each)", "µs"),
    "drain": ("Drain, for each session", "µs"),
    **{
        f"sweep_{count}": (
            f"Sweep that evicts {count:,}" if count else "Sweep that finds none idle",
            "µs",
        )
        for count in SWEPT
    },
    "with_agent": ("Memory of a session with a tiny agent", "B"),
    "known": ("Memory of a known session without an agent", "B"),
}


def section(results_dir: Path) -> str | None:
    """The section of docs/benchmarks.md, or `None` if nothing was measured yet."""
    path = results_dir / "scale.json"
    if not path.exists():
        return None
    results = load(path)
    found = bars.judge(results)
    picture = f"![Cost by number of sessions: four plots](../benchmarks/results/{PICTURE})"
    limiting = "\n".join(f"- {limit}" for limit in limits(results))
    parts = (INTRODUCTION, picture, figures(results), expectations(found), LIMITING, limiting)
    return "\n\n".join(parts)


def report(results: Results, found: Sequence[Bar]) -> str:
    """The same for the terminal."""
    return "\n\n".join([figures(results), *limits(results), judgements(found)])


def figures(results: Results) -> str:
    columns = sizes(results)
    lines = [
        "| | " + " | ".join(f"{size:,}" for size in columns) + " | growth |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for name, (title, unit) in ROWS.items():
        if name not in results.measurements:
            continue
        figure = "bytes_each" if unit == "B" else "cpu"
        found = [results.figure(name, str(size), figure) for size in columns]
        cells = ["–" if spread is None else amount(spread.middle, unit) for spread in found]
        grown = growth(results, name, columns[-1], "bytes_each" if unit == "B" else "paced")
        cells.append("" if grown is None else times(grown))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def expectations(found: Sequence[Bar]) -> str:
    lines = ["| expected | | found | |", "|---|---|---:|---|"]
    for bar in found:
        unit = "" if bar.unit == "×" else f" {bar.unit}"
        value = f"{bar.found.middle:,.0f}" if bar.unit == "B" else f"{bar.found.middle:.2f}"
        times_sign = "×" if bar.unit == "×" else ""
        met = "yes" if bar.met else "**no**"
        lines.append(
            f"| {bar.what} | {bar.expected}{times_sign}{unit} | {value}{times_sign}{unit} | {met} |"
        )
    return "\n".join(lines)


def limits(results: Results) -> list[str]:
    """What the figures say about causes. Every sentence is made of what was measured."""
    largest = sizes(results)[-1]
    name = f"{largest:,}"
    lines = []
    warm, few = growth(results, "warm", largest), growth(results, "warm_few", largest)
    plain, still = growth(results, "plain_dict", largest), growth(results, "warm_no_gc", largest)
    if warm and few and plain and still:
        cached = few.middle - 1 < (warm.middle - 1) / 2
        cause = "memory that is in no cache" if cached else "not the caches alone"
        lines.append(
            f"**Warm turn**: {cause}. At {name} sessions it costs {times(warm)} what it costs at"
            f" {SMALLEST}; if only 100 of the {name} are used, so that caches hold them, {times(few)};"
            f" with the garbage collector off, {times(still)}. A lock and an ordered dict of that size,"
            f" which is much less to look at, grow {times(plain)}."
        )
    lines += insert_limits(results, largest)
    per_eviction = ratio(results, "paced", ("sweep_1000", largest), ("sweep_100", largest), 10.0)
    none = growth(results, "sweep_0", largest)
    if per_eviction and none:
        lines.append(
            f"**Sweep**: what it evicts. One that finds nobody idle costs {times(none)} in a room of"
            f" {name}; an eviction costs {times(per_eviction)} as much in a sweep of 1,000 as in one of"
            " 100."
        )
    drain = results.figure("drain", str(largest), "cpu")
    pause = results.figure("drain", str(largest), "collector")
    if drain and pause:
        lines.append(
            f"**Drain**: the messages of one session after another: asked, committed, closed, stopped."
            f" The collector has {share(pause, drain)} of it at {name}."
        )
    return lines


def insert_limits(results: Results, largest: int) -> list[str]:
    insert, pause = (results.figure("insert", str(largest), name) for name in ("cpu", "collector"))
    faults = results.figure("insert", str(largest), "page_faults")
    still, grown = growth(results, "insert_no_gc", largest), growth(results, "insert", largest)
    if not (insert and pause and faults and still and grown):
        return []
    line = (
        f"**Insert**: {times(grown)} from {SMALLEST} to {largest:,}, without the garbage collector"
        f" {times(still)}. Of the time at {largest:,}, the collector has {share(pause, insert)}: now and"
        f" then it looks at every object that there is. Page faults: {faults.middle:.1f} an insert."
    )
    return [line]


def share(part: Spread, whole: Spread) -> str:
    return f"{100 * part.middle / whole.middle:.0f} %"


def amount(value: float, unit: str) -> str:
    return (
        f"{value:,.0f}"
        if unit == "B" or value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
    )


def times(found: Spread) -> str:
    return f"{found.middle:.2f}× ({found.low:.2f}–{found.high:.2f})"
