"""Sends the pieces of a stream: those that are ready at the same time together.

    the first piece     is sent at once
    from then on        a piece is held while the agent is at work. What is held is sent as soon as the
                        agent waits for something, by a task of its own; or with the next piece, if that
                        took longer than `LONGEST`

So an agent that passes on what comes in one packet has it sent in one. What an agent does while it waits
is its own affair: it may cancel its task there, as `asyncio.timeout()` does, and no piece is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outgoing"]

MOST = 64
"""How many pieces are held at most. A client that reads more slowly slows its agent down."""

LONGEST = 0.002
"""How many seconds an agent may work on a piece while others are held."""


class Outgoing:
    """What is sent next."""

    __slots__ = ("_failed", "_held", "_pieces", "_send", "_sent_at", "_task")

    def __init__(
        self,
        send: Callable[[Iterable[str]], Awaitable[None]],
        failed: Callable[[Exception], object],
    ) -> None:
        """`failed` is called with what the task that sends raises: the agent is at work meanwhile."""
        self._send = send
        self._failed = failed
        self._held: list[str] = []
        self._pieces = 0
        self._sent_at = -inf  # nothing is sent yet: the first piece is not held
        self._task: asyncio.Task[None] | None = None

    async def put(self, lines: Iterable[str]) -> None:
        """Take a piece, and send what is held if that cannot wait."""
        self._held += lines
        self._pieces += 1
        if self._pieces >= MOST or monotonic() - self._sent_at > LONGEST:
            await self.flush()
        elif self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_aside())

    async def flush(self) -> None:
        """Send what is held."""
        if self._task is not None:
            await self._task
        await self._send_held()

    def drop(self) -> None:
        """Send nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _send_aside(self) -> None:
        try:
            await self._send_held()
        except Exception as error:
            self._failed(error)

    async def _send_held(self) -> None:
        while self._held:
            lines, self._held, self._pieces = self._held, [], 0
            await self._send(lines)
            self._sent_at = monotonic()
