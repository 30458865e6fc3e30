"""What a run came to, in a screen: figures, which promises held, and where the report is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom._cli_terminal import console, plain
from greenroom.stress.report._words import counted, duration, growth, percent, rate, seconds

if TYPE_CHECKING:
    from greenroom.stress._result import Check, Latency, Result

__all__ = ["show_summary"]

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "dim")}
SHORT = 60.0
"""A run of fewer seconds tells nothing about growth."""

MOST_ERRORS = 5


def show_summary(result: Result, report: Path | None) -> None:
    """Write it to stdout."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(_verdict(result), style="bold green" if result.held else "bold red"), soft_wrap=True)
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for label, text in _rows(result):
        rows.add_row(label, plain(text))
    out.print(rows)
    if result.checks:
        checks = Table.grid(padding=(0, 1))
        checks.add_column(no_wrap=True)
        checks.add_column(no_wrap=True)
        checks.add_column(style="dim", overflow="fold")
        for check in result.checks:
            mark, style = MARKS[check.held]
            checks.add_row(Text(mark, style=style), check.name, Text(plain(_remark(check))))
        out.print()
        out.print(checks)
    if report is not None:
        out.print(f"\nReport: {report}", soft_wrap=True)


def _verdict(result: Result) -> str:
    violated = sum(check.held is False for check in result.checks)
    cut = " It was ended before its time." if result.interrupted else ""
    if violated:
        return f"{counted(violated, 'promise')} of {len(result.checks)} did not hold.{cut}"
    if result.totals.failures:
        return f"{counted(result.totals.failures, 'turn')} failed that should not have.{cut}"
    return f"Everything held.{cut}"


def _rows(result: Result) -> Iterator[tuple[str, str]]:
    totals = result.totals
    speed = rate(totals.turns / result.seconds) if result.seconds and totals.turns else "0/s"
    turns = f"{totals.turns:,} of {totals.arrived:,} completed in {duration(result.seconds)}, {speed}"
    for number, what in (
        (totals.failures, "failed"),
        (totals.refused, "refused"),
        (totals.planned_failures, "failures as planned"),
    ):
        turns += f"; {number:,} {what}" if number else ""
    yield "turns", turns
    if result.late is not None:
        yield (
            "late",
            f"one turn in a hundred was begun {seconds(result.late)} late: the machine did not keep up",
        )
    for name, latency in result.latencies.items():
        yield name, _latency(latency)
    if totals.hit_rate is not None:
        yield (
            "hit rate",
            f"{percent(totals.hit_rate)}; {counted(totals.builds or 0, 'build')}"
            + (f", {totals.rebuilds:,} of them again" if totals.rebuilds else ""),
        )
    if totals.evictions:
        yield "let go", ", ".join(f"{reason} {number:,}" for reason, number in totals.evictions.items())
    if totals.commits is not None:
        failed = f", {totals.commit_failures:,} failed" if totals.commit_failures else ""
        yield "commits", f"{totals.commits:,}{failed}"
    if result.drain is not None:
        yield "drain", seconds(result.drain)
    if result.seconds >= SHORT:
        for slope in result.slopes:
            an_hour = growth(slope.name, slope.an_hour)
            yield (
                slope.name,
                f"{an_hour} an hour, give or take {growth(slope.name, abs(slope.error)).lstrip('+')}",
            )
    for text, number in list(totals.errors.items())[:MOST_ERRORS]:
        yield "error", f"{number:,} × {text}"
    if len(totals.errors) > MOST_ERRORS:
        yield "", f"and {len(totals.errors) - MOST_ERRORS} other kinds of error: the report has all"


def _latency(latency: Latency) -> str:
    figures = (
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p99", latency.p99),
        ("worst", latency.worst),
    )
    return "   ".join(f"{name} {seconds(value)}" for name, value in figures)


def _remark(check: Check) -> str:
    if check.held is False:
        first = f": {check.violations[0]}" if check.violations else ""
        return f"{counted(check.violated, 'violation')}{first}"
    if check.held is None:
        return check.remark or "There was nothing to look at."
    return f"looked at {counted(check.seen, 'time')}"
