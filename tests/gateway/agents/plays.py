"""What the tests of agents share: contexts, requests, and answers that are listened to."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, cast

from greenroom.actors.session.resources import Resources
from greenroom.gateway._agent import ChatRequest, Finish, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Coroutine

    from greenroom import BuildContext
    from greenroom.gateway._agent import Piece

PATIENCE = 30.0
"""Seconds that a test waits for what must happen."""


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


class Context:
    """What `build` gets, without a room."""

    def __init__(self, store: Any = None, key: str = "a", session_id: str | None = None) -> None:
        self.key = key
        self.session_id = session_id or key
        self.spec = None
        self.settings: dict[str, Any] = {}
        self.store = store
        self.resources = Resources(key)

    def again(self) -> BuildContext:
        """The context of the session's next agent."""
        other = Context(self.store, self.key, self.session_id)
        other.resources = self.resources
        return other.it

    @property
    def it(self) -> BuildContext:
        return cast("BuildContext", self)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: Any) -> dict[str, Any]:
    return {"role": "system", "content": text}


def request(*messages: dict[str, Any] | str, **more: Any) -> ChatRequest:
    """A request with these messages; text is a user's."""
    given = tuple(user(message) if isinstance(message, str) else message for message in messages)
    return ChatRequest(messages=given, **more)


class Heard:
    """An answer, put together."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.usage: Usage | None = None
        self.finish: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def take(self, piece: Piece) -> None:
        if isinstance(piece, str):
            self.pieces.append(piece)
        elif isinstance(piece, Usage):
            self.usage = piece
        elif isinstance(piece, Finish):
            self.finish = piece.reason


async def listen(answer: AsyncIterable[Piece]) -> Heard:
    """Listen to the end."""
    heard = Heard()
    async for piece in answer:
        heard.take(piece)
    return heard
