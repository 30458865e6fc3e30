"""Claude without a network: an endpoint on loopback, rooms, and other processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

HERE = Path(__file__).parent
PATIENCE = 240.0
"""Seconds after which a test that waits for something fails. Never how long something takes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Another process has to load the framework: a minute, on a machine that has much to do."""
    for item in items:
        if "another_process" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(2 * PATIENCE))


@pytest.fixture
def patience() -> float:
    return PATIENCE


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail a test that leaves a thread of ours running."""
    before = frozenset(threading.enumerate())
    yield
    deadline = time.monotonic() + PATIENCE
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith("greenroom") and thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"a thread was left behind: {thread.name}"


class Endpoint:
    """An endpoint that speaks Anthropic's Messages API, streamed.

    Each request is given the next of `answers`: pieces of text, blocks in the API's form, `...` for
    silence until the client hangs up, and `{"stop": reason}` for why the message ends; `None` is no
    reason, and the connection ends there. A request that the API would not take is refused.
    """

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.hung_up = asyncio.Event()
        """Set when a client has hung up in the silence."""
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._serving:
            await asyncio.wait(self._serving)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve_and_close(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve_and_close(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has hung up
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        request = json.loads(await reader.readexactly(length))
        self.requests.append(request)
        if problem := problem_of(request):
            body = {"type": "error", "error": {"type": "invalid_request_error", "message": problem}}
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
            writer.write(b"connection: close\r\n\r\n" + json.dumps(body).encode())
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            writer.write(b"connection: close\r\n\r\n")
            if not await self._answer(self.answers.pop(0), writer):
                await reader.read()
                self.hung_up.set()

    async def _answer(self, parts: list[Any], writer: asyncio.StreamWriter) -> bool:
        """Send an answer. False: it ends in silence."""
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg", "type": "message", "role": "assistant", "model": "claude"}
        start: dict[str, Any] = {
            **message,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        writer.write(_event("message_start", message=start))
        blocks = -1
        stop: str | None = "end_turn"
        text_open = False
        for part in parts:
            if part is ...:
                await writer.drain()
                return False
            if isinstance(part, dict) and "stop" in part:
                stop = part["stop"]
                continue
            if isinstance(part, str) and text_open:
                writer.write(_delta(blocks, {"type": "text_delta", "text": part}))
                continue
            blocks += 1
            text_open = isinstance(part, str)
            writer.write(b"".join(_block(blocks, part)))
            if isinstance(part, dict) and part["type"] == "tool_use":
                stop = "tool_use"
        if stop is not None:
            ended = {"stop_reason": stop, "stop_sequence": None}
            writer.write(_event("message_delta", delta=ended, usage=usage) + _event("message_stop"))
        return True


def _block(index: int, part: Any) -> Iterator[bytes]:
    """The events of a block. One of text is left open for more."""
    if isinstance(part, str):
        yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        yield _delta(index, {"type": "text_delta", "text": part})
        return
    if part["type"] == "tool_use":
        yield _event("content_block_start", index=index, content_block={**part, "input": {}})
        yield _delta(index, {"type": "input_json_delta", "partial_json": json.dumps(part["input"])})
    elif part["type"] == "thinking":
        yield _event(
            "content_block_start",
            index=index,
            content_block={"type": "thinking", "thinking": "", "signature": ""},
        )
        yield _delta(index, {"type": "thinking_delta", "thinking": part["thinking"]})
        yield _delta(index, {"type": "signature_delta", "signature": part["signature"]})
    else:
        yield _event("content_block_start", index=index, content_block=part)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def problem_of(request: dict[str, Any]) -> str:
    """Why the API would refuse a request, as far as a history can be to blame. "": it would not."""
    waiting: set[str] = set()
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            return "all messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "text content blocks must contain non-whitespace text"
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != waiting:
            return f"tool_use ids {waiting} were found with tool_result blocks of {results}"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if blocks[-1]["type"] == "thinking":
            return "the final block in an assistant message cannot be thinking"
        if (waiting or results) and not request.get("tools"):
            return "requests with tool_use or tool_result blocks must define tools"
        if any(block.get("is_error") and not block["content"] for block in blocks):
            return "content cannot be empty if is_error is true"
    if request["messages"][-1]["role"] == "user" and (searches := unanswered(request["messages"])):
        return f"web_search tool use with ids {searches} was found without a web_search_tool_result"
    return "" if request["messages"][0]["role"] == "user" else "first message must be the user's"


def unanswered(messages: list[dict[str, Any]]) -> set[str]:
    """The calls of Anthropic's own tools that are without a result."""
    lists = [message["content"] for message in messages if isinstance(message["content"], list)]
    blocks = [block for content in lists for block in content]
    calls = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    return calls - {block.get("tool_use_id") for block in blocks}


@pytest.fixture
def endpoint() -> type[Endpoint]:
    """An endpoint, for `async with endpoint(["Hel", "lo"]) as running`."""
    return Endpoint


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path}/chats.db"


@pytest.fixture
def another_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `child.py` with these arguments."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "child.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
