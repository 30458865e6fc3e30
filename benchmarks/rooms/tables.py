"""The results as plain text, with the tables of the runtime's where they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bars import Bar
from benchmarks.results import Results
from benchmarks.rooms import NOTES
from benchmarks.rooms.scenarios import CAST, FULL
from benchmarks.tables import (
    Footnotes,
    count_or_amount,
    gap,
    head,
    judgements,
    latencies,
    rates,
    ratios,
    table,
    wrapped,
)

RATED = CAST.playing("turn", "turn_8_8", "turn_8_64", "insert", "insert_slow", "drain")
TIMED = CAST.playing("turn", "turn_8_8", "turn_8_64", "evicting")


@dataclass(frozen=True)
class Row:
    scenario: str
    figure: str
    title: str


ROWS = (
    Row("evicting", "quiet_p99", "A turn a millisecond: p99, µs"),
    Row("evicting", "p99", "… during 64 evictions of 100 ms: p99, µs"),
    Row("evicting", "over_quiet", "… ÷ quiet"),
    Row("sweep", "milliseconds", "Sweep of a full room, none idle: ms"),
    Row("sweep", "worst_turn", "… worst turn meanwhile: ms"),
    Row("sweep", "sessions", "… sessions"),
    Row("insert", "threads", "Inserts into a cap of 128: threads started"),
    Row("insert", "most_threads", "… most at once"),
    Row("insert", "settled", "… seconds until all was torn down"),
    Row("insert", "inserts", "… inserts"),
    Row("insert_slow", "threads", "Inserts with a teardown of 100 ms: threads started"),
    Row("insert_slow", "most_threads", "… most at once"),
    Row("insert_slow", "settled", "… seconds until all was torn down"),
    Row("insert_slow", "inserts", "… inserts"),
    Row("drain", "seconds", "Drain of 100 dirty sessions, 50 ms each: s"),
    Row("sweep", "bytes_each", "A session with a trivial agent: bytes"),
    Row("known", "bytes_each", "A session without an agent: bytes"),
)


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    footnotes = Footnotes()
    parts = [
        head(results),
        rates(results, RATED, footnotes, "Turns, or sessions,"),
        ratios(results, RATED, footnotes, "turns, or sessions,"),
        latencies(results, TIMED, "warm turn"),
        others(results, footnotes),
        "\n".join(footnotes.lines()),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def others(results: Results, footnotes: Footnotes) -> str:
    names = results.present
    rows = []
    for row in ROWS:
        cells = [row.title]
        for name in names:
            found = results.figure(row.scenario, name, row.figure)
            cells.append(
                count_or_amount(found.middle)
                if found
                else gap(results, CAST, row.scenario, name, footnotes)
            )
        rows.append(cells)
    return table("Other figures", ["", *(CAST.contenders[name] for name in names)], rows)


def notes(results: Results) -> str:
    lines = [f"{CAST.contenders[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return "\n".join(wrapped(line) for line in [*lines, *fewer(results), *left_out])


def fewer(results: Results) -> list[str]:
    """Who had fewer sessions to sweep than a full run has."""
    swept = {name: results.figure("sweep", name, "sessions") for name in results.present}
    return [
        f"{CAST.contenders[name]}: {count.middle:,.0f} sessions to sweep instead of {FULL.swept:,}."
        for name, count in swept.items()
        if count is not None and count.middle < FULL.swept
    ]
