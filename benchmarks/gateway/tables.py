"""The results as plain text, with the tables of the runtime's where they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bars import Bar
from benchmarks.gateway import NOTES, PLAIN, TITLES
from benchmarks.gateway.scenarios import RATED, STREAMS
from benchmarks.results import Results, Spread
from benchmarks.tables import (
    Footnotes,
    amount,
    count_or_amount,
    head,
    judgements,
    latencies,
    rates,
    ratio,
    table,
    wrapped,
)


@dataclass(frozen=True)
class Row:
    figure: str
    title: str


STREAM_ROWS = (
    Row("complete", "Complete"),
    Row("most", "Most at once"),
    Row("rate", "Pieces a second"),
    Row("late_p50", "Gap beyond the agent's pace: p50, ms"),
    Row("late_p99", "… p99, ms"),
    Row("late_max", "… max, ms"),
    Row("first_p99", "Time to the first event: p99, ms"),
    Row("cpu", "Processor time of the server for each piece, µs"),
    Row("peak_megabytes", "Peak memory of the server, MB"),
    Row("bytes_each", "… beyond what it had before, for each stream: bytes"),
    Row("load_share", "Share of a core that the client took"),
)


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    parts = [
        head(results) + f" Files on {results.machine['file_system']}.",
        rates(results, RATED, Footnotes(), "Requests"),
        beside_plain(results, "each", f"Time a request ÷ {TITLES[PLAIN]}: median (lowest–highest)"),
        processor(results),
        beside_plain(results, "cpu", f"Processor time of the server ÷ {TITLES[PLAIN]}"),
        latencies(results, RATED, "request"),
        streams(results),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def beside_plain(results: Results, figure: str, title: str) -> str:
    names = [name for name in results.present if name != PLAIN]
    if PLAIN not in results.present or not names:
        return ""
    rows = [
        [what, *(or_nothing(results.ratio(scenario, figure, name, PLAIN)) for name in names)]
        for scenario, what in RATED.scenarios.items()
    ]
    return table(title, ["", *(TITLES[name] for name in names)], rows)


def or_nothing(found: Spread | None) -> str:
    return "" if found is None else ratio(found)


def processor(results: Results) -> str:
    names = results.present
    rows = []
    for scenario, title in RATED.scenarios.items():
        found = [results.figure(scenario, name, "cpu") for name in names]
        rows.append([title, *("" if f is None else amount(f.middle) for f in found)])
    title = "Processor time of the server for each request, µs"
    return table(title, ["", *(TITLES[name] for name in names)], rows)


def streams(results: Results) -> str:
    names = [name for name in TITLES if name in results.measurements.get(STREAMS.name, {})]
    if not names:
        return ""
    settings = results.settings
    rows = []
    for row in STREAM_ROWS:
        found = [results.figure(STREAMS.name, name, row.figure) for name in names]
        rows.append([row.title, *("" if f is None else count_or_amount(f.middle) for f in found)])
    title = (
        f"{settings['streams']:,} slow streams at once, {settings['stream_pieces']} pieces each,"
        f" one every {settings['pace']:g} s"
    )
    return table(title, ["", *(TITLES[name] for name in names)], rows)


def notes(results: Results) -> str:
    lines = [f"{TITLES[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    shares = [
        figures["load_share"]
        for contenders in results.measurements.values()
        for repetitions in contenders.values()
        for figures in repetitions
        if "load_share" in figures
    ]
    if shares:
        lines.append(f"The client's process took at most {max(shares):.0%} of a core.")
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return "\n".join(wrapped(line) for line in [*lines, *left_out])
