"""The report's part about the process: memory, threads and files, and whether they grew."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from greenroom.stress._result import Result, Second, Slope
from greenroom.stress.report import _words as words
from greenroom.stress.report._charts import Line
from greenroom.stress.report._frames import Times, figures, section
from greenroom.stress.report._html import Content, Markup, tag
from greenroom.stress.report._points import peak
from greenroom.stress.report._ticks import linear_axis

__all__ = ["grew", "process"]

SURE = 2.0
"""So many standard errors from zero, a slope is no chance."""

TITLES = {"memory": "Memory", "threads": "Threads", "files": "Open files"}


def process(result: Result, times: Times) -> Markup:
    """The three levels over time, and their slopes."""
    return section(
        "process",
        "The process",
        _level(times, "memory", lambda row: row.memory, words.size, tone="leaving"),
        tag(
            "div",
            _level(times, "threads", lambda row: row.threads, words.count, tone="turn"),
            _level(times, "files", lambda row: row.files, words.count, tone="good"),
            class_="two",
        ),
        _slopes(result),
        # A page for three times "not known" would be a waste.
        sheet=any((row.memory, row.threads, row.files) != (None,) * 3 for row in result.series),
    )


def _level(
    times: Times,
    name: str,
    pick: Callable[[Second], int | None],
    say: Callable[[float], str],
    *,
    tone: str,
) -> Markup:
    return times.figure(
        f"chart-{name}",
        title=TITLES[name],
        about="Resident in the target's process." if name == "memory" else "In the target's process.",
        lines=[Line(name=name, values=times.points.values(pick, peak), tone=tone, filled=True)],
        up=functools.partial(linear_axis, say=say, whole=True),
        say=say,
        missing=f"{TITLES[name]}: not known for this target, or on this system.",
    )


def grew(slope: Slope) -> str:
    """What a slope says, as a word or two."""
    if not (math.isfinite(slope.an_hour) and math.isfinite(slope.error)):
        return "too few samples to tell"
    if abs(slope.an_hour) <= SURE * slope.error or not slope.an_hour:
        return "flat, within its error"
    return "grew" if slope.an_hour > 0 else "shrank"


def _slopes(result: Result) -> Content:
    title = tag("h3", "Growth an hour")
    if not result.slopes:
        text = "The run was too short to fit a line to memory, threads and files, or they are not known."
        return tag("div", title, tag("p", text, class_="quiet"), class_="after")
    about = (
        "A line through the samples after the warm-up, with one standard error. A short run says little:"
        " its hour is extrapolated."
    )
    heads = ["", "An hour", "± error", "From", "To", "Samples", ""]
    return tag(
        "div",
        title,
        tag("p", about, class_="quiet"),
        figures(heads, [_slope(slope) for slope in result.slopes], class_="slopes tall"),
        class_="after",
    )


def _slope(slope: Slope) -> Sequence[Content]:
    say = words.size if slope.name == "memory" else words.significant
    return [
        TITLES.get(slope.name, slope.name),
        words.growth(slope.name, slope.an_hour),
        say(slope.error),
        say(slope.first),
        say(slope.last),
        f"{slope.samples:,}",
        grew(slope),
    ]
