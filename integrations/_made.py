"""What a function of the context makes for one session, and how it is let go.

    def agent_for(context):                        # made, and nothing to close
        return Agent(model=context.spec.model)

    async def agent_for(context):                  # made; what comes after `yield` is done on release
        async with MCPServerStdio(…) as server, AsyncOpenAI() as client:
            yield Agent(mcp_servers=[server], model=OpenAIResponsesModel("gpt-5", client))

A function that yields is run in a task of its own, from its beginning to its end: a connection to an
MCP server, and whatever else is built on cancel scopes, must be closed by the task that opened it, and a
room releases an agent in another one than it built it in.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from greenroom.integrations._waiting import await_on, wait_ended

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AsyncExitStack

    from greenroom import BuildContext

__all__ = ["make"]


async def make(given: Any, context: BuildContext, made: AsyncExitStack) -> Any:
    """Call a function of the context, and return what it makes. Anything else is returned as it is.

    The function may be async, or yield. How to let go of what it yielded is pushed on `made`.
    """
    if not inspect.isroutine(given) and not isinstance(given, functools.partial):
        return given
    value: Any = given(context)
    if inspect.isasyncgen(value):
        held = _Held(cast("AsyncGenerator[Any, None]", value))
        made.push_async_callback(held.end)
        return await held.begin()
    return await value if inspect.iscoroutine(value) else value


class _Held:
    """A function that yields, in a task of its own."""

    def __init__(self, function: AsyncGenerator[Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Any] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._task = asyncio.create_task(self._hold(function))

    async def begin(self) -> Any:
        """Run it up to its `yield`, and return what that gave."""
        try:
            await asyncio.wait([self._task, self._ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._ready.done():
            return self._ready.result()
        self._task.result()
        raise RuntimeError("a function that makes something for a session has ended without a yield")

    async def end(self) -> None:
        """Let it go on, and wait until it has ended. What it raises is raised here."""
        # A room cannot always release an agent on the loop that it was built on.
        await await_on(self._loop, self._end)

    async def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
        await wait_ended(self._task)
        if self._task.cancelled():
            return
        error = self._task.exception()
        if error is not None and self._ready.done():  # if it is not ready, `begin` has told
            raise error

    async def _hold(self, function: AsyncGenerator[Any, None]) -> None:
        async with aclosing(function):
            async for value in function:
                if self._ready.done():
                    raise RuntimeError("a function that makes something for a session has yielded twice")
                self._ready.set_result(value)
                await self._over
