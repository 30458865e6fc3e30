"""The supervisor, third layer: drain."""

from __future__ import annotations

import logging
from typing import Any

from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.messages import (
    Answered,
    CloseBooks,
    DrainDeadline,
    DrainReport,
    DrainRoom,
    DrainSession,
    SessionDrained,
)
from greenroom.supervisor._bounds import SupervisorBounds
from greenroom.supervisor.drain import ABANDON, ANSWER, FORCE, REPORT, STAGES, DrainBooks

__all__ = ["SupervisorDrain"]

logger = logging.getLogger("greenroom.supervisor")


class SupervisorDrain(SupervisorBounds):
    """Ends everything, in time, and reports."""

    def _drain_room(self, message: DrainRoom) -> DrainReport | None:
        state, context = self._state, self._context
        if state.report is not None and state.books_closed:
            return state.report
        state.draining.append(self.defer_reply())
        if state.drain is None:
            context.draining = True
            self._say_whether_warm()
            now = self.runtime.clock()
            state.drain = DrainBooks(context.cards, now, now + message.deadline)
            logger.info("Draining %s sessions, for %s s at most", len(context.cards), message.deadline)
            self._set_drain_timers(state.drain)
            self._tell_pending(DrainSession(deadline=state.drain.deadline))
            self._look_whether_drained()
        return None

    def _set_drain_timers(self, drain: DrainBooks) -> None:
        left = drain.deadline - self.runtime.clock()
        for stage, after in STAGES.items():
            self.call_later(max(0.0, left + after), DrainDeadline(stage=stage))

    def _tell_pending(self, message: Any) -> None:
        """Tell everybody who is still to be heard of. From one that has stopped, word is on its way."""
        pending = () if self._state.drain is None else sorted(self._state.drain.pending)
        for card in filter(None, map(self._context.cards.get, pending)):
            self._deliver(card.ref, message)

    def _drain_deadline(self, message: DrainDeadline) -> None:
        if message.stage == ANSWER:
            self._answer_drain()
        if self._state.drain is None or self._state.report is not None:
            return
        if message.stage == FORCE:
            self._tell_pending(DrainSession(deadline=self._state.drain.deadline, force=True))
            self._look_whether_drained()
        elif message.stage == ABANDON:
            self._tell_pending(DrainSession(deadline=self._state.drain.deadline, abandon=True))
            self._look_whether_drained()
        elif message.stage == REPORT:
            self._report(self._state.drain)

    def _session_drained(self, message: SessionDrained) -> None:
        if self._state.drain is not None:
            self._state.drain.drained(message)
            self._look_whether_drained()

    def _look_whether_drained(self) -> None:
        drain = self._state.drain
        if drain is not None and not drain.pending and self._state.report is None:
            self._report(drain)

    def _report(self, drain: DrainBooks) -> None:
        state = self._state
        state.report = report = drain.report(self.runtime.clock())
        for key, problem in report.problems.items():
            logger.error("Session %r was not drained cleanly: %s", key, problem)
        logger.info(
            "Drained in %.2f s: %s committed, %s failed, %s abandoned",
            report.seconds,
            len(report.committed),
            len(report.failed),
            len(report.abandoned),
        )
        self._close_books()

    def _close_books(self) -> None:
        """Hand everything over to other rooms, where there is a store."""
        if self._context.writer is None:
            self._answer_drain()
        else:
            ask_and_hear(self, self._context.writer, CloseBooks())

    def _books_closed(self, _: Answered) -> None:
        self._answer_drain()

    def _answer_drain(self) -> None:
        state = self._state
        if state.report is None:
            return
        state.books_closed = True
        waiting, state.draining = state.draining, []
        for reply in waiting:
            reply.set(state.report)
