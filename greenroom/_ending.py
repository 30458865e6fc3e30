"""How a room ends: by a drain, which lets everything end in order.

After the drain goes what the room has started or opened itself: its actors, its runtime, its store. A
runtime or store that was handed in is left alone.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import sys
import threading
import time
import warnings
import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pykka

from greenroom._dead_loops import turns_on_dead_loops
from greenroom._line import CLOSED, FORKED
from greenroom._turn import Turn
from greenroom.actors import Future, RoomClosed, SessionBusy
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.runtime._logging import flush_logs, get_log
from greenroom.actors.runtime._strikes import make
from greenroom.actors.runtime._threads import OwnThread
from greenroom.actors.session.holding import KEY, NAME, OVER, held_around, was_left
from greenroom.messages import DrainReport, DrainRoom, FlushEvents, GetStats, RoomStats
from greenroom.supervisor import count_cards

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import ExitStack

    from greenroom._line import Line
    from greenroom.actors import ActorRef, RoomContext
    from greenroom.supervisor import RootSupervisor

__all__ = ["Ending"]

logger = get_log("greenroom")

PATIENCE = 5.0
"""How many seconds a room that nobody has closed may take to drain."""

OPEN_AT_EXIT = "was still open when the interpreter exited"


class Ending:
    """Ends a room, and remembers what there is to say afterwards."""

    def __init__(
        self, context: RoomContext, line: Line, root: ActorRef[RootSupervisor], own: ExitStack
    ) -> None:
        """`own` closes what the room has opened: its runtime and its store."""
        self._opened_at = _caller()
        self._context = context
        self._line = line
        self._root = root
        self._own = own
        self._report: DrainReport | None = None
        self._last_stats: RoomStats | None = None
        self._to_shut = iter((self._begin_to_shut,))
        """Who takes it out shuts the room."""
        self._is_shut: Future[None] = Future()
        self._closer: threading.Thread | None = None
        if not context.runtime.simulated:
            _every.add(self)

    def stats(self) -> RoomStats:
        """The counters: those of now, or the last ones of a closed room."""
        # In this order: they are written down before the supervisor stops.
        answer = self._line.ask(GetStats(), None)
        if answer is not None:
            return count_cards(answer)
        return self._last_stats or RoomStats()

    def start_drain(self, deadline: float) -> Future[DrainReport] | None:
        """Begin to drain, and return a future of the report. `None`: there is a report already."""
        check_wait("the deadline of a drain", deadline)
        if self._line.closed == FORKED:
            raise RoomClosed(FORKED)
        if self._report is not None:
            return None
        self.check_caller()
        return self._start_drain(deadline)

    def check_caller(self) -> None:
        """Refuse a drain to a caller whose turn it would wait for. Turns that were left without a word
        are withdrawn."""
        for held in held_around(self._context):
            if was_left(held[NAME], search=True):
                logger.warning("A turn of %r was left by an exception. It is withdrawn", held[KEY])
                self._line.withdraw(held[KEY], held[NAME])
                held[NAME] = OVER
                continue
            if not _is_abandoned(held[NAME]):
                msg = (
                    f"this very caller is in a turn of {held[KEY]!r}, or was started in one that still "
                    "runs, and a drain would wait for its end: end it first"
                )
                raise SessionBusy(msg, held[KEY])
            logger.warning(
                "A turn of %r was abandoned in a suspended generator. It is ended, and not counted",
                held[KEY],
            )
            self._line.withdraw(held[KEY], held[NAME])

    def _start_drain(self, deadline: float) -> Future[DrainReport]:
        context = self._context
        context.runtime._loops.leave_closed_loops()
        drained = self._line.supervisor.ask(DrainRoom(deadline=deadline), block=False)
        if not context.runtime.simulated and any(card.in_turn for card in list(context.cards.values())):
            for task, held in turns_on_dead_loops(context):
                logger.warning(
                    "A turn of %r is open in a task that has ended, or whose event loop is closed: %r. "
                    "It is ended, and is not counted",
                    *(held[KEY], task),
                )
                self._line.withdraw(held[KEY], held[NAME])
        return cast("Future[DrainReport]", drained)

    def drain(self, deadline: float) -> DrainReport:
        """Drain, once: every later call returns the same report."""
        future = self.start_drain(deadline)
        if future is not None:
            try:
                self._report = future.get()
            except pykka.ActorDeadError:
                if self._report is None:
                    raise  # else another thread has closed the room, and has the report
        assert self._report is not None
        return self._report

    def shut(self) -> None:
        """End the actors of a drained room, and close what it has opened.

        On a thread of its own, once: a caller that is struck while it waits may call this again.
        """
        rescuer = self._context.runtime.rescuer
        put = rescuer.put if rescuer.runs else make
        # A step of a loop, and then a call: no strike in between.
        for begin in self._to_shut:
            put((begin,))
        if threading.current_thread() is not self._closer:
            self._is_shut.get()

    def _begin_to_shut(self) -> None:
        if self._context.runtime.rescuer.runs:
            self._closer = OwnThread(self._shut_now, name=f"{self._context.runtime.name}-end")
            self._closer.start()
        else:
            self._shut_now()

    def _shut_now(self) -> None:
        try:
            self.flush_events(1.0)
            self._last_stats = self.stats()
            self._line.closed = CLOSED
            self._root.stop(block=False)
            self._own.close()
        except BaseException:
            self._is_shut._offer((None, sys.exc_info()))
        else:
            self._is_shut._offer((None, None))

    # A room that nobody closes.

    def dropped(self, room: object) -> None:
        """Nobody refers to the room any more. A finaliser calls this, on any thread and inside anything:
        so the rescuer starts the thread that ends the room."""
        runtime, drained = self._context.runtime, self._report is not None
        if self._line.closed or not self._root.is_alive() or runtime.simulated or sys.is_finalizing():
            return
        if not drained:
            self.log_unclosed("was dropped without close()")
        runtime.rescuer.put((self._end_soon,))
        if not drained:
            self.warn_unclosed("was dropped without close()", room)

    def log_unclosed(self, how: str) -> None:
        """Write into the log that nobody has closed the room, and what is uncommitted."""
        file, line = self._opened_at
        dirty = sum(card.dirty for card in list(self._context.cards.values()))
        logger.warning(
            "The room opened at %s:%s %s. Sessions with uncommitted turns: %s. It is closed now, in at "
            "most %s s. Use it with 'with', or call close()",
            *(file, line, how, dirty, PATIENCE),
        )

    def warn_unclosed(self, how: str, room: object = None) -> None:
        """Warn Python's way, which may raise."""
        file, line = self._opened_at
        warnings.warn_explicit(f"the room opened here {how}", ResourceWarning, file, line, source=room)

    def ender(self) -> OwnThread:
        """A thread that drains and shuts the room in a few seconds, even if turns are running."""
        return OwnThread(self._end_unclosed, name=f"{self._context.runtime.name}-end")

    def _end_soon(self) -> None:
        self.ender().start()

    def _end_unclosed(self) -> None:
        try:
            self._report = self._start_drain(PATIENCE).get(timeout=PATIENCE + 1.0)
        except (pykka.ActorDeadError, pykka.Timeout):
            logger.error("The room opened at %s:%s could not be drained", *self._opened_at)
        self.shut()

    @property
    def open(self) -> bool:
        """Whether it can be drained: not if it was, or is the parent process's, or has no runtime."""
        return not self._line.closed and self._report is None and self._root.is_alive()

    def flush_events(self, patience: float) -> None:
        """Give listeners a moment to hear of the end."""
        until = time.monotonic() + patience
        for future in self._line.ask(FlushEvents(), ()):
            try:
                future.get(timeout=max(0.0, until - time.monotonic()))
            except (pykka.Timeout, pykka.ActorDeadError):
                logger.warning("A listener is too slow: it does not hear of all that the end brought")


