"""The results as one picture: four plots with logarithmic axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.picture import FAINT, INK, sheet
from benchmarks.results import Results
from benchmarks.scale import SWEPT
from benchmarks.scale.growth import sizes

COLOURS = ("#0a7d4f", "#c2410c", "#0369a1", "#7c3aed", "#a16207")
MARKERS = ("o", "s", "^", "D", "v")

TURNS = {
    "warm": "warm turn, all sessions",
    "warm_few": "warm turn, 100 of them",
    "warm_no_gc": "warm turn, no collector",
    "plain_dict": "lock + ordered dict",
}
INSERTS = {
    "insert": "insert, no cap",
    "insert_full": "insert at the cap",
    "insert_no_gc": "insert, no collector",
    "drain": "drain, each session",
}
MEMORY = {"with_agent": "with a tiny agent", "known": "known, without one"}


def draw(results: Results, path: Path) -> None:
    with sheet(path, height=9.2) as figure:
        grid = figure.add_gridspec(2, 2)
        growing(figure.add_subplot(grid[0, 0]), results, TURNS, "µs of processor time for a turn")
        growing(figure.add_subplot(grid[0, 1]), results, INSERTS, "µs of processor time for a session")
        sweeps(figure.add_subplot(grid[1, 0]), results)
        memory = figure.add_subplot(grid[1, 1])
        growing(memory, results, MEMORY, "Bytes for a session", figure="bytes_each")
        machine = results.machine
        figure.supxlabel(
            f"{machine['implementation']} {machine['python']}, {machine['cores']} cores; medians, each"
            " repetition in a fresh process, thin lines lowest to highest",
            fontsize=8.5,
        )


def growing(
    axes: Any, results: Results, titles: dict[str, str], title: str, figure: str = "cpu"
) -> None:
    """A line for each of these, over the number of sessions."""
    axes.set_title(f"{title}, by sessions in the room", loc="left")
    for place, (name, label) in enumerate(titles.items()):
        found = [(size, results.figure(name, str(size), figure)) for size in sizes(results)]
        line(axes, [(size, spread) for size, spread in found if spread is not None], label, place)
    tidy(axes)


def sweeps(axes: Any, results: Results) -> None:
    """A line for each number of evictions: flat; and each ten times the one below."""
    axes.set_title("µs of processor time for a sweep, by sessions in the room", loc="left")
    for place, count in enumerate(SWEPT):
        found = [(size, results.figure(f"sweep_{count}", str(size), "cpu")) for size in sizes(results)]
        points = [(size, spread) for size, spread in found if spread is not None]
        line(axes, points, f"{count:,} evicted" if count else "none idle", place)
    tidy(axes)


def line(axes: Any, points: list[tuple[int, Any]], label: str, place: int) -> None:
    middles = [spread.middle for _, spread in points]
    axes.errorbar(
        [size for size, _ in points],
        middles,
        yerr=[
            [spread.middle - spread.low for _, spread in points],
            [spread.high - spread.middle for _, spread in points],
        ],
        color=COLOURS[place],
        marker=MARKERS[place],
        elinewidth=1,
        label=label,
    )


def tidy(axes: Any) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.6, high * 1.6)
    axes.grid(visible=True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, colors=INK)
    axes.legend(frameon=False, fontsize=8.5, ncols=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
