"""The bounds of a room, each checked where it enters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

from greenroom.actors.runtime._calls import LONGEST, check_function

__all__ = ["Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How many agents a room keeps, for how long, and how patient it is. Immutable; see
    `room.configure()` for changing a room's."""

    cap: int | None = 128
    """How many agents may be cached. `None`: as many as there are sessions."""

    idle_ttl: float | None = 3600.0
    """An agent that was unused for longer, in seconds, is released. `None`: never."""

    sweep_every: float | None = 60.0
    """How often idle agents and expired sessions are looked for. `None`: only by `room.sweep()`."""

    session_ttl: float | None = None
    """A session that was unused for longer is closed, with an agent or without. `None`: never."""

    max_waiting: int = 16
    """How many turns may wait for one session."""

    commit_timeout: float | None = 60.0
    """A commit that takes longer counts as failed, and its worker is written off."""

    build_timeout: float | None = 300.0
    """A build that takes longer counts as failed. An agent that comes late is released."""

    teardown_timeout: float | None = 60.0
    """The hooks of a release or close that take longer are written off."""

    retry_first: float = 1.0
    """The pause after a first failed commit; it doubles with every further one …"""

    retry_most: float = 300.0
    """… up to this. Each is spread by a quarter either way."""

    store_timeout: float | None = 10.0
    """What is asked of the store and takes longer counts as failed."""

    lease_ttl: float = 15.0
    """With a store: a room that has not been heard of for so many seconds is taken for dead, and its
    sessions for free. It is heard of three times as often."""

    recover_at_once: int = 4
    """With a store: how many sessions that another room left uncommitted are committed at a time."""

    recover_tries: int = 10
    """… and how often that is tried, with growing pauses, before one is left to an operator."""

    memory_budget: float | None = None
    """Bytes (a whole number), or a share of the memory that the process may have (0 < share <= 1)."""

    memory_relief: float = 0.9
    """Above the budget, agents are released until this share of the budget is reached."""

    memory_batch: int = 8
    """How many agents one look at the memory may release."""

    weigh: Callable[[Any], int] | None = None
    """Tells how many bytes an agent holds. With it the budget is compared with the sum of these, else
    with the resident memory of the process, which on a Python without a GIL may not fall when agents
    go: give a weigh() there. Called after a build and after every turn: be quick."""

    def __post_init__(self) -> None:
        for name in ("cap", "max_waiting", "memory_batch", "recover_at_once", "recover_tries"):
            self._check_whole(name, least=0 if name == "max_waiting" else 1)
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

    def _check_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if name == "cap" and value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            none = " (or None for no bound)" if name == "cap" else ""
            msg = f"{name} must be a whole number, {least} or more{none}, not {value!r}"
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


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
