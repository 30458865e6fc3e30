"""The async twins: the same calls on threads of the store's own, with an answer that can be awaited."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from greenroom.store._errors import StoreClosed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Pending", "Threads", "soon"]

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_AT_ONCE = 4


class Pending(Generic[T_co]):
    """What a call will answer. Await it, or `get()` it.

    Awaiting never blocks the loop. Who stops waiting undoes nothing: the call goes on.
    """

    __slots__ = ("_future",)

    def __init__(self, future: Future[T_co]) -> None:
        self._future = future

    def get(self, timeout: float | None = None) -> T_co:
        """Wait for the answer. `TimeoutError` after so many seconds; the call goes on."""
        return self._future.result(timeout)

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, T_co]:
        if not self._future.done():
            yield from self._wait().__await__()
        return self._future.result()

    async def _wait(self) -> None:
        # Not asyncio.wrap_future: that one cancels the call when the await is cancelled.
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def ended(_: Future[T_co]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(wake)

        self._future.add_done_callback(ended)
        await waiter


class Threads:
    """Threads that are started when there is something to do for them."""

    def __init__(self) -> None:
        self._closed = False
        self._given_up = False
        # It starts none of its threads before the first call.
        self._executor = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="greenroom-store")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Call it soon."""
        if self._closed:
            raise StoreClosed("the store is closed: open_store() opens it again")
        try:
            # In an empty context: without a GIL a new thread would keep that of its first caller.
            call = partial(function, *args, **kwargs)
            return Pending(Context().run(self._executor.submit, self._run, call))
        except RuntimeError as error:  # closed this very moment, or the interpreter is about to exit
            raise StoreClosed("the store takes no more calls: it is being closed") from error

    def _run(self, function: Callable[[], T]) -> T:
        # The interpreter waits for these threads before it exits. What was asked for is still done, but
        # not for many times the patience with a database that does not answer.
        exiting = not threading.main_thread().is_alive()
        if exiting and self._given_up:
            raise StoreClosed("the interpreter exits, and the store cannot be reached")
        try:
            return function()
        except StoreUnavailable:
            self._given_up = exiting
            raise

    def close(self) -> None:
        """Finish what was asked for, and end the threads."""
        self._closed = True
        # One of these threads cannot wait for itself.
        within = threading.current_thread().name.startswith("greenroom-store")
        self._executor.shutdown(wait=not within)


def soon(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Pending[T]]:
    """A method's twin, which returns a `Pending` at once: `append_soon = soon(append)`."""

    def call(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        threads: Threads = store._threads
        return threads.call(method, store, *args, **kwargs)

    call.__name__, call.__doc__ = f"{method.__name__}_soon", method.__doc__
    return call
