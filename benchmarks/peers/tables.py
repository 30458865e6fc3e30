"""The results as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bars import Bar
from benchmarks.peers import NOTES, kept
from benchmarks.peers.rows import ROWS, advantage, figure_of, smaller
from benchmarks.peers.scenarios import CAST
from benchmarks.results import Results
from benchmarks.tables import Footnotes, amount, head, short, table, wrapped


def report(results: Results, _: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    footnotes = Footnotes()
    parts = [
        head(results),
        figures(results, footnotes),
        promises(results),
        "\n".join(footnotes.lines()),
        notes(results),
    ]
    return "\n\n".join(part for part in parts if part)


def figures(results: Results, footnotes: Footnotes) -> str:
    names = results.present
    lines = []
    for row in ROWS:
        lines.append([row.title, *(figure_of(results, row, name, footnotes) for name in names)])
        better = [advantage(results, row, name) for name in names]
        if any(better):
            lines.append(["", *(f"{amount(found.middle)}×" if found else "" for found in better)])
            if any(found and found.low < found.high for found in better):
                lines.append(["", *(f"{short(f.low)}–{short(f.high)}" if f else "" for f in better)])
    title = (
        "Medians; below them how many times as good greenroom's is (below 1 it loses), lowest–highest"
    )
    return table(title, ["", *(CAST.contenders[name] for name in names)], lines)


def promises(results: Results) -> str:
    return table("What was kept, of all repetitions", list(kept.HEADER), kept.rows(results))


def notes(results: Results) -> str:
    lines = [f"{CAST.contenders[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return "\n".join(wrapped(line) for line in [*lines, *smaller(results), *left_out])


def judge(_: Results) -> list[Bar]:
    """There is nothing to expect here but that it is told as it is."""
    return []
