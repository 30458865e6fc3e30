"""Async work: on the event loop that it was given, or on one of the runtime's own."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextvars import Context
from typing import TYPE_CHECKING

from greenroom.actors.runtime._errors import RuntimeClosed, WorkNotBegun
from greenroom.actors.runtime._threads import OwnThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._future import Outcome
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.runtime._workers import Work

__all__ = ["Loops", "running_loop", "usable"]

logger = logging.getLogger("greenroom.actors")

GRACE = 1.0
"""How many seconds a cancelled task has to end before it counts as stuck."""


class Loops:
    """Runs coroutines. Its own loop has a daemon thread, started with the first that needs it.

    Work that is still running at its timeout is cancelled. If the task does not end within a grace, it
    is written off; and if it was on our own loop, something on that loop may be blocking it for
    everybody, so the next work gets a new loop.
    """

    def __init__(self, name: str, call_later: Callable[[float, Callable[[], object]], Timer]) -> None:
        self._name = name
        self._call_later = call_later
        self._lock = threading.RLock()  # reentrant: see Crew
        self._own: _LoopThread | None = None
        self._started = 0
        self._closed = False
        self._unsettled: dict[Work, None] = {}
        self._lost: dict[Work, None] = {}
        self.lost_total = 0

    def submit(self, work: Work, loop: asyncio.AbstractEventLoop | None) -> None:
        """Run `work.call()`, a coroutine, on `loop` or on our own."""
        with self._lock:
            # Under the lock, so that close() comes before it, and refuses it, or after, and cancels it.
            running = _Running(self, work, loop or self._own_loop(work))
            self._unsettled[work] = None
            work.future.on_done(lambda _: self._unsettled.pop(work, None))
            if work.timeout is not None:
                work.timer = self._call_later(work.timeout, running.time_out)
            try:
                running.loop.call_soon_threadsafe(running.begin)
            except RuntimeError as error:
                refusal = RuntimeClosed(f"{work.name} was not begun: {error}")
            else:
                return
        if work.claim():
            work.fail(refusal)

    def lost(self) -> tuple[str, ...]:
        """Name the work that was written off and is still there."""
        return tuple(work.name for work in list(self._lost))

    def close(self) -> None:
        """Stop our own loop, and answer for what does not end then."""
        with self._lock:
            self._closed = True
            own, self._own = self._own, None
        if own is not None:
            own.retire(at_once=True)
            own.thread.join(timeout=GRACE)
        for work in list(self._unsettled):
            if work.claim():
                work.fail(RuntimeClosed(f"{work.name} was still running when the runtime was closed"))

    def write_off(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        """Count a task that did not end when it was cancelled."""
        with self._lock:
            self.lost_total += 1
            self._lost[work] = None
            own = self._own
            replaced = own is not None and own.loop is loop
            if replaced:
                self._own = None
        logger.warning("%s is stuck: it did not end %s s after it was cancelled", work.name, GRACE)
        if replaced and own is not None:
            own.retire(at_once=False)

    def came_back(self, work: Work) -> None:
        """Note that a task which was written off has ended after all."""
        if self._lost.pop(work, work) is None:
            logger.info("%s came back after it was written off", work.name)

    def _own_loop(self, work: Work) -> asyncio.AbstractEventLoop:
        if self._closed:
            msg = f"{work.name} was not begun: the runtime is closed"
            raise RuntimeClosed(msg)
        if self._own is None or not self._own.thread.is_alive():
            self._started += 1
            self._own = _LoopThread(f"{self._name}-loop-{self._started}")
        return self._own.loop


class _Running:
    """One coroutine on its way."""

    __slots__ = ("_fate", "_loops", "_reached", "_task", "_work", "loop")

    def __init__(self, loops: Loops, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        self._loops = loops
        self._work = work
        self._task: asyncio.Task[Outcome] | None = None
        self._fate: dict[int, str] = {}
        """Begun or declined: who puts it there first decides."""
        self._reached = False
        self.loop = loop

    def begin(self) -> None:
        work = self._work
        self._reached = True
        if work.claimed or self._fate.setdefault(0, "begun") != "begun":
            self._loops.came_back(work)  # its time was over before the loop came to it
            return
        self._task = self.loop.create_task(self._outcome(), name=work.name, context=work.context)
        self._task.add_done_callback(self._ended)

    async def _outcome(self) -> Outcome:
        try:
            return await self._work.call(), None
        except BaseException:  # SystemExit would end the loop, and everybody else's work with it
            return None, sys.exc_info()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        if task.cancelled():  # before its first step
            cancelled = asyncio.CancelledError(f"{self._work.name} was cancelled")
            outcome: Outcome = (None, (type(cancelled), cancelled, None))
        else:
            outcome = task.result()
        if self._work.claim():
            self._work.future._resolve(outcome)
        else:
            self._loops.came_back(self._work)

    def time_out(self) -> None:
        if not self._work.claim():
            return
        if self._fate.setdefault(0, "declined") == "declined":
            self._work.fail(
                WorkNotBegun(
                    f"{self._work.name} was not begun within {self._work.timeout} seconds: its event "
                    "loop is blocked, or has stopped. It was not called at all"
                )
            )
            self._loops._call_later(GRACE, self._look_again)
            return
        try:
            self.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            pass  # the loop was closed, and the task with it
        else:
            self._loops._call_later(GRACE, self._look_again)
        self._work.time_out()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _look_again(self) -> None:
        ended = self._task.done() if self._task is not None else self._reached
        if ended or self.loop.is_closed():
            return
        self._loops.write_off(self._work, self.loop)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def usable(loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
    """Return the loop if something can run on it; else `None`, which stands for our own."""
    return loop if loop is not None and loop.is_running() else None


class _LoopThread:
    """An event loop with a daemon thread."""

    def __init__(self, name: str) -> None:
        # In an empty context: what wakes the loop up keeps that of its maker.
        self.loop = Context().run(asyncio.new_event_loop)
        self.thread = OwnThread(self._run, name=name)
        self.thread.start()

    def retire(self, *, at_once: bool) -> None:
        """End the thread: now, or when the tasks that are on the loop have ended."""

        def end() -> None:
            tasks = asyncio.all_tasks(self.loop)
            if at_once:
                for task in tasks:
                    task.cancel()
            if tasks:
                waiting = asyncio.gather(*tasks, return_exceptions=True)
                waiting.add_done_callback(lambda _: self.loop.stop())
            else:
                self.loop.stop()

        try:
            self.loop.call_soon_threadsafe(end)
        except RuntimeError:
            pass  # it has ended already

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
