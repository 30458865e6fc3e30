"""Ending on signals, in a way that strikes nowhere.

    with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM, signal.SIGINT):
        serve(room)

A handler that raises, as `sys.exit()` does, raises wherever the main thread happens to be. This one does
not raise while turns run:

    1. the first signal starts the drain, on a thread of its own. No turn begins any more
    2. running turns end, and everything is committed, until the deadline
    3. the main thread gets the signal once more. Now the handler that was there before is called; if
       there was none, the block is left with `SystemExit`, or its task is cancelled for that

A second signal ends the block at once and gives the drain no more time: running turns are over, and
what is not committed within half a second stays uncommitted. The handler that was there before gets
every signal. If it returns, as that of a server does, it decides what happens next, and the drain keeps
its deadline. A turn that is refused meanwhile (`RoomClosed`) leaves the block, too, once the drain is
over.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pykka

from greenroom.actors import Future, RoomClosed
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.runtime._threads import OwnThread
from greenroom.messages import DrainRoom

if TYPE_CHECKING:
    from types import FrameType

    from greenroom._room import Greenroom

__all__ = ["Shutdown"]

DEFAULT = (signal.SIGTERM, signal.SIGINT)

MARGIN = 1.0
"""Seconds after which a signal that was sent from here has come."""


class Shutdown:
    """What `room.shutdown_on()` returns: to be used once, on the main thread."""

    def __init__(self, room: Greenroom, signals: tuple[int, ...], deadline: float) -> None:
        check_wait("the deadline of a drain", deadline)
        self._room = room
        self._pid = os.getpid()
        self._deadline = deadline
        self._signals = [signal.Signals(number) for number in signals or DEFAULT]
        self._before: dict[int, Any] = {}
        """The handlers that were there before."""
        self._signum: int | None = None
        """The first signal that came."""
        self._drained: Future[None] = Future()
        self._left = False
        """Whether the block is left, or the handler that was there before was told."""
        self._told = False
        """Whether it was told."""
        self._over = False
        """Whether the drain is over. From then on signals may come from here."""
        self._quiet_at = math.inf
        """When the last of those has certainly come, on the clock of `time.monotonic()`."""
        self._hurried = False
        """Whether a second signal came before the drain was over."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._asked, self._in_block = False, True
        """Whether the task of the block shall be cancelled, and whether it is still there."""
        self._cancels = False
        """Whether it was cancelled from here."""

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            msg = "shutdown_on() must be entered on the main thread: Python handles signals only there"
            raise RuntimeError(msg)
        try:
            for number in self._signals:
                self._before[number] = signal.getsignal(number)
                signal.signal(number, self._handle)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, *more: object) -> None:
        if os.getpid() != self._pid:
            self._restore()
            return
        self._left = True
        try:
            if self._signum is not None and not self._hurried:
                self._drained.get()
        finally:
            self._restore()
        self._leave(error)

    async def __aenter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        return self.__enter__()

    async def __aexit__(self, _: object, error: BaseException | None, *more: object) -> None:
        if os.getpid() != self._pid:
            self._restore()
            return
        self._left, self._in_block = True, False
        if isinstance(error, asyncio.CancelledError) and self._uncancel():
            error = None
        try:
            if self._signum is not None and not self._hurried:
                try:
                    await self._drained
                except asyncio.CancelledError:
                    if not self._uncancel():
                        raise
                    await self._drained  # ours came too late for the block
        finally:
            self._restore()
        self._leave(error)

    def _uncancel(self) -> bool:
        """Take back that the task was cancelled, if it was, from here."""
        ours, self._cancels = self._cancels, False
        if ours and self._task is not None:
            self._task.uncancel()
        return ours

    def _restore(self) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._handle:  # else another one was installed since
                # One that C code has installed is not known, and cannot be put back.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _leave(self, error: BaseException | None) -> None:
        """Leave the block for the signal, unless it is left for a reason of its own."""
        if self._signum is None or not (error is None or isinstance(error, RoomClosed)):
            return
        before = self._before[self._signum]
        if callable(before):
            if not self._told:
                before(self._signum, None)
            if error is None:
                return
        raise SystemExit(0) from None

    # On the main thread, wherever that is: nothing here may wait, or take a lock.

    def _handle(self, number: int, frame: FrameType | None) -> None:
        rescuer = self._room.runtime.rescuer
        if os.getpid() != self._pid:  # a forked child: the room is its parent's
            self._restore()
            signal.raise_signal(number)
        elif self._signum is None and rescuer.runs:
            self._signum = number
            rescuer.put((self._start,))
        elif self._signum is None:  # the room is closed
            self._signum = number
            self._left = True
            self._drained.set(None)
            self._end(self._before[number], number, frame)
        elif not self._left:
            self._left = True
            self._hurried = not self._over
            leaves = True
            try:
                self._end(self._before[self._signum], self._signum, frame)
                if self._hurried:
                    self._end(self._before[number], number, frame)
                leaves = self._asked
            finally:
                if self._hurried and leaves:
                    rescuer.put((self._hurry,))
        elif not self._over or time.monotonic() > self._quiet_at:  # else it may be one of ours
            self._restore()
            signal.raise_signal(number)

    def _end(self, before: Any, number: int, frame: FrameType | None) -> None:
        if callable(before):
            self._told = True
            before(number, frame)
        elif self._loop is None:
            raise SystemExit(0)
        elif not self._asked:
            self._asked = True
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done() and self._in_block:
            self._cancels = True
            self._task.cancel()

    # Elsewhere.

    def _hurry(self) -> None:
        with suppress(pykka.ActorDeadError):  # it is over
            self._room._line.supervisor.ask(DrainRoom(deadline=0.0, hurries=True), block=False)

    def _start(self) -> None:
        OwnThread(self._drain, name=f"{self._room.runtime.name}-shutdown").start()

    def _drain(self) -> None:
        try:
            with suppress(pykka.ActorDeadError):  # the interpreter exits, and has ended the room
                self._room._ending.drain(self._deadline)
        finally:
            self._over = True
            while not self._left and self._signum is not None:
                # Again and again: 1. the main thread looks for signals  2. ours comes  3. it begins to
                # wait for something, and would look at 2 only when that wait is over.
                _send_to_main_thread(self._signum)
                time.sleep(0.02)
            self._quiet_at = time.monotonic() + MARGIN
            self._drained.set(None)  # last: the block keeps its handlers until nothing comes from here


def _send_to_main_thread(number: int) -> None:
    ident = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and ident is not None:
        signal.pthread_kill(ident, number)  # which wakes it where it waits
    else:
        signal.raise_signal(number)
