"""The results as one picture: what a turn costs, what many sessions get done at once, recovery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.picture import (
    COLOURS,
    FAINT,
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
from benchmarks.stores import NO_STORE, PARTS, TITLES
from benchmarks.stores.scenarios import HOOK, RECOVERIES
from benchmarks.tables import amount

# Rows are named; colours and shapes only tell rooms from the others.
LOOKS = {"ours": OURS, "insert": LOCK, "agents_session": THREADING}
LABELS = {
    "ours": "greenroom",
    "insert": "a row by sqlite3, with a commit of its own",
    "agents_session": "openai-agents' SQLiteSession",
}


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=8.0) as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=[1.1, 1], height_ratios=[2.6, 1])
        turns = figure.add_subplot(grid[:, 0])
        draw_turns(turns, results)
        draw_together(figure.add_subplot(grid[0, 1]), results)
        draw_recoveries(figure.add_subplot(grid[1, 1]), results)
        add_legend(figure, turns)
        figure.supxlabel(caption(results), fontsize=8.5)


def draw_turns(axes: Any, results: Results) -> None:
    """A row a contender: its time, its spread, and the ratio to a room without a store."""
    axes.set_title("An empty warm turn: time each, and ÷ no store (log scale)", loc="left")
    names = taking_part(results, "turn")
    labelled: set[str] = set()
    for row, name in enumerate(names):
        found = results.figure("turn", name, "each")
        assert found is not None
        look, module = look_of(name), PARTS[name].module
        axes.errorbar(
            found.middle,
            row,
            xerr=[[found.middle - found.low], [found.high - found.middle]],
            fmt=MARKERS[look],
            color=COLOURS[look],
            markersize=9,
            elinewidth=1,
            linestyle="none",
            label=None if module in labelled else LABELS[module],
        )
        labelled.add(module)
        over = results.ratio("turn", "each", name, NO_STORE)
        annotate(axes, name, found.middle, row, time_and_ratio(found, over, name))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: microseconds(value))
    end_rows(axes, names)


def time_and_ratio(found: Spread, over: Spread | None, name: str) -> str:
    time = microseconds(float(f"{found.middle:.3g}"))
    return time if over is None or name == NO_STORE else f"{time}, {times(over.middle)}"


def draw_together(axes: Any, results: Results) -> None:
    """A row a contender: a small mark for one session, a large one for many."""
    axes.set_title("Turns a second: 64 sessions (large) ÷ 1 (log scale)", loc="left")
    names = taking_part(results, "turn_64")
    for row, name in enumerate(names):
        found = [results.figure(scenario, name, "rate") for scenario in ("turn", "turn_64")]
        values = [figure.middle for figure in found if figure is not None]
        look = look_of(name)
        axes.plot(values, [row] * len(values), color=COLOURS[look], linewidth=1.5)
        for value, size in zip(values, (5, 10), strict=True):
            axes.plot(value, row, MARKERS[look], color=COLOURS[look], markersize=size)
        growth = results.growth(name, "rate", "turn_64", "turn")
        if growth is not None:
            annotate(axes, name, values[-1], row, times(growth.middle))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    end_rows(axes, names)


def draw_recoveries(axes: Any, results: Results) -> None:
    """A bar for each contender and number at once."""
    axes.set_title(
        f"Recovery of {results.settings['orphans']} sessions, hooks of {HOOK * 1e3:g} ms: seconds",
        loc="left",
    )
    bars = [
        (f"{TITLES[name]}, {title}", found)
        for name in taking_part(results, "recover_4")
        for scenario, title in RECOVERIES.scenarios.items()
        if (found := results.figure(scenario, name, "seconds")) is not None
    ]
    for row, (_, found) in enumerate(bars):
        axes.barh(row, found.middle, height=0.6, color=COLOURS[OURS])
        axes.annotate(f" {amount(found.middle)}", (found.middle, row), va="center")
    axes.set_xlim(0, 1.2 * axes.get_xlim()[1])  # room for the text behind the longest
    set_rows(axes, [title for title, _ in bars])
    tidy(axes)


def taking_part(results: Results, scenario: str) -> list[str]:
    return [name for name in PARTS if name in results.measurements.get(scenario, {})]


def look_of(name: str) -> str:
    return LOOKS[PARTS[name].module]


def annotate(axes: Any, name: str, value: float, row: int, text: str) -> None:
    axes.annotate(
        text,
        (value, row),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        color=COLOURS[look_of(name)],
        fontweight="bold",
    )


def end_rows(axes: Any, names: Sequence[str]) -> None:
    low, high = axes.get_xlim()
    axes.set_xlim(low / 2, high * 2.5)  # room for the text above the outermost
    set_rows(axes, [TITLES[name] for name in names])
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=FAINT, linewidth=0.6)
    tidy(axes)


def caption(results: Results) -> str:
    versions = results.versions
    databases = ", ".join(f"{name} {versions[name]}" for name in ("SQLite", "PostgreSQL"))
    return f"{measured(results)}. {databases}, files on {results.machine['file_system']}."
