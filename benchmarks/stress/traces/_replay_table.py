"""What a replay found, for people (a Rich table) and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from greenroom._cli_terminal import count
from greenroom.stress.traces._replay import Replayed, Trace
from greenroom.stress.traces._replay_advice import Advice, hours

__all__ = ["replay_json", "replay_table"]

FORMAT = 1


def replay_table(
    trace: Trace, outcomes: Sequence[Replayed], advice: Advice, *, build_seconds: float | None = None
) -> Table:
    """A row for each policy; the one that is advised stands out. It fits into 80 columns."""
    title = (
        f"{count(trace.turns, 'turn')} of {count(trace.sessions, 'session')} in {_span(trace.seconds)}, "
        f"replayed against {count(len(outcomes), 'policy', 'policies')}"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("", "cap", "idle", "hits", "builds", "rebuilds", "held", "agents", "most"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("agent-h", justify="right", no_wrap=True)
    if build_seconds is not None:
        table.add_column("waiting", justify="right", no_wrap=True)
    for place, one in enumerate(outcomes):
        cells = _cells(one)
        if build_seconds is not None:
            cells.append(_span(one.builds * build_seconds))
        chosen = place == advice.chosen
        table.add_row("→" if chosen else "", *cells, style="bold" if chosen else None)
    return table


def _cells(one: Replayed) -> list[str]:
    policy = one.policy
    return [
        "none" if policy.cap is None else f"{policy.cap:,}",
        "none" if policy.idle_ttl is None else _span(policy.idle_ttl),
        "–" if one.hit_rate is None else f"{100 * one.hit_rate:.1f} %",
        f"{one.builds:,}",
        f"{one.rebuilds:,}",
        f"{one.held:,}",
        f"{one.mean:,.1f}",
        f"{one.peak:,}",
        hours(one.agent_hours),
    ]


def replay_json(
    trace: Trace, outcomes: Sequence[Replayed], advice: Advice, *, build_seconds: float | None = None
) -> dict[str, Any]:
    """Everything, as what `json` can write."""
    return {
        "format": FORMAT,
        "trace": {
            "turns": trace.turns,
            "sessions": trace.sessions,
            "seconds": trace.seconds,
            "turns_without_length": trace.without_length,
        },
        "build_seconds": build_seconds,
        "policies": [
            {
                **one.to_json(),
                "waiting_for_builds": None if build_seconds is None else one.builds * build_seconds,
            }
            for one in outcomes
        ],
        "chosen": advice.chosen,
        "advice": advice.text,
    }


def _span(seconds: float) -> str:
    """Short: 90s, 15m, 1h, 7d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "m")):
        if seconds >= size:
            return f"{seconds / size:,.1f}".removesuffix(".0") + unit
    return f"{seconds:,.1f}".removesuffix(".0") + "s"
