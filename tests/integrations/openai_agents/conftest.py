"""Agents without a network: scripted models, an endpoint on loopback, rooms, and other processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # traces would go to OpenAI

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds after which a test that waits for something fails. Never how long something takes."""


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
    """An endpoint that speaks OpenAI's Chat Completions API, streamed.

    Each request is given the next of `answers`: pieces of text, and `...` for silence until the client
    hangs up.
    """

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.hung_up = asyncio.Event()
        """Set when a client has hung up in the silence."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        self.requests.append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for piece in self.answers.pop(0):
            if piece is ...:
                await reader.read()
                self.hung_up.set()
                break
            writer.write(_event({"role": "assistant", "content": piece}, None))
        else:
            writer.write(_event({}, "stop") + b"data: [DONE]\n\n")
        writer.close()


def _event(delta: dict[str, Any], finish: str | None) -> bytes:
    chunk = {
        "id": "chunk",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()


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
