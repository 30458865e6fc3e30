"""Looks for rooms whose process has ended, so that nobody waits for the end of their leases.

    when the room opens, and twice for every `lease_ttl`      for what nobody asks about
    when another room turns out to have a session (`look`)    for a turn that waits for it

One look cannot tell a dead room from one that has just lost its connection to the store, so that a
second one follows after a pause. How it is known is the store's affair (`Store.bury`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from greenroom.actors import RuntimeClosed
from greenroom.actors.runtime._logging import get_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import Future
    from greenroom.actors.session.context import RoomContext

__all__ = ["DeadRooms"]

logger = get_log("greenroom.supervisor")

LANE = "dead rooms"

PAUSE = 0.42
"""Seconds before the second look: a little more than the store wants."""

PACE = 0.5
"""A turn that waits has others look once in so many seconds."""


class DeadRooms:
    """Has the store look for dead rooms.

    It is no actor: what it knows is when it may look again, and a look too many does no harm."""

    def __init__(self, context: RoomContext, found: Callable[[], object]) -> None:
        """`found` is called when rooms were found dead, so that their sessions may be had."""
        assert context.books is not None
        self._context = context
        self._bury = context.books.bury
        self._found = found
        self._not_before = float("-inf")

    def look(self) -> None:
        """Look now, unless that was a moment ago. In a handler: when that has returned."""
        if self._bury is not None and self._context.runtime.clock() >= self._not_before:
            self._look()

    def look_now_and_again(self) -> None:
        """Look, and set the time for the next look."""
        if self._bury is not None:
            self._later(self._context.policy.lease_ttl / 2, DeadRooms.look_now_and_again)
            self._look()

    def _look(self) -> None:
        context = self._context
        if self._bury is None or context.draining:
            return
        self._not_before = context.runtime.clock() + PACE
        timeout = context.policy.store_timeout
        try:
            looked = context.runtime.submit(self._bury, timeout=timeout, name=LANE, lane=LANE)
        except RuntimeClosed:
            return
        looked.on_done(self._looked)

    def _looked(self, looked: Future[Any]) -> None:
        if looked.failure is not None:  # the store writer says so if the store is away
            logger.debug("No dead rooms could be looked for: %s", looked.failure)
            return
        buried, again = looked.get()
        for room in buried:
            logger.warning("The process of room %s has ended. Its sessions may be taken over", room)
        if buried:
            self._found()
        if again:
            self._later(PAUSE, DeadRooms._look)

    def _later(self, pause: float, look: Callable[[DeadRooms], object]) -> None:
        try:
            self._context.runtime.call_later(pause, _call, weakref.ref(self), look)
        except RuntimeClosed:
            pass


def _call(rooms: weakref.ref[DeadRooms], look: Callable[[DeadRooms], object]) -> None:
    there = rooms()
    if there is not None:
        look(there)
