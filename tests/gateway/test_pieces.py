"""Pieces of a stream: those that are ready at the same time are sent together, and none is held back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import pytest

from greenroom.gateway import ChatRequest
from greenroom.gateway.api import _pieces
from tests.actors.actors import PATIENCE
from tests.gateway.raw import Raw, connect, request
from tests.gateway.serving import serving

Pieces = Callable[[], AsyncIterator[str]]


class Speaker:
    """Says what a function of the test says."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    def answer(self, _: ChatRequest) -> AsyncIterator[str]:
        return self._pieces()


class AsyncSpeaker(Speaker):
    """The same, on the loop."""

    async def answer(self, _: ChatRequest) -> AsyncIterator[str]:
        async for piece in self._pieces():
            yield piece


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine however slow, what an agent says in one go is ready at the same time."""
    monkeypatch.setattr(_pieces, "LONGEST", 10 * PATIENCE)


def ask(client: Raw) -> None:
    """Ask for a stream."""
    body = json.dumps({"messages": [{"role": "user", "content": "?"}], "stream": True}).encode()
    client.send(request("POST", "/v1/chat/completions", {"content-type": "application/json"}, body))


def chunks_of(answer: bytes) -> list[list[str]]:
    """For each chunk, the texts that are in it."""
    _, _, body = answer.partition(b"\r\n\r\n")
    chunks = []
    while body:
        size, _, body = body.partition(b"\r\n")
        chunk, body = body[: int(size, 16)], body[int(size, 16) + 2 :]
        texts = [_text_of(line) for line in chunk.splitlines() if line.startswith(b"data: {")]
        chunks.append([text for text in texts if text])
    return [texts for texts in chunks if texts]


def _text_of(line: bytes) -> str:
    content: str = json.loads(line[6:])["choices"][0]["delta"].get("content", "")
    return content


@pytest.mark.usefixtures("patient")
def test_pieces_that_are_ready_at_the_same_time_are_sent_together() -> None:
    async def pieces() -> AsyncIterator[str]:
        for number in range(5):
            yield str(number)

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")

    assert chunks_of(answer) == [["0"], ["1", "2", "3", "4"]]


@pytest.mark.usefixtures("patient")
def test_the_first_piece_is_sent_before_the_agent_is_asked_for_the_next() -> None:
    seen = threading.Event()

    async def pieces() -> AsyncIterator[str]:
        yield "first"
        # It keeps the loop, so that nothing can be sent meanwhile that was not sent before.
        yield "second" if seen.wait(PATIENCE) else "the first one was held back"

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"first")
        seen.set()
        answer += client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")

    assert chunks_of(answer) == [["first"], ["second"]]


@pytest.mark.usefixtures("patient")
def test_what_is_ready_is_sent_when_the_agent_waits() -> None:
    waits: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def pieces() -> AsyncIterator[str]:
        event = asyncio.Event()
        waits.append((asyncio.get_running_loop(), event))
        for piece in ("one", "two", "three"):
            yield piece
        await event.wait()
        yield "four"

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"three")
        loop, event = waits[0]
        loop.call_soon_threadsafe(event.set)
        answer += client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")

    assert chunks_of(answer) == [["one"], ["two", "three"], ["four"]]


def test_an_agent_that_takes_its_time_without_waiting_has_each_piece_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_pieces, "LONGEST", -1.0)  # every piece takes longer than that

    async def pieces() -> AsyncIterator[str]:
        for number in range(4):
            yield str(number)

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")

    assert chunks_of(answer) == [["0"], ["1"], ["2"], ["3"]]


@pytest.mark.usefixtures("patient")
def test_no_more_than_so_many_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces, "MOST", 3)

    async def pieces() -> AsyncIterator[str]:
        for number in range(6):
            yield str(number)

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")

    assert chunks_of(answer) == [["0"], ["1", "2", "3"], ["4", "5"]]


@pytest.mark.usefixtures("patient")
def test_what_an_agent_says_before_it_fails_is_sent() -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "one"
        yield "two"
        raise RuntimeError

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server, connect(server.port) as client:
        ask(client)
        answer = client.read_until(b"\r\n0\r\n\r\n")

    assert b'"two"' in answer
    assert b"agent_failed" in answer.partition(b'"two"')[2]


# An agent that waits in ways of its own while others send what it said.


class Connection:
    """A client that reads each part of its answer when the test lets it."""

    def __init__(self, app: Any) -> None:
        body = json.dumps({"messages": [{"role": "user", "content": "?"}], "stream": True}).encode()
        self._app = app
        self._events = [{"type": "http.request", "body": body, "more_body": False}]
        self._length = str(len(body)).encode()
        self.answer = b""
        self.reads = asyncio.Event()
        self.reads.set()
        self.stuck = asyncio.Event()
        self.stops_at = b"nothing"

    async def ask(self) -> str:
        """The texts of the answer, in one."""
        headers = [(b"host", b"localhost"), (b"content-length", self._length)]
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
        await self._app({**scope, "query_string": b"", "scheme": "http"}, self._receive, self._send)
        texts = [_text_of(line) for line in self.answer.splitlines() if line.startswith(b"data: {")]
        assert self.answer.endswith(b"data: [DONE]\n\n"), self.answer
        return "".join(texts)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._events:
            return self._events.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self.stops_at in message.get("body", b""):
            self.reads.clear()
            self.stuck.set()
        await self.reads.wait()
        self.answer += message.get("body", b"")


async def _give_up_at_once() -> None:
    try:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    except TimeoutError:
        pass


async def _leave_a_scope_at_once() -> None:
    with anyio.move_on_after(0):
        await asyncio.Event().wait()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("wait", [_give_up_at_once, _leave_a_scope_at_once])
def test_no_piece_is_lost_when_an_agent_gives_a_wait_up(wait: Callable[[], Awaitable[None]]) -> None:
    async def pieces() -> AsyncIterator[str]:
        for number in range(20):
            yield f"<{number}>"
            await wait()

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        answer = server.call(Connection(server.app).ask())

    assert answer == "".join(f"<{number}>" for number in range(20))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("wait", [_give_up_at_once, _leave_a_scope_at_once])
def test_nor_is_one_while_its_client_does_not_read(wait: Callable[[], Awaitable[None]]) -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in ("one ", "two ", "three ", "four"):
            yield piece
            await wait()

    async def talk(app: Any) -> str:
        client = Connection(app)
        client.stops_at = b"two"
        answer = asyncio.create_task(client.ask())
        await client.stuck.wait()
        for _ in range(100):  # the agent goes on as far as it can
            await asyncio.sleep(0)
        client.reads.set()
        return await answer

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        assert server.call(talk(server.app)) == "one two three four"


@pytest.mark.usefixtures("patient")
def test_turns_that_wait_for_the_same_do_not_disturb_each_other() -> None:
    shared: list[asyncio.Future[str]] = []

    async def pieces() -> AsyncIterator[str]:
        if not shared:
            shared.append(asyncio.get_running_loop().create_future())
        yield "one "
        yield "two "
        yield await shared[0]

    async def talk(app: Any) -> list[str]:
        slow, fast = Connection(app), Connection(app)
        slow.stops_at = fast.stops_at = b"two"
        first = asyncio.create_task(slow.ask())
        await slow.stuck.wait()
        second = asyncio.create_task(fast.ask())
        await fast.stuck.wait()
        fast.reads.set()
        shared[0].set_result("three")
        answers = [await second]
        slow.reads.set()
        return [await first, *answers]

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        assert server.call(talk(server.app)) == ["one two three"] * 2


@pytest.mark.usefixtures("patient")
def test_a_client_that_does_not_read_stops_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces, "MOST", 3)
    said: list[int] = []

    async def pieces() -> AsyncIterator[str]:
        for number in range(20):
            said.append(number)
            yield str(number)
            await asyncio.sleep(0)

    async def talk(app: Any) -> str:
        client = Connection(app)
        client.stops_at = b'"2"'
        answer = asyncio.create_task(client.ask())
        await client.stuck.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(said) == 6  # 2 is being sent, three are held
        client.reads.set()
        return await answer

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        assert server.call(talk(server.app)) == "".join(map(str, range(20)))


@pytest.mark.usefixtures("patient")
def test_a_client_that_goes_while_pieces_are_sent_ends_the_turn_where_the_agent_waits() -> None:
    told: list[str] = []

    async def pieces() -> AsyncIterator[str]:
        yield "one"
        yield "two"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    class Gone(Connection):
        async def _send(self, message: MutableMapping[str, Any]) -> None:
            if b'"two"' in message.get("body", b""):
                raise OSError

    async def talk(app: Any) -> None:
        with pytest.raises(AssertionError):  # the answer has no end
            await Gone(app).ask()

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        server.call(talk(server.app))
        running = server.stage.admission.figures().get()

    assert told == ["cancelled"]
    assert running == (0, 0)
