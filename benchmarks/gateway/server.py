"""A real server on loopback, on a thread of its own, so that its process can be asked meanwhile.

With a stage it is the gateway's own listener, whatever the route is. Without, it is uvicorn as it comes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI

from benchmarks.gateway.system import new_loop
from greenroom.gateway import Stage
from greenroom.gateway.server import _sockets
from greenroom.gateway.server._collector import calm_collector
from greenroom.gateway.server._listener import BACKLOG, KEEP_ALIVE, Listener

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to start, to end, and for whatever is run on the loop."""


class Server:
    """Serves until its process ends."""

    def __init__(self, app: FastAPI, stage: Stage | None) -> None:
        self._app = app
        self._stage = stage
        self._bound = _sockets.bind("127.0.0.1", 0)
        self.port: int = self._bound[0].getsockname()[1]
        self._loop = new_loop()
        threading.Thread(target=self._run, name="server", daemon=True).start()
        self.call(self._started())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with nullcontext() if self._stage is None else calm_collector():
            self._loop.run_forever()

    async def _started(self) -> None:
        if self._stage is not None:
            listener = Listener(self._app, self._stage, self._bound)
            self._serving = asyncio.ensure_future(listener.serve())
            await listener.listening
            return
        bare = uvicorn.Server(
            uvicorn.Config(
                self._app,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE,
            )
        )
        self._serving = asyncio.ensure_future(bare.serve(sockets=self._bound))
        while not bare.started:  # noqa: ASYNC110  # uvicorn has no event for that
            await asyncio.sleep(0.005)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop, to its end."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)
