"""Factories that tests of the command name."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import BuildContext


class Quick:
    """Does nothing."""

    def __init__(self, key: str) -> None:
        self.key = key

    def commit_memory_session(self) -> None:
        """Commit."""

    def release_clients(self) -> None:
        """Release."""


def quick(context: BuildContext, *, depth: int = 1) -> Quick:
    """An agent that does nothing."""
    assert depth
    return Quick(context.key)


async def slow_to_come(context: BuildContext) -> Quick:
    """The same, async."""
    await asyncio.sleep(0)
    return Quick(context.key)


async def act(agent: Quick, planned: Any) -> None:
    """What a turn does."""
    assert agent.key == planned.key


def act_on_a_thread(agent: Quick, planned: Any) -> None:
    """The same, blocking."""
    assert agent.key == planned.key


async def fail(_agent: Quick, _planned: Any) -> None:
    """A turn that fails, unplanned."""
    raise RuntimeError("the sky is falling")


class Answering(Quick):
    """An agent of the gateway's kind, in one of the four ways to answer."""

    def __init__(self, key: str, way: str) -> None:
        super().__init__(key)
        self.heard: list[str] = []
        self.answer = getattr(self, way)

    async def as_coroutine(self, request: Any) -> str:
        self.heard.append(request.messages[-1]["content"])
        return "hello"

    async def as_async_generator(self, request: Any) -> Any:
        self.heard.append(request.messages[-1]["content"])
        yield "hello"

    def as_generator(self, request: Any) -> Any:
        self.heard.append(request.messages[-1]["content"])
        yield "hello"

    def as_text(self, request: Any) -> str:
        self.heard.append(request.messages[-1]["content"])
        return "hello"

    def as_awaitable(self, request: Any) -> Any:
        return self.as_coroutine(request)

    def as_failure(self, request: Any) -> str:
        raise LookupError("no words")


def answering(context: BuildContext, *, way: str = "as_coroutine") -> Answering:
    """An agent that answers."""
    return Answering(context.key, way)
