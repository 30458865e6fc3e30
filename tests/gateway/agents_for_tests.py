"""An agent that does what it is told, word by word, and waits at gates that a test opens.

"hello there"       answers "1: hello there", with the number of the turn in its memory
"a @door b"         says "a", waits at the gate "door", then says "b"
"!bad", "!boom", "!away", "!busy"   raises BadRequest, RuntimeError, Unavailable, Overloaded
"#length"           finishes for this reason
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from greenroom import Overloaded
from greenroom.gateway import BadRequest, ChatRequest, Finish, Piece, Unavailable, Usage
from tests.actors.actors import PATIENCE

if TYPE_CHECKING:
    from greenroom import BuildContext


class Door:
    """A gate for coroutines of any loop, and for threads, that tells when somebody has come to it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()
        self._left = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def wait(self) -> None:
        """On a loop. Whoever is cancelled here has left."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((loop, future))
        self._reached.set()
        try:
            if not self._open.is_set():
                await future
        finally:
            self._left.set()

    def wait_in_thread(self) -> None:
        self._reached.set()
        try:
            assert self._open.wait(PATIENCE), "nobody opened the door"
        finally:
            self._left.set()

    def wait_reached(self) -> None:
        assert self._reached.wait(PATIENCE), "nobody came to the door"

    def wait_left(self) -> None:
        assert self._left.wait(PATIENCE), "whoever stood at the door stands there still"

    def open(self) -> None:
        self._open.set()
        for loop, future in self._waiting:
            try:
                loop.call_soon_threadsafe(_let_through, future)
            except RuntimeError:
                pass  # the loop is closed


def _let_through(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Troupe:
    """Makes agents, and knows what they did."""

    def __init__(self, *, threaded: bool = False) -> None:
        self.doors: dict[str, Door] = {}
        self.requests: list[ChatRequest] = []
        self.built: list[str] = []
        self.committed: list[tuple[str, int]] = []
        self.closed: list[str] = []
        self.interrupted: list[str] = []
        self.commit_door: Door | None = None
        self.commit_error: Exception | None = None
        self._kind = ThreadedPlayer if threaded else Player

    def door(self, name: str) -> Door:
        return self.doors.setdefault(name, Door())

    def __call__(self, context: BuildContext, **_: Any) -> Player:
        self.built.append(context.key)
        return self._kind(self, context.key)

    def open_all(self) -> None:
        for door in [*self.doors.values(), *([self.commit_door] if self.commit_door else [])]:
            door.open()


class Player:
    """An agent of a troupe."""

    def __init__(self, troupe: Troupe, key: str) -> None:
        self._troupe = troupe
        self._key = key
        self._said: list[str] = []

    async def answer(self, request: ChatRequest) -> AsyncIterator[Piece]:
        text = self._begin(request)
        yield f"{len(self._said) + 1}:"
        for word in text.split():
            if word.startswith("@"):
                await self._troupe.door(word[1:]).wait()
            else:
                yield _said(word)
        self._said.append(text)
        yield Usage(prompt_tokens=len(text.split()), completion_tokens=len(text.split()) + 1)

    def _begin(self, request: ChatRequest) -> str:
        self._troupe.requests.append(request)
        content = request.messages[-1]["content"]
        return content if isinstance(content, str) else " ".join(part["text"] for part in content)

    async def commit_memory_session(self) -> None:
        if self._troupe.commit_door is not None:
            await self._troupe.commit_door.wait()
        if self._troupe.commit_error is not None:
            raise self._troupe.commit_error
        self._troupe.committed.append((self._key, len(self._said)))

    def close(self) -> None:
        self._troupe.closed.append(self._key)


class ThreadedPlayer(Player):
    """The same, on a thread."""

    def answer(self, request: ChatRequest) -> Iterator[Piece]:  # type: ignore[override]  # another kind
        text = self._begin(request)
        yield f"{len(self._said) + 1}:"
        for word in text.split():
            if word.startswith("@"):
                self._troupe.door(word[1:]).wait_in_thread()
            else:
                yield _said(word)
        self._said.append(text)
        yield Usage(prompt_tokens=len(text.split()), completion_tokens=len(text.split()) + 1)


def _said(word: str) -> Piece:
    match word:
        case "!bad":
            raise BadRequest("the agent does not like this")
        case "!boom":
            raise RuntimeError("a secret of the agent's")
        case "!away":
            raise Unavailable("the model is away", retry_after=7.0)
        case "!busy":
            raise Overloaded("too much")
        case _ if word.startswith("#"):
            return Finish(word[1:])
        case _:
            return f" {word}"
