"""A real server on loopback, in a thread of the test's process, with a stage to look at."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from greenroom.gateway._naming import Caller
from greenroom.gateway._stage import Stage
from greenroom.gateway.app import create_app
from greenroom.gateway.config._config import Config
from greenroom.gateway.guard._protocol import protocol_of
from tests.actors.actors import PATIENCE


class _Server(uvicorn.Server):
    """Ends at once. uvicorn itself looks every tenth of a second whether it is to end, and then whether
    everything has: most of what a test with a server of its own would take."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        while state.connections or state.tasks:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.002)
        for server in self.servers:
            await server.wait_closed()


class Serving:
    """A running server."""

    def __init__(
        self,
        config: Config,
        factory: Any,
        add: Callable[[FastAPI], None] | None = None,
        *,
        keep_alive: int = 5,
        runs: Callable[[Any], object] = asyncio.run,
    ) -> None:
        """`add` may give its app routes of the test's own, which go before the app's."""
        self._runs = runs
        self.stage = Stage(config, factory)
        self.app = create_app(self.stage)
        if add is not None:
            routes = self.app.router.routes
            there = len(routes)
            add(self.app)
            routes[:] = routes[there:] + routes[:there]
        self._server = _Server(
            uvicorn.Config(
                self.app,
                host="127.0.0.1",
                port=0,
                log_config=None,
                lifespan="off",
                http=protocol_of(self.stage),
                ws="none",
                access_log=False,
                timeout_keep_alive=keep_alive,
            )
        )
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-server", daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE)

    def _run(self) -> None:
        self._runs(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            assert not task.done(), "the server did not start"
            await asyncio.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self._started.set()
        await task
        await self.stage.wait_chores()

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def stop(self) -> None:
        """End it, with everything in it."""
        self._server.should_exit = True
        self.loop.call_soon_threadsafe(self._server.ending.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.stage.close()


@contextlib.contextmanager
def serving(factory: Any, **config: Any) -> Iterator[Serving]:
    """Serve while the block runs."""
    server = Serving(Config(**config), factory)
    try:
        yield server
    finally:
        server.stop()


LOCAL = Caller("local", operator=True)
