"""A room with something of everything, for pictures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx

from greenroom.gateway import ChatRequest, Piece
from tests.actors.actors import PATIENCE

if TYPE_CHECKING:
    from greenroom import BuildContext
    from tests.gateway.serving import Serving

__all__ = ["Cast", "populate"]

SLOW = ("telegram/trip-to-lisbon", "telegram/42017", "web/3f9a")
"""Their turns go on until the demo is over."""

BROKEN = ("discord/guild-7",)
"""Their commits fail."""

LOST = ("web/visitor-118",)
"""Their agents cannot be built."""

QUIET = ("telegram/88120", "web/e01c", "slack/random")
"""Released after their turns."""

COMMITTED = ("telegram/90211", "slack/support", "web/77b1", "discord/general")
DIRTY = ("slack/release-team", "telegram/55310", "web/a1f0", "discord/music", "telegram/60718")


class Cast:
    """Makes the agents."""

    def __init__(self) -> None:
        self.over = False
        self._waiting: list[asyncio.Future[None]] = []
        self._all_begun = threading.Event()

    def __call__(self, context: BuildContext, **_: Any) -> Member:
        if context.key in LOST:
            raise ConnectionError(
                "the model's endpoint refused the connection: connect ECONNREFUSED 10.0.3.7:443"
            )
        return Member(self, context.key)

    def wait_slow(self) -> None:
        """Wait until all slow ones are in their turns."""
        assert self._all_begun.wait(PATIENCE)

    async def wait_over(self) -> None:
        """In a slow turn: wait until the demo is over."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        if len(self._waiting) == len(SLOW):
            self._all_begun.set()
        await waiting

    def end(self) -> None:
        """Let slow turns end, and commits work."""
        self.over = True
        for waiting in self._waiting:
            waiting.get_loop().call_soon_threadsafe(waiting.set_result, None)


class Member:
    """An agent."""

    def __init__(self, cast: Cast, key: str) -> None:
        self._cast = cast
        self._key = key

    async def answer(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """Answer, at once or never."""
        yield "Well,"
        if self._key in SLOW and request.messages[-1]["content"] == "wait":
            await self._cast.wait_over()
        yield " yes."

    def commit_memory_session(self) -> None:
        """Commit, or fail to."""
        if self._key in BROKEN and not self._cast.over:
            raise TimeoutError("the memory provider did not answer within 20 s")


def populate(server: Serving, cast: Cast) -> list[threading.Thread]:
    """Have everything happen. Returns the threads in which turns go on until `cast.end()`."""
    say = Client(server)
    with ThreadPoolExecutor(4) as pool:
        for keys, turns in ((SLOW, 2), (BROKEN, 4), (LOST, 1), (QUIET, 2), (COMMITTED, 3), (DIRTY, 2)):
            for key in keys:
                list(pool.map(say.turn, [key] * turns))
    for key in (*SLOW, *COMMITTED, *BROKEN):
        say.order("commit", key)
    for key in (*QUIET, *BROKEN):
        say.order("evict", key)
    server.stage.room.settle()
    for key in COMMITTED[:2]:
        say.turn(key)
    threads = [threading.Thread(target=say.turn, args=(key, "wait"), daemon=True) for key in SLOW]
    for thread in threads:
        thread.start()
    cast.wait_slow()
    return threads


class Client:
    """Sends turns for sessions of any tenant, as the tokens of the server allow."""

    def __init__(self, server: Serving) -> None:
        self._url = server.url
        self._tokens = {token.name: token.secret for token in server.stage.config.tokens}
        self._operator = next(token.secret for token in server.stage.config.tokens if token.operator)

    def turn(self, key: str, text: str = "hello") -> int:
        """Take a turn."""
        tenant, _, session = key.partition("/")
        response = httpx.post(
            f"{self._url}/v1/chat/completions",
            json={"model": "greenroom", "messages": [{"role": "user", "content": text}]},
            headers={"authorization": f"Bearer {self._tokens[tenant]}", "x-greenroom-session": session},
            timeout=PATIENCE * 3,
        )
        return response.status_code

    def order(self, what: str, key: str) -> None:
        """Command a session."""
        headers = {"authorization": f"Bearer {self._operator}"}
        httpx.post(
            f"{self._url}/room/sessions/{what}", json={"key": key}, headers=headers, timeout=PATIENCE
        )
