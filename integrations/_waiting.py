"""To wait for a task to its end, also while one is being cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["wait_ended"]


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
