"""The room's events, for all parts of the gateway: one listener of the room's, whoever else listens.

A room calls each listener on a thread of its own: five of them cost a new session more than its agent.
The parts of the gateway only take an event down, so that one can be called behind the other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Event, Greenroom

__all__ = ["Events"]

logger = logging.getLogger("greenroom.gateway")


class Events:
    """Tells its listeners what the room tells, in order, on a thread of the room's."""

    def __init__(self, room: Greenroom) -> None:
        self._listeners: tuple[Callable[[Event], object], ...] = ()
        self.stop = room.events(self._happened, hits=False)
        """Tell nobody any more."""

    def listen(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call this with every event from now on, but for turns that find their agent. It must not take
        long. Returns what ends that. To be called before the server listens, or on the event loop."""
        self._listeners += (listener,)

        def stop() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return stop

    def _happened(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("A listener failed on %s of %r", event.kind, event.key)
