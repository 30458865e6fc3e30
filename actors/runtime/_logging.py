"""Logging that a strike cannot lock up.

`logging` takes its locks in Python code. An exception that strikes a thread between taking one and the
`try` behind it leaves the lock taken, and from then on every thread that logs waits for ever:

    1. the main thread enters `Handler.handle`, which takes the handler's lock
    2. a signal handler raises there, before the `try`      the lock stays taken
    3. a worker logs that an agent is closed, and waits     so does the drain that waits for the worker

So a thread that may be struck only makes its record. A thread of the runtime writes it, with the context
variables of the caller, for filters that read them. What a handler logs is sent like everything that it
sends: once, when it has happened (`_strikes`).

Whether a level is enabled is asked without `Logger.isEnabledFor`, which takes a lock on its first call.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from greenroom.actors.runtime._strikes import Rescuer, make
from greenroom.actors.runtime._threads import LOCAL

if TYPE_CHECKING:
    from types import TracebackType

    ExceptionInfo = (
        bool
        | BaseException
        | tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None]
        | None
    )

__all__ = ["Log", "LogWriter", "flush_logs", "forget_writers", "get_log"]


MOST = 10_000
"""How many records may wait to be written. If there are more, who logs writes, and has to wait."""


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger that any thread may use at any point."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Make a record, and have it written: here, or on a thread that nothing strikes."""
        logger = self.logger
        if level < logger.getEffectiveLevel() or level <= logger.manager.disable:
            return
        file, line, function, _ = logger.findCaller(stacklevel=2)
        exception = _exception(kwargs.get("exc_info"))
        given: Any = args
        record = logger.makeRecord(logger.name, level, file, line, msg, given, exception, function)
        thread = LOCAL.state
        drive, running = thread.drive, thread.running
        if drive is None or drive.item is None:
            running = None  # no handler is at work
        writer = _writer() if running is None else running.runtime.log
        if not thread.exposed or writer is None or not writer.ready:
            logger.handle(record)
            return
        call = (copy_context().run, logger.handle, record)
        if running is None or drive is None:
            writer.write(call)
        else:
            writer.begin_soon()
            drive.sent.append((writer.put, call, None))


def get_log(name: str) -> Log:
    """The log of this name."""
    return Log(logging.getLogger(name), {})


def _exception(info: ExceptionInfo) -> Any:
    if isinstance(info, BaseException):
        return (type(info), info, info.__traceback__)
    return info if isinstance(info, tuple) else sys.exc_info() if info else None


class LogWriter(Rescuer):
    """A runtime's thread for records. It begins with the first one."""

    def __init__(self, name: str, rescuer: Rescuer) -> None:
        super().__init__(name)
        self._rescuer = rescuer
        self._ended = False
        self._wanted = False
        """Whether a record was ever given to it."""
        _writers.append(self)

    @property
    def ready(self) -> bool:
        """Whether it takes records: the rescuer can start it, and it keeps up."""
        return self._rescuer.runs and not self._ended and self._calls.qsize() < MOST

    def write(self, call: tuple[Any, ...]) -> None:
        """Have a record written."""
        self.put(call)
        # *Put, then look* here, *end, then write the rest* there: one of the two writes it.
        if self._ended:
            self._write_here()
        else:
            self.begin_soon()

    def begin_soon(self) -> None:
        """Have the thread started, if it does not run: elsewhere, because nothing strikes there."""
        self._wanted = True
        if not self.runs:
            self._rescuer.put((self._begin,))

    def flush(self, patience: float) -> None:
        """Wait until what was logged so far is written."""
        if self.ready and self._wanted:
            written = threading.Event()
            self.write((written.set,))
            written.wait(patience)

    def _started(self) -> None:
        pass

    def end(self) -> None:
        """Take no more records. May be called on any thread, inside anything."""
        self._ended = True
        if self in _writers:
            _writers.remove(self)
        self.put(None)

    def close(self, patience: float) -> None:
        """Write what there is, and end the thread."""
        super().close(patience)
        self._write_here()

    def _begin(self) -> None:
        try:
            self.start()
        except RuntimeError:  # the interpreter is about to exit, and starts no thread any more
            self._write_here()

    def _write_here(self) -> None:
        ends = False
        while not self._calls.empty():
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                break
            if call is None:
                ends = True
            else:
                make(call)
        if ends:
            self.put(None)  # for the thread


_writers: list[LogWriter] = []
"""Those of the runtimes that are not closed."""


def _writer() -> LogWriter | None:
    """One that is ready. It need not be of the runtime that logs: there is one `logging` for all."""
    return next((writer for writer in reversed(_writers) if writer.ready), None)


def flush_logs(patience: float) -> None:
    """Wait until what was logged so far is written, by any thread."""
    for writer in list(_writers):
        writer.flush(patience)


def forget_writers() -> None:
    """In a forked child: their threads are the parent's."""
    _writers.clear()
