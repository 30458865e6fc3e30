"""What the heart of a room costs: turns beside a dict with a lock, processor time, memory, code.

    make bench-heart                  some minutes; writes results/heart.json
    make bench-heart ARGS=--whole     the same with a million sessions
    make bench-heart ARGS=--quick     a minute; writes nothing

Contenders take turns in one process (`turns`), in batches that are short beside the disturbances of a
busy machine, and the best batch of each counts: what an undisturbed machine would show. What counts
memory, or every thread of the process, has a process of its own (`costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LOOP_LOCK = "loop_lock"
"""A dict with an `asyncio.Lock` for each session."""

TURNS = 256
"""Of a batch. More would take longer than a busy machine leaves a program alone, and the slower
contender, whose batches take longest, would be disturbed most. Fewer would miss work that a room puts
off: a turn leaves two notices for its supervisor, which handles 512 at once."""

FEW = 100
"""Sessions in a room that a core's cache holds."""

DISTRIBUTIONS = ("greenroom", "pykka", "cachetools", "xoscar")


@dataclass(frozen=True, kw_only=True)
class Effort:
    repetitions: int
    batches: int
    """Of turns, in each repetition: the best one counts."""

    inserts: int
    """Batches of new sessions."""

    contended_seconds: float
    sessions: int
    """In the room that is compared with a small one, and whose memory is measured."""

    rounds: int
    """Sweeps and drains of 10,000 sessions."""


FULL = Effort(repetitions=7, batches=150, inserts=40, contended_seconds=0.5, sessions=100_000, rounds=3)
QUICK = Effort(repetitions=2, batches=60, inserts=15, contended_seconds=0.2, sessions=10_000, rounds=1)


def alternating(works: Mapping[str, Callable[[], float]], batches: int) -> dict[str, float]:
    """The least that each of these returned, in so many rounds through all of them."""
    rounds = [{name: work() for name, work in works.items()} for _ in range(batches)]
    return {name: min(found[name] for found in rounds) for name in works}
