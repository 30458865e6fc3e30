"""The results as plain text, with the tables of the runtime's where they fit."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bars import Bar
from benchmarks.results import Results, Spread
from benchmarks.stores import BESIDE, LOOK, NO_STORE, NOTES, READS_ONLY, TITLES
from benchmarks.stores.bars import look_cost
from benchmarks.stores.scenarios import HOOK, LIVES, TURNS
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


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    footnotes = Footnotes()
    parts = [
        introduction(results),
        turns(results),
        look(results),
        together(results, footnotes),
        latencies(results, TURNS, "warm turn"),
        lives(results),
        "\n".join(footnotes.lines()),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def introduction(results: Results) -> str:
    settings = results.settings
    return wrapped(
        f"{' '.join(head(results).split())} With several processes: {settings['lives']}. Files on"
        f" {results.machine['file_system']}. The machine's load was {settings['load']:.1f} before."
        " In brackets: lowest and highest of the repetitions."
    )


def beside(results: Results, scenario: str, figure: str, name: str) -> str:
    """The ratio to the bare driver that does the same."""
    return with_spread(results.ratio(scenario, figure, name, BESIDE.get(name, "")), "×")


def turns(results: Results) -> str:
    rows = [
        [
            TITLES[name],
            with_spread(results.figure("turn", name, "each")),
            beside(results, "turn", "each", name),
            with_spread(results.ratio("turn", "each", name, NO_STORE), "×"),
        ]
        for name in results.present
    ]
    return table("An empty warm turn, 1 session: median", ["", "µs", "÷ bare", "÷ no store"], rows)


def look(results: Results) -> str:
    found, bare = look_cost(results), results.figure("turn", LOOK, "p50")
    if found is None or bare is None:
        return ""
    return wrapped(
        f"{TITLES[READS_ONLY]}: a turn takes {with_spread(found)} µs more than with no store. Of that, a"
        f" bare look takes {with_spread(bare)} µs."
    )


def together(results: Results, footnotes: Footnotes) -> str:
    rows = []
    for name in results.present:
        many = results.figure("turn_64", name, "rate")
        cells = [
            with_spread(many) or gap(results, TURNS, "turn_64", name, footnotes),
            beside(results, "turn_64", "rate", name),
            with_spread(results.growth(name, "rate", "turn_64", "turn"), "×"),
            with_spread(results.figure("turn_64", name, "p99_ms")),
        ]
        if any(cells):
            rows.append([TITLES[name], *cells])
    header = ["", "turns a second", "÷ combining", "÷ 1 session", "p99, ms"]
    return table("64 sessions in 64 threads: median", header, rows)


LIFE_FIGURES = (("restart", "ms"), ("hop", "p50_ms"), ("hop", "p99_ms"), ("recover", "seconds"))


def lives(results: Results) -> str:
    rows = [
        [TITLES[name], *(with_spread(results.figure(s, name, figure)) for s, figure in LIFE_FIGURES)]
        for name in LIVES
        if results.figure("restart", name, "ms")
    ]
    if not rows:
        return ""
    orphans = results.settings["orphans"]
    header = ["", "turn after a kill, ms", "hop p50, ms", "p99, ms", f"{orphans} recovered, s"]
    parts = [
        table("Several processes: median", header, rows),
        wrapped(
            "Turn after a kill: a process is killed in a turn of a session, and another one opens the"
            " database and takes a turn of it. Bare: a lock that the system takes away with its process."
        ),
        wrapped("Hop: a turn of a session of which another process had the last turn."),
        wrapped(
            f"Recovered: what a process that is known to be dead has left is committed, hooks of"
            f" {HOOK * 1e3:g} ms; bare: one after the other."
        ),
    ]
    return "\n".join(parts)


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
