"""The results as one picture: speed beside a dict with a lock, and what eviction and idling cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.contenders import LOCK
from benchmarks.picture import (
    COLOURS,
    add_legend,
    draw_latency,
    draw_marks,
    draw_speed,
    measured,
    set_rows,
    sheet,
    tidy,
)
from benchmarks.results import Results
from benchmarks.rooms.scenarios import CAST
from benchmarks.rooms.tables import RATED, fewer
from benchmarks.tables import count_or_amount


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=9.6) as figure:
        grid = figure.add_gridspec(5, 2, width_ratios=[1.1, 1])
        speed = figure.add_subplot(grid[:, 0])
        speed.set_title("Turns, or sessions, a second, lock+dict = 1 (log scale)", loc="left")
        draw_speed(speed, results, RATED, beside=LOCK)
        draw_latency(figure.add_subplot(grid[0, 1]), results, CAST, "turn_8_64")
        evicting = figure.add_subplot(grid[1, 1])
        evicting.set_title("p99 of a turn a millisecond: quiet, during 64 evictions", loc="left")
        draw_marks(evicting, results, CAST, "evicting", ["quiet_p99", "p99"])
        draw_bars(
            figure.add_subplot(grid[2, 1]),
            results,
            "insert",
            "threads",
            f"Threads started for {results.settings['inserts']:,} inserts into a cap of 128",
        )
        draw_bars(
            figure.add_subplot(grid[3, 1]),
            results,
            "sweep",
            "milliseconds",
            "Sweep of a full room, none idle, in ms",
            of="sessions",
        )
        draw_bars(
            figure.add_subplot(grid[4, 1]),
            results,
            "sweep",
            "bytes_each",
            "Memory of a session with a trivial agent, in bytes",
        )
        add_legend(figure, speed)
        figure.supxlabel(caption(results), fontsize=8.5)


def draw_bars(
    axes: Any, results: Results, scenario: str, figure: str, title: str, *, of: str | None = None
) -> None:
    """A bar a contender, with its figure, and another one that it is for."""
    axes.set_title(title, loc="left")
    names = [name for name in CAST.contenders if name in results.measurements.get(scenario, {})]
    for row, name in enumerate(names):
        found = results.figure(scenario, name, figure)
        assert found is not None
        count = results.figure(scenario, name, of) if of else None
        text = count_or_amount(found.middle) + (f" for {count.middle:,.0f} {of}" if count else "")
        axes.barh(row, found.middle, height=0.6, color=COLOURS[name])
        axes.annotate(f" {text}", (found.middle, row), va="center")
    axes.set_xlim(0, 1.7 * axes.get_xlim()[1])  # room for the text behind the longest
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    set_rows(axes, [CAST.contenders[name] for name in names])
    tidy(axes)


def caption(results: Results) -> str:
    return " ".join([f"{measured(results)}.", *fewer(results)])
