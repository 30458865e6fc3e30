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
import logging
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, NamedTuple, cast

from greenroom.gateway._agent import ChatRequest, Finish, Piece, Usage

__all__ = ["ThreadedAnswer", "answer_of"]

logger = logging.getLogger("greenroom.gateway")

_numbers = itertools.count(1)
_END: Any = object()
"""Comes after the last piece."""


def answer_of(agent: Any, request: ChatRequest) -> AsyncIterator[Piece]:
    """Begin an answer: an iterator with `aclose()`, which ends it early."""
    answer: Any = getattr(agent, "answer", None)
    if not callable(answer):
        msg = f"an agent here needs a method answer(request), and {type(agent).__name__} has none"
        raise TypeError(msg)
    flags = getattr(getattr(answer, "__code__", None), "co_flags", 0)  # `inspect` takes ten times longer
    if flags & inspect.CO_ASYNC_GENERATOR or (not flags and inspect.isasyncgenfunction(answer)):
        return cast("AsyncIterator[Piece]", answer(request))
    if flags & inspect.CO_COROUTINE or inspect.iscoroutinefunction(answer):
        return _awaited(answer(request))
    return ThreadedAnswer(lambda: answer(request))


async def _awaited(answer: Any) -> AsyncIterator[Piece]:
    whole = await answer if inspect.isawaitable(answer) else answer
    if isinstance(whole, str):  # nearly all are
        yield whole
    elif isinstance(whole, AsyncIterable):
        pieces = aiter(cast("AsyncIterable[Piece]", whole))
        try:
            async for piece in pieces:
                yield piece
        finally:
            close: Any = getattr(pieces, "aclose", None)
            if close is not None:
                await (
                    close()
                )  # now, and not when the collector comes by: the next turn may use the agent
    else:
        for piece in _pieces(whole):
            yield piece


def _pieces(whole: Any) -> Iterator[Piece]:
    if isinstance(whole, (str, Usage, Finish)):
        return iter((whole,))
    if isinstance(whole, Iterable):
        # As far as one knows: each is looked at when it is sent.
        return iter(cast("Iterable[Piece]", whole))
    msg = f"answer() returned {type(whole).__name__}, neither text nor pieces"
    raise TypeError(msg)


class _OnLoop(NamedTuple):
    """What a plain function has returned, and the loop is to wait for. Decorators hide such things."""

    answer: Any


class ThreadedAnswer:
    """An answer that comes from a thread."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._wanted: SimpleQueue[asyncio.Future[Any] | None] = SimpleQueue()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._started = False
        self._on_loop: AsyncIterator[Piece] | None = None

    def __aiter__(self) -> ThreadedAnswer:
        return self

    async def __anext__(self) -> Piece:
        if self._on_loop is not None:
            return await anext(self._on_loop)
        if not self._started:
            self._started = True
            context = contextvars.copy_context()
            name = f"greenroom-answer-{next(_numbers)}"
            threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True).start()
        coming: asyncio.Future[Any] = self._loop.create_future()
        self._wanted.put(coming)
        piece = await coming
        if piece is _END:
            raise StopAsyncIteration
        if isinstance(piece, _OnLoop):
            self._on_loop = _awaited(piece.answer)
            return await anext(self._on_loop)
        return piece  # type: ignore[no-any-return]  # what an agent yields is its own affair

    async def aclose(self) -> None:
        """Want no more, and wait until the thread has seen that."""
        try:
            if self._on_loop is not None:
                await self._on_loop.aclose()  # type: ignore[attr-defined]  # it is a generator
        finally:
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
                        whole = self._answer()
                        if isinstance(whole, (AsyncIterable, Awaitable)):
                            self._tell(coming, _OnLoop(whole), None)
                            continue
                        pieces = _pieces(whole)
                    self._tell(coming, next(pieces, _END), None)
                except BaseException as error:  # whatever it is, whoever waits is told
                    self._tell(coming, None, error)
        finally:
            _close(pieces)
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


def _close(pieces: Any) -> None:
    """End a generator. Nobody waits for what it still says."""
    close = getattr(pieces, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException:
        logger.warning("An answer could not be closed", exc_info=True)
