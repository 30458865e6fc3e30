"""Calls what blocks, without blocking the event loop, on threads that keep no process from ending.

The loop's own executor would do that too, but the interpreter waits for its threads when it exits.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["on_a_thread"]


def on_a_thread(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    """Call a function that blocks. On a daemon thread, which nobody waits for who does not want to."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def call() -> None:
        value, problem = None, None
        try:
            value = context.run(function, *args)
        except BaseException as error:
            # A future takes no `StopIteration`, and `SystemExit` ends the loop that comes across it.
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            problem = error if plain else RuntimeError(f"it raised {error!r}")
        try:
            loop.call_soon_threadsafe(tell, value, problem)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    threading.Thread(target=call, name="greenroom-aside", daemon=True).start()
    return answer
