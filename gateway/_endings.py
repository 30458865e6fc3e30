"""Tells the event loop when sessions of the room have ended.

The room tells it on a thread of its own, after the agent was closed and everything was committed. Here
it becomes something that can be awaited, or a call on the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Event
    from greenroom.gateway._events import Events

__all__ = ["Endings"]


class Endings:
    """Listens to the room's events, from when it is first asked something on a loop."""

    def __init__(self, events: Events) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected: dict[str, list[asyncio.Future[None]]] = {}
        self._listeners: list[Callable[[str], None]] = []
        events.listen(self._happened)

    def expect(self, key: str) -> asyncio.Future[None]:
        """A future that is done when this session ends. Cancel it when it is not wanted any more."""
        loop = self._loop = asyncio.get_running_loop()
        ending: asyncio.Future[None] = loop.create_future()
        self._expected.setdefault(key, []).append(ending)
        ending.add_done_callback(lambda _: self._forget(key, ending))
        return ending

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call this, on the loop, with the key of each session that ends, perhaps twice."""
        self._loop = asyncio.get_running_loop()
        self._listeners.append(listener)

    def tell(self, key: str) -> None:
        """Tell listeners that a session ends: when its client asked for that, and when it has ended."""
        for listener in self._listeners:
            listener(key)

    def _forget(self, key: str, ending: asyncio.Future[None]) -> None:
        waiting = self._expected.get(key)
        if waiting is not None and ending in waiting:
            waiting.remove(ending)
            if not waiting:
                del self._expected[key]

    def _happened(self, event: Event) -> None:
        """On the room's thread."""
        loop = self._loop
        if loop is not None and event.kind == "end":
            try:
                loop.call_soon_threadsafe(self._ended, event.key)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more

    def _ended(self, key: str) -> None:
        for ending in self._expected.pop(key, ()):
            if not ending.done():
                ending.set_result(None)
        self.tell(key)
