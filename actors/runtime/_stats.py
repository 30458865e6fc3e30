"""What a runtime counts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

__all__ = ["RuntimeStats", "Tally"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """The state of a runtime at one moment, and what has happened so far."""

    actors: int
    """Running now."""
    started: int
    failures: int
    """Handlers that raised with nobody to give the exception to."""
    restarts: int
    dead_letters: int
    """Messages told to an actor that stopped before it came to them."""
    slow_handlers: int
    hand_overs: int
    """Batches that went on on a helper thread."""
    helpers: int
    """Helper threads now."""
    timers: int
    """Timers that have still to call."""
    workers: int
    """Worker threads now, those written off not counted."""
    workers_busy: int
    work_queued: int
    workers_lost: int
    """Workers written off so far, because their work was stuck."""
    stuck: tuple[str, ...]
    """The names of what was written off and is still running."""


class Tally:
    """A counter that any thread may raise: `next()` of a C iterator is a single step, `+= 1` is not."""

    __slots__ = ("_ticks",)

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def add(self) -> None:
        """Count one more."""
        next(self._ticks)

    @property
    def total(self) -> int:
        """How many were counted."""
        # The only look at a count that does not count, and is not deprecated: "count(12)".
        return int(repr(self._ticks)[len("count(") : -1])
