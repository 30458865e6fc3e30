"""The room, second layer: how it ends.

By a drain, which lets everything end in order. After it goes what the room has started or opened itself:
its actors, its runtime, its store. Somebody else's runtime or store is left alone.

Or by a fork: the new process has none of the threads, so that in there every room from before is closed.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, cast

import pykka

from greenroom._room_calls import RoomCalls
from greenroom._turn import Turn
from greenroom.actors import SessionBusy
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.session.holding import KEY, held_here, name_of_turn
from greenroom.messages import DrainReport, DrainRoom, FlushEvents, GetStats, RoomStats
from greenroom.supervisor import count_cards

if TYPE_CHECKING:
    from greenroom.actors import ActorRef, Future, RoomContext, Runtime
    from greenroom.supervisor import RootSupervisor

__all__ = ["RoomEnd"]

logger = logging.getLogger("greenroom")


class RoomEnd(RoomCalls):
    """Ends, and remembers what there is to say afterwards."""

    def __init__(
        self,
        context: RoomContext,
        root: ActorRef[RootSupervisor],
        supervisor: ActorRef[Any],
        *,
        own_runtime: Runtime | None,
        own_store: Any,
    ) -> None:
        """`own_runtime` and `own_store` end with the room. `None`: they are somebody else's."""
        super().__init__(context, supervisor)
        self._root = root
        self._own_runtime = own_runtime
        self._own_store = own_store
        self._report: DrainReport | None = None
        self._last_stats: RoomStats | None = None
        self._to_shut = [None]
        """Who takes it out shuts the room."""
        _open_rooms.add(self)

    def _count(self) -> RoomStats:
        # In this order: they are written down before the supervisor stops.
        answer = self._ask(GetStats(), None)
        if answer is not None:
            return count_cards(answer)
        return self._last_stats or RoomStats()

    def _start_drain(self, deadline: float) -> Future[DrainReport] | None:
        check_wait("the deadline of a drain", deadline)
        if self._report is not None:
            return None
        for held in held_here(self._context):
            if not _is_abandoned(name_of_turn(held)):
                msg = (
                    f"this very caller is in a turn of {held[KEY]!r}, and a drain would wait for its "
                    "end: end it first"
                )
                raise SessionBusy(msg, held[KEY])
            logger.warning(
                "A turn of %r was abandoned in a suspended generator. It is ended, and not counted",
                held[KEY],
            )
            self._withdraw(held[KEY], name_of_turn(held))
        return cast(
            "Future[DrainReport]", self._supervisor.ask(DrainRoom(deadline=deadline), block=False)
        )

    def _shut(self) -> None:
        try:
            self._to_shut.pop()
        except IndexError:
            return  # another call is at it: on another thread, or below a signal handler on this one
        try:
            self._shut_once()
        except BaseException:
            self._to_shut.append(None)
            raise

    def _shut_once(self) -> None:
        if self._closed:
            return
        self._flush_events(1.0)
        self._last_stats = self._count()
        self._closed = True
        self._root.stop(block=False)
        if self._own_runtime is not None:
            self._own_runtime.close(timeout=1.0)
        if self._own_store is not None:
            self._own_store.close()

    def _flush_events(self, patience: float) -> None:
        """Give listeners a moment to hear of the end."""
        until = time.monotonic() + patience
        for future in self._ask(FlushEvents(), ()):
            try:
                future.get(timeout=max(0.0, until - time.monotonic()))
            except (pykka.Timeout, pykka.ActorDeadError):
                logger.warning("A listener is too slow: it does not hear of all that the end brought")


def _is_abandoned(turn: object) -> bool:
    """Tell whether a turn of this thread is in a generator that is suspended, and not on the stack.

    A `with` block keeps the `__exit__` of its turn in its frame. Frames that run are not to be found
    like this; the one of a suspended generator is. Slow, and only for who ends a room in the middle of
    a turn.
    """
    turns = [referrer for referrer in gc.get_referrers(turn) if isinstance(referrer, Turn)]
    exits = [method for turn in turns for method in gc.get_referrers(turn) if inspect.ismethod(method)]
    holders = [holder for method in exits for holder in gc.get_referrers(method)]
    return any(inspect.isgenerator(holder) and not holder.gi_running for holder in holders)


_open_rooms: weakref.WeakSet[RoomEnd] = weakref.WeakSet()


def _close_after_fork() -> None:
    """A forked process has none of the threads: no turn of a room from before can begin in it."""
    for room in list(_open_rooms):
        room._closed = room._forked = True
        room._why_closed = "this process was forked from the room's. Open another one in here"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_after_fork)
