"""Workers: bounded daemon threads for work that may block, and how a stuck one is written off.

    submit ──> queue ──> worker takes it ──> the future gets the value or the exception
                              │
                              └ still running at its timeout: the future gets WorkTimedOut, the thread
                                is written off (no longer counted, named in the log and in stats()),
                                another may be started in its place. When it comes back after all, its
                                outcome is ignored and it ends.

The timeout counts from when the work begins, not from when it was submitted. So any number of wedged
calls delay the others by their timeout at most, and never keep the process alive: the threads are
daemons.

A timeout may be long, and the calls that are stuck may be as many as the workers. So when work that was
waiting a second ago has still not begun, more workers help, up to a bound, until nothing waits.
"""

from __future__ import annotations

import contextvars
import operator
import sys
import threading
from typing import TYPE_CHECKING, Any

from greenroom.actors.runtime._crew import Crew
from greenroom.actors.runtime._errors import RuntimeClosed, WorkTimedOut
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._threads import LOCAL, taking

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._future import Future, Outcome
    from greenroom.actors.runtime._timers import Timer

__all__ = ["Work", "Workers"]

logger = get_log("greenroom.actors")

PATIENCE = 10.0
"""A worker that found nothing to do for so many seconds ends."""

RELIEF = 1.0
"""Work that has waited for so many seconds is worth another worker."""


class Work:
    """One piece of slow work. Of its worker and its timeout, whoever claims it first settles it."""

    __slots__ = ("_claim", "_to_begin", "call", "context", "future", "name", "timeout", "timer")

    def __init__(
        self, call: Callable[[], Any], future: Future[Any], name: str, timeout: float | None
    ) -> None:
        self.call = call
        self.future = future
        self.name = name
        self.timeout = timeout
        self.context = contextvars.copy_context()
        self.timer: Timer | None = None
        self._claim = threading.Lock()
        self._to_begin = [None]

    def begin(self) -> bool:
        """Win the right to do it. True once: it may be submitted twice, behind a strike."""
        try:
            self._to_begin.pop()
        except IndexError:
            return False
        return True

    def put_back(self) -> None:
        """It was not called after all, and may be begun elsewhere."""
        self._to_begin.append(None)

    @property
    def claimed(self) -> bool:
        """Whether somebody has won that right."""
        return self._claim.locked()

    def claim(self) -> bool:
        """Win the right to settle it. True for one caller only."""
        if not self._claim.acquire(False):
            return False
        if self.timer is not None:
            self.timer.cancel()
        return True

    def fail(self, error: Exception) -> None:
        """Settle it, once claimed, with an error."""
        self.future._resolve((None, (type(error), error, None)))

    def time_out(self) -> None:
        """Settle it, once claimed, with `WorkTimedOut`."""
        self.fail(
            WorkTimedOut(
                f"{self.name} was still running after {self.timeout} seconds. It was written off: its "
                "outcome will be ignored. Find out what it waits for, or give it more time"
            )
        )


class Workers:
    """At most `most` threads at work, started on demand."""

    def __init__(
        self,
        name: str,
        most: int,
        call_later: Callable[[float, Callable[[], object]], Timer],
        elsewhere: Callable[[Callable[[], object]], object] = operator.call,
    ) -> None:
        self.crew: Crew[Work] = Crew(name, most, PATIENCE, self._do, elsewhere)
        self._call_later = call_later
        self._lock = threading.RLock()  # reentrant: see Crew
        self._running: dict[threading.Thread, Work] = {}
        self._lost: dict[threading.Thread, str] = {}
        self._name = name
        self._watching = False
        self.lost_total = 0

    def submit(self, work: Work) -> None:
        """Have a worker do this."""
        self.crew.put(work)
        if self.crew.closed:
            self._refuse(self.crew.close())
        elif self.crew.queued():
            self._watch()

    def lost(self) -> tuple[str, ...]:
        """Name the work that was written off and is still running."""
        return tuple(self._lost.copy().values())

    def close(self, patience: float) -> None:
        """Begin nothing new, wait for what is running, and then write off what is stuck."""
        self._refuse(self.crew.close())
        self._refuse(self.crew.join(patience))
        for thread, work in list(self._running.items()):
            if self._record_lost(work, thread):
                work.fail(RuntimeClosed(f"{work.name} was still running when the runtime was closed"))

    def _watch(self) -> None:
        """Look again in a second whether what waits now has begun."""
        watching = True
        for _ in taking(self._lock):
            try:
                watching, self._watching = self._watching, True
            finally:
                self._lock.release()
        if watching:
            return
        queued, taken = self.crew.progress()
        self._call_later(RELIEF, lambda: self._look(queued + taken))

    def _look(self, due: int) -> None:
        self._watching = False  # before looking: who submits work after that look watches it
        queued, taken = self.crew.progress()
        if self.crew.closed or not queued:
            self.crew.relax()
            return
        if taken < due:
            came = self.crew.relieve(due - taken)
            logger.info("Work waits for workers of %s: %s more help for now", self._name, came)
        self._watch()

    def _refuse(self, begun_by_nobody: list[Work]) -> None:
        for work in begun_by_nobody:
            if work.begin() and work.claim():
                work.fail(RuntimeClosed(f"{work.name} was not begun: the runtime was closed"))

    def _do(self, work: Work, thread: threading.Thread) -> bool:
        """Do it. False if it was written off meanwhile, and the thread with it."""
        if not work.begin():
            return True
        thread.name = f"{thread.name}: {work.name}"  # a stack dump then says what is stuck
        self._running[thread] = work
        if work.timeout is not None:
            work.timer = self._call_later(work.timeout, lambda: self._write_off(work, thread))
        outcome: Outcome
        state = LOCAL.state
        state.exposed = True  # the work is anybody's, and may recurse
        try:
            outcome = (work.context.run(work.call), None)
        except BaseException:  # SystemExit of a confused library ends this work, not the worker
            outcome = (None, sys.exc_info())
        state.exposed = False
        del self._running[thread]
        if work.claim():
            work.future._resolve(outcome)
            return True
        with self._lock:
            del self._lost[thread]
        logger.info("%s came back after it was written off", work.name)
        return False

    def _write_off(self, work: Work, thread: threading.Thread) -> None:
        if self._record_lost(work, thread):
            logger.warning(
                "%s is stuck: still running after %s seconds. Its worker was written off and replaced",
                work.name,
                work.timeout,
            )
            work.time_out()

    def _record_lost(self, work: Work, thread: threading.Thread) -> bool:
        """Claim the work of a stuck worker and count the worker no more. False if it came back."""
        with self._lock:
            # The claim and the record under one lock: a worker that comes back at this moment and
            # finds the work claimed then finds the record too. And both before the future is set, so
            # that whoever hears of the timeout finds it in stats().
            if not work.claim():
                return False
            self._lost[thread] = work.name
            self.lost_total += 1
        self.crew.dismiss(thread)
        return True
