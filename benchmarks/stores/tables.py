"""The results as plain text, with the tables of the runtime's where they fit."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bars import Bar
from benchmarks.results import Results, Spread
from benchmarks.stores import INSERT_FULL, INSERT_NORMAL, NO_STORE, NOTES, TITLES
from benchmarks.stores.bars import look_cost
from benchmarks.stores.scenarios import HOOK, RECOVERIES, TURNS
from benchmarks.tables import (
    Footnotes,
    amount,
    gap,
    head,
    judgements,
    latencies,
    ratio,
    short,
    table,
    wrapped,
)

BESIDE = (NO_STORE, INSERT_NORMAL, INSERT_FULL)
"""Whom a turn is compared with."""


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    footnotes = Footnotes()
    parts = [
        head(results) + f" Files on {results.machine['file_system']}.",
        turns(results),
        look(results),
        together(results, footnotes),
        latencies(results, TURNS, "warm turn"),
        recoveries(results),
        "\n".join(footnotes.lines()),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def turns(results: Results) -> str:
    rows = []
    for name in results.present:
        found = results.figure("turn", name, "each")
        beside = [results.ratio("turn", "each", name, other) for other in BESIDE]
        rows.append([TITLES[name], with_spread(found), *(with_spread(each, "×") for each in beside)])
    header = ["", "µs", *(f"÷ {TITLES[other]}" for other in BESIDE)]
    return table("An empty warm turn, 1 session: median (lowest–highest)", header, rows)


def look(results: Results) -> str:
    found = look_cost(results)
    return (
        ""
        if found is None
        else "Seeing that nobody wrote, in every turn (median turn, with and without):"
        f" {with_spread(found)} µs"
    )


def together(results: Results, footnotes: Footnotes) -> str:
    rows = []
    for name in results.present:
        alone = results.figure("turn", name, "rate")
        many = results.figure("turn_64", name, "rate")
        growth = results.growth(name, "rate", "turn_64", "turn")
        cells = [with_spread(many), with_spread(growth, "×")]
        if many is None:
            cells = [gap(results, TURNS, "turn_64", name, footnotes), ""]
        rows.append([TITLES[name], with_spread(alone), *cells])
    return table("Turns a second: median (lowest–highest)", ["", *TURNS.scenarios.values(), "÷"], rows)


def recoveries(results: Results) -> str:
    names = [name for name in results.present if name in results.measurements.get("recover_4", {})]
    rows = [
        [TITLES[name], *(with_spread(results.figure(s, name, "seconds")) for s in RECOVERIES.scenarios)]
        for name in names
    ]
    title = (
        f"Seconds to commit what a dead room left: {results.settings['orphans']} sessions, hooks of"
        f" {HOOK * 1e3:g} ms"
    )
    return table(title, ["", *RECOVERIES.scenarios.values()], rows) if rows else ""


def notes(results: Results) -> str:
    lines = [f"{TITLES[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return "\n".join(wrapped(line) for line in [*lines, *left_out])


def with_spread(found: Spread | None, unit: str = "") -> str:
    if found is None:
        return ""
    if unit == "×":
        return ratio(found)
    return f"{amount(found.middle)} ({short(found.low)}–{short(found.high)})"
