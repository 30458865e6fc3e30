"""What is measured: the scenarios, and how a contender is put through one.

Every measurement starts processes of its own. Those that are killed are so by SIGKILL.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.campaign import WARM_UP
from benchmarks.latency import Figures, figures_of
from benchmarks.results import Cast
from benchmarks.stores import BARE_FULL, BARE_POSTGRES, LOOK, PARTS, POSTGRES_FULL, SQLITE_FULL, TITLES
from benchmarks.stores.databases import Databases
from benchmarks.workers import Worker

WORKER = "benchmarks.stores.worker"

SESSIONS = 64
"""Concurrent ones, each in a thread of its own."""

HOOK = 0.001
"""Seconds that each hook of an agent takes when its session is recovered."""

TTL = 1.0
"""How long a room whose sessions are recovered is taken for alive after its end."""

LIVES = (SQLITE_FULL, BARE_FULL, POSTGRES_FULL, BARE_POSTGRES)
"""Contenders that several processes take part with."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    lives: int
    """Repetitions with several processes."""

    seconds: float
    """For one measurement of one contender."""

    contended_seconds: float
    """The same with many threads."""

    hops: int
    hop_seconds: float
    """As many hops as fit in, if they are slow."""

    orphans: int
    """Sessions that a dead room has left."""


FULL = Scale(
    repetitions=7,
    lives=3,
    seconds=0.6,
    contended_seconds=1.6,
    hops=300,
    hop_seconds=10.0,
    orphans=500,
)
QUICK = Scale(
    repetitions=2,
    lives=1,
    seconds=0.2,
    contended_seconds=0.4,
    hops=100,
    hop_seconds=5.0,
    orphans=500,
)


@dataclass(frozen=True)
class Contestant:
    """A contender, from outside of its processes."""

    name: str
    databases: Databases

    def process(self) -> Worker:
        return Worker(self.name, WORKER)

    def database(self) -> str:
        """One that nobody has used."""
        return self.databases.fresh(PARTS[self.name].database)


def turning(contestant: Contestant, sessions: int, seconds: float) -> Figures:
    """Empty turns, one after the other in each session."""
    with contestant.process() as process:
        process.ask("turns", contestant.database(), sessions, WARM_UP)
        figures: Figures = process.ask("turns", contestant.database(), sessions, seconds)
    return figures | {"each": 1e6 / figures["rate"], "p99_ms": figures["p99"] / 1e3}


def restarting(contestant: Contestant, _: Scale) -> Figures:
    """Kill a process in a turn. The next one opens the database, and takes a turn of that session."""
    url = contestant.database()
    with contestant.process() as killed:
        killed.ask("open", url, None, 0.0)
        killed.ask("do", "hold")
        killed.kill()
    with contestant.process() as heir:
        seconds = heir.ask("open", url, None, 0.0) + heir.ask("do", "inherit")
        heir.ask("do", "check", 1, 1)
    return {"seconds": seconds, "ms": seconds * 1e3}


def hopping(contestant: Contestant, scale: Scale) -> Figures:
    """Two processes take turns of one session in turn: the other one had it last each time."""
    url = contestant.database()
    with contestant.process() as one, contestant.process() as other:
        for process in (one, other):
            process.ask("open", url, None, 0.0)
            process.ask("do", "turn")
        taken: list[int] = []
        deadline = time.monotonic() + scale.hop_seconds
        while len(taken) < scale.hops and time.monotonic() < deadline:
            taken += [int(process.ask("do", "turn") * 1e9) for process in (one, other)]
        one.ask("do", "close")
        other.ask("do", "check", 1, 2 + len(taken))
    figures = figures_of(taken)
    return figures | {"p50_ms": figures["p50"] / 1e3, "p99_ms": figures["p99"] / 1e3}


def recovering(contestant: Contestant, scale: Scale) -> Figures:
    """Let a process find what one that is known to be dead has left, and commit it."""
    url = contestant.database()
    with contestant.process() as killed:
        killed.ask("open", url, TTL, 0.0)
        killed.ask("do", "fill", scale.orphans)
        killed.kill()
    time.sleep(TTL)
    with contestant.process() as heir:
        seconds = heir.ask("open", url, None, HOOK) + heir.ask("do", "recover", scale.orphans)
        heir.ask("do", "check", scale.orphans, scale.orphans)
    return {"seconds": seconds}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    measure: Callable[[Contestant, Scale], Figures]
    contenders: tuple[str, ...]
    """Who is put through it."""

    def repetitions(self, scale: Scale) -> int:
        return scale.lives if self.contenders is LIVES else scale.repetitions


SCENARIOS = (
    Scenario(
        name="turn",
        title="1 session",
        measure=lambda contestant, scale: turning(contestant, 1, scale.seconds),
        contenders=tuple(PARTS),
    ),
    Scenario(
        name="turn_64",
        title="64 sessions",
        measure=lambda contestant, scale: turning(contestant, SESSIONS, scale.contended_seconds),
        contenders=tuple(name for name in PARTS if name != LOOK),
    ),
    Scenario(name="restart", title="turn after a kill", measure=restarting, contenders=LIVES),
    Scenario(name="hop", title="hop", measure=hopping, contenders=LIVES),
    Scenario(name="recover", title="recovery", measure=recovering, contenders=LIVES),
)

CAST = Cast(
    contenders=TITLES,
    scenarios={scenario.name: scenario.title for scenario in SCENARIOS},
)
TURNS = CAST.playing("turn", "turn_64")
