"""The results as one picture: marks a second and their latency, waiting, draining."""

from __future__ import annotations

from pathlib import Path

from benchmarks.contenders import LOCK
from benchmarks.picture import add_legend, draw_latency, draw_speed, measured, sheet
from benchmarks.results import Results
from benchmarks.rooms.picture import draw_bars
from benchmarks.webui.scenarios import CAST
from benchmarks.webui.tables import MARKS

BARS = (
    ("waiting", "cpu", "CPU of a mark while 64 wait for another session, in µs"),
    ("drain", "seconds", "Drain of 100 dirty sessions, 50 ms each, in s"),
    ("wedged", "uncommitted", "Drain in 1 s, the first of 100 wedged: uncommitted"),
)


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=6.4) as figure:
        grid = figure.add_gridspec(6, 2, width_ratios=[1.1, 1])
        speed = figure.add_subplot(grid[:2, 0])
        speed.set_title("Marks a second, lock+dict = 1 (log scale)", loc="left")
        draw_speed(speed, results, MARKS, beside=LOCK)
        speed.xaxis.set_minor_formatter(lambda value, _: f"{value:g}×")  # less than a decade is shown
        for row, scenario in enumerate(MARKS.scenarios, 1):
            draw_latency(figure.add_subplot(grid[2 * row : 2 * row + 2, 0]), results, CAST, scenario)
        for row, (scenario, name, title) in enumerate(BARS):
            axes = figure.add_subplot(grid[2 * row : 2 * row + 2, 1])
            draw_bars(axes, results, scenario, name, title)
        add_legend(figure, speed)
        figure.supxlabel(f"{measured(results)}.", fontsize=8.5)
