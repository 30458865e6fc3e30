"""For all tests with frameworks: endpoints on loopback, other processes, and pages that are run.

These tests do not have the checkout on sys.path: frameworks.ini puts this folder there, and no other.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

DOCS = Path(__file__).parents[3] / "docs"
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
    deadline = time.monotonic() + 40.0  # well before the time limit of a test, which names no thread
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith("greenroom") and thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"a thread was left behind: {thread.name}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path}/chats.db"


@pytest.fixture
def another_process(request: pytest.FixtureRequest) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the folder's `child.py` with these arguments."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", str(request.path.with_name("child.py")), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Endpoint(ABC):
    """An endpoint on loopback. A connection is for one request, which is given the next of `answers`."""

    path: ClassVar[str] = ""
    """What its URL ends with."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.hung_up = asyncio.Event()
        """Set when a client has hung up in the silence."""
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}{self.path}"
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

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request and answer it."""

    async def _take(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        """Read a request whose body is JSON, and keep it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        request: dict[str, Any] = json.loads(await reader.readexactly(length))
        self.requests.append(request)
        return request

    async def _be_silent(self, reader: asyncio.StreamReader) -> None:
        """Wait until the client hangs up, in whichever way."""
        try:
            await reader.read()
        finally:
            self.hung_up.set()


def answer_head(status: str, content_type: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n".encode()


class ChatCompletions(Endpoint):
    """An endpoint that speaks OpenAI's Chat Completions API, streamed.

    An answer is pieces of text, and `...` for silence until the client hangs up.
    """

    path = "/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._take(reader)
        writer.write(answer_head("200 OK", "text/event-stream"))
        for piece in self.answers.pop(0):
            if piece is ...:
                await self._be_silent(reader)
                return
            writer.write(_chunk({"role": "assistant", "content": piece}, None))
        writer.write(_chunk({}, "stop") + b"data: [DONE]\n\n")


def _chunk(delta: dict[str, Any], finish: str | None) -> bytes:
    chunk = {
        "id": "chunk",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()


class Provider:
    """A memory provider."""

    def __init__(self) -> None:
        self.extracted: list[tuple[str, int]] = []

    async def extract(self, said: list[Any], idempotency_key: str) -> None:
        self.extracted.append((idempotency_key, len(said)))


def blocks(page: Path, language: str) -> list[str]:
    """The code of a page that is in this language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@contextmanager
def run(page: Path) -> Iterator[dict[str, Any]]:
    """Run the Python of a page, which opens a `room` on a `loop` that runs in a thread.

    Its names, with a `provider` of memories that it does not define, and what it `printed`.
    """
    before = frozenset(threading.enumerate())
    names: dict[str, Any] = {"provider": Provider()}
    with redirect_stdout(io.StringIO()) as printed:
        for block in blocks(page, "python"):
            exec(compile(block, str(page), "exec"), names)
    (running,) = [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.name.endswith("(run_forever)")
    ]
    yield names | {"printed": printed.getvalue()}
    names["room"].close()
    names["loop"].call_soon_threadsafe(names["loop"].stop)
    running.join(PATIENCE)
    assert not running.is_alive(), "the loop of the page goes on"
    names["loop"].close()
