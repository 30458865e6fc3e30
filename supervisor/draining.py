"""The drain of a room: a shell around `drain.py`, which knows who is heard of and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actors.runtime._logging import get_log
from greenroom.messages import DrainSession
from greenroom.supervisor._deliver import deliver
from greenroom.supervisor.drain import ABANDON, ANSWER, FORCE, STAGES, DrainProgress

if TYPE_CHECKING:
    from greenroom.actors import Reply
    from greenroom.actors.session.context import RoomContext
    from greenroom.messages import DrainReport, SessionDrained

__all__ = ["Draining"]

logger = get_log("greenroom.supervisor")


class Draining:
    """Ends everything, in time, and reports. It outlives a crash of the supervisor."""

    __slots__ = ("_context", "_waiting", "answered", "progress", "report")

    def __init__(self, context: RoomContext) -> None:
        self._context = context
        self.begin_anew()

    def begin_anew(self) -> None:
        """The room is not drained."""
        self._waiting: tuple[Reply, ...] = ()
        self.progress: DrainProgress | None = None
        """`None`: the room is not drained."""
        self.report: DrainReport | None = None
        self.answered = False
        """Whoever waited has been answered, and the next one is at once."""

    def begin(self, seconds: float) -> None:
        """Tell every session to end."""
        context, now = self._context, self._context.runtime.clock()
        self.progress = DrainProgress(context.cards, now, now + seconds)
        logger.info("Draining %s sessions, for %s s at most", len(context.cards), seconds)
        self._tell_pending()

    def hurry(self, seconds: float) -> bool:
        """Have no more time than this. False if there is less left anyway, or the report is written."""
        progress, deadline = self.progress, self._context.runtime.clock() + seconds
        if progress is None or self.report is not None or deadline >= progress.deadline:
            return False
        progress.deadline = deadline
        return True

    def stages_left(self) -> dict[int, float]:
        """In how many seconds each stage begins, until everybody is answered."""
        if self.progress is None or self.answered:
            return {}
        left = self.progress.deadline - self._context.runtime.clock()
        return {stage: max(0.0, left + after) for stage, after in STAGES.items()}

    def reach(self, stage: int) -> None:
        """A stage begins."""
        if stage == ANSWER:
            self.answer()
        elif stage in (FORCE, ABANDON):
            self._tell_pending(force=stage == FORCE, abandon=stage == ABANDON)

    def _tell_pending(self, *, force: bool = False, abandon: bool = False) -> None:
        """Tell everybody who is still to be heard of. From one that has stopped, word is on its way."""
        progress = self.progress
        if progress is None or self.report is not None:
            return
        message = DrainSession(deadline=progress.deadline, force=force, abandon=abandon)
        for card in filter(None, map(self._context.cards.get, sorted(progress.pending))):
            deliver(card.ref, message)

    def drained(self, message: SessionDrained) -> None:
        """A session has done what it could."""
        if self.progress is not None:
            self.progress.drained(message)

    def gone(self, key: str) -> None:
        """A session is no more."""
        if self.progress is not None:
            self.progress.gone(key)

    def sum_up(self, *, late: bool = False) -> bool:
        """Write the report if everybody was heard of, or if it is too late for the others. True once."""
        progress = self.progress
        if progress is None or self.report is not None or (progress.pending and not late):
            return False
        self.report = report = progress.report(self._context.runtime.clock())
        for key, problem in report.problems.items():
            logger.error("Session %r was not drained cleanly: %s", key, problem)
        logger.info(
            "Drained in %.2f s: %s committed, %s failed, %s abandoned",
            report.seconds,
            len(report.committed),
            len(report.failed),
            len(report.abandoned),
        )
        return True

    def wait(self, reply: Reply) -> None:
        """Answer with the report."""
        self._waiting = (*self._waiting, reply)

    def answer(self) -> None:
        """Answer everybody who waits, if there is a report."""
        if self.report is None:
            return
        self.answered = True
        waiting, self._waiting = self._waiting, ()
        for reply in waiting:
            reply.set(self.report)
