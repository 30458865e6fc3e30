"""Graphs without a network: a model that says what it is told to, checkpointers, and other processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

os.environ["LANGSMITH_TRACING"] = "false"  # traces would go to LangSmith

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
    """An endpoint that sends a line for each piece of the next of `answers`, and `...` for silence until
    the client hangs up."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.hung_up = asyncio.Event()
        """Set when a client has hung up in the silence."""
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._serving:
            await asyncio.wait(self._serving)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n")
        for piece in self.answers.pop(0):
            if piece is ...:
                await reader.read()
                self.hung_up.set()
                break
            writer.write(f"{piece}\n".encode())
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


class Model(BaseChatModel):
    """A chat model whose words come from an endpoint, or are `said`."""

    url: str = ""
    said: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "told"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(self.said)))])

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        if not self.url:
            for piece in self.said:
                yield ChatGenerationChunk(message=AIMessageChunk(piece))
            return
        async with (
            httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client,
            client.stream("GET", self.url) as answer,
        ):
            async for line in answer.aiter_lines():
                yield ChatGenerationChunk(message=AIMessageChunk(line))


@pytest.fixture
def endpoint() -> type[Endpoint]:
    """An endpoint, for `async with endpoint(["Hel", "lo"]) as running`."""
    return Endpoint


@pytest.fixture
def model() -> type[Model]:
    """A model: `model(url=running.url)`, or `model(said=("Hel", "lo"))`."""
    return Model


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A checkpointer, for `async with saver() as saving`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        if request.param == "memory":
            yield InMemorySaver()
        else:
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saving:
                yield saving

    return opened


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path}/room.db"


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
