"""The results as one picture: what a turn costs, alone and among many, and several processes.

Rows are named; colours and shapes only tell rooms from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.picture import (
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    add_legend,
    measured,
    microseconds,
    set_rows,
    sheet,
    tidy,
    times,
)
from benchmarks.results import Results, Spread
from benchmarks.stores import BESIDE, PARTS, TITLES
from benchmarks.stores.bars import ROWS
from benchmarks.stores.scenarios import CAST, LIVES
from benchmarks.tables import amount

LOOKS = {"ours": OURS, "bare": LOCK, "agents_session": THREADING}
LABELS = {
    "ours": "greenroom (÷ the bare driver that does the same)",
    "bare": "bare driver",
    "agents_session": "openai-agents' SQLiteSession",
}


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=8.6) as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=[1, 1], height_ratios=[1.6, 1])
        turns = figure.add_subplot(grid[:, 0])
        draw_turns(turns, results)
        draw_together(figure.add_subplot(grid[0, 1]), results)
        draw_lives(figure.add_subplot(grid[1, 1]), results)
        add_legend(figure, turns)
        figure.supxlabel(caption(results), fontsize=8.5)


def draw_turns(axes: Any, results: Results) -> None:
    """A row a contender: its time, its spread, and the ratio to the bare driver."""
    axes.set_title("An empty warm turn, 1 session (log scale)", loc="left")
    names = taking_part(results, "turn")
    labelled: set[str] = set()
    for row, name in enumerate(names):
        found = results.figure("turn", name, "each")
        assert found is not None
        module = PARTS[name].module
        draw_mark(axes, name, found, row, label=None if module in labelled else LABELS[module])
        labelled.add(module)
        time = microseconds(float(f"{found.middle:.3g}"))
        annotate(axes, name, found.middle, row, time + over_bare(results, "turn", "each", name))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: microseconds(value))
    end_rows(axes, [TITLES[name] for name in names])


def draw_together(axes: Any, results: Results) -> None:
    """A row a contender."""
    axes.set_title("Turns a second, 64 sessions (log scale; | bar)", loc="left")
    names = taking_part(results, "turn_64")
    for row, name in enumerate(names):
        found = results.figure("turn_64", name, "rate")
        assert found is not None
        draw_mark(axes, name, found, row)
        rate = amount(found.middle) + over_bare(results, "turn_64", "rate", name)
        annotate(axes, name, found.middle, row, rate)
        for scenario, room, figure, _, bound, _ in ROWS:
            if (scenario, room, figure) == ("turn_64", name, "rate"):
                draw_bar(axes, bound, row)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    end_rows(axes, [TITLES[name] for name in names])


def draw_lives(axes: Any, results: Results) -> None:
    """A row a scenario and room, with the bare driver in the same row."""
    axes.set_title("Several processes (log scale; | bar)", loc="left")
    titles: list[str] = []
    for scenario, room, figure, _, bound, unit in ROWS:
        found = results.figure(scenario, room, figure)
        if room not in LIVES or scenario.startswith("turn") or found is None:
            continue
        row, scale = len(titles), 1e3 if unit == "ms" else 1e6
        database = TITLES[room].partition(",")[0]
        titles.append(f"{CAST.scenarios[scenario]}{', p99' if 'p99' in figure else ''}: {database}")
        for name in (BESIDE[room], room):
            if (its := results.figure(scenario, name, figure)) is not None:
                draw_mark(axes, name, scaled(its, scale), row)
        value = found.middle * scale
        annotate(axes, room, value, row, microseconds(float(f"{value:.3g}")))
        draw_bar(axes, bound * scale, row)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: microseconds(value))
    end_rows(axes, titles)


def draw_mark(axes: Any, name: str, found: Spread, row: int, label: str | None = None) -> None:
    """The median, and a thin line from the lowest to the highest."""
    look = LOOKS[PARTS[name].module]
    axes.errorbar(
        found.middle,
        row,
        xerr=[[found.middle - found.low], [found.high - found.middle]],
        fmt=MARKERS[look],
        color=COLOURS[look],
        markersize=9,
        elinewidth=1,
        linestyle="none",
        label=label,
    )


def draw_bar(axes: Any, value: float, row: int) -> None:
    """What is expected."""
    axes.plot(value, row, "|", color=INK, markersize=13, markeredgewidth=2)


def scaled(found: Spread, by: float) -> Spread:
    return Spread(found.middle * by, found.low * by, found.high * by)


def over_bare(results: Results, scenario: str, figure: str, name: str) -> str:
    found = results.ratio(scenario, figure, name, BESIDE.get(name, ""))
    return "" if found is None else f", {times(found.middle)}"


def taking_part(results: Results, scenario: str) -> list[str]:
    return [name for name in PARTS if name in results.measurements.get(scenario, {})]


def annotate(axes: Any, name: str, value: float, row: int, text: str) -> None:
    axes.annotate(
        text,
        (value, row),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        color=COLOURS[LOOKS[PARTS[name].module]],
        fontweight="bold",
    )


def end_rows(axes: Any, titles: Sequence[str]) -> None:
    low, high = axes.get_xlim()
    axes.set_xlim(low / 2, high * 2.5)  # room for the text above the outermost
    set_rows(axes, titles)
    for row in range(1, len(titles)):
        axes.axhline(row - 0.5, color=FAINT, linewidth=0.6)
    tidy(axes)


def caption(results: Results) -> str:
    versions = results.versions
    databases = ", ".join(f"{name} {versions[name]}" for name in ("SQLite", "PostgreSQL"))
    return f"{measured(results)}. {databases}, files on {results.machine['file_system']}."
