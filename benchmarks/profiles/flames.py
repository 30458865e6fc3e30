"""A flame graph as SVG, with nothing in it that runs. What is too narrow to be seen is left out."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from benchmarks.profiles.groups import GROUPS, group_of
from benchmarks.profiles.recorder import Stacks

WIDTH, ROW, NARROWEST = 1200, 17, 1.0
PAPER, INK = "#fbfaf6", "#1d2429"
COLOURS = dict(
    zip(
        GROUPS,
        ("#9fd8b4", "#b6d7f2", "#c9bff0", "#f2d6a2", "#f5b79a", "#f0a3b5", "#dcdad0", "#c8cdd2"),
        strict=True,
    )
)


class Frame:
    """A function, below the functions that called it."""

    def __init__(self) -> None:
        self.count = 0
        self.calls: dict[str, Frame] = {}


def tree(stacks: Stacks) -> Frame:
    root = Frame()
    for stack, count in stacks.items():
        at = root
        at.count += count
        for name in stack:
            at = at.calls.setdefault(name, Frame())
            at.count += count
    return root


def draw(stacks: Stacks, title: str) -> str:
    """The whole picture: callers above, what they call below, as wide as their share of the time."""
    root = tree(stacks)
    boxes = list(_boxes(root, 0, 0.0, WIDTH / max(1, root.count), max(1, root.count)))
    depth = max((row for row, _ in boxes), default=0) + 1
    height = (depth + 3) * ROW + 26
    body = "\n".join(text for _, text in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' font-family="ui-monospace,Menlo,Consolas,monospace" font-size="10.5">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>\n'
        f'<text x="8" y="17" font-size="13" fill="{INK}">{escape(title)}:'
        f" {root.count:,} samples</text>\n"
        f"{body}\n{_legend(height - 10)}\n</svg>\n"
    )


def _boxes(frame: Frame, row: int, left: float, scale: float, total: int) -> Iterator[tuple[int, str]]:
    for name, call in sorted(frame.calls.items()):
        width = call.count * scale
        if width >= NARROWEST:
            yield row, _box(name, row, left, width, call.count / total)
            yield from _boxes(call, row + 1, left, scale, total)
        left += width


def _box(name: str, row: int, left: float, width: float, share: float) -> str:
    function, y = name.rpartition(" (")[0] or name, 26 + row * ROW
    room = int((width - 6) / 6.4)
    label = function if len(function) <= room else f"{function[: room - 1]}…" if room > 3 else ""
    text = f'<text x="{left + 3:.1f}" y="{y + 12}" fill="{INK}">{escape(label)}</text>' if label else ""
    return (
        f"<g><title>{escape(name)}: {100 * share:.1f} %</title>"
        f'<rect x="{left:.1f}" y="{y}" width="{max(0.5, width - 0.5):.1f}" height="{ROW - 1}"'
        f' fill="{COLOURS[group_of(name)]}"/>{text}</g>'
    )


def _legend(y: int) -> str:
    return "\n".join(
        _legend_entry(name.partition(" (")[0], colour, 8 + place * WIDTH // len(COLOURS), y)
        for place, (name, colour) in enumerate(COLOURS.items())
    )


def _legend_entry(name: str, colour: str, x: int, y: int) -> str:
    return (
        f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 14}" y="{y}" fill="{INK}">{escape(name)}</text>'
    )
