"""To wait for a task to its end: also while one is being cancelled, also from another loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["await_on", "wait_ended"]


async def wait_ended(task: asyncio.Future[Any]) -> None:
    """Wait until a task has ended, however it does. Whoever is cancelled meanwhile learns it afterwards.

    For what must not go on beside whatever comes next: a request that is being closed, a row that is
    being written. Two timeouts around a turn may cancel it twice, and the second comes while what the
    first one has ended is being waited for.
    """
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # nobody else asks for it
        raise asyncio.CancelledError


async def await_on(
    loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Call an async function on the loop that its tasks belong to, and wait for it. Where that loop does
    not run any more its tasks never will either, and the function is not called."""
    if loop is asyncio.get_running_loop():
        await function()
    elif loop.is_running():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), loop))
