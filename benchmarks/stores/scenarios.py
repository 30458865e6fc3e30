"""What is measured: the scenarios, and how a contender is put through one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import scenarios
from benchmarks.contender import Contender
from benchmarks.latency import Figures
from benchmarks.results import Cast
from benchmarks.stores import NAMES as ALL
from benchmarks.stores import POSTGRES_FULL, SQLITE_FULL, TITLES

SESSIONS = 64
"""Concurrent ones, each in a thread of its own."""

HOOK = 0.001
"""Seconds that each hook of an agent takes when its session is recovered."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    seconds: float
    """For one measurement of one contender."""

    contended_seconds: float
    """The same with many threads."""

    orphans: int
    """Sessions that a dead room has left."""


FULL = Scale(repetitions=5, seconds=0.6, contended_seconds=1.2, orphans=500)
QUICK = Scale(repetitions=2, seconds=0.1, contended_seconds=0.3, orphans=50)


def turns(contender: Contender, sessions: int, seconds: float) -> Figures:
    """Empty turns of sessions that have their agent, one thread for each session."""
    load = scenarios.Scenario(name="", title="", kind="turn", threads=sessions, actors=sessions)
    figures = scenarios.measure(contender, load, seconds)
    return figures | {"each": 1e6 / figures["rate"]}


def recovering(contender: Contender, at_once: int, orphans: int) -> Figures:
    from benchmarks.stores.ours import Contestant  # needs what others do without

    assert isinstance(contender, Contestant)
    return contender.recover(at_once=at_once, orphans=orphans, hook_seconds=HOOK)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    measure: Callable[[Contender, Scale], Figures]
    contenders: tuple[str, ...] = ALL
    """Who is put through it."""


SCENARIOS = (
    Scenario(
        name="turn",
        title="1 session",
        measure=lambda contender, scale: turns(contender, 1, scale.seconds),
    ),
    Scenario(
        name="turn_64",
        title="64 sessions",
        measure=lambda contender, scale: turns(contender, SESSIONS, scale.contended_seconds),
    ),
    Scenario(
        name="recover_4",
        title="4 at once",
        measure=lambda contender, scale: recovering(contender, 4, scale.orphans),
        contenders=(SQLITE_FULL, POSTGRES_FULL),
    ),
    Scenario(
        name="recover_32",
        title="32 at once",
        measure=lambda contender, scale: recovering(contender, 32, scale.orphans),
        contenders=(SQLITE_FULL, POSTGRES_FULL),
    ),
)

CAST = Cast(
    contenders=TITLES,
    scenarios={scenario.name: scenario.title for scenario in SCENARIOS},
)
TURNS = CAST.playing("turn", "turn_64")
RECOVERIES = CAST.playing("recover_4", "recover_32")
