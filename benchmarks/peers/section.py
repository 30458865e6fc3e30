"""The part of docs/benchmarks.md about what else people use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import results as published
from benchmarks.contenders import OURS
from benchmarks.peers import NOTES, kept
from benchmarks.peers.rows import ROWS, Row, advantage, figure_of, smaller, with_spread
from benchmarks.peers.scenarios import CAST
from benchmarks.results import Results, Spread
from benchmarks.tables import Footnotes

NAME = "peers"
HEADING = "Side by side"


def section(folder: Path) -> str | None:
    """The section, from the last run in a folder of results."""
    path = folder / f"{NAME}.json"
    return text(published.read(path)) if path.exists() else None


HOW_TO_READ = """Each cell has the median and, below it, how many times as good greenroom's figure is:
median, lowest and highest over the repetitions. **Below 1 greenroom loses.** A dash with a number: it
cannot do that, see below the table."""

CHURN = """Eight threads take short and long turns on far more sessions than the cap admits. The agents
write down what is done to them, and these are sums over all repetitions. Then a hundred dirty sessions
are drained, with a deadline of {deadline:g} s where a drain takes one, while the commit of one of them,
in the middle, hangs."""

NO_PROOF = """No loss here is no proof of none. The rules of a room are in the first three, and in
the dict that the actors of thespian, xoscar and Ray were given for this; the caches have no place for
them. What none but greenroom has is not in the table: retries of a commit that failed, a ledger that
survives a kill, bounds that change live, a drain that says what became of each session."""


def text(results: Results) -> str:
    footnotes = Footnotes()
    table = figures(results, footnotes)  # it numbers the footnotes
    parts = [
        f"## {HEADING}",
        introduction(results),
        *compared(results),
        f"![greenroom and others, a plot a figure](../benchmarks/results/{NAME}.png)",
        HOW_TO_READ,
        table,
        "\n".join(f"- {line}" for line in reasons(footnotes)),
        "### What is kept, and what is lost",
        CHURN.format(deadline=results.settings["deadline"]),
        markdown(kept.HEADER, kept.rows(results)),
        NO_PROOF,
        "### How each is written",
        "\n".join(f"- {line}" for line in notes(results)),
    ]
    return "\n\n".join(part for part in parts if part)


def introduction(results: Results) -> str:
    found, settings, versions = results.machine, results.settings, dict(results.versions)
    script = versions.pop("benchmark", "unknown")
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        "One workload on greenroom and on what else people keep agents in: `make bench-peers`. The raw\n"
        f"data is in [{NAME}.json](../benchmarks/results/{NAME}.json).\n"
        f"{found['implementation']} {found['python']}, {found['cores']} cores"
        f" ({found.get('processor', 'unknown')}), {found['system']}; {listed}; scenarios {script}.\n"
        f"{settings['repetitions']} repetitions of warm turns and of turns during teardowns,"
        f" {settings['apart']} of the others\n"
        f"({settings['heavy']} of all that is Ray's), one of the drain in which a session hangs."
    )


def compared(results: Results) -> Iterable[str]:
    """Who beats greenroom where, first; then where it beats all that can do the same."""
    losses, gains = [], []
    for row in ROWS:
        if row.more_is_better is None or row.scenario not in results.measurements:
            continue
        better = {
            CAST.contenders[name]: found
            for name in results.present
            if (found := advantage(results, row, name)) is not None
        }
        lost = [f"{name} {with_spread(turned(f))}" for name, f in better.items() if f.middle < 1]
        if lost:
            losses.append(f"- {full_title(row)}: better are {', '.join(lost)}.")
        elif better:
            gains.append(f"- {full_title(row)}: {worst_first(better)}.")
    if losses:
        yield "**Where greenroom loses** (how many times as good the other's figure is):"
        yield "\n".join(losses)
    if gains:
        yield "**Where it loses to nobody** (how many times as good greenroom's is):"
        yield "\n".join(gains)


def turned(found: Spread) -> Spread:
    return Spread(1 / found.middle, 1 / found.high, 1 / found.low)


def worst_first(better: dict[str, Spread]) -> str:
    ordered = sorted(better.items(), key=lambda item: item[1].middle)
    return ", ".join(f"{name} {with_spread(found)}" for name, found in ordered)


def full_title(row: Row) -> str:
    """With what the rows above it say, for one that begins with dots."""
    if not row.title.startswith("…"):
        return row.title
    first = next(r for r in ROWS if r.scenario == row.scenario)
    return f"{first.title.partition(':')[0]}: {row.title.removeprefix('… ')}"


def figures(results: Results, footnotes: Footnotes) -> str:
    names = results.present
    rows = []
    for row in ROWS:
        cells = [row.title]
        for name in names:
            found = advantage(results, row, name)
            cell = figure_of(results, row, name, footnotes)
            cells.append(f"{cell}<br>{with_spread(found)}" if found else cell)
        rows.append(cells)
    header = ["", *(f"**{CAST.contenders[n]}**" if n == OURS else CAST.contenders[n] for n in names)]
    return markdown(header, rows)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def reasons(footnotes: Footnotes) -> list[str]:
    return [" ".join(line.split()) for line in footnotes.lines()]


def notes(results: Results) -> list[str]:
    lines = [f"{CAST.contenders[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return [*lines, *smaller(results), *left_out]
