"""Routes that take turns are called without the framework's routing, and are the framework's still."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Request, Response

from greenroom.gateway import ChatRequest
from greenroom.gateway.api._direct import Direct, direct
from tests.gateway.serving import serving

Message = MutableMapping[str, Any]

ROUTING = "fastapi/routing.py"


class Witness:
    """An agent that says who has called it."""

    async def answer(self, _: ChatRequest) -> str:
        files = [frame.filename.replace("\\", "/") for frame in inspect.stack(0)]
        return "framework" if any(file.endswith(ROUTING) for file in files) else "direct"


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "?"}]},
    "/v1/responses": {"input": "?"},
}


@pytest.mark.parametrize("path", BODIES)
def test_a_turn_is_taken_without_the_frameworks_routing(path: str) -> None:
    with serving(lambda _, **__: Witness()) as server:
        answer = httpx.post(f"{server.url}{path}", json=BODIES[path])

    assert answer.status_code == 200
    assert "direct" in answer.text


@pytest.mark.parametrize("path", BODIES)
def test_other_methods_and_the_description_are_the_frameworks(path: str) -> None:
    with serving(lambda _, **__: Witness()) as server:
        refused = httpx.get(f"{server.url}{path}")
        described = httpx.get(f"{server.url}/openapi.json").json()

    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert "post" in described["paths"][path]


def _asked(**changes: Any) -> tuple[str, Message]:
    """Who answers a request, and what its scope is then."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/turns")
    @direct
    async def take_turn(_: Request) -> Response:
        return Response("direct")

    @routes.post("/others")
    async def do_else(_: Request) -> Response:
        return Response("direct")

    said: list[str] = []

    async def framework(*_: Any) -> None:
        said.append("framework")

    async def send(message: Message) -> None:
        said.append(message.get("body", b"").decode())

    async def receive() -> Message:
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/v1/turns", "headers": [], **changes}
    asyncio.run(Direct(framework, routes=routes.routes)(scope, receive, send))
    return "".join(said), scope


def test_whoever_watches_requests_finds_the_route() -> None:
    said, scope = _asked()

    assert said == "direct"
    assert scope["route"].path == "/v1/turns"
    assert scope["endpoint"].__name__ == "take_turn"


def test_a_prefix_that_a_proxy_adds_changes_nothing() -> None:
    assert _asked(path="/here/v1/turns", root_path="/here")[0] == "direct"


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "/v1/others"},
        {"path": "/v1/turns/"},
        {"method": "GET"},
        {"type": "lifespan"},
        {"fastapi.telemetry": object()},  # its spans are named by its routing
    ],
    ids=[
        "another path",
        "a path with a slash",
        "another method",
        "no request",
        "traced by the framework",
    ],
)
def test_everything_else_is_the_frameworks(changes: dict[str, Any]) -> None:
    assert _asked(**changes)[0] == "framework"
