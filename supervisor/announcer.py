"""Calls one listener with events: in order, one at a time, on a thread that is nobody else's.

Events arrive as messages and are kept here; a worker calls the listener with what there is, and comes
back for more. So a slow listener delays nobody, and one that raises is logged and called again with the
next event. One that is hopelessly slow loses the oldest events, and that is counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor, RuntimeClosed
from greenroom.actors.runtime._logging import get_log
from greenroom.messages import Call, Event, FlushEvents

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import Future, Reply

__all__ = ["Announcer"]

logger = get_log("greenroom.supervisor")

MOST = 100_000
"""How many events are kept for a listener that does not keep up."""


class Announcer(Actor):
    """The way to one listener."""

    def __init__(
        self,
        callback: Callable[[Event], Any],
        events: deque[Event] | None = None,
        called: Future[Any] | None = None,
        flushing: list[Reply] | None = None,
        dropped: int = 0,
    ) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        self._callback = callback
        self._events: deque[Event] = events or deque()
        self._called = called
        """The call of the listener that was begun last, also by the one before us."""
        self._flushing: list[Reply] = flushing or []
        self.dropped = dropped

    def on_start(self) -> None:
        """Go on where the one before us has failed."""
        self._go_on()

    can_restore = True

    def save(self) -> tuple[Any, ...]:
        """How many events there were, and not which: there may be very many."""
        return self._events, len(self._events), self._called, [*self._flushing], self.dropped

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Put it back."""
        self._events, count, self._called, self._flushing, self.dropped = saved
        while len(self._events) > count:
            self._events.pop()

    def on_event(self, event: Event) -> None:
        """Take an event."""
        self._events.append(event)
        if len(self._events) > MOST:
            self._events.popleft()
            if not self.dropped:
                logger.warning("A listener does not keep up: it loses the oldest events")
            self.dropped += 1
        self._go_on()

    def on_flush_events(self, _: FlushEvents) -> None:
        """Answer when the listener was called with every event that there is."""
        self._flushing.append(self.defer_reply())
        self._go_on()

    def _go_on(self) -> None:
        if self._events and not self._calling():
            self._announce()
        if not self._calling():
            flushing, self._flushing = self._flushing, []
            for reply in flushing:
                reply.set(True)

    def _calling(self) -> bool:
        return self._called is not None and not self._called.done()

    def hand_over(self) -> tuple[Any, ...]:
        """Everything. The last call, too: the next one must not call the listener while it is under way.

        Whatever came is among it, and so the message that this one failed on need not come again.
        """
        return self._callback, self._events, self._called, self._flushing, self.dropped

    def _announce(self) -> None:
        events, self._events = list(self._events), deque()
        callback = self._callback

        def announce() -> None:
            for event in events:
                try:
                    callback(event)
                except BaseException:  # whatever it is, it was this event's
                    logger.exception("A listener failed on %s of %r", event.kind, event.key)

        try:
            self._called = self.runtime.submit(announce, name="events", lane="events")
        except RuntimeClosed:
            return
        go_on = Call(self._go_on)
        self.pipe_to_self(self._called, lambda _: go_on, lambda _: go_on)
