"""The figures that are published, and how each contender's compares with greenroom's."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contenders import OURS
from benchmarks.peers.scenarios import CAST
from benchmarks.results import Results, Spread, spread
from benchmarks.tables import Footnotes, amount, count_or_amount, gap, short


@dataclass(frozen=True, kw_only=True)
class Row:
    scenario: str
    figure: str
    title: str
    short: str
    """For a picture."""

    more_is_better: bool | None = False
    """`None`: it is told and not compared, a count or a single worst."""


ROWS = (
    Row(
        scenario="warm",
        figure="rate",
        title="Warm turn, 1 thread: turns a second",
        short="Warm turns a second, 1 thread",
        more_is_better=True,
    ),
    Row(scenario="warm", figure="p50", title="… p50, µs", short="Warm turn, 1 thread: p50, µs"),
    Row(scenario="warm", figure="p99", title="… p99, µs", short="Warm turn, 1 thread: p99, µs"),
    Row(
        scenario="warm_8",
        figure="rate",
        title="Warm turn, 8 threads, 8 sessions: turns a second",
        short="Warm turns a second, 8 threads",
        more_is_better=True,
    ),
    Row(scenario="warm_8", figure="p50", title="… p50, µs", short="Warm turn, 8 threads: p50, µs"),
    Row(scenario="warm_8", figure="p99", title="… p99, µs", short="Warm turn, 8 threads: p99, µs"),
    Row(
        scenario="evicting",
        figure="p99",
        title="A turn a millisecond while 64 others are torn down, 100 ms each: p99, µs",
        short="p99 of a turn during 64 slow teardowns, µs",
    ),
    Row(
        scenario="evicting",
        figure="quiet_p99",
        title="… in peace, µs",
        short="p99 of a turn in peace, µs",
        more_is_better=None,
    ),
    Row(
        scenario="insert",
        figure="rate",
        title="New sessions in a full room, 8 threads: sessions a second",
        short="New sessions a second, full room, 8 threads",
        more_is_better=True,
    ),
    Row(
        scenario="insert",
        figure="threads",
        title="… threads started",
        short="Threads started",
        more_is_better=None,
    ),
    Row(
        scenario="drain",
        figure="rate",
        title="Drain of 100 dirty sessions, 50 ms a commit: sessions a second",
        short="Drain, 50 ms a commit: sessions a second",
        more_is_better=True,
    ),
    Row(
        scenario="sweep",
        figure="milliseconds",
        title="Sweep of 100,000 sessions, none idle: ms",
        short="Sweep of 100,000 sessions, none idle: ms",
    ),
    Row(
        scenario="sweep",
        figure="worst_turn",
        title="… worst turn meanwhile: ms",
        short="Worst turn during a sweep: ms",
        more_is_better=None,
    ),
    Row(
        scenario="idle",
        figure="bytes_each",
        title="An idle session with a trivial agent: bytes",
        short="An idle session with an agent: bytes",
    ),
    Row(
        scenario="idle",
        figure="threads_each",
        title="… threads",
        short="Threads of an idle session",
        more_is_better=None,
    ),
    Row(
        scenario="idle",
        figure="processes_each",
        title="… processes",
        short="Processes of an idle session",
        more_is_better=None,
    ),
)


def advantage(results: Results, row: Row, name: str) -> Spread | None:
    """How many times as good greenroom's figure is as another's, in the same repetitions."""
    measured = results.measurements.get(row.scenario, {})
    if row.more_is_better is None or name == OURS or OURS not in measured or name not in measured:
        return None
    pairs = [
        (ours[row.figure], theirs[row.figure])
        for ours, theirs in zip(measured[OURS], measured[name], strict=False)
    ]
    if any(figure <= 0 for pair in pairs for figure in pair):
        return None  # less than can be measured
    return spread([a / b if row.more_is_better else b / a for a, b in pairs])


def figure_of(results: Results, row: Row, name: str, footnotes: Footnotes) -> str:
    found = results.figure(row.scenario, name, row.figure)
    if found is None:
        return gap(results, CAST, row.scenario, name, footnotes)
    if row.more_is_better is None:
        return count_or_amount(found.middle)
    return amount(found.middle) if found.middle > 0 else "too little"


def with_spread(found: Spread) -> str:
    """A ratio with its lowest and highest, where it was measured more than once."""
    if found.low == found.high:
        return f"{amount(found.middle)}×"
    return f"{amount(found.middle)}× ({short(found.low)}–{short(found.high)})"


def smaller(results: Results) -> list[str]:
    """Who had fewer sessions than the others, and how many."""
    lines = []
    for name in results.present:
        parts = [
            text.format(found.middle)
            for scenario, figure, full, text in (
                ("evicting", "evictions", 64, "{:,.0f} torn down at once instead of 64"),
                ("insert", "inserts", results.settings["inserts"], "{:,.0f} new ones"),
                ("insert", "cap", 128, "into a cap of {:,.0f}"),
                ("drain", "sessions", results.settings["dirty"], "{:,.0f} to drain"),
                ("sweep", "sessions", results.settings["swept"], "{:,.0f} to sweep"),
                ("idle", "sessions", results.settings["idle"], "{:,.0f} idle"),
            )
            if (found := results.figure(scenario, name, figure)) and found.middle < full
        ]
        if parts:
            lines.append(f"{CAST.contenders[name]}, fewer sessions: {', '.join(parts)}.")
    return lines
