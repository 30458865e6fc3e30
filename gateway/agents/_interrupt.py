"""Ending an answer early from anywhere: what is behind the hook `interrupt()` of the included agents."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

__all__ = ["Interrupt", "Interrupted"]

T = TypeVar("T")


class Interrupted(Exception):
    """The answer is to end here, with what was said so far."""


class Interrupt:
    """Ends what an answer waits for. Used by one answer at a time.

        with interrupt.listening():
            word = await interrupt.wait_for(next_word())    # raises Interrupted
            yield word                                      # is never disturbed

    It works as `asyncio.timeout()` does: the task that waits is cancelled, and if nobody else
    cancelled it too, that becomes `Interrupted`. While the answer is not waiting (somebody is sending
    what it has yielded) its task belongs to others and is left alone; the next wait ends at once.
    """

    __slots__ = ("_cancelled", "_fired", "_loop", "_task")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._fired = False
        self._cancelled = False

    def __call__(self) -> None:
        """Interrupt the answer that is running, if there is one. From any thread; returns at once."""
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._fire)
            except RuntimeError:
                pass  # the loop was closed, and the answer with it

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While an answer is running."""
        self._loop = asyncio.get_running_loop()
        self._fired = False
        try:
            yield
        finally:
            self._loop = None

    async def wait_for(self, awaitable: Awaitable[T]) -> T:
        """Wait, or raise `Interrupted`."""
        if self._fired:
            if inspect.iscoroutine(awaitable):
                awaitable.close()
            raise Interrupted
        task = self._task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._cancelled and task is not None and task.cancelling() <= before + 1:
                raise Interrupted from None
            raise
        finally:
            self._task = None
            if self._cancelled and task is not None:
                task.uncancel()
            self._cancelled = False

    def _fire(self) -> None:
        # On the loop, so that the task is at rest: it waits for something, and that is what ends.
        if self._loop is None or self._fired:
            return
        self._fired = True
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()
