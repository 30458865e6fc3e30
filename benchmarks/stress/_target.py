"""What a stress run drives: a room in this process, or a server over HTTP."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from greenroom.stress._result import Check, Latency

__all__ = ["Level", "Outcome", "Planned", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A turn that the workload asks for."""

    at: float
    """Seconds after the run's beginning. Latency counts from here, however late it is begun."""

    number: int
    key: str
    seconds: float
    """How long the agent is at work."""

    fails: bool = False
    """The turn is to raise."""

    ends: bool = False
    """The session is over after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a turn. `start` and `turn` are seconds since the moment it was planned for."""

    planned: Planned
    start: float | None
    """Until it had its agent. `None`: it never got one."""

    turn: float
    """Until it had ended."""

    built: bool | None
    """Whether its agent was built for it."""

    refused: bool = False
    error: str | None = None
    """What failed, unless it was planned to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A look at the target; counts are since its beginning. `None`: not known."""

    cached: int | None = None
    cap: int | None = None
    in_turn: int | None = None
    waiting: int | None = None
    dirty: int | None = None
    sessions: int | None = None
    builds: int | None = None
    rebuilds: int | None = None
    hits: int | None = None
    evictions: Mapping[str, int] | None = None
    """Releases and closes so far, by reason, but for those of a drain."""

    commits: int | None = None
    commit_failures: int | None = None
    workers_lost: int | None = None
    planned_failures: int = 0
    memory: int | None = None
    threads: int | None = None
    files: int | None = None


class Target(abc.ABC):
    """Every method runs on the run's event loop, and none blocks it."""

    name: str
    """For the report: `a room in this process`, or the server's URL."""

    @abc.abstractmethod
    async def open(self) -> Mapping[str, Any]:
        """Begin. Returns the settings of its own that the report should show (the policy, versions)."""

    @abc.abstractmethod
    async def turn(self, planned: Planned, due: float) -> Outcome:
        """Have a turn. `due` is the moment it was planned for, on `time.perf_counter()`."""

    @abc.abstractmethod
    async def look(self) -> Level:
        """See how it is. Called once a second."""

    @abc.abstractmethod
    async def configure(self, changes: Mapping[str, Any]) -> None:
        """Change its bounds. Raises `ValueError` in `open()` already if it cannot be done."""

    def arrivals_over(self) -> None:  # noqa: B027  # most targets have nothing to do here
        """Nothing arrives any more: let go what would keep turns waiting for ever. Once, before the run
        waits for the turns that are under way."""

    @abc.abstractmethod
    async def close(self) -> float | None:
        """End it, and say how long its drain took. Once: the first of the run's last acts."""

    @abc.abstractmethod
    def checks(self) -> Sequence[Check]:
        """Which invariants held. After `close()`."""

    @abc.abstractmethod
    def hook_seconds(self) -> Mapping[str, Sequence[float] | Latency]:
        """What commits and teardowns took (`commit`, `teardown`), where that can be seen: each of them,
        or summed up already."""
