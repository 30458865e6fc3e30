"""Strikes: exceptions that belong to a thread, and not to the actor that it happens to run.

Handlers run on their callers' threads. A signal handler may raise there, the stack may be full, somebody
may inject an exception. Such a strike ends the call of that caller and nothing else. CPython delivers
signals when a function is entered, after a call and at a backward jump, and nowhere else.

**A handler happens, or it does not.** On a thread that may be struck the mailbox saves what the actor
can change (`Actor.save()`), and what the handler sends waits until it has returned (`Drive.sent`). If
the thread is struck before that, the actor is put back (`Actor.restore()`) and the message is handled
once more, by a rescuer. If it is struck later, the rescuer sends what was not sent yet.

    1. take the baton                           struck: the rescuer lets go of it
    2. save, and run the handler                struck: put back, and handle the message once more
    3. `drive.item = None`: it has happened     a single store
    4. send what it has sent                    struck: the rescuer goes on
    5. let go of the baton, look once more      struck: the rescuer looks

Sending goes on exactly where it stopped: `for drive.doing in drive.sending` takes one and notes it with
no strike in between, and what is called next is either a C function (`list.append`), which has happened
if it was struck behind, or one that may be called twice.

**The way out needs no frame.** A thread at the end of its stack cannot call a Python function, and what
was struck once may be struck again. So who is struck does one thing: `SimpleQueue.put`, to a thread that
already runs. That is the rescuer. It is one of the runtime's own, so nothing strikes there; an exception
that a handler raises there is the actor's own.

**Why every wait ends.** Whoever waits for an answer of the struck actor waits for a message that is in
its mailbox, in hand, or sent. The rescuer puts the first two back and sends the third.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import traceback
from opcode import opmap
from typing import TYPE_CHECKING, Any

from greenroom.actors.runtime._threads import LOCAL, OwnThread, taking

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["RESCUERS", "STRIKES", "Rescuer", "is_of_a_signal", "is_strike", "make"]

logger = logging.getLogger("greenroom.actors")

RAISE = opmap["RAISE_VARARGS"]

HEAP_TYPE = 1 << 9
"""The flag of a class that is no static one of the interpreter's."""

STRIKES = (RecursionError, MemoryError)
"""Exceptions that are the thread's wherever they come from. If they are the handler's all the same, it
raises them on the rescuer again, where they count as its own."""


class Rescuer:
    """A thread that finishes what others could not. `put((call, *args))` has it make a call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self.put: Callable[..., None] = self._calls.put
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self.owner: object = None
        """Kept while this is there."""

    def start(self) -> None:
        """Have the thread run, if it does not yet."""
        if self._thread is not None:
            return
        for _ in taking(self._starting):
            try:
                if self._thread is None:
                    # If this is struck behind `start()`, there will be two of them, which does no harm.
                    thread = OwnThread(_rescue, self._calls, name=self._name)
                    thread.start()
                    self._thread = thread
                    self._started()
            finally:
                self._starting.release()

    @property
    def runs(self) -> bool:
        """Whether there is anybody to make a call."""
        return self._thread is not None

    def elsewhere(self, call: Callable[[], object]) -> None:
        """Make a call where nothing strikes: here, or on the rescuer. A thread is started like this, for
        example: one that is half started cannot be counted."""
        if LOCAL.state.exposed and self._thread is not None:
            self.put((call,))
        else:
            call()

    def _started(self) -> None:
        RESCUERS.append(self)

    def end(self) -> None:
        """End the thread, behind what it was given. May be called on any thread, inside anything."""
        if self in RESCUERS:
            RESCUERS.remove(self)
        self._calls.put(None)

    def close(self, patience: float) -> None:
        """The same, and wait for it."""
        thread, self._thread = self._thread, None
        self.end()
        if thread is not None and thread is not threading.current_thread():
            thread.join(patience)


RESCUERS: list[Rescuer] = []
"""Those that run, for what belongs to no runtime."""


def _rescue(calls: queue.SimpleQueue[tuple[Any, ...] | None]) -> None:
    while (call := calls.get()) is not None:
        make(call)
        call = None  # what it refers to is not kept meanwhile
    calls.put(None)  # for another one, if there are two


def make(call: tuple[Any, ...]) -> None:
    """Make a call. Whatever it raises is reported, and the next one can be made."""
    try:
        call[0](*call[1:])
    except BaseException:
        try:
            logger.exception("%r failed", call[0])
        except BaseException:  # of a handler or filter of the log
            traceback.print_exc()


def is_strike(error: BaseException) -> bool:
    """Tell whether an exception that came out of a handler, on its caller's thread, is the thread's.

    It is if it is one of `STRIKES`, if a signal handler raised it, or if it does not come from a `raise`
    and is no `Exception` (a Ctrl-C, `sys.exit()`) or was injected: that has no arguments, and is of a
    class that was written in Python.
    """
    if isinstance(error, STRIKES) or is_of_a_signal(error):
        return True
    trace, raised = error.__traceback__, False
    while trace is not None:
        raised = trace.tb_frame.f_code.co_code[trace.tb_lasti] == RAISE
        trace = trace.tb_next
    if raised or isinstance(error, asyncio.CancelledError):
        return False
    injected = not error.args and "__module__" in vars(type(error)) and type(error).__flags__ & HEAP_TYPE
    return bool(injected) or not isinstance(error, Exception)


def is_of_a_signal(error: BaseException) -> bool:
    """Tell whether a signal handler has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        return True
    trace = error.__traceback__
    while trace is not None and (inner := trace.tb_next) is not None:
        if _was_given(inner.tb_frame, trace.tb_frame):
            return True
        trace = inner
    return False


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    """Tell whether a function was called with the frame that it interrupts: it handles a signal."""
    given: list[Any] = [*frame.f_locals.values()]
    rest: Any = [value for value in given if isinstance(value, tuple)]
    return any(value is interrupted for value in (*given, *itertools.chain(*rest)))
