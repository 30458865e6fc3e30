"""The recurring parts of a report: sections, tables, figures over the run's time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from greenroom.stress._result import Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._charts import Line, chart
from greenroom.stress.report._html import Content, Markup, tag
from greenroom.stress.report._points import Points
from greenroom.stress.report._ticks import Axis, time_axis

__all__ = ["Times", "captioned", "figures", "section", "table", "unknown"]


def section(name: str, title: str, *contents: Content, sheet: bool = False) -> Markup:
    """A section; `sheet`: on paper it begins a page."""
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        *contents,
        id=name,
        class_="sheet" if sheet else None,
        aria_labelledby=f"{name}-title",
    )


def unknown(*contents: Content) -> Markup:
    """What stands in the place of something that is not known."""
    return tag("p", *contents, class_="unknown")


def captioned(title: str, about: Content, content: Content) -> Markup:
    """A figure with its name and what it shows."""
    return tag("figure", tag("figcaption", tag("h3", title), tag("p", about)), content)


def table(
    heads: Sequence[str], rows: Iterable[Content], *, plain: int = 1, class_: str | None = None
) -> Markup:
    """A table whose first `plain` columns are text and the others figures."""
    head = [
        tag("th", text, scope="col", class_=None if index < plain else "number")
        for index, text in enumerate(heads)
    ]
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_=class_)


def figures(heads: Sequence[str], rows: Iterable[Sequence[Content]], *, class_: str) -> Markup:
    """A table of figures, one thing a row.

    Each figure has its column's name with it: on a narrow screen a row of a `tall` one is a paragraph.
    """
    return table(heads, [_row(heads, first, rest) for first, *rest in rows], class_=class_)


def _row(heads: Sequence[str], first: Content, rest: Sequence[Content]) -> Markup:
    named = zip(heads[1:], rest, strict=True)
    return tag(
        "tr",
        tag("th", first, scope="row"),
        [tag("td", text, class_="number", data_head=head or None) for head, text in named],
    )


@dataclass(frozen=True, slots=True)
class Times:
    """Draws what a run's seconds tell, over the run's time."""

    points: Points
    across: Axis
    moments: Sequence[str]

    @classmethod
    def of(cls, result: Result) -> Times:
        """Of a run."""
        points = Points(result.series)
        end = max([result.seconds, *points.at[-1:]])
        return cls(points, time_axis(end), [words.moment(at) for at in points.at])

    def figure(
        self,
        name: str,
        *,
        title: str,
        about: str,
        lines: Sequence[Line],
        up: Callable[[Iterable[float | None]], Axis],
        say: Callable[[float], str],
        missing: str,
    ) -> Markup:
        """A chart of those lines that have a value. Where none has, `missing` is said."""
        drawn = [line for line in lines if any(value is not None for value in line.values)]
        if not drawn:
            return captioned(title, about, unknown(missing))
        values = [value for line in drawn for value in line.values]
        shown = chart(
            name,
            title=title,
            about=f"{about} {' '.join(_described(line, say) for line in drawn)}",
            lines=drawn,
            across=self.across,
            up=up(values),
            at=self.points.at,
            moments=self.moments,
            say=say,
        )
        untold = [line.name for line in lines if line not in drawn]
        more = f" Not told here: {', '.join(untold)}." if untold else ""
        gaps = " Gaps: not known then." if any(_gap(line.values) for line in drawn) else ""
        return captioned(title, f"{about}{more}{gaps}", shown)


def _described(line: Line, say: Callable[[float], str]) -> str:
    """A line for those who do not see it."""
    known = [value for value in line.values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    return f"{line.name}: from {say(min(known))} to {say(max(known))}, {say(known[-1])} at the end."


def _gap(values: Sequence[float | None]) -> bool:
    """Whether something is not known in between."""
    known = [index for index, value in enumerate(values) if value is not None]
    return bool(known) and known[-1] - known[0] + 1 > len(known)
