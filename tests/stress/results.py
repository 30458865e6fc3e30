"""Results of runs that never were, for tests of the report: good, bad, and hardly any."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from greenroom.stress._result import Check, Latency, Result, Second, Slope, Totals

__all__ = [
    "bare_result",
    "failing_result",
    "good_result",
    "latency",
    "second",
    "server_result",
    "totals",
]

PROMISES = {
    "no teardown in a turn": "No agent is released or closed between the start and the end of a turn.",
    "agents within the cap": "Agents in memory are at most the cap, or each beyond it is in a turn.",
    "one commit at a time": "A session has at most one commit in flight, and generations only grow.",
    "no turn forgotten": "A completed turn is committed, or it is dirty and known to be.",
    "every turn answered": "Each turn that arrived has an outcome.",
    "one end for each agent": "Each agent that was built gets exactly one release or close.",
    "drain ends in time": "The drain ends within its deadline, whatever hangs.",
}


def second(at: float, **changes: Any) -> Second:
    """A second in which little happened."""
    values: dict[str, Any] = {
        "turns": 98,
        "arrived": 100,
        "failures": 0,
        "planned_failures": 0,
        "p50": 0.0004,
        "p99": 0.031,
        "in_flight": 6,
        "cached": 64,
        "cap": 64,
        "in_turn": 5,
        "waiting": 1,
        "dirty": 40,
        "sessions": 900,
        "builds": 8,
        "hits": 90,
        "evictions": 8,
        "commits": 20,
        "commit_failures": 0,
        "memory": 80_000_000,
        "threads": 21,
        "files": 34,
    }
    return Second(at=at, **values | changes)


UNTOLD: dict[str, None] = dict.fromkeys(
    [
        "cached",
        "cap",
        "in_turn",
        "waiting",
        "dirty",
        "sessions",
        "builds",
        "hits",
        "evictions",
        "commits",
        "commit_failures",
        "memory",
        "threads",
        "files",
    ]
)
"""The levels of a target that tells nothing."""


SECRETIVE: dict[str, Any] = {
    **dict.fromkeys(["builds", "rebuilds", "hits", "commits", "commit_failures", "workers_lost"]),
    "evictions": {},
}
"""The totals of such a target."""


def latency(middle: float, *, count: int = 10_000, spread: float = 1.0) -> Latency:
    """A log-normal one."""
    up = [middle * math.exp(spread * z) for z in (1.28, 2.33, 3.09, 4.2)]
    mean = middle * math.exp(spread**2 / 2)
    return Latency(count=count, mean=mean, p50=middle, p90=up[0], p99=up[1], p999=up[2], worst=up[3])


def totals(**changes: Any) -> Totals:
    """Of a run in which nothing went wrong."""
    values: dict[str, Any] = {
        "arrived": 30_024,
        "turns": 29_871,
        "failures": 0,
        "planned_failures": 153,
        "refused": 0,
        "builds": 2_371,
        "rebuilds": 1_371,
        "hits": 27_653,
        "commits": 6_020,
        "commit_failures": 61,
        "workers_lost": 2,
        "evictions": {"capacity": 1_874, "idle": 302, "session-expired": 88, "shutdown": 64},
        "errors": {},
    }
    return Totals(**values | changes)


def bare_result(**changes: Any) -> Result:
    """A run of no turns, of which nothing is known."""
    values: dict[str, Any] = {
        "title": "Nothing at all",
        "target": "a room in this process",
        "started": "2026-11-16T13:05:11+00:00",
        "seconds": 0.0,
        "interrupted": False,
        "settings": {},
        "machine": {},
        "totals": totals(arrived=0, turns=0, planned_failures=0, **SECRETIVE),
        "latencies": {},
        "drain": None,
    }
    return Result(**values | changes)


def good_result(rows: int = 300, **changes: Any) -> Result:
    """A run of a room that held, with a burst, a smaller cap for a while, and a workload's failures."""
    values: dict[str, Any] = {
        "title": "1,000 sessions for 5 min, in bursts",
        "seconds": float(rows),
        "settings": SETTINGS,
        "machine": MACHINE,
        "totals": totals(),
        "latencies": LATENCIES,
        "drain": 0.84,
        "series": _series(rows),
        "checks": tuple(
            Check(name=name, promise=promise, held=True, seen=1000 + 977 * place)
            for place, (name, promise) in enumerate(PROMISES.items())
        ),
        "slopes": (
            Slope(name="memory", an_hour=2.1e6, error=3.4e6, first=97.2e6, last=97.4e6, samples=240),
            Slope(name="threads", an_hour=0.0, error=0.4, first=21.0, last=21.0, samples=240),
            Slope(name="files", an_hour=-3.2, error=2.0, first=34.2, last=34.0, samples=240),
        ),
    }
    return bare_result(**values | changes)


