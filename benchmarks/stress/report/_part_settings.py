"""The report's last part: what the run was told, where it ran, and its seconds as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from greenroom.stress._result import Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._frames import figures, section
from greenroom.stress.report._html import Content, Markup, tag
from greenroom.stress.report._points import Points, middle, peak

__all__ = ["settings"]

ROWS = 30
"""Of the table of seconds."""

LONGEST = 600
"""Characters of a setting."""


def settings(result: Result) -> Markup:
    """Settings and machine, side by side, and the run in figures."""
    return section(
        "settings",
        "Settings and machine",
        tag(
            "div",
            tag("div", tag("h3", "Settings"), _listed(result.settings)),
            tag("div", tag("h3", "Machine"), _listed(result.machine)),
            class_="two uneven",
        ),
        _seconds(result),
        sheet=bool(result.series),
    )


def _listed(values: Mapping[str, Any]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", tag("code", words.shortened(text, LONGEST))),
        )
        for name, text in flat(values)
    ]
    if not rows:
        return tag("p", "None are known.", class_="quiet")
    return tag("table", tag("tbody", rows), class_="plain")


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as lines: `policy.cap`, `64`."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(cast("Mapping[str, Any]", value), f"{name}.")
        else:
            yield name, _said(cast("object", value))


def _said(value: object) -> str:
    if isinstance(value, str):
        return value or "empty"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(_said(each) for each in cast("Sequence[object]", value)) or "none"
    if isinstance(value, Mapping):
        values = cast("Mapping[str, object]", value)
        return ", ".join(f"{name} {text}" for name, text in flat(values)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(result: Result) -> Content:
    """The charts' figures for those who want figures."""
    if not result.series:
        return None
    points = Points(result.series, ROWS)
    columns = {
        "Until": [words.moment(at) for at in points.at],
        "Arrived": _texts(points.rates(lambda row: row.arrived), words.rate),
        "Completed": _texts(points.rates(lambda row: row.turns), words.rate),
        "Failed": _texts(points.rates(lambda row: row.failures), words.rate),
        "p50": _texts(points.values(lambda row: row.p50, middle), words.seconds),
        "p99": _texts(points.values(lambda row: row.p99, peak), words.seconds),
        "Agents": _texts(points.values(lambda row: row.cached, peak), words.count),
        "Uncommitted": _texts(points.values(lambda row: row.dirty, peak), words.count),
        "Evicted": _texts(points.rates(lambda row: row.evictions), words.rate),
        "Memory": _texts(points.values(lambda row: row.memory, peak), words.size),
    }
    rows = list(zip(*columns.values(), strict=True))
    shown = figures(list(columns), rows, class_="seconds")
    return tag(
        "details",
        tag("summary", "The run in figures"),
        tag("div", shown, class_="scroll", tabindex="0", role="region", aria_label="The run in figures"),
    )


def _texts(values: Sequence[float | None], say: Callable[[float], str]) -> list[str]:
    return ["–" if value is None else say(value) for value in values]
