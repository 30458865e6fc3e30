"""The load: connections that stay open, each of which asks again as soon as it has its answer.

A connection is a protocol with no task and no future for a request: what the client takes is little
beside what it measures. The share of a core that it takes is among the figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from time import perf_counter_ns

from benchmarks.gateway.agents import PATH, check_answer
from benchmarks.gateway.replies import ReplyReader

__all__ = ["Call", "Caller", "connect", "request_of"]


def request_of(session: str, body: bytes) -> bytes:
    """A request, as it goes over the wire."""
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-Greenroom-Session: {session}\r\n\r\n"
    )
    return head.encode() + body


class Call:
    """When it was asked, and when each part of the answer had come, in nanoseconds."""

    __slots__ = ("arrivals", "begin", "end")

    def __init__(self) -> None:
        self.begin = perf_counter_ns()
        self.end = 0
        self.arrivals: list[int] = []


class Caller(asyncio.Protocol):
    """One connection, for requests that are all the same."""

    def __init__(self, kind: str, request: bytes, pieces: int, again: Callable[[], bool]) -> None:
        self._kind = kind
        self._request = request
        self._pieces = pieces
        self._again = again
        self._reader = ReplyReader()
        self._transport: asyncio.Transport | None = None
        self._call = Call()
        self.calls: list[Call] = []
        """Those that were answered."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by name.
        self._transport = transport  # type: ignore[assignment]

    def ask(self) -> None:
        """Send the request. When all that is wanted is answered, `done` is."""
        assert self._transport is not None
        self._call = Call()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            whole = self._reader.feed(data)
            self._note(whole)
        except Exception as error:
            self._fail(error)

    def _note(self, whole: bool) -> None:
        reader, call, now = self._reader, self._call, perf_counter_ns()
        call.arrivals += [now] * (len(reader.parts) - len(call.arrivals))
        if not whole:
            return
        call.end = now
        self.calls.append(call)
        check_answer(self._kind, reader.status, b"".join(reader.parts), self._pieces)
        reader.begin()
        if self._again():
            self.ask()
        else:
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server hung up"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def connect(port: int, callers: list[Caller]) -> None:
    """Give each a connection."""
    loop = asyncio.get_running_loop()
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", port)  # type: ignore[misc]


async def ask_in_turn(callers: list[Caller], over: float) -> None:
    """Have each of them ask, spread over so many seconds, and wait until all are done."""
    begin = time.perf_counter()
    for number, caller in enumerate(callers):
        wait = begin + over * number / len(callers) - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        caller.ask()
    await asyncio.gather(*(caller.done for caller in callers))
