"""The HTTP server: uvicorn, which leaves signals and the end to us.

While the server drains, the answer to every request that comes closes its connection, so that clients
and proxies go elsewhere. At the end connections are closed, and cut if their clients do not read: what
runs behind them sees that as a client that has hung up, and ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import uvicorn

from greenroom.gateway.guard._protocol import protocol_of
from greenroom.gateway.server._sockets import url_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from greenroom.gateway._stage import Stage

__all__ = ["Listener"]

BACKLOG = 2048
KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than proxies keep theirs, so that they close it."""

LAST_ANSWERS = 0.3
"""Seconds after which a connection that is still in an answer is closed, once the room has drained …"""

FLUSHING = 0.7
"""… and seconds more after which it is cut: its client does not read."""


class Listener:
    """Listens, and answers with an app."""

    def __init__(self, app: ASGIApp, stage: Stage, bound: list[socket.socket]) -> None:
        self.url = url_of(bound)
        self._bound = bound
        self._server = _Server(
            uvicorn.Config(
                _Closing(app, stage),
                interface="asgi3",
                loop="none",
                http=protocol_of(stage),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=2,
            )
        )

    @property
    def listening(self) -> asyncio.Future[None]:
        """Done when it listens. On the event loop."""
        return self._server.listening

    async def serve(self) -> None:
        """Until it is ended. Raises `OSError` if somebody else listens there."""
        try:
            await self._server.serve(sockets=self._bound)
        except OSError as error:
            # Two that start at the same moment can both have the address, and then only one can listen.
            msg = f"cannot listen on {self.url} ({error.strerror}): somebody else does"
            raise OSError(error.errno, msg) from error

    async def end(self, serving: asyncio.Future[None]) -> None:
        """Listen no more, and end all connections."""
        self._server.should_exit = True
        loop = asyncio.get_running_loop()
        close = loop.call_later(LAST_ANSWERS, self._end_connections, "close")
        cut = loop.call_later(LAST_ANSWERS + FLUSHING, self._end_connections, "abort")
        await asyncio.wait([serving])
        close.cancel()
        cut.cancel()

    def _end_connections(self, how: str) -> None:
        for connection in list(self._server.server_state.connections):
            transport: Any = connection.transport
            getattr(transport, how)()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set_result(None)


class _Closing:
    """Has requests that come while the server drains answered for the last time on their connections."""

    def __init__(self, app: ASGIApp, stage: Stage) -> None:
        self._app = app
        self._stage = stage

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Not a coroutine function: as long as nothing drains, a request costs a comparison.
        if not self._stage.draining:
            return self._app(scope, receive, send)

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        return self._app(scope, receive, send_on)
