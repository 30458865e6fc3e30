"""Keeps those actors that a room has one of: the root of them all, which does nothing else."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pykka

from greenroom.actors import Actor
from greenroom.supervisor.cache import CacheSupervisor
from greenroom.supervisor.dead_rooms import DeadRooms
from greenroom.supervisor.recovery import Recovery
from greenroom.supervisor.store_writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef
    from greenroom.actors.session.context import RoomContext
    from greenroom.messages import ChildFailed

__all__ = ["RootSupervisor"]


class RootSupervisor(Actor):
    """Starts those that a room has one of, and restarts them if they fail.

    A room without them is no room, so they are never given up. A message on which one fails again and
    again is dropped in the end; what the supervisor is then missing it learns from the sessions.
    """

    lives_on = False  # what a room keeps alive may refer to the room, which could then never be dropped

    def __init__(self, context: RoomContext, meter: Callable[[], int]) -> None:
        super().__init__()
        self._context = context
        self._meter = meter

    def start_supervisor(self) -> ActorRef[CacheSupervisor]:
        """Start it. To be called once."""
        supervisor = self.start_child(CacheSupervisor, self._context, self._meter)
        self._context.supervisor = supervisor
        if self._context.books is not None:
            self._context.writer = StoreWriter(self._context)
            self._context.writer.beat()
            if self._context.books.ledger:
                recovery = self.start_child(Recovery, self._context)
                self._context.dead_rooms = DeadRooms(self._context, partial(_have_look, recovery))
                self._context.dead_rooms.look_now_and_again()
        return supervisor

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart whoever failed, with what it had; it goes on with what it was doing."""
        of_the_supervisor = failure.ref.actor_class is CacheSupervisor
        args = (self._context, self._meter) if of_the_supervisor else (self._context,)
        self.restart_child(failure, *args, failure.state, replay=True)


def _have_look(recovery: ActorRef[Recovery]) -> None:
    """There may be something to take up."""
    with suppress(pykka.ActorDeadError):
        recovery.proxy().look_now_and_again()
