"""The progress of a drain: who is still to be heard of, and what is reported. Pure.

    0                    no turn begins; whoever is idle commits and closes; who is in a turn may end it
    deadline             FORCE: what is still in a turn is over; it commits and closes
    deadline + 0.5 s     ABANDON: whoever still commits is closed without waiting for that
    deadline + 0.8 s     REPORT: whoever has not been heard of is abandoned
    deadline + 0.9 s     ANSWER: the store is not waited for, which should have handed everything over

The report comes as soon as everybody was heard of and, where there is a store, other rooms may have the
sessions; in any case within a second of the deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.messages import DrainReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.messages import SessionDrained

__all__ = ["ABANDON", "ANSWER", "FORCE", "REPORT", "STAGES", "DrainProgress"]

FORCE, ABANDON, REPORT, ANSWER = 1, 2, 3, 4

STAGES = {FORCE: 0.0, ABANDON: 0.5, REPORT: 0.8, ANSWER: 0.9}
"""How many seconds after the deadline each stage begins."""


class DrainProgress:
    """What is known of one drain."""

    __slots__ = ("_abandoned", "_committed", "_failed", "_problems", "began", "deadline", "pending")

    def __init__(self, keys: Iterable[str], began: float, deadline: float) -> None:
        self.began = began
        self.deadline = deadline
        """When its time is over."""
        self.pending = set(keys)
        # Sets, and the key leaves `pending` last: what is heard twice, behind a strike, counts once.
        self._committed: set[str] = set()
        self._failed: set[str] = set()
        self._abandoned: set[str] = set()
        self._problems: dict[str, str] = {}

    def drained(self, message: SessionDrained) -> None:
        """A session has done what it could."""
        if message.key not in self.pending:
            return
        if message.committed:
            self._committed.add(message.key)
        if message.abandoned:
            self._abandoned.add(message.key)
        elif message.left or message.problem is not None:
            self._failed.add(message.key)
        if message.problem is not None or message.left:
            problem = message.problem or "nobody could be asked to commit"
            left = f" ({message.left} turns are uncommitted)" if message.left else ""
            self._problems[message.key] = problem + left
        self.pending.discard(message.key)

    def gone(self, key: str) -> None:
        """A session had nothing to do, and is no more."""
        self.pending.discard(key)

    def report(self, now: float) -> DrainReport:
        """Sum up. Whoever is still pending is abandoned."""
        for key in self.pending:
            self._problems.setdefault(key, "it was still busy at the deadline: a hook of it is stuck")
        return DrainReport(
            committed=tuple(sorted(self._committed)),
            failed=tuple(sorted(self._failed)),
            abandoned=tuple(sorted(self._abandoned | self.pending)),
            problems=dict(sorted(self._problems.items())),
            seconds=now - self.began,
        )