def failing_result() -> Result:
    """A run that was ended early, in which promises broke and turns failed, with hostile texts."""
    good = good_result(120)
    broken = {
        "no teardown in a turn": tuple(
            f"At {at} s the agent of <script>alert({at})</script>stress-0-{at} was released in its turn."
            for at in (17, 18, 44)
        ),
        "every turn answered": ("Turn 812 of stress-0-17 arrived at 40.2 s and was never answered.",),
    }
    return good_result(
        120,
        title="A room that breaks <b>its</b> promises & 'more'",
        interrupted=True,
        settings={**SETTINGS, "factory": "mine:<img src=x onerror=alert(1)>"},
        checks=tuple(
            Check(
                name=check.name,
                promise=check.promise,
                held=check.name not in broken,
                seen=check.seen,
                violations=broken.get(check.name, ()),
                violated=12
                if check.name == "no teardown in a turn"
                else len(broken.get(check.name, ())),
            )
            for check in good.checks
        ),
        series=tuple(
            second(row.at, turns=20, p99=4.2, p50=1.1, failures=9, waiting=90, in_flight=400 + i)
            if 40 <= i < 60
            else row
            for i, row in enumerate(good.series)
        ),
        totals=totals(
            failures=187,
            refused=41,
            errors={
                "BuildFailed: <script>alert('built')</script> refused the connection": 122,
                "TurnTimeout: waited 30 s for 'telegram:12345' \x1b[31m(red)\x1b[0m \ud800": 65,
                "Overloaded: " + "very long text " * 200: 1,
            },
        ),
        slopes=(
            Slope(name="memory", an_hour=812e6, error=31e6, first=97.2e6, last=124.3e6, samples=90),
            Slope(name="threads", an_hour=math.nan, error=math.inf, first=21.0, last=21.0, samples=2),
        ),
    )


def server_result() -> Result:
    """A run against a server that tells little."""
    unseen = {"no teardown in a turn", "one commit at a time", "one end for each agent"}
    good = good_result(90)
    return good_result(
        90,
        title="200 sessions against a server",
        target="https://chat.example.org:8443",
        drain=None,
        series=tuple(
            second(row.at, **UNTOLD | {"cached": row.cached, "cap": row.cap} if i % 30 < 22 else UNTOLD)
            for i, row in enumerate(good.series)
        ),
        totals=totals(**SECRETIVE),
        latencies={name: LATENCIES[name] for name in ("start", "turn")},
        checks=tuple(
            Check(
                name=check.name,
                promise=check.promise,
                held=None if check.name in unseen else True,
                seen=0 if check.name in unseen else check.seen,
                remark="A server does not tell when its hooks run." if check.name in unseen else "",
            )
            for check in good.checks
        ),
        slopes=(),
    )


LATENCIES = {
    "start": latency(0.0009, count=30_024, spread=1.6),
    "hit": latency(0.0003, count=27_653, spread=0.9),
    "build": latency(0.021, count=2_371, spread=0.5),
    "turn": latency(0.052, count=29_871, spread=0.6),
    "commit": latency(0.02, count=6_020, spread=0.5),
    "teardown": latency(0.005, count=2_328, spread=0.2),
}

SETTINGS: dict[str, Any] = {
    "sessions": 1000,
    "duration": 300.0,
    "rate": 100.0,
    "arrivals": "bursty",
    "burst": 20,
    "popularity": 1.0,
    "turn": "50ms~0.5",
    "build": "20ms~0.5",
    "commit": "20ms~0.5!0.001",
    "teardown": "5ms",
    "fail_turn": 0.005,
    "reconfigure": [{"at": 100.0, "changes": {"cap": 48}}, {"at": 180.0, "changes": {"cap": 64}}],
    "at_once": None,
    "seed": 7,
    "policy": {"cap": 64, "idle_ttl": 60.0, "session_ttl": None},
}

MACHINE: dict[str, Any] = {
    "python": "3.11.9",
    "implementation": "CPython",
    "system": "Linux-6.8.0-x86_64-with-glibc2.39",
    "processors": 2,
    "versions": {"greenroom": "0.1.0", "pykka": "4.5.0"},
}


def _series(rows: int) -> Sequence[Second]:
    chance = random.Random(6)
    made: list[Second] = []
    for row in range(rows):
        arrived = max(0, round(100 + 22 * chance.gauss() + (180 if row % 90 in range(40, 46) else 0)))
        cap = 48 if rows / 3 <= row < rows * 0.6 else 64
        hits = round(arrived * (1 - 0.85 * math.exp(-row / 8)) * 0.93)
        made.append(
            second(
                row + 1.0,
                arrived=arrived,
                turns=max(0, arrived - round(abs(4 * chance.gauss()))),
                planned_failures=round(chance.random()),
                p50=0.0004 * math.exp(0.2 * chance.gauss()),
                p99=0.03 * math.exp(0.3 * chance.gauss()) * (6 if arrived > 200 else 1),
                in_flight=max(1, round(arrived / 17 + 2 * chance.gauss())),
                in_turn=max(1, round(arrived / 19)),
                waiting=max(0, round(arrived / 60 + chance.gauss())),
                cap=cap,
                cached=min(cap + (2 if arrived > 200 else 0), 3 * row + 2),
                dirty=min(3 * row, max(0, round(42 + 6 * chance.gauss()))),
                hits=hits,
                builds=arrived - hits,
                memory=round(97e6 - 40e6 * math.exp(-row / 12) + 4e5 * chance.gauss()),
                threads=min(21, 6 + row),
                files=min(34, 12 + row) + round(chance.random()),
            )
        )
    return tuple(made)
