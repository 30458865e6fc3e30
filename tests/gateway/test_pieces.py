"""Pieces of a stream: those that are ready at the same time are sent together, and none is held back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

import pytest

from greenroom.gateway import ChatRequest
from greenroom.gateway.api import _pieces
from greenroom.gateway.api._pieces import next_piece
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


# How the next piece is waited for.


async def _nothing() -> None:
    """Nothing is to be sent."""


async def _all(pieces: AsyncIterator[str]) -> list[str]:
    said = []
    try:
        while True:
            said.append(await next_piece(pieces, _nothing))
    except StopAsyncIteration:
        return said


class _Steps:
    """Hands over once what is ready is being sent."""

    def __init__(self) -> None:
        self.sending = asyncio.Event()

    async def stuck(self) -> None:
        """A client that reads nothing."""
        self.sending.set()
        await asyncio.get_running_loop().create_future()


def test_pieces_come_in_order_whether_they_are_waited_for_or_not() -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, int)
        yield "b"
        yield "c"

    assert asyncio.run(_all(pieces())) == ["a", "b", "c"]


def _cancelled_while_it_sends(wait: Callable[[], Any]) -> list[str]:
    """What becomes of an agent that waits, while its client does not read, when the turn is ended."""
    told: list[str] = []

    async def pieces() -> AsyncIterator[str]:
        try:
            await wait()
            yield "it went on"
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        finally:
            told.append("cleaned up")

    async def run() -> None:
        steps, answer = _Steps(), pieces()

        async def play() -> str:
            return await next_piece(answer, steps.stuck)

        playing = asyncio.create_task(play())
        await steps.sending.wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await answer.aclose()  # type: ignore[attr-defined]  # it is a generator, which nobody runs any more

    asyncio.run(run())
    return told


def test_an_agent_is_cancelled_where_it_waits_while_what_it_said_is_sent() -> None:
    told = _cancelled_while_it_sends(lambda: asyncio.get_running_loop().create_future())

    assert told == ["cancelled", "cleaned up"]


def test_so_is_one_that_only_lets_others_go_first() -> None:
    assert _cancelled_while_it_sends(lambda: asyncio.sleep(0)) == ["cancelled", "cleaned up"]


def test_so_is_one_whose_wait_was_over_at_that_moment() -> None:
    def over_soon() -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    assert _cancelled_while_it_sends(over_soon) == ["cancelled", "cleaned up"]


def test_so_is_what_it_waits_for() -> None:
    ended: list[bool] = []

    async def on_a_task() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        try:
            await inner
        finally:
            ended.append(inner.cancelled())

    assert _cancelled_while_it_sends(on_a_task) == ["cancelled", "cleaned up"]
    assert ended == [True]


def test_an_agent_that_is_cancelled_may_still_have_a_last_word() -> None:
    async def pieces() -> AsyncIterator[str]:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            yield "a last word"

    async def run() -> str:
        steps, answer = _Steps(), pieces()

        async def play() -> str:
            return await next_piece(answer, steps.stuck)

        playing = asyncio.create_task(play())
        await steps.sending.wait()
        playing.cancel()
        return await playing

    assert asyncio.run(run()) == "a last word"


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

    async def send(message: MutableMapping[str, Any]) -> None:
        if b'"two"' in message.get("body", b""):
            raise OSError

    async def talk(app: Any) -> None:
        body = json.dumps({"messages": [{"role": "user", "content": "?"}], "stream": True}).encode()
        events = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if events:
                return events.pop()
            await asyncio.Event().wait()
            raise AssertionError

        headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
        await app({**scope, "query_string": b"", "scheme": "http"}, receive, send)

    with serving(lambda _, **__: AsyncSpeaker(pieces)) as server:
        server.call(talk(server.app))
        running = server.stage.admission.figures().get()

    assert told == ["cancelled"]
    assert running == (0, 0)
