"""How much of a body is read, and for how long.

A body that is said to be too large is refused before any of it is read, and one that turns out to be as
soon as it does. One that does not arrive in time is given up: a byte now and then keeps nothing alive.

Heads that do not end, what comes before and after a request, and clients that do not read what they are
sent are seen to where bytes arrive and leave: in `_protocol.py`.
"""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.gateway._errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, MutableMapping

    from greenroom.gateway.config._config import Config

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

T = TypeVar("T")

__all__ = ["Body", "headers_too_large", "check_length"]


def check_length(config: Config, content_length: bytes | None) -> None:
    """Refuse a body by the length that it is said to have."""
    if content_length is None:
        return
    if not content_length.isdigit():
        msg = f"Content-Length must be a number of bytes, not {content_length[:40].decode('latin-1')!r}."
        raise bad_request(msg)
    # The number of digits first: a thousand of them are not worth being read.
    if len(content_length) > 18 or int(content_length) > config.max_body:
        raise _too_large(config)


def headers_too_large(config: Config) -> ApiError:
    """What a client is told whose headers are."""
    msg = f"The headers may take {config.max_header} bytes in all, and took more."
    return ApiError(431, msg, code="headers_too_large")


def _too_large(config: Config) -> ApiError:
    msg = f"The body may have {config.max_body} bytes, and has more."
    return ApiError(413, msg, code="body_too_large")


class Body:
    """Receives a body for a route, and refuses what is too much or too late."""

    __slots__ = ("_config", "_deadline", "_receive", "_size", "problem", "whole")

    def __init__(self, config: Config, receive: Receive) -> None:
        self._config = config
        self._receive = receive
        self._deadline: float | None = None
        self._size = 0
        self.whole = False
        """Whether all of it has come, or nothing more will."""
        self.problem: ApiError | None = None
        """What is wrong with it. It is the answer, whatever a route makes of the exception."""

    async def receive(self) -> MutableMapping[str, Any]:
        """The next event."""
        if self.whole:
            return await self._receive()
        if self.problem is not None:
            raise self.problem
        message = await self._in_time()
        self._size += len(message.get("body", b""))
        if self._size > self._config.max_body:
            self.problem = _too_large(self._config)
            raise self.problem
        self.whole = not message.get("more_body", False)
        return message

    async def _in_time(self) -> MutableMapping[str, Any]:
        # A timer costs more than all the rest of the guard, and nearly all bodies are there already. So
        # the first step is taken without one, and only what has to wait then is timed.
        steps = self._receive().__await__()
        try:
            first = next(steps)
        except StopIteration as done:
            there: MutableMapping[str, Any] = done.value
            return there
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._config.body_timeout
        try:
            async with asyncio.timeout_at(self._deadline):
                return await _resume(steps, first)
        except TimeoutError:
            msg = f"The body did not arrive within {self._config.body_timeout:g} seconds."
            self.problem = ApiError(408, msg, code="body_timeout")
            raise self.problem from None


@types.coroutine
def _resume(steps: Generator[Any, Any, T], first: object) -> Generator[Any, Any, T]:
    """Go on with something whose first step was taken, and which waits for `first`."""
    try:
        yield first
    except BaseException as error:
        # It belongs to whoever waits, who gives up what was waited for on the way out.
        steps.throw(error)
        raise
    return (yield from steps)
