"""The results as one picture: a plot a figure, in each of them a row a contender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.contenders import OURS
from benchmarks.peers.rows import ROWS, Row
from benchmarks.peers.scenarios import CAST
from benchmarks.picture import COLOURS, FAINT, INK, measured, set_rows, sheet, tidy
from benchmarks.results import Results
from benchmarks.tables import amount

DRAWN = (
    ("warm", "rate"),
    ("warm_8", "rate"),
    ("warm_8", "p99"),
    ("evicting", "p99"),
    ("insert", "rate"),
    ("drain", "rate"),
    ("sweep", "milliseconds"),
    ("idle", "bytes_each"),
)
THEIRS = "#6b5b4b"
"""One colour for all but greenroom: a row has its name beside it."""


def draw(results: Results, path: Path) -> None:
    rows = {(row.scenario, row.figure): row for row in ROWS}
    with sheet(path, height=12.5) as figure:
        grid = figure.add_gridspec(4, 2)
        for place, which in enumerate(DRAWN):
            draw_row(figure.add_subplot(grid[place // 2, place % 2]), results, rows[which])
        figure.supxlabel(
            f"{measured(results)}. All scales are logarithmic. thespian and Ray take a process for each"
            " session and had fewer of them.",
            fontsize=8.5,
        )


def draw_row(axes: Any, results: Results, row: Row) -> None:
    better = "more is better" if row.more_is_better else "less is better"
    axes.set_title(f"{row.short} ({better})", loc="left", fontsize=11)
    axes.set_xscale("log")
    found = {name: results.figure(row.scenario, name, row.figure) for name in results.present}
    values = [figure.middle for figure in found.values() if figure and figure.middle > 0]
    if not values:
        return
    low, high = min(values), max(values)
    for place, (name, figure) in enumerate(found.items()):
        colour = COLOURS[OURS] if name == OURS else THEIRS
        if figure is None or figure.middle <= 0:
            text = "cannot do it" if figure is None else "too little to measure"
            axes.annotate(
                text,
                (0.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                style="italic",
                color=INK,
                fontsize=9,
            )
            continue
        axes.plot([low / 2, figure.middle], [place, place], color=FAINT, linewidth=1.2, zorder=1)
        axes.plot([figure.low, figure.high], [place, place], color=colour, linewidth=2)
        axes.plot(figure.middle, place, "o", color=colour, markersize=9 if name == OURS else 7)
        axes.annotate(
            amount(figure.middle),
            (max(figure.middle, figure.high), place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold" if name == OURS else "normal",
        )
    axes.set_xlim(low / 2, high * (high / low) ** 0.25 * 3)  # room for the text behind the longest
    axes.xaxis.set_major_formatter(lambda value, _: mark(value))
    axes.tick_params(axis="x", labelsize=8.5)
    set_rows(axes, [CAST.contenders[name] for name in found])
    tidy(axes)


def mark(value: float) -> str:
    """A number below the axis, short enough for seven of them."""
    if value >= 1e6:
        return f"{value / 1e6:,.0f} M"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
