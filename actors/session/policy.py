"""The bounds of a room, each checked where it enters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

from greenroom.actors.runtime._calls import LONGEST, check_function

__all__ = ["Policy"]

LEAST_BUDGET = 1 << 20
"""The least `memory_budget` in bytes that can be meant, where it is compared with a whole process."""


MOST_RECOVERED = 512
"""How many sessions of dead rooms may be recovered at a time."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How many agents a room keeps, for how long, and how long it waits. Immutable: `room.configure()`
    changes figures of a running room. All times are in seconds.

    Bounds:
        cap: how many agents may be cached. Above it, the least recently used are released. `None`: no
            limit.
        idle_ttl: an agent that was unused for longer is released; its session goes on. `None`: never.
        session_ttl: a session that was unused for longer is ended, with an agent or without. `None`:
            never.
        sweep_every: how often the room looks for idle agents and expired sessions. `None`: only
            `room.sweep()` does.
        max_waiting: how many turns may wait for one session. The next one raises `Overloaded`.

    Memory:
        memory_budget: how much memory agents may use: bytes (a whole number, from 1 MiB unless `weigh`
            is given), or a share of what the process may have (a float, 0 < share <= 1). Above it, the
            least recently used are released. `None`: no limit.
        memory_relief: agents are released until memory is down to this share of the budget.
        memory_batch: how many agents are released before memory is measured again.
        weigh: a function that tells how many bytes an agent holds. The budget then bounds their sum;
            otherwise it bounds the resident memory of the process, which on a Python without a GIL may
            not fall when agents go: give a `weigh` there. It is called after a build and after every
            turn, so be quick.

    Timeouts:
        build_timeout: a build that takes longer has failed. An agent that comes late is released.
        commit_timeout: a commit that takes longer has failed, and is retried.
        teardown_timeout: hooks of a release or a close that take longer are no longer waited for.
        store_timeout: a store call that takes longer has failed.

    Retries:
        retry_first: the pause after the first failed commit. It doubles with every further failure.
        retry_most: the longest such pause. Each is varied by up to a quarter.

    Several rooms on one store:
        lease_ttl: a room that was silent for longer is taken for dead, and others may take its sessions.
            A room reports three times as often.
        recover_at_once: how many sessions that a dead room left uncommitted are committed at a time, up
            to 512. Each has an agent, which does not count against the cap.
        recover_tries: how often each of them is tried, before it is left to an operator.
    """

    cap: int | None = 128
    idle_ttl: float | None = 3600.0
    sweep_every: float | None = 60.0
    session_ttl: float | None = None
    max_waiting: int = 16
    commit_timeout: float | None = 60.0
    build_timeout: float | None = 300.0
    teardown_timeout: float | None = 60.0
    retry_first: float = 1.0
    retry_most: float = 300.0
    store_timeout: float | None = 10.0
    lease_ttl: float = 15.0
    recover_at_once: int = 32
    recover_tries: int = 10
    memory_budget: float | None = None
    memory_relief: float = 0.9
    memory_batch: int = 8
    weigh: Callable[[Any], int] | None = None

    def __post_init__(self) -> None:
        for name in ("cap", "max_waiting", "memory_batch", "recover_at_once", "recover_tries"):
            most = MOST_RECOVERED if name == "recover_at_once" else None
            self._check_whole(name, least=0 if name == "max_waiting" else 1, most=most)
        for name in ("idle_ttl", "sweep_every", "session_ttl"):
            self._check_seconds(name, may_be_none=True)
        for name in ("commit_timeout", "build_timeout", "teardown_timeout", "store_timeout"):
            self._check_seconds(name, may_be_none=True)
        for name in ("retry_first", "retry_most", "lease_ttl"):
            self._check_seconds(name, may_be_none=False)
        if self.retry_most < self.retry_first:
            msg = f"retry_most must be retry_first ({self.retry_first}) or more, not {self.retry_most}"
            raise ValueError(msg)
        if not _is_number(self.memory_relief) or not 0 < self.memory_relief <= 1:
            msg = f"memory_relief must be a share, 0 < share <= 1, not {self.memory_relief!r}"
            raise ValueError(msg)
        self._check_budget()
        check_function("weigh", "a function of an agent that returns bytes, or None", self.weigh, True)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all figures."""
        return tuple(field.name for field in fields(cls))

    def pause_after(self, tries: int) -> float:
        """How long to wait after so many tries that failed."""
        return min(self.retry_first * 2.0 ** min(tries - 1, 60), self.retry_most)

    def _check_whole(self, name: str, least: int, most: int | None) -> None:
        value = getattr(self, name)
        if name == "cap" and value is None:
            return
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            none = " (or None for no bound)" if name == "cap" else ""
            bounds = f"{least} or more{none}" if most is None else f"{least} to {most}"
            msg = f"{name} must be a whole number, {bounds}, not {value!r}"
            raise ValueError(msg)

    def _check_seconds(self, name: str, *, may_be_none: bool) -> None:
        value = getattr(self, name)
        if value is None and may_be_none:
            return
        if not _is_number(value) or not 0 < value <= LONGEST:
            none = " (or None to switch it off)" if may_be_none else ""
            msg = (
                f"{name} must be more than 0 seconds, and not more than {LONGEST:g}{none}, not {value!r}"
            )
            raise ValueError(msg)

    def _check_budget(self) -> None:
        budget = self.memory_budget
        if budget is None:
            return
        share = isinstance(budget, float) and 0 < budget <= 1
        size = isinstance(budget, int) and not isinstance(budget, bool) and budget > 0
        if not share and not size:
            msg = (
                "memory_budget must be bytes (a whole number above 0) or a share of the memory that the "
                f"process may have (a float, 0 < share <= 1), not {budget!r}"
            )
            raise ValueError(msg)
        if size and self.weigh is None and budget < LEAST_BUDGET:
            percent = f": {budget / 100} is {budget} percent" if budget <= 100 else ""
            msg = (
                f"memory_budget must be {LEAST_BUDGET} bytes or more, for no process holds less, not "
                f"{budget!r}. A share of the memory there is must be a float, up to 1.0{percent}"
            )
            raise ValueError(msg)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
