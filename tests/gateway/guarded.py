"""A server with the guard, the login and the protocol for connections, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import FastAPI

from greenroom.gateway.config._config import Config, Token
from tests.actors.actors import PATIENCE
from tests.gateway.raw import Raw
from tests.gateway.serving import Serving
from tests.room.agents import until

ANNA = Token("anna", "anna-has-this-secret", operator=False)
BERT = Token("bert", "bert-has-another-one", operator=False)
CHIEF = Token("chief", "chief-runs-this-room", operator=True)
TOKENS = (ANNA, BERT, CHIEF)


def bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.secret}"}


class Guarded(Serving):
    """A running server, of which a test can count what is left."""

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    def transports(self) -> list[asyncio.Transport]:
        connections: Any = self._server.server_state.connections
        return [connection.transport for connection in connections]

    def tasks(self) -> int:
        """How many tasks there are on the loop, beside the one that counts."""

        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        found: int = self.call(count())
        return found

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The event loop stands still while the block runs: what is done meanwhile, it finds done."""
        reached, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            reached.set()
            assert let_go.wait(PATIENCE)

        self.loop.call_soon_threadsafe(hold)
        assert reached.wait(PATIENCE)
        try:
            yield
        finally:
            let_go.set()

    @contextlib.contextmanager
    def asked(self, data: bytes, *, receive_buffer: int | None = None) -> Iterator[Raw]:
        """A client that has sent this by the time the server hears of it: whatever limit there is for
        what comes first, it does not depend on how soon the test goes on."""
        with self.held():
            client = Raw(self.port, receive_buffer=receive_buffer)
            client.send(data)
        try:
            yield client
        finally:
            client.hang_up()

    def wait_quiet(self, tasks: int) -> None:
        """Wait until nothing runs, nobody waits, and there is no more than this on the loop."""
        until(lambda: self.connections == 0, "connections are left")
        until(lambda: self.stage.admission.figures().get(timeout=PATIENCE) == (0, 0), "turns are left")
        until(lambda: self.stage.room.stats().in_turn == 0, "the room has turns")
        until(lambda: self.tasks() <= tasks, "tasks are left")


@contextlib.contextmanager
def guarded(
    factory: Any,
    *,
    add: Callable[[FastAPI], None] | None = None,
    keep_alive: int = 5,
    runs: Callable[[Any], object] = asyncio.run,
    **config: Any,
) -> Iterator[Guarded]:
    """Serve while the block runs."""
    server = Guarded(Config(**config), factory, add, keep_alive=keep_alive, runs=runs)
    try:
        yield server
    finally:
        server.stop()
