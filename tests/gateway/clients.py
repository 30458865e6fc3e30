"""A server with a troupe of test agents, and the clients that people use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import openai

from greenroom.gateway._naming import Caller
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.serving import Serving, serving
from tests.room.agents import until

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Play:
    """A running server, its agents, and clients of it."""

    def __init__(self, server: Serving, troupe: Troupe, stack: contextlib.ExitStack) -> None:
        self.server = server
        self.stage = server.stage
        self.troupe = troupe
        self._stack = stack
        self._client: openai.OpenAI | None = None

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, which does not try again unless it is told to."""
        if not options and self._client is not None:
            return self._client
        given: dict[str, Any] = {"api_key": "x", "max_retries": 0, **options}
        client = self._stack.enter_context(openai.OpenAI(base_url=f"{self.server.url}/v1", **given))
        if not options:
            self._client = client
        return client

    def http(self, **options: Any) -> httpx.Client:
        """A plain client."""
        client = httpx.Client(base_url=self.server.url, timeout=PATIENCE, **options)
        return self._stack.enter_context(client)

    def sessions(self) -> dict[str, str]:
        """The sessions of the room, with their states, when nothing is under way."""
        self.wait_chores()
        self.stage.room.settle()
        return {row.key: row.state for row in self.stage.room.snapshot()}

    def wait_chores(self) -> None:
        """Wait for what runs behind answers."""
        self.server.call(self.stage.wait_chores())

    def stored(self) -> list[str]:
        """The sessions of the store."""
        self.wait_chores()
        assert self.stage.room.store is not None
        return [row.session_id for row in self.stage.room.store.sessions()]

    def figures(self) -> tuple[int, int]:
        """How many turns run, and how many wait."""
        running, waiting = self.stage.admission.figures().get()
        return running, waiting

    def wait_waiting(self, number: int) -> None:
        """Wait until so many turns wait at the admission."""
        until(lambda: self.figures()[1] == number, f"{number} turns that wait")

    def turns(self, key: str) -> int:
        """How many turns of a session were completed."""
        row = self.stage.room.explain(key).session
        return 0 if row is None else row.generation


@contextlib.contextmanager
def playing(troupe: Troupe | None = None, *, tenants: bool = False, **config: Any) -> Iterator[Play]:
    """Serve while the block runs. With `tenants`, the header `X-Tenant` says who calls."""
    troupe = troupe or Troupe()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(troupe, **config))
        stack.callback(troupe.open_all)
        if tenants:
            server.app.user_middleware.clear()
            server.app.add_middleware(_ByHeader)
        yield Play(server, troupe, stack)


class _ByHeader:
    """Stands where the guard does: callers are who they say. `X-Operator` makes one an operator."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            caller = Caller(headers.get(b"x-tenant", b"local").decode(), b"x-operator" in headers)
            scope.setdefault("state", {}).update(caller=caller, request_id="r")
        await self._app(scope, receive, send)


def user(text: str) -> list[Any]:
    """The messages of somebody who says this."""
    return [{"role": "user", "content": text}]
