"""Async work: on the event loop that it was given, or on one of the runtime's own."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextvars import Context
from typing import TYPE_CHECKING

from greenroom.actors.runtime._errors import RuntimeClosed, WorkNotBegun
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._strikes import is_of_a_signal, is_strike
from greenroom.actors.runtime._threads import LOCAL, OwnThread, taking

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._future import Outcome
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.runtime._workers import Work

__all__ = ["Loops", "pass_on", "running_loop", "usable"]

logger = get_log("greenroom.actors")

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
        self._unsettled: dict[Work, _Running] = {}
        self._lost: dict[Work, None] = {}
        self.lost_total = 0

    def submit(self, work: Work, loop: asyncio.AbstractEventLoop | None) -> None:
        """Run `work.call()`, a coroutine, on `loop` or on our own."""
        refusal: Exception | None = None
        for _ in taking(self._lock):
            try:
                # Under the lock: close() comes before it, and refuses it, or after, and cancels it.
                try:
                    running = _Running(self, work, loop or self._own_loop(work))
                except Exception as error:  # no loop or thread can be had
                    if LOCAL.state.exposed and is_strike(error):
                        raise
                    refusal = error
                    continue
                self._unsettled[work] = running
                work.future.on_done(lambda _: self._unsettled.pop(work, None))
                if work.timeout is not None:
                    work.timer = self._call_later(work.timeout, running.time_out)
                try:
                    running.loop.call_soon_threadsafe(running.begin)
                except RuntimeError as error:
                    if isinstance(error, RecursionError):
                        raise  # which is this thread's
                    refusal = RuntimeClosed(f"{work.name} was not begun: {error}")
            finally:
                self._lock.release()
        if refusal is not None and work.claim():
            work.fail(refusal)

    def leave_closed_loops(self) -> None:
        """See to work on loops that were closed since: nothing there will ever tell of its end."""
        for work, running in list(self._unsettled.items()):
            if running.loop.is_closed():
                self.leave_loop(work, called=running.called)

    def leave_loop(self, work: Work, *, called: bool) -> None:
        """Do work on our own loop that another one did not come to, or count it as failed."""
        if not called:
            work.put_back()
            self.submit(work, None)
        elif work.claim():
            work.fail(RuntimeError(f"{work.name} was under way when its event loop was closed"))

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

    __slots__ = ("_fate", "_loops", "_reached", "_task", "_work", "called", "loop")

    def __init__(self, loops: Loops, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        self._loops = loops
        self._work = work
        self._task: asyncio.Task[Outcome] | None = None
        self._fate: dict[int, str] = {}
        """Begun or declined: who puts it there first decides."""
        self._reached = False
        self.called = False
        """Whether the work was called."""
        self.loop = loop

    def begin(self) -> None:
        work = self._work
        self._reached = True
        if not work.begin():
            return
        if work.claimed or self._fate.setdefault(0, "begun") != "begun":
            self._loops.came_back(work)  # its time was over before the loop came to it
            return
        self._task = self.loop.create_task(self._outcome(), name=work.name, context=work.context)
        self._task.add_done_callback(self._ended)

    async def _outcome(self) -> Outcome:
        self.called = True
        try:
            return await self._work.call(), None
        except BaseException as error:  # SystemExit would end the loop, and all other work with it
            pass_on(error)
            return None, sys.exc_info()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        if task.cancelled() and not self.called and not self._work.claimed:
            self._loops.leave_loop(self._work, called=False)  # its loop is about to end
            return
        if task.cancelled():
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


def pass_on(error: BaseException) -> None:
    """End the loop that runs here with what a signal handler raised inside a task, as asyncio does for a
    task that lets it through."""
    loop = running_loop()
    if loop is not None and isinstance(error, (SystemExit, KeyboardInterrupt)) and is_of_a_signal(error):
        loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error


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
