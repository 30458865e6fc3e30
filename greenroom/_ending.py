"""How a room ends: by a drain, which lets everything end in order.

After the drain goes what the room has started or opened itself: its actors, its runtime, its store. A
runtime or store that was handed in is left alone.
"""

from __future__ import annotations

import gc
import inspect
import logging
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pykka

from greenroom._line import CLOSED
from greenroom._turn import Turn
from greenroom.actors import SessionBusy
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.session.holding import KEY, NAME, held_here
from greenroom.messages import DrainReport, DrainRoom, FlushEvents, GetStats, RoomStats
from greenroom.supervisor import count_cards

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import ExitStack

    from greenroom._line import Line
    from greenroom.actors import ActorRef, Future, RoomContext
    from greenroom.supervisor import RootSupervisor

__all__ = ["Ending"]

logger = logging.getLogger("greenroom")


class Ending:
    """Ends a room, and remembers what there is to say afterwards."""

    def __init__(
        self, context: RoomContext, line: Line, root: ActorRef[RootSupervisor], own: ExitStack
    ) -> None:
        """`own` closes what the room has opened: its runtime and its store."""
        self._context = context
        self._line = line
        self._root = root
        self._own = own
        self._report: DrainReport | None = None
        self._last_stats: RoomStats | None = None
        self._to_shut = [None]
        """Who takes it out shuts the room."""

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
        if self._report is not None:
            return None
        for held in held_here(self._context):
            if not _is_abandoned(held[NAME]):
                msg = (
                    f"this very caller is in a turn of {held[KEY]!r}, and a drain would wait for its "
                    "end: end it first"
                )
                raise SessionBusy(msg, held[KEY])
            logger.warning(
                "A turn of %r was abandoned in a suspended generator. It is ended, and not counted",
                held[KEY],
            )
            self._line.withdraw(held[KEY], held[NAME])
        return cast(
            "Future[DrainReport]", self._line.supervisor.ask(DrainRoom(deadline=deadline), block=False)
        )

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
        """End the actors of a drained room, and close what it has opened."""
        if self._line.closed:
            return
        try:
            self._to_shut.pop()
        except IndexError:
            return  # another call is at it: on another thread, or below a signal handler on this one
        try:
            self.flush_events(1.0)
            self._last_stats = self.stats()
            self._line.closed = CLOSED
            self._root.stop(block=False)
            self._own.close()
        except BaseException:
            self._to_shut.append(None)
            raise

    def flush_events(self, patience: float) -> None:
        """Give listeners a moment to hear of the end."""
        until = time.monotonic() + patience
        for future in self._line.ask(FlushEvents(), ()):
            try:
                future.get(timeout=max(0.0, until - time.monotonic()))
            except (pykka.Timeout, pykka.ActorDeadError):
                logger.warning("A listener is too slow: it does not hear of all that the end brought")


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