def _caller() -> tuple[str, int]:
    """The file and line that called into this package."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "greenroom":
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


_every: weakref.WeakSet[Ending] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """The interpreter exits: end the rooms that are open, and wait a few seconds at most."""
    endings = [ending for ending in list(_every) if ending.open]
    for ending in endings:
        ending.log_unclosed(OPEN_AT_EXIT)
    threads = [ending.ender() for ending in endings]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:  # Python 3.12 starts no thread any more
        logger.error("What is uncommitted stays so: %s", error)
    try:
        for ending in endings:
            ending.warn_unclosed(OPEN_AT_EXIT)
    finally:
        until = time.monotonic() + PATIENCE + 3.0
        for thread in filter(OwnThread.is_alive, threads):
            thread.join(max(0.0, until - time.monotonic()))
        flush_logs(1.0)


def _is_abandoned(name: object) -> bool:
    """Tell whether a turn of this thread is in a generator that is suspended, and not on the stack.

    A `with` block keeps the `__exit__` of its turn in its frame: as a bound method, and since Python
    3.14 as the function with the turn right behind it. Frames that run are not to be found like this;
    the one of a suspended generator is. Slow, and only for who ends a room in the middle of a turn.
    """
    turns = [referrer for referrer in gc.get_referrers(name) if isinstance(referrer, Turn)]
    methods = [method for turn in turns for method in gc.get_referrers(turn) if inspect.ismethod(method)]
    holders = [holder for kept in (*turns, *methods) for holder in gc.get_referrers(kept)]
    suspended = [one for one in holders if inspect.isgenerator(one) and not one.gi_running]
    return any(_exits(generator, turn) for generator in suspended for turn in turns)


def _exits(generator: Generator[Any, Any, Any], turn: Turn) -> bool:
    """Tell whether a generator is inside the `with` block of a turn."""
    kept = gc.get_referents(generator)
    if any(here is Turn.__exit__ and behind is turn for here, behind in pairwise(kept)):
        return True
    methods = [method for method in kept if inspect.ismethod(method)]
    return any(method.__func__ is Turn.__exit__ and method.__self__ is turn for method in methods)
