"""Graphs without a network: a model that says what it is told to, checkpointers, and other processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from frameworks_kit import PATIENCE, Endpoint, answer_head
from frameworks_kit import another_process as another_process
from frameworks_kit import no_thread_left as no_thread_left
from frameworks_kit import patience as patience
from frameworks_kit import pytest_collection_modifyitems as pytest_collection_modifyitems
from frameworks_kit import url as url
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

os.environ["LANGSMITH_TRACING"] = "false"  # traces would go to LangSmith


class Lines(Endpoint):
    """An endpoint that sends a line for each piece of an answer, and `...` for silence until the client
    hangs up."""

    path = "/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer_head("200 OK", "text/plain"))
        for piece in self.answers.pop(0):
            if piece is ...:
                await self._be_silent(reader)
                return
            writer.write(f"{piece}\n".encode())


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
def endpoint() -> type[Lines]:
    """An endpoint, for `async with endpoint(["Hel", "lo"]) as running`."""
    return Lines


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
