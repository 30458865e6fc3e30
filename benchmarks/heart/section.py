"""The results as a table for the terminal, and as a section of a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import Bar
from benchmarks.contenders import LOCK, OURS
from benchmarks.heart import LOOP_LOCK
from benchmarks.heart.bars import figures, judge
from benchmarks.results import Results, read
from benchmarks.tables import amount, count_or_amount, head, judgements, wrapped

INTRODUCTION = """\
## The heart, held against its bars

Measured with `make bench-heart`. Contenders take turns in one process, a short batch each, and the best
batch of each counts, so that other programs on the machine matter little; the worst turn is the worst of
all. In brackets: lowest and highest of the repetitions. Where a figure is no ratio it is this
machine's. A line of code has something on it other than a comment or a docstring."""

BESIDE = {
    "Warm turn, 1 thread": ("turn", "each", OURS, LOCK, "lock+dict"),
    "Warm turn, `async with`": ("loop", "each", OURS, LOOP_LOCK, "a dict with an `asyncio.Lock` each"),
}


def section(folder: Path) -> str | None:
    """The section of docs/benchmarks.md, or `None` if nothing was measured yet."""
    path = folder / "heart.json"
    if not path.exists():
        return None
    results = read(path)
    return "\n\n".join([INTRODUCTION, head_of(results), table(judge(results)), words(results)])


def report(results: Results, bars: Sequence[Bar]) -> str:
    """The same for the terminal."""
    return "\n\n".join([wrapped(head_of(results)), judgements(bars), words(results)])


def head_of(results: Results) -> str:
    load = results.settings["load"]
    return (
        f"{' '.join(head(results).split()).rpartition(' Medians')[0]} The machine's load was {load:.1f}"
        f" before the run, {results.settings['repetitions']} repetitions."
    )


def table(bars: Sequence[Bar]) -> str:
    lines = ["| | bar | found | met |", "|---|---:|---:|---|"]
    for bar in bars:
        unit = "×" if bar.unit == "×" else "" if bar.unit == "lines" else f" {bar.unit}"
        found = bar.found
        spread = f" ({amount(found.low)}–{amount(found.high)})" if found.low != found.high else ""
        met = "yes" if bar.met else "**no**"
        value = count_or_amount(found.middle)
        lines.append(f"| {bar.what} | {bar.expected}{unit} | {value}{unit}{spread} | {met} |")
    return "\n".join(lines)


def words(results: Results) -> str:
    """What the ratios are made of, and what could not be measured."""
    lines = [
        f"- {what}: {amount(min(figures(results, scenario, one, figure)))} µs beside"
        f" {amount(min(figures(results, scenario, other, figure)))} µs of {name}."
        for what, (scenario, figure, one, other, name) in BESIDE.items()
    ]
    worst = [max(figures(results, name, LOCK, "worst")) for name in ("turn_8_8", "turn_8_64")]
    lines.append(f"- The worst turn of lock+dict: {amount(worst[0])} and {amount(worst[1])} ms.")
    lines.append(
        "- Amounts that are no ratios depend on the machine. The fixed loop of `benchmarks.scale` takes"
        f" {amount(results.settings['pace'])} ms here: who compares with another run divides by that."
    )
    return "\n".join(lines + [f"- {reason}." for reason in results.missing.values()])
