"""A turn that comes to no good end is freed with its request, and does not wait for the collector."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from greenroom.gateway import ChatRequest
from greenroom.gateway._performance import Performance
from tests.gateway.serving import serving


class Talker:
    """Fails, or talks until its client has gone."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        yield "one"
        if request.messages[-1]["content"] == "fail":
            raise RuntimeError
        await asyncio.Event().wait()


class Watcher:
    """Sees which performances there are."""

    def __init__(self) -> None:
        self.seen: list[weakref.ref[Performance]] = []

    def began(self, performance: Performance) -> None:
        self.seen.append(weakref.ref(performance))

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        assert error is not None


async def ask(app: Any, content: str, *, stream: bool) -> None:
    """Ask, and go: from a stream when its first word is there."""
    message = {"role": "user", "content": content}
    body = json.dumps({"messages": [message], "stream": stream}).encode()
    events = [{"type": "http.request", "body": body, "more_body": False}]
    heard = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if events:
            return events.pop()
        if stream:
            await heard.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if b'"one"' in message.get("body", b""):
            heard.set()

    headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
    await app({**scope, "query_string": b"", "scheme": "http"}, receive, send)


@pytest.mark.parametrize("content", ["fail", "go on"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_that_fails_or_is_left_is_freed_at_once(
    content: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "greenroom")  # what is captured keeps what was raised
    watcher = Watcher()
    with serving(lambda _, **__: Talker()) as server:
        server.stage.watchers.append(watcher)
        gc.disable()
        try:
            server.call(ask(server.app, content, stream=stream))
            server.call(asyncio.sleep(0))  # the task that asked is freed by its loop
            assert [one() for one in watcher.seen] == [None]
        finally:
            gc.enable()
