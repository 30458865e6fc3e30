"""What a scrape asks of the room and its admission: a table from their figures to metrics.

Gauges are what is now. Counters are the room's own, which outlive a crash of its actors; they begin at
nothing when the server does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pykka
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from greenroom import Policy, RoomStats
from greenroom.gateway.config._config import Config

if TYPE_CHECKING:
    from greenroom.gateway._stage import Stage

__all__ = ["Figures", "Scrape", "figures_of"]

PATIENCE = 5.0
"""How many seconds a scrape waits for the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All that is asked for."""

    stats: RoomStats
    running: int
    """Turns that the admission has let in."""

    waiting: int
    """Turns that it has not let in yet."""

    config: Config
    policy: Policy
    draining: bool


_Value = float | None
_Read = Callable[[Figures], _Value]
_ReadEach = Callable[[Figures], dict[str, float]]

_GAUGES: tuple[tuple[str, str, _Read], ...] = (
    (
        "greenroom_session_cap",
        "How many sessions may have an agent. +Inf: as many as there are.",
        lambda f: math.inf if f.stats.cap is None else f.stats.cap,
    ),
    (
        "greenroom_sessions_over_cap",
        "Sessions with an agent over the cap, which cannot be released before their turns end.",
        lambda f: f.stats.over_cap,
    ),
    (
        "greenroom_agents_retained",
        "Agents retained for a commit that failed and is retried.",
        lambda f: f.stats.retained,
    ),
    (
        "greenroom_agents_weight_bytes",
        "What the cached agents weigh together, where the policy can weigh them.",
        lambda f: f.stats.weight,
    ),
    ("greenroom_turns_running", "Turns that run now.", lambda f: f.running),
    (
        "greenroom_turns_running_limit",
        "How many turns may run at once.",
        lambda f: f.config.max_running,
    ),
    (
        "greenroom_turns_waiting_limit",
        "How many turns may wait for admission.",
        lambda f: f.config.max_waiting_total,
    ),
    (
        "greenroom_workers",
        "Workers: threads for builds, commits, hooks and the store.",
        lambda f: f.stats.workers,
    ),
    ("greenroom_workers_busy", "Workers that have something to do.", lambda f: f.stats.workers_busy),
    ("greenroom_work_queued", "Work that waits for a worker.", lambda f: f.stats.work_queued),
    (
        "greenroom_hooks_stuck",
        "Hooks that are stuck now, each on a worker that was written off.",
        lambda f: len(f.stats.stuck),
    ),
    (
        "greenroom_memory_budget_bytes",
        "How much memory the room may use before it lets agents go. Not there without a budget.",
        lambda f: f.stats.memory_budget,
    ),
    (
        "greenroom_draining",
        "1 while the server is ending and begins no turn, else 0.",
        lambda f: f.draining or f.stats.draining,
    ),
)

_GAUGES_BY: tuple[tuple[str, str, str, _ReadEach], ...] = (
    (
        "greenroom_sessions",
        "Sessions by state; one may be in several. known: all of them, cached: those with an agent.",
        "state",
        lambda f: {
            "known": f.stats.known,
            "cached": f.stats.cached,
            "in_turn": f.stats.in_turn,
            "dirty": f.stats.dirty,
            "busy": f.stats.busy,
            "failed": f.stats.failed,
            "unrecorded": f.stats.unrecorded,
        },
    ),
    (
        "greenroom_turns_waiting",
        "Turns that wait: for admission, or, let in, for their session and its agent.",
        "place",
        lambda f: {"admission": f.waiting, "session": f.stats.waiting},
    ),
)

_COUNTERS: tuple[tuple[str, str, Callable[[RoomStats], int]], ...] = (
    ("greenroom_hits", "Turns that got the agent that was there.", lambda s: s.hits),
    ("greenroom_builds", "Agents that were built.", lambda s: s.builds),
    ("greenroom_adopted", "Agents that were handed in.", lambda s: s.adopted),
    ("greenroom_build_failures", "Builds that raised, or took too long.", lambda s: s.build_failures),
    ("greenroom_commits", "Commits of completed turns.", lambda s: s.commits),
    (
        "greenroom_commit_failures",
        "Commits that raised, or took too long. Each is tried again.",
        lambda s: s.commit_failures,
    ),
    ("greenroom_sessions_ended", "Sessions that are over.", lambda s: s.sessions_ended),
    (
        "greenroom_session_restarts",
        "Session actors that failed and were restarted.",
        lambda s: s.restarts,
    ),
    (
        "greenroom_sessions_recovered",
        "Sessions that another server had left uncommitted, and that were committed here.",
        lambda s: s.recovered,
    ),
    (
        "greenroom_recovery_failures",
        "Sessions that another server had left uncommitted, and that could not be committed here.",
        lambda s: s.recovery_failures,
    ),
    (
        "greenroom_ownership_lost",
        "Sessions that another server has taken over.",
        lambda s: s.ownership_lost,
    ),
    (
        "greenroom_workers_written_off",
        "Workers written off because what they did was stuck.",
        lambda s: s.workers_lost,
    ),
    (
        "greenroom_events_dropped",
        "Events that a listener was too slow for. Metrics by reason, and of durations, may lack some.",
        lambda s: s.events_dropped,
    ),
)


async def figures_of(stage: Stage) -> Figures:
    """Ask, on the event loop."""
    try:
        async with asyncio.timeout(PATIENCE):
            stats: RoomStats = await stage.room.supervisor.stats()
            running, waiting = await stage.admission.figures()
    except pykka.ActorDeadError:  # the room is closed, and remembers
        stats, running, waiting = stage.room.stats(), 0, 0
    return Figures(
        stats=stats,
        running=running,
        waiting=waiting,
        config=stage.config,
        policy=stage.room.policy,
        draining=stage.draining,
    )


class Scrape(Collector):
    """What a scrape gives: the registry's metrics, and the figures of this moment."""

    def __init__(self, registry: CollectorRegistry, figures: Figures) -> None:
        self._registry = registry
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        for metric in self._registry.collect():
            # When each series began, which is when the server did: a third more lines that say nothing.
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
        yield from _families(self._figures)


def _families(figures: Figures) -> Iterator[Metric]:
    for name, text, read in _GAUGES:
        value = read(figures)
        gauge = GaugeMetricFamily(name, text)
        if value is not None:
            gauge.add_metric((), float(value))
        yield gauge
    for name, text, label, read_each in _GAUGES_BY:
        labelled = GaugeMetricFamily(name, text, labels=(label,))
        for state, value in read_each(figures).items():
            labelled.add_metric((state,), value)
        yield labelled
    for name, text, count in _COUNTERS:
        yield CounterMetricFamily(name, text, value=count(figures.stats))
