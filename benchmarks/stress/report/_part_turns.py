"""The report's parts about turns: how long they took, and how many there were."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from greenroom.stress._result import Latency, Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._charts import Line, chart
from greenroom.stress.report._frames import Times, captioned, figures, section, unknown
from greenroom.stress.report._html import Content, Markup, tag
from greenroom.stress.report._points import middle, peak
from greenroom.stress.report._ticks import Axis, linear_axis, log_axis

__all__ = ["latency", "throughput"]

KINDS = {
    "start": ("Start", "until a turn had its agent", "good"),
    "hit": ("Hit", "those starts that found it in memory", "turn"),
    "build": ("Build", "those starts that had to build it", "dirty"),
    "turn": ("Turn", "until the turn had ended", "leaving"),
    "commit": ("Commit", "an agent's commit hook", "wrong"),
    "teardown": ("Teardown", "an agent's release or close hook", "quiet"),
}
"""What is measured, by its name in the result: a title, what it is, its colour."""

PERCENTILES = ("p50", "p90", "p99", "p99.9", "worst")
DASHED = frozenset({"build", "commit", "teardown"})


def latency(result: Result, times: Times) -> Markup:
    """Percentiles as a table and a picture, and the start over the run's time."""
    found = _known_first(result)
    intro = tag(
        "p",
        "Counted from the moment for which a turn was planned, whether or not those before it had ended:"
        " a stall shows in every turn that it delays.",
        class_="quiet",
    )
    if not found:
        return section("latency", "How long turns took", intro, unknown("No turn got that far."))
    heads = ["", "Times", "Mean", "p50", "p90", "p99", "p99.9", "Worst"]
    rows = [_row(name, measured) for name, measured in found.items()]
    return section(
        "latency",
        "How long turns took",
        intro,
        figures(heads, rows, class_="latencies tall"),
        _ladder(found),
        _starts(times),
        sheet=True,
    )


def _known_first(result: Result) -> dict[str, Latency]:
    names = [*(name for name in KINDS if name in result.latencies), *result.latencies]
    return {name: result.latencies[name] for name in names if result.latencies[name].count}


def _row(name: str, found: Latency) -> Sequence[Content]:
    title, what, _ = KINDS.get(name, (name, "", ""))
    return [
        [title, tag("span", what, class_="sub") if what else None],
        f"{found.count:,}",
        *(words.seconds(value) for value in (found.mean, *_ladder_of(found))),
    ]


def _ladder_of(found: Latency) -> tuple[float, ...]:
    return (found.p50, found.p90, found.p99, found.p999, found.worst)


def _ladder(found: dict[str, Latency]) -> Markup:
    lines = [
        Line(
            name=KINDS.get(name, (name,))[0],
            values=_ladder_of(measured),
            tone=KINDS.get(name, ("", "", "quiet"))[2],
            dashed=name in DASHED,
        )
        for name, measured in found.items()
    ]
    # Evenly apart, as the steps of a ladder are, with some room at both ends.
    across = Axis(
        lowest=-0.25,
        highest=4.1,
        ticks=tuple((float(step), name) for step, name in enumerate(PERCENTILES)),
    )
    return captioned(
        "Percentiles",
        "Higher is slower, on a logarithmic scale.",
        chart(
            "chart-percentiles",
            title="Percentiles of what turns took",
            about=" ".join(
                f"{line.name}: median {words.seconds(measured.p50)}, p99 {words.seconds(measured.p99)},"
                f" worst {words.seconds(measured.worst)}."
                for line, measured in zip(lines, found.values(), strict=True)
            ),
            lines=lines,
            across=across,
            up=log_axis([value for line in lines for value in line.values], words.seconds),
            at=[float(step) for step in range(len(PERCENTILES))],
            moments=PERCENTILES,
            say=words.seconds,
        ),
    )


def _starts(times: Times) -> Markup:
    points = times.points
    return times.figure(
        "chart-starts",
        title="Until a turn had its agent, over the run",
        about="Half took less than p50, one in a hundred more than p99; on a logarithmic scale.",
        lines=[
            Line(name="p99", values=points.values(lambda row: row.p99, peak), tone="dirty"),
            Line(name="p50", values=points.values(lambda row: row.p50, middle), tone="good"),
        ],
        up=lambda values: log_axis(values, words.seconds),
        say=words.seconds,
        missing="No turn got its agent, so there is nothing to draw.",
    )


def throughput(result: Result, times: Times) -> Markup:
    """How many turns arrived and were completed, and how many were under way."""
    points = times.points
    if not result.series:
        return section("throughput", "Load", unknown("The run ended before its first second was over."))
    arrived = Line(
        name="arrived", values=points.rates(lambda row: row.arrived), tone="quiet", dashed=True
    )
    completed = Line(
        name="completed", values=points.rates(lambda row: row.turns), tone="good", filled=True
    )
    failed = Line(name="failed", values=points.rates(lambda row: row.failures), tone="wrong")
    any_failed = any(failed.values)
    flying = Line(
        name="in flight",
        values=points.values(lambda row: row.in_flight, peak),
        tone="turn",
        filled=True,
    )
    waiting = Line(
        name="waiting", values=points.values(lambda row: row.waiting, peak), tone="dirty", dashed=True
    )
    return section(
        "throughput",
        "Load",
        times.figure(
            "chart-throughput",
            title="Turns a second",
            about="Where completed stays below arrived, turns pile up.",
            lines=[completed, arrived, *([failed] if any_failed else [])],
            up=functools.partial(linear_axis, say=words.rate),
            say=words.rate,
            missing="No turn was counted.",
        ),
        times.figure(
            "chart-flight",
            title="Turns under way",
            about="In flight: arrived and not ended. Waiting: for a turn of the same session to end.",
            lines=[flying, waiting],
            up=functools.partial(linear_axis, say=words.count, whole=True),
            say=words.count,
            missing="No turn was counted.",
        ),
        sheet=True,
    )
