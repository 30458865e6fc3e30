"""Timers on one thread, and a clock that a test can own."""

from __future__ import annotations

import heapq
import itertools
import math
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import pykka

from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._threads import OwnThread, taking

__all__ = [
    "Clock",
    "ManualClock",
    "ManualTimers",
    "Timer",
    "TimerOver",
    "TimerQueue",
    "TimerThread",
]

logger = get_log("greenroom.actors")


class Clock(Protocol):
    """Tells the time in seconds, from any beginning, never backwards: `time.monotonic` is one."""

    def __call__(self) -> float: ...


class TimerOver(Exception):
    """Raised by a call that has no more reason to be made: its timer is cancelled, nothing is logged."""


class Timer:
    """A call that is to be made later, once or again and again."""

    __slots__ = ("__weakref__", "_what", "due", "interval", "waits")

    def __init__(
        self, due: float, interval: float | None, call: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.due = due
        self.interval = interval
        self._what: tuple[Callable[..., object], tuple[Any, ...]] | None = (call, args)
        self.waits = False
        """Whether it is in a queue. It may be put there twice, behind a strike."""

    @property
    def cancelled(self) -> bool:
        """Whether it will not call any more: it was cancelled, or has called and was for once."""
        return self._what is None

    def cancel(self) -> None:
        """Do not call, or not again. What the call refers to is let go at once."""
        self._what = None

    def fire(self) -> bool:
        """Call, and tell whether to call again."""
        what = self._what
        if what is None:
            return False
        if self.interval is None:
            self.cancel()
        call, args = what
        try:
            call(*args)
        except TimerOver:
            self.cancel()
        except pykka.ActorDeadError as error:
            logger.debug("A timer came too late: %s", error)
        except BaseException:  # whatever it is, the other timers go on
            logger.exception("The timer call %r failed", call)
        return self._what is not None


class TimerQueue:
    """Timers in the order in which they are due; those due together in the order they were set.

    Cancelled ones stay where they are until they come to the front, or until the queue has doubled
    since it was last tidied: most timers are timeouts, and most of those are cancelled.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._counter = itertools.count()
        self._tidy_at = 64

    def __len__(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._heap)

    def push(self, timer: Timer) -> None:
        """Add a timer, unless it is there."""
        if timer.waits:
            return
        if len(self._heap) >= self._tidy_at:
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapq.heapify(self._heap)
            self._tidy_at = max(64, 2 * len(self._heap))
        entry = (timer.due, next(self._counter), timer)
        timer.waits = True
        heapq.heappush(self._heap, entry)

    def next_due(self) -> float | None:
        """Tell when the next one is due."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def next_once(self) -> float | None:
        """Tell when the next one is due that does not repeat."""
        once = [due for due, _, timer in self._heap if not timer.cancelled and timer.interval is None]
        return min(once, default=None)

    def pop_due(self, now: float) -> Timer | None:
        """Take the next one out if it is due."""
        due = self.next_due()
        if due is None or due > now:
            return None
        timer = heapq.heappop(self._heap)[2]
        timer.waits = False
        return timer

    def again(self, timer: Timer, now: float) -> None:
        """Put a repeating timer back. Beats that were missed are left out, not made up for."""
        assert timer.interval is not None
        timer.due = max(timer.due + timer.interval, now)
        self.push(timer)


class TimerThread:
    """Keeps timers on a daemon thread, which is started with the first."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        around: Callable[[Callable[[], bool]], bool],
        elsewhere: Callable[[Callable[[], object]], object],
    ) -> None:
        self._elsewhere = elsewhere
        self._name = name
        self._clock = clock
        self._around = around
        self._queue = TimerQueue()
        # Not a condition: its methods are Python's, and a strike in there would leave it locked.
        self._lock = threading.RLock()
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sleeps_until = -math.inf
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, timer: Timer) -> None:
        for _ in taking(self._lock):
            try:
                if not self._closed:
                    self._queue.push(timer)
            finally:
                self._lock.release()
        if self._thread is None:
            self._elsewhere(self._start)
        elif timer.due < self._sleeps_until:
            self._wakes.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._closed:
                return
            thread = OwnThread(self._run, name=self._name)
            try:
                thread.start()
            except RuntimeError as error:
                # The system has no thread for us now. The caller has done its part: the timer stays, and
                # the next one that is set tries again.
                logger.error("%s could not be started (%s): timers have to wait", self._name, error)
            else:
                self._thread = thread

    def pending(self) -> int:
        pending = 0
        for _ in taking(self._lock):
            try:
                pending = len(self._queue)
            finally:
                self._lock.release()
        return pending

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wakes.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            if self._around(timer.fire):
                with self._lock:
                    self._queue.again(timer, self._clock())

    def _next(self) -> Timer | None:
        while True:
            with self._lock:
                if self._closed:
                    return None
                timer = self._queue.pop_due(self._clock())
                if timer is not None:
                    self._sleeps_until = -math.inf  # it looks again before it sleeps
                    return timer
                due = self._queue.next_due()
                self._sleeps_until = math.inf if due is None else due
            left = None if due is None else min(max(0.0, due - self._clock()), threading.TIMEOUT_MAX)
            try:
                self._wakes.get(timeout=left)
            except queue.Empty:
                pass


class ManualClock:
    """A clock that stands still until it is told to advance, and then calls the timers that are due.

        clock = ManualClock()
        with Runtime(clock=clock) as runtime:
            runtime.call_later(3600.0, print, "an hour has passed")
            clock.advance(3600.0)

    The calls are made by `advance()`, on its thread, in order, each at its own time.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._queue = TimerQueue()
        self._changing = threading.Lock()  # actors on other threads add timers while this one advances

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            msg = f"time does not run backwards: advance({seconds!r})"
            raise ValueError(msg)
        end = self._now + seconds
        while self._fire_before(end):
            pass
        self._now = end

    def fire_next(self) -> bool:
        """Let time pass until the next timer is due and call it. False if there is none."""
        return self._fire_before(math.inf)

    def next_due(self, *, repeating: bool = True) -> float | None:
        """Tell when the next timer is due; with `repeating=False`, the next that calls only once."""
        with self._changing:
            return self._queue.next_due() if repeating else self._queue.next_once()

    def add(self, timer: Timer) -> None:
        """Keep a timer."""
        with self._changing:
            self._queue.push(timer)

    def _fire_before(self, end: float) -> bool:
        with self._changing:
            timer = self._queue.pop_due(end)
        if timer is None:
            return False
        self._now = max(self._now, timer.due)
        if timer.fire():
            with self._changing:
                self._queue.again(timer, self._now)
        return True


class ManualTimers:
    """The timers of one runtime on a manual clock, which it may share with others."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._own: weakref.WeakSet[Timer] = weakref.WeakSet()

    def add(self, timer: Timer) -> None:
        """Keep a timer."""
        self._own.add(timer)
        self._clock.add(timer)

    def pending(self) -> int:
        """Tell how many have still to call."""
        return sum(not timer.cancelled for timer in self._all())

    def close(self) -> None:
        """Cancel those of this runtime."""
        for timer in self._all():
            timer.cancel()

    def _all(self) -> list[Timer]:
        while True:
            try:
                return list(self._own)
            except RuntimeError:
                pass  # another thread has set a timer meanwhile: look again
