"""Runs an agent's `answer()`, whatever kind of function it is, as one async iterator of pieces.

Async answers run on the loop. Others run on a daemon thread of their own, one piece at a time: the next
one is asked for when the last has been sent, so that a client who reads slowly slows the agent down and
nothing piles up. How many threads there are is bounded by how many turns may run.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

from greenroom.gateway._agent import ChatRequest, Finish, Piece, Usage

__all__ = ["ThreadedAnswer", "answer_of"]

_numbers = itertools.count(1)


def answer_of(agent: Any, request: ChatRequest) -> AsyncIterator[Piece]:
    """Begin an answer: an iterator with `aclose()`, which ends it early."""
    answer: Any = getattr(agent, "answer", None)
    if not callable(answer):
        msg = f"an agent here needs a method answer(request), and {type(agent).__name__} has none"
        raise TypeError(msg)
    flags = getattr(getattr(answer, "__code__", None), "co_flags", 0)  # `inspect` takes ten times longer
    if flags & inspect.CO_ASYNC_GENERATOR or (not flags and inspect.isasyncgenfunction(answer)):
        pieces: AsyncIterator[Piece] = answer(request)
        return pieces
    if flags & inspect.CO_COROUTINE or inspect.iscoroutinefunction(answer):
        return _awaited(answer(request))
    return ThreadedAnswer(lambda: answer(request))


async def _awaited(answer: Any) -> AsyncIterator[Piece]:
    whole = await answer
    if isinstance(whole, str):  # nearly all are
        yield whole
        return
    if isinstance(whole, AsyncIterator):
        pieces: AsyncIterator[Piece] = whole
        async for piece in pieces:
            yield piece
        return
    for piece in _pieces(whole):
        yield piece


def _pieces(whole: Any) -> Iterator[Piece]:
    if isinstance(whole, (str, Usage, Finish)):
        return iter((whole,))
    if isinstance(whole, Iterable):
        pieces: Iterable[Piece] = whole  # as far as one knows: each is looked at when it is sent
        return iter(pieces)
    msg = f"answer() returned {type(whole).__name__}, neither text nor pieces"
    raise TypeError(msg)


class ThreadedAnswer:
    """An answer that comes from a thread."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._wanted: SimpleQueue[asyncio.Future[Any] | None] = SimpleQueue()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._started = False

    def __aiter__(self) -> ThreadedAnswer:
        return self

    async def __anext__(self) -> Piece:
        if not self._started:
            self._started = True
            context = contextvars.copy_context()
            name = f"greenroom-answer-{next(_numbers)}"
            threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True).start()
        coming: asyncio.Future[Any] = self._loop.create_future()
        self._wanted.put(coming)
        piece = await coming
        if piece is None:
            raise StopAsyncIteration
        return piece  # type: ignore[no-any-return]  # what an agent yields is its own affair

    async def aclose(self) -> None:
        """Want no more, and wait until the thread has seen that."""
        if self._started:
            self._wanted.put(None)
            await self._over

    def _run(self) -> None:
        """On the thread: a piece for each time that one is wanted."""
        pieces: Iterator[Piece] | None = None
        try:
            while (coming := self._wanted.get()) is not None:
                try:
                    if pieces is None:
                        pieces = _pieces(self._answer())
                    self._tell(coming, next(pieces, None), None)
                except BaseException as error:  # whatever it is, whoever waits is told
                    self._tell(coming, None, error)
        finally:
            close = getattr(pieces, "close", None)
            try:
                if close is not None:
                    close()
            finally:
                self._tell(self._over, None, None)

    def _tell(self, future: asyncio.Future[Any], piece: Any, error: BaseException | None) -> None:
        def tell() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(piece)
            elif isinstance(error, (StopIteration, asyncio.CancelledError)):
                future.set_exception(RuntimeError(f"answer() raised {error!r}"))
            else:
                future.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
