"""Helper threads: who runs the actors when the thread that brought the message has done its share."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom.actors._mailbox import Mailbox, drive
from greenroom.actors._threads import LOCAL

if TYPE_CHECKING:
    from queue import SimpleQueue

__all__ = ["Helpers"]

IDLE = 5.0
"""A helper that found nothing to do for so many seconds ends."""


class Helpers:
    """A few daemon threads that take mailboxes, and odd jobs, in the order they were handed over.

    A thread is started when something is handed over, all others are busy and there may be one more.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._queue: SimpleQueue[Mailbox | Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._idle = 0
        self._closed = False

    def take(self, job: Mailbox | Callable[[], object]) -> None:
        """Have a helper run this mailbox, or call this."""
        self._queue.put(job)
        if self._idle < self._queue.qsize():
            self._reinforce()

    def alive(self) -> int:
        """Tell how many threads there are now."""
        return len(self._threads)

    def close(self) -> None:
        """Finish what was handed over, then end every helper."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout=5.0)

    def _reinforce(self) -> None:
        with self._lock:
            if len(self._threads) >= self._most or self._closed:
                return
            self._started += 1
            name = f"{self._name}-helper-{self._started}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if not isinstance(job, Mailbox):
                job()
            elif job.baton.acquire(False):
                drive(LOCAL.state, job)

    def _next(self) -> Mailbox | Callable[[], object] | None:
        """Wait for the next job. `None`: this thread is to end, and is no longer counted."""
        with self._lock:
            self._idle += 1
        try:
            job = self._queue.get(timeout=IDLE)
        except queue.Empty:
            job = None
        with self._lock:
            self._idle -= 1
            # 1. we give up waiting  2. take() puts a job, sees us idle and starts nobody  3. we end.
            # Nobody would run 2, so we look once more now that we are no longer counted as idle.
            if job is None and not self._queue.empty():
                job = self._queue.get_nowait()
            if job is None:
                self._threads.discard(threading.current_thread())
        return job
