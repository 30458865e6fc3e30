"""One connection that is sent events until it ends: server-sent events, at the cost of one task.

The task is the server's own, and only waits for the client to hang up. What there is to send is sent by
a task that lives as long as the sending takes. So ten thousand connections to which nothing is sent are
ten thousand tasks that sleep, and no timer (`tests/gateway/test_streams.py` holds ten thousand of them).

A client that reads too slowly has a few events waiting and no more. What comes then is left out, and
when it has read the rest it is sent what `whole()` returns: the newest state in the place of a backlog.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Send

__all__ = ["Stream", "event_bytes", "head"]

logger = logging.getLogger("greenroom.gateway")

MOST_WAITING = 8
"""How many events may wait for a client to read what came before."""

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx collects what it passes on, otherwise
)


def head() -> dict[str, Any]:
    """What the answer begins with."""
    return {"type": "http.response.start", "status": 200, "headers": list(_HEADERS)}


def event_bytes(name: str, data: Any) -> bytes:
    """An event as it is sent."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()


class Stream:
    """A connection, and what is yet to be sent to it. For the event loop alone."""

    __slots__ = (
        "_behind",
        "_dropped",
        "_send",
        "_sending",
        "_since",
        "_task",
        "_waiting",
        "_whole",
        "last",
    )

    def __init__(self, send: Send, whole: Callable[[], bytes]) -> None:
        self._send = send
        self._whole = whole
        self._waiting: list[bytes] | None = None
        self._behind = False
        self._sending: asyncio.Task[None] | None = None
        self._since = 0.0
        self._task: asyncio.Task[Any] | None = None
        self._dropped = False
        self.last = 0.0
        """When something was last offered, on the loop's clock."""

    async def run(self, receive: Receive) -> None:
        """Return when the client has hung up, or the last event was sent."""
        self._task = asyncio.current_task()
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        except asyncio.CancelledError:
            if not self._dropped or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._task, self._dropped = None, True
            if self._sending is not None:
                self._sending.cancel()

    def offer(self, event: bytes) -> None:
        """Send it, now or when the client has read what came before it."""
        if self._behind:
            return
        if self._waiting is None:
            self._waiting = [event]
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append(event)
        else:
            self._behind = True
            self._waiting = []
            return
        self._start()

    def offer_whole(self) -> None:
        """Send the newest state. What waited is of no use any more."""
        self._waiting, self._behind = [], True
        self._start()

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self.last = loop.time()
        if self._sending is None and not self._dropped:
            self._since = self.last
            self._sending = loop.create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting or self._behind:
                chunk = self._whole() if self._behind else b"".join(self._waiting or ())
                self._waiting, self._behind = [], False
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                self._since = asyncio.get_running_loop().time()
        except Exception as error:
            logger.info("A client of the event stream is let go of: %s", type(error).__name__)
            self.drop()
        finally:
            self._waiting = self._sending = None

    def is_stuck(self, since: float) -> bool:
        """Whether the client has taken nothing of what is sent to it since then, on the loop's clock.
        There is no timer for each: whoever looks after all of them asks now and then."""
        return self._sending is not None and self._since < since

    async def end(self, event: bytes) -> None:
        """Send a last event, and end. What still waits is left out; who reads nothing is dropped."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        try:
            async with asyncio.timeout(1.0):
                await self._send({"type": "http.response.body", "body": event, "more_body": False})
        except Exception:
            self.drop()

    def drop(self) -> None:
        """Let go of the connection."""
        self._dropped = True
        if self._task is not None:
            self._task.cancel()
