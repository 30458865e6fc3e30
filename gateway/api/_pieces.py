"""Sends the pieces of a stream: those that are ready at the same time together.

    the first piece     is sent at once
    from then on        a piece waits for the next one as long as the agent has it ready: it is sent as
                        soon as the agent waits for something, or has taken `LONGEST` for the next

So nothing is sent later than the agent's next wait, and an agent that passes on what comes in one packet
has it sent in one.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

__all__ = ["Outgoing", "next_piece"]

T = TypeVar("T")

MOST = 64
"""So many pieces are sent together, and no more."""

LONGEST = 0.002
"""Seconds for which a piece is held back while the agent is at work on the next one."""


class Outgoing:
    """What is to be sent next."""

    __slots__ = ("_lines", "_pieces", "_send", "_since")

    def __init__(self, send: Callable[[Iterable[str]], Awaitable[None]]) -> None:
        self._send = send
        self._lines: list[str] = []
        self._pieces = 0
        self._since = -inf  # nothing is sent yet: the first piece cannot wait

    async def put(self, lines: Iterable[str]) -> None:
        """Take a piece, and send what is there if it cannot wait."""
        self._lines += lines
        self._pieces += 1
        if self._pieces >= MOST or monotonic() - self._since > LONGEST:
            await self.flush()

    async def flush(self) -> None:
        """Send what is there."""
        if self._lines:
            lines, self._lines, self._pieces = self._lines, [], 0
            await self._send(lines)
            self._since = monotonic()


@types.coroutine
def next_piece(
    pieces: AsyncIterator[T], before_waiting: Callable[[], Awaitable[None]]
) -> Generator[Any, Any, T]:
    """Wait for the next piece. `before_waiting` is awaited before that, if the piece is not there at
    once; it must not raise. Raises `StopAsyncIteration` behind the last one."""
    steps: Any = anext(pieces).__await__()
    try:
        waits_for = next(steps)
    except StopIteration as there:
        piece: T = there.value
        return piece
    cancelled: asyncio.CancelledError | None = None
    try:
        yield from before_waiting().__await__()
    except asyncio.CancelledError as error:
        # It is the agent that is to be cancelled, where it waits: as `Task.cancel()` does it.
        if waits_for is None or not waits_for.cancel():
            cancelled = error
    while True:
        try:
            if cancelled is not None:
                strike, cancelled = cancelled, None
                raise strike
            yield waits_for
        except BaseException as raised:
            try:
                waits_for = steps.throw(raised)
            except StopIteration as there:
                piece = there.value
                return piece
        else:
            return cast("T", (yield from steps))
