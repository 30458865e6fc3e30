"""The results as one picture: time beside the same route without greenroom, latency, many streams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.gateway import BARE, BY_HAND, PARTS, PLAIN, TITLES
from benchmarks.gateway.bars import OVER_PLAIN
from benchmarks.gateway.scenarios import CAST, RATED, STREAMS
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
from benchmarks.results import Results
from benchmarks.stores import READS_ONLY, SQLITE_NORMAL
from benchmarks.tables import count_or_amount

# The looks of the other pictures, for those who are not in these.
LOOKS = {
    OURS: OURS,
    PLAIN: LOCK,
    BY_HAND: THREADING,
    BARE: "simple_queue",
    SQLITE_NORMAL: "xoscar_local",
    READS_ONLY: "thespian_simple",
}
assert set(LOOKS) == set(PARTS)

PANELS = (
    ("late_p99", "p99 beyond the pace, ms"),
    ("peak_megabytes", "peak memory, MB"),
)


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=8.6) as figure:
        grid = figure.add_gridspec(4, 2, width_ratios=[1.1, 1], height_ratios=[1.3, 1.3, 0.8, 0.8])
        speed = figure.add_subplot(grid[:, 0])
        draw_ratios(speed, results)
        for row, scenario in enumerate(("whole_1", "whole_32")):
            draw_latency(figure.add_subplot(grid[row, 1]), results, scenario)
        for row, (name, title) in enumerate(PANELS):
            draw_streams(figure.add_subplot(grid[2 + row, 1]), results, name, title)
        add_legend(figure, speed)
        figure.supxlabel(f"{measured(results)}.", fontsize=8.5)


def draw_ratios(axes: Any, results: Results) -> None:
    """A row a scenario, the route without greenroom at 1; the line through a mark is its spread."""
    axes.set_title(f"Time a request, {TITLES[PLAIN]} without greenroom = 1", loc="left")
    present = [name for name in TITLES if name in results.present]
    for place, name in enumerate(present):
        # A little above one another, so that equal marks do not hide each other.
        offset = (place - len(present) / 2 + 0.5) * 0.13
        found = [results.ratio(scenario, "each", name, PLAIN) for scenario in RATED.scenarios]
        points = [(row + offset, ratio) for row, ratio in enumerate(found) if ratio is not None]
        axes.errorbar(
            [ratio.middle for _, ratio in points],
            [row for row, _ in points],
            xerr=[
                [ratio.middle - ratio.low for _, ratio in points],
                [ratio.high - ratio.middle for _, ratio in points],
            ],
            fmt=MARKERS[LOOKS[name]],
            color=COLOURS[LOOKS[name]],
            markersize=9 if name == OURS else 6,
            elinewidth=1,
            label=TITLES[name],
        )
        if name == OURS:
            for row, ratio in points:
                annotate(axes, times_in_full(ratio.middle), ratio.middle, row)
    axes.axvline(OVER_PLAIN, color=INK, linewidth=0.8, linestyle=":")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    end_rows(axes, list(RATED.scenarios.values()))


def annotate(axes: Any, text: str, value: float, row: float) -> None:
    axes.annotate(
        text,
        (value, row),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        color=COLOURS[OURS],
        fontweight="bold",
    )


def times_in_full(ratio: float) -> str:
    """Here the second figure counts."""
    return f"{ratio:.2f}×" if ratio < 10 else times(ratio)


def draw_latency(axes: Any, results: Results, scenario: str) -> None:
    """A row a contender; the marks grow from the median to p99."""
    axes.set_title(f"{CAST.scenarios[scenario]}: latency p50, p99", loc="left")
    names = [name for name in TITLES if name in results.measurements.get(scenario, {})]
    for row, name in enumerate(names):
        found = [results.figure(scenario, name, percentile) for percentile in ("p50", "p99")]
        values = [figure.middle for figure in found if figure is not None]
        colour, marker = COLOURS[LOOKS[name]], MARKERS[LOOKS[name]]
        axes.plot(values, [row] * len(values), color=colour, linewidth=1.5)
        for place, value in enumerate(values):
            axes.plot(value, row, marker, color=colour, markersize=5 + 4 * place)
    axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
    axes.xaxis.set_major_formatter(lambda value, _: microseconds(value))
    end_rows(axes, [TITLES[name] for name in names])


def draw_streams(axes: Any, results: Results, figure: str, title: str) -> None:
    """A bar a contender, with its figure."""
    axes.set_title(f"{results.settings['streams']:,} slow streams: {title}", loc="left")
    names = [name for name in TITLES if name in results.measurements.get(STREAMS.name, {})]
    for row, name in enumerate(names):
        found = results.figure(STREAMS.name, name, figure)
        assert found is not None
        axes.barh(row, found.middle, height=0.6, color=COLOURS[LOOKS[name]])
        axes.annotate(f" {count_or_amount(found.middle)}", (found.middle, row), va="center")
    axes.set_xlim(0, 1.2 * axes.get_xlim()[1])  # room for the text behind the longest
    set_rows(axes, [TITLES[name] for name in names])
    tidy(axes)


def end_rows(axes: Any, titles: Sequence[str]) -> None:
    set_rows(axes, titles)
    for row in range(1, len(titles)):
        axes.axhline(row - 0.5, color=FAINT, linewidth=0.6)
    tidy(axes)
