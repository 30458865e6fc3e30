"""The results as plain text, with the tables of the runtime's where they fit."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bars import Bar
from benchmarks.contenders import LOCK, OURS
from benchmarks.results import Results
from benchmarks.rooms.tables import Row
from benchmarks.tables import (
    Footnotes,
    count_or_amount,
    head,
    judgements,
    latencies,
    rates,
    ratio,
    ratios,
    table,
    wrapped,
)
from benchmarks.webui import NOTES
from benchmarks.webui.scenarios import CAST

MARKS = CAST.playing("mark_8_8", "mark_8_1")

ROWS = (
    Row("mark_8_8", "p99", "Marks of 8 threads, 8 sessions: p99, µs"),
    Row("mark_8_1", "p99", "Marks of 8 threads, 1 session: p99, µs"),
    Row("waiting", "cpu", "A mark while 64 threads wait for another session: CPU, µs"),
    Row("waiting", "quiet_cpu", "… while nobody waits: CPU, µs"),
    Row("drain", "seconds", "Drain of 100 dirty sessions, 50 ms each: s"),
    Row("wedged", "uncommitted", "… in 1 s, the first one wedged: sessions uncommitted"),
    Row("wedged", "seconds", "… s"),
)


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    parts = [
        head(results),
        rates(results, MARKS, Footnotes(), "Marks"),
        ratios(results, MARKS, Footnotes(), "marks"),
        latencies(results, MARKS, "mark"),
        others(results),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def others(results: Results) -> str:
    rows = []
    for row in ROWS:
        found = [results.figure(row.scenario, name, row.figure) for name in results.present]
        compared = results.ratio(row.scenario, row.figure, OURS, LOCK)
        cells = [count_or_amount(figure.middle) if figure else "" for figure in found]
        rows.append([row.title, *cells, ratio(compared) if compared else ""])
    titles = [CAST.contenders[name] for name in results.present]
    return table("Other figures, and greenroom's ÷ the other's", ["", *titles, "÷"], rows)


def notes(results: Results) -> str:
    return "\n".join(
        wrapped(f"{CAST.contenders[name]}: {NOTES[name]}.") for name in results.present if name in NOTES
    )
