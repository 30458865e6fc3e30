"""The report's part about the room: occupancy, hits, evictions, and commits behind."""

from __future__ import annotations

import functools

from greenroom.stress._result import Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._charts import Line
from greenroom.stress.report._frames import Times, captioned, section, table, unknown
from greenroom.stress.report._html import Markup, tag
from greenroom.stress.report._points import peak
from greenroom.stress.report._ticks import linear_axis

__all__ = ["room"]

REASONS = {
    "capacity": "The room was over its cap",
    "coherence": "Another process wrote to the session",
    "loop-closed": "Its event loop was closed",
    "discard": "Its turn said so",
    "explicit": "On request",
    "failure": "Something went wrong",
    "idle": "Idle for too long",
    "memory": "Memory was short",
    "recovery": "Built only to recover what was left",
    "session-expired": "The session was unused for too long",
    "shutdown": "The room was drained",
    "spec": "Another specification asked for another agent",
}
"""Why an agent left, as the server's page says it."""


def room(result: Result, times: Times) -> Markup:
    """Everything that a look at the room tells."""
    return section(
        "room",
        "The room",
        _occupancy(times),
        _hit_rate(result, times),
        _evictions(result),
        _behind(times),
        sheet=bool(result.series),
    )


def _occupancy(times: Times) -> Markup:
    points = times.points
    return times.figure(
        "chart-occupancy",
        title="Agents in memory, against the cap",
        about="Above the cap are only agents in a turn: none is taken away from one.",
        lines=[
            Line(
                name="agents",
                values=points.values(lambda row: row.cached, peak),
                tone="good",
                filled=True,
            ),
            Line(
                name="cap",
                values=points.values(lambda row: row.cap, peak),
                tone="wrong",
                dashed=True,
                stepped=True,
            ),
            Line(name="in a turn", values=points.values(lambda row: row.in_turn, peak), tone="turn"),
        ],
        up=functools.partial(linear_axis, say=words.count, whole=True),
        say=words.count,
        missing="How many agents are in memory is not told by this target.",
    )


def _hit_rate(result: Result, times: Times) -> Markup:
    totals = result.totals
    shares = times.points.shares(lambda row: row.hits, lambda row: row.builds)
    about = "The share of turns that found their agent in memory."
    if totals.hit_rate is not None and totals.hits is not None and totals.builds is not None:
        about += (
            f" Over the run {words.percent(totals.hit_rate)}: {words.counted(totals.hits, 'hit')},"
            f" {words.counted(totals.builds, 'build')}."
        )
    return times.figure(
        "chart-hits",
        title="Hit rate",
        about=about,
        lines=[Line(name="hits", values=shares, tone="turn")],
        up=functools.partial(linear_axis, say=words.percent, top=1.0),
        say=words.percent,
        missing="How many turns found their agent is not told by this target, or there were none.",
    )


def _evictions(result: Result) -> Markup:
    title, about = "Evictions by reason", "How many agents left memory, and why."
    evictions = {reason: number for reason, number in result.totals.evictions.items() if number}
    if not evictions:
        untold = result.totals.builds is None
        text = "Evictions are not told by this target." if untold else "No agent left memory."
        return captioned(title, about, unknown(text))
    most, whole = max(evictions.values()), sum(evictions.values())
    rows = [
        tag(
            "tr",
            tag("th", REASONS.get(reason, reason), scope="row"),
            tag("td", f"{number:,}", class_="number"),
            tag("td", words.percent(number / whole), class_="number"),
            tag("td", _bar(number / most), class_="bar", aria_hidden="true"),
        )
        for reason, number in sorted(evictions.items(), key=lambda item: -item[1])
    ]
    rows.append(
        tag(
            "tr",
            tag("th", "In all", scope="row"),
            tag("td", f"{whole:,}", class_="number"),
            tag("td", class_="number"),
            tag("td", class_="bar", aria_hidden="true"),
        )
    )
    return captioned(title, about, table(["", "Agents", "Share", ""], rows, class_="evictions"))


def _bar(share: float) -> Markup:
    return tag("svg", tag("rect", width=f"{max(100.0 * share, 0.5):.1f}%", height="100%", rx="2"))


def _behind(times: Times) -> Markup:
    points = times.points
    return times.figure(
        "chart-dirty",
        title="Commits behind",
        about="Sessions with a completed turn that is not committed yet.",
        lines=[
            Line(
                name="sessions",
                values=points.values(lambda row: row.dirty, peak),
                tone="dirty",
                filled=True,
            )
        ],
        up=functools.partial(linear_axis, say=words.count, whole=True),
        say=words.count,
        missing="How many sessions are uncommitted is not told by this target.",
    )
