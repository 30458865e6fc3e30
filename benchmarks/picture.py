"""The results as one picture: speed beside `ThreadingActor`, latency under load, idle memory.

The other pictures are drawn with the same parts: the sheet, the two kinds of plot, the looks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import LOCK, OURS, THREADING, TITLES
from benchmarks.latency import PERCENTILES
from benchmarks.results import Cast, Results
from benchmarks.scenarios import CAST

# An opaque sheet with its own dark text: legible on a light page and on a dark one.
PAPER, INK, FAINT = "#fbfaf6", "#1d2429", "#c9c8c1"

COLOURS = {
    OURS: "#0a7d4f",
    THREADING: "#c2410c",
    "thespian_simple": "#7c3aed",
    "xoscar_local": "#0369a1",
    LOCK: "#4b5563",
    "simple_queue": "#a16207",
}
# Shapes as well as colours, for those who cannot tell these colours apart.
MARKERS = {
    OURS: "o",
    THREADING: "s",
    "thespian_simple": "^",
    "xoscar_local": "D",
    LOCK: "X",
    "simple_queue": "v",
}


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=8.6) as figure:
        grid = figure.add_gridspec(3, 2, width_ratios=[1.25, 1], height_ratios=[1.2, 1.2, 0.8])
        speed = figure.add_subplot(grid[:, 0])
        speed.set_title("Calls a second, ThreadingActor = 1 (log scale)", loc="left")
        draw_speed(speed, results, CAST, beside=THREADING)
        draw_latency(figure.add_subplot(grid[0, 1]), results, CAST, "ask_8_1")
        draw_latency(figure.add_subplot(grid[1, 1]), results, CAST, "ask_64_1")
        draw_idle(figure.add_subplot(grid[2, 1]), results)
        add_legend(figure, speed)
        figure.supxlabel(caption(results), fontsize=8.5)


@contextmanager
def sheet(path: Path, *, height: float) -> Iterator[Any]:
    """An empty figure in the look of all of them, saved at the end."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    style = {
        "axes.edgecolor": FAINT,
        "axes.facecolor": PAPER,
        "axes.labelcolor": INK,
        "axes.titlesize": 12,
        "figure.facecolor": PAPER,
        "font.size": 10.5,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with pyplot.rc_context(style):
        figure = pyplot.figure(figsize=(13, height), layout="constrained")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        pyplot.close(figure)


def add_legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)


def draw_speed(axes: Any, results: Results, cast: Cast, *, beside: str) -> None:
    """A row a scenario, one contender at 1; the line through a mark is its spread."""
    present = results.present
    for place, name in enumerate(present):
        # A little above one another, so that equal marks do not hide each other.
        offset = (place - len(present) / 2 + 0.5) * 0.11
        points = [
            (row + offset, ratio)
            for row, scenario in enumerate(cast.scenarios)
            if (ratio := results.ratio(scenario, "rate", name, beside)) is not None
        ]
        rows = [row for row, _ in points]
        middles = [ratio.middle for _, ratio in points]
        below = [ratio.middle - ratio.low for _, ratio in points]
        above = [ratio.high - ratio.middle for _, ratio in points]
        axes.errorbar(
            middles,
            rows,
            xerr=[below, above],
            fmt=MARKERS[name],
            color=COLOURS[name],
            markersize=9 if name == OURS else 6,
            elinewidth=1,
            label=cast.contenders[name],
        )
        if name == OURS:
            for row, ratio in points:
                axes.annotate(
                    times(ratio.middle),
                    (ratio.middle, row),
                    xytext=(0, 8),
                    textcoords="offset points",
                    ha="center",
                    color=COLOURS[OURS],
                    fontweight="bold",
                )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    set_rows(axes, list(cast.scenarios.values()))
    for row in range(1, len(cast.scenarios)):
        axes.axhline(row - 0.5, color=FAINT, linewidth=0.6)
    tidy(axes)


def draw_latency(axes: Any, results: Results, cast: Cast, scenario: str) -> None:
    """A row a contender; the marks grow from the median to the maximum."""
    axes.set_title(f"{cast.scenarios[scenario]}: latency p50, p99, p99.9, max", loc="left")
    draw_marks(axes, results, cast, scenario, list(PERCENTILES))


def draw_marks(axes: Any, results: Results, cast: Cast, scenario: str, figures: Sequence[str]) -> None:
    """A row a contender, with a mark for each of these times in µs, one larger than the other."""
    names = [name for name in cast.contenders if name in results.measurements.get(scenario, {})]
    for row, name in enumerate(names):
        found = [results.figure(scenario, name, figure) for figure in figures]
        values = [figure.middle for figure in found if figure is not None]
        axes.plot(values, [row] * len(values), color=COLOURS[name], linewidth=1.5)
        for place, value in enumerate(values):
            axes.plot(value, row, MARKERS[name], color=COLOURS[name], markersize=4 + 2 * place)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: microseconds(value))
    set_rows(axes, [cast.contenders[name] for name in names])
    tidy(axes)


def draw_idle(axes: Any, results: Results) -> None:
    axes.set_title("Memory of an idle actor, in bytes", loc="left")
    for row, (name, idle) in enumerate(results.idle.items()):
        value = idle["bytes_each"]
        axes.barh(row, value, height=0.6, color=COLOURS[name])
        owns = "and a thread" if idle["threads"] >= idle["actors"] - 1 else "no thread"
        axes.annotate(f" {value:,.0f}, {owns}", (value, row), va="center")
    axes.set_xlim(0, 1.55 * max(idle["bytes_each"] for idle in results.idle.values()))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    set_rows(axes, [TITLES[name] for name in results.idle])
    tidy(axes)


def set_rows(axes: Any, titles: Sequence[str]) -> None:
    """Name the rows, the first on top."""
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.5, -0.6)


def tidy(axes: Any) -> None:
    axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"


def microseconds(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} s"
    return f"{value / 1e3:g} ms" if value >= 1e3 else f"{value:g} µs"


def measured(results: Results) -> str:
    machine, settings = results.machine, results.settings
    return (
        f"{machine['implementation']} {machine['python']}, {machine['cores']} cores; medians of"
        f" {settings['repetitions']} interleaved repetitions, thin lines lowest to highest"
    )


def caption(results: Results) -> str:
    fewer = ", ".join(
        f"{TITLES[name]} with {idle['actors']:,.0f} idle actors"
        for name, idle in results.idle.items()
        if idle["actors"] < results.settings["idle_actors"]
    )
    return f"{measured(results)}; {fewer}. A contender without a mark cannot do that."
