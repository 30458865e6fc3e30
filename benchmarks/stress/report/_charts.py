"""Line charts as SVG, without a library, that read well on a phone, on a desk and on paper.

A picture that is scaled as a whole has letters of 5 px on a phone. Here only the lines stretch: they
are drawn in an inner picture of 1000 × 1000 that fills its box whatever its shape (strokes keep their
width), while letters and ticks are placed at percentages of the outer one, and keep their size. What
stands left and right of the lines overflows into the padding that the style sheet leaves.

A line is named where it ends, in its own colour: no colour has to be told from another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from greenroom.stress.report._html import Content, Markup, join, tag
from greenroom.stress.report._ticks import Axis

__all__ = ["HEIGHT", "Line", "chart"]

HEIGHT = 190
"""Of the lines' box, in px; the style sheet has it too, and on paper a little less."""

APART = 15
"""Px between the names of two lines."""

FEW = 24
"""A line with at most so many points shows each as a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line and how it looks."""

    name: str
    values: Sequence[float | None]
    tone: str
    """A colour of the style sheet: `good`, `turn`, `dirty`, `leaving`, `wrong` or `quiet`."""

    dashed: bool = False
    filled: bool = False
    """Down to the bottom."""

    stepped: bool = False
    """It jumps from value to value, as a setting does."""


def chart(
    name: str,
    *,
    title: str,
    about: str,
    lines: Sequence[Line],
    across: Axis,
    up: Axis,
    at: Sequence[float],
    moments: Sequence[str],
    say: Callable[[float], str],
) -> Markup:
    """A chart. `name` is unique on the page; `moments` and `say` are what a pointer above it reads."""
    xs = [across.place(value) * 1000.0 for value in at]
    hover = json.dumps(
        {
            "x": [round(x) for x in xs],
            "at": list(moments),
            "lines": [
                [line.name, [None if value is None else say(value) for value in line.values]]
                for line in lines
            ],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return tag(
        "div",
        tag(
            "svg",
            tag("title", title, id=f"{name}-title"),
            tag("desc", about, id=f"{name}-about"),
            tag("g", _grid(across, up), class_="grid"),
            tag(
                "svg",
                [_drawn(line, xs, up) for line in lines],
                viewBox="0 0 1000 1000",
                preserveAspectRatio="none",
                width="100%",
                height="100%",
                class_="lines",
            ),
            [_dots(line, xs, up) for line in lines],
            _names(lines, up),
            role="img",
            aria_labelledby=f"{name}-title",
            aria_describedby=f"{name}-about",
        ),
        class_="plot",
        id=name,
        data_points=hover,
    )


def _grid(across: Axis, up: Axis) -> Iterator[Content]:
    for value, text in up.ticks:
        y = _percent(1.0 - up.place(value))
        base = not up.logarithmic and value == up.lowest
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="base" if base else None)
        yield tag("text", text, x="0", y=y, dx="-8", dy="0.32em", text_anchor="end")
    for index, (value, text) in enumerate(across.ticks):
        x = _percent(across.place(value))
        yield tag("line", x1=x, x2=x, y1="100%", y2="102.5%", class_="tick")
        # Every other one is left out where it is narrow; counted from the last, which names the unit.
        spare = (len(across.ticks) - 1 - index) % 2 == 1
        yield tag(
            "text",
            text,
            x=x,
            y="100%",
            dy="1.6em",
            text_anchor="middle",
            class_="spare" if spare else None,
        )


def _drawn(line: Line, xs: Sequence[float], up: Axis) -> Content:
    parts = list(_unbroken(line, xs, up))
    if not parts:
        return None
    drawn = [_path(part, stepped=line.stepped) for part in parts]
    filled = None
    if line.filled:
        areas = [
            f"{path}V1000H{part[0][0]:.0f}Z"
            for part, path in zip(parts, drawn, strict=True)
            if len(part) > 1
        ]
        filled = tag("path", d="".join(areas), class_=f"area {line.tone}") if areas else None
    dash = " dashed" if line.dashed else ""
    return join(filled, tag("path", d="".join(drawn), class_=f"line {line.tone}{dash}"))


def _unbroken(line: Line, xs: Sequence[float], up: Axis) -> Iterator[list[tuple[float, float]]]:
    """The stretches between the gaps."""
    places = [
        None if value is None else (x, (1.0 - up.place(value)) * 1000.0)
        for x, value in zip(xs, line.values, strict=True)
    ]
    for there, stretch in groupby(places, key=lambda place: place is not None):
        if there:
            yield [place for place in stretch if place is not None]


def _path(part: Sequence[tuple[float, float]], *, stepped: bool) -> str:
    (x, y), *rest = part
    begun = f"M{x:.0f} {y:.0f}"
    if stepped:
        return begun + "".join(f"H{x:.0f}V{y:.0f}" for x, y in rest)
    return begun + "".join(f"L{x:.0f} {y:.0f}" for x, y in rest)


def _dots(line: Line, xs: Sequence[float], up: Axis) -> Iterator[Content]:
    """All points of a short line, and of a long one those that stand alone, which no stroke shows."""
    known = sum(value is not None for value in line.values)
    for part in _unbroken(line, xs, up):
        if len(part) == 1 or (known <= FEW and not line.stepped):
            for x, y in part:
                yield tag(
                    "circle",
                    cx=_percent(x / 1000.0),
                    cy=_percent(y / 1000.0),
                    r=3,
                    class_=f"dot {line.tone}",
                )


def _names(lines: Sequence[Line], up: Axis) -> Iterator[Content]:
    """Each line's name beside its end, moved so that none covers another."""
    ends: list[tuple[float, Line]] = []
    for line in lines:
        last = next((value for value in reversed(line.values) if value is not None), None)
        if last is not None:
            ends.append(((1.0 - up.place(last)) * HEIGHT, line))
    ends.sort(key=lambda end: end[0])
    for y, (_, line) in zip(spread([y for y, _ in ends]), ends, strict=True):
        yield tag(
            "text",
            line.name,
            x="100%",
            y=_percent(y / HEIGHT),
            dx="8",
            dy="0.32em",
            class_=f"name {line.tone}",
        )


def spread(places: Sequence[float]) -> list[float]:
    """Ascending places, moved as little as leaves `APART` between them, and none beyond the box."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + APART) if moved else max(place, 0.0))
    below = float(HEIGHT)
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], below)
        below = moved[index] - APART
    return moved


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f}".rstrip("0").rstrip(".") + "%"
