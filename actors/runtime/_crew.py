"""A crew: daemon threads that are started when there is something to do and end when there is not."""

from __future__ import annotations

import operator
import queue
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._threads import LOCAL, OwnThread, taking

if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue

__all__ = ["Crew"]

logger = get_log("greenroom.actors")

J = TypeVar("J")


MOST_RELIEF = 8
"""How many times its usual number of threads a crew may grow to when they are stuck."""


class Crew(Generic[J]):
    """At most `most` threads that do jobs in the order they were put.

    One more thread is started when more jobs wait than threads do, and there may be one more. A thread
    that waited `patience` seconds in vain ends.

    Who waits is counted under the lock, jobs and threads together: a thread that has a job in hand and
    has not said so yet still counts as waiting, and its job as well. (Comparing the waiting threads
    with the length of the queue does not do: 1. a thread takes the last job  2. put() adds one, sees an
    empty queue's worth of jobs and a waiting thread, and starts nobody  3. the thread is busy, and the
    new job waits behind it.)

    A thread that is about to end its job (`ThreadState.finishing`) keeps the first job that it puts
    itself, and does it next: nobody need be woken for it.
    """

    def __init__(
        self,
        name: str,
        most: int,
        patience: float,
        do: Callable[[J, threading.Thread], bool],
        elsewhere: Callable[[Callable[[], object]], object] = operator.call,
    ) -> None:
        """`do(job, thread)` does a job, and tells whether the thread is still one of the crew.
        `elsewhere` makes a call where nothing strikes: see `Rescuer`."""
        self._elsewhere = elsewhere
        self._name = name
        self._usual_most = self._most = most
        self._patience = patience
        self._do = do
        self._queue: SimpleQueue[J | None] = queue.SimpleQueue()
        # Reentrant: the garbage collector may run in here, and a finaliser may put a job.
        self._lock = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._kept: dict[threading.Thread, J] = {}
        """What a thread of ours does next."""
        self._waiting_threads = 0
        self._waiting_jobs = 0
        self._started = 0
        self._taken = 0
        self.closed = False

    def put(self, job: J) -> None:
        """Have a job done."""
        if LOCAL.state.finishing and not self.closed:
            thread = threading.current_thread()
            if thread in self._threads and self._kept.setdefault(thread, job) is job:
                return
        more = False
        for _ in taking(self._lock):
            try:
                # No strike between these two. The same job may be put again behind one: see `_strikes`.
                self._waiting_jobs += 1
                self._queue.put(job)
                more = self._wants_more()
            finally:
                self._lock.release()
        if more:
            self._elsewhere(self._reinforce)

    def alive(self) -> int:
        """Tell how many threads there are."""
        return len(self._threads)

    def busy(self) -> int:
        """Tell how many of them are doing a job."""
        return max(0, len(self._threads) - self._waiting_threads)

    def queued(self) -> int:
        """Tell how many jobs wait."""
        return self._queue.qsize()

    def progress(self) -> tuple[int, int]:
        """Tell how many jobs wait, and how many were ever taken."""
        return self._queue.qsize(), self._taken

    def relieve(self, missing: int) -> int:
        """Let so many more threads help for now. Returns how many came: there is a bound to it too."""
        with self._lock:
            before = len(self._threads)
            self._most = min(max(self._usual_most, before + missing), self._usual_most * MOST_RELIEF)
        for _ in range(missing):
            self._reinforce()
        return len(self._threads) - before

    def relax(self) -> None:
        """Nothing waits any more: the usual number of threads will do."""
        with self._lock:
            self._most = self._usual_most

    def dismiss(self, thread: threading.Thread) -> None:
        """Count a thread no more: it is stuck in its job. Another may be started in its place."""
        with self._lock:
            self._threads.discard(thread)
        self._reinforce()

    def close(self) -> list[J]:
        """Have every thread end behind what it is doing. Returns the jobs that nobody has begun."""
        self.closed = True
        return self._take_all()

    def join(self, patience: float) -> list[J]:
        """Wait for the threads, `patience` seconds in all. Returns jobs that came after `close()`."""
        deadline = time.monotonic() + patience
        for thread in list(self._threads):
            # One that is not alive has yet to be started, finds that we are closed, and ends.
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout=max(0.0, deadline - time.monotonic()))
        return self._take_all()

    def _reinforce(self) -> None:
        thread = self._recruit()
        if thread is None:
            return
        try:
            # Not under the lock: start() waits for the new thread, and the garbage collector may run
            # there, and a finaliser may want the lock.
            thread.start()
        except BaseException as error:
            with self._lock:
                self._threads.discard(thread)
                self._waiting_threads -= 1
            if not isinstance(error, RuntimeError):
                raise
            # The system has no thread for us now. The job stays where it is: whoever put it must not
            # think that it was not taken, and do it again.
            logger.error("%s could not be started (%s): what it was for has to wait", thread.name, error)

    def _wants_more(self) -> bool:
        return len(self._threads) < self._most and self._waiting_threads < self._waiting_jobs

    def _recruit(self) -> threading.Thread | None:
        with self._lock:
            if not self._wants_more():
                return None
            self._started += 1
            name = f"{self._name}-{self._started}"
            thread = OwnThread(self._run, name, name=name)
            self._threads.add(thread)
            self._waiting_threads += 1
            return thread

    def _take_all(self) -> list[J]:
        jobs: list[J] = []
        with self._lock:
            while (job := self._take()) is not None:
                jobs.append(job)
            self._waiting_jobs -= len(jobs)
            if self.closed:
                self._queue.put(None)  # wakes one thread, which wakes the next
        return jobs

    def _take(self) -> J | None:
        """Take a job out if there is one. The `None` with which `close()` wakes threads is no job."""
        try:
            while (job := self._queue.get_nowait()) is None:
                pass
        except queue.Empty:
            return None
        return job

    def _run(self, name: str) -> None:
        thread = threading.current_thread()
        while (job := self._next(thread)) is not None:
            while job is not None:
                try:
                    stays = self._do(job, thread)
                except BaseException:  # whatever it is, it ended this job and not the thread
                    logger.exception("A job of %s failed", name)
                    stays = True
                job = self._kept.pop(thread, None)  # what the last one refers to is not kept meanwhile
                if not stays:
                    if job is not None:
                        self.put(job)  # this thread was written off: another does it
                    return
                thread.name = name
            with self._lock:
                self._waiting_threads += 1

    def _next(self, thread: threading.Thread) -> J | None:
        """Wait for the next job. `None`: this thread is to end, and is no longer counted."""
        try:
            job = self._queue.get(timeout=self._patience)
        except queue.Empty:
            job = None
        with self._lock:
            self._waiting_threads -= 1
            if job is None:
                # We waited in vain, or close() woke us. Either way a job may have come since that was
                # counted on us.
                job = self._take()
            if job is not None:
                self._waiting_jobs -= 1
                self._taken += 1
            else:
                self._threads.discard(thread)
            if self.closed:
                # Also behind a job that came late: what woke us was meant for all, and is used up.
                self._queue.put(None)
        return job
