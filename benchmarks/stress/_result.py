"""What a stress run found: what the live view shows, and what the report is made of.

Frozen, and made of plain values, so that `to_json()` is the whole of it. Times are seconds, sizes bytes;
`None` is "not known here" (a system without /proc, a server that does not tell).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Check", "Latency", "Result", "Second", "Slope", "Totals"]

FORMAT = 1
"""Of the JSON beside a report. A later one may say more, and never something else by the same name."""

LATE = 0.1
"""A run that begins turns so many seconds late cannot keep up: the latencies are its own as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long something took, from the moment at which it should have begun."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """One second of a run, or a few of a long one. Counts are of this time, levels of its end."""

    at: float
    """Its end, since the run began."""

    turns: int
    """Completed."""

    arrived: int
    failures: int
    """Turns that failed in another way than the workload asked for."""

    planned_failures: int
    """Turns, builds and hooks that failed because the workload asked for it."""

    p50: float | None
    p99: float | None
    """Of the time until a turn had its agent. `None`: no turn got one in this second."""

    in_flight: int
    """Turns that have arrived and have not ended."""

    cached: int | None
    cap: int | None
    in_turn: int | None
    waiting: int | None
    dirty: int | None
    sessions: int | None
    """Those that are known, with an agent or without."""

    builds: int | None
    hits: int | None
    evictions: int | None
    commits: int | None
    commit_failures: int | None
    memory: int | None
    threads: int | None
    files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The whole run."""

    arrived: int
    turns: int
    failures: int
    planned_failures: int
    refused: int
    """Turns that the room or server would not take: too many were waiting."""

    builds: int | None
    rebuilds: int | None
    hits: int | None
    commits: int | None
    commit_failures: int | None
    workers_lost: int | None
    evictions: Mapping[str, int]
    """By reason."""

    errors: Mapping[str, int]
    """What failed that should not have, by the error's text, the commonest first."""

    @property
    def hit_rate(self) -> float | None:
        """The share of turns that found their agent."""
        if self.hits is None or self.builds is None or not self.hits + self.builds:
            return None
        return self.hits / (self.hits + self.builds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether an invariant held."""

    name: str
    """A word or two: `no teardown in a turn`."""

    promise: str
    """The invariant, as a sentence."""

    held: bool | None
    """`None`: it cannot be seen from here; `remark` says why."""

    seen: int
    """How often it was looked at."""

    remark: str = ""
    violations: tuple[str, ...] = ()
    """The first few, each as a sentence with the time and the session."""

    violated: int = 0
    """How many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """How fast a level grew, after the run had warmed up: a line through its samples."""

    name: str
    """`memory`, `threads` or `files`."""

    an_hour: float
    error: float
    """One standard error of `an_hour`, with regard to neighbouring samples being alike."""

    first: float
    last: float
    """The line's ends."""

    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run, whole or cut short."""

    title: str
    target: str
    """`a room in this process`, or the server's URL."""

    started: str
    """The wall clock, as ISO 8601 with its zone."""

    seconds: float
    """How long turns arrived. The drain at the end is not in it."""

    interrupted: bool
    """Somebody ended it before its time."""

    settings: Mapping[str, Any]
    """The workload, by the names of its file; the room's policy under `policy`."""

    machine: Mapping[str, Any]
    """Python, system, processors, versions."""

    totals: Totals
    latencies: Mapping[str, Latency]
    """`start` (until a turn has its agent), of these `hit` and `build`; `turn` (until it has ended);
    `commit` and `teardown` (what the agents' hooks took). Those that did not happen are not there."""

    drain: float | None
    """How long the room's end took."""

    series: tuple[Second, ...] = ()
    """The run, second by second (in a long run: one of each few)."""

    checks: tuple[Check, ...] = ()
    slopes: tuple[Slope, ...] = ()

    @property
    def held(self) -> bool:
        """Whether no invariant was violated and nothing failed that should not have."""
        return all(check.held is not False for check in self.checks) and not self.totals.failures

    @property
    def late(self) -> float | None:
        """How many seconds the run itself was late in beginning turns (p99), if that is worth a word."""
        lag = self.settings.get("generator", {}).get("lag_p99") or 0.0
        return lag if lag > LATE else None

    def to_json(self) -> dict[str, Any]:
        """Everything, as what `json` can write."""
        return {
            "format": FORMAT,
            "held": self.held,
            "hit_rate": self.totals.hit_rate,
            **asdict(self),
        }
