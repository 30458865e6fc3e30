"""Clients that are slow, stop in the middle, do not read, or vanish: nothing of them is left behind."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from greenroom.gateway._agent import ChatRequest
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.guarded import Guarded, guarded
from tests.gateway.raw import Raw, chat, connect, request
from tests.room.agents import until

SOON = 0.3
"""Seconds, for a limit that a test waits for. All others are as they are by default."""

MANY = 50


class Torrent:
    """Says much, for ever, if it is asked to; and something short otherwise."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        while request.messages[-1]["content"] == "for ever":
            yield "x" * 65536
        yield "short"


def torrents(_: Any, **__: Any) -> Torrent:
    return Torrent()


def asked(text: str, *, session: str = "s", stream: bool = False) -> bytes:
    headers = {"Content-Type": "application/json", "X-Greenroom-Session": session}
    return request("POST", "/v1/chat/completions", headers, chat(text, stream=stream))


@pytest.fixture(autouse=True)
def no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A client that misbehaves is nothing that an operator must look at."""
    with caplog.at_level(logging.INFO):
        yield
    assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]


@pytest.fixture(params=["asyncio", "uvloop"])
def runs(request: pytest.FixtureRequest) -> Any:
    """What runs a server: it uses uvloop where that is there."""
    return pytest.importorskip(request.param).run


# Heads.


def test_a_connection_that_says_nothing_is_closed() -> None:
    with guarded(torrents, body_timeout=SOON) as server, connect(server.port) as client:
        assert client.rest() == b""
        server.wait_quiet(tasks=2)


def test_a_connection_that_sends_empty_lines_is_closed() -> None:
    """uvicorn stops its own clock when the first byte comes."""
    with guarded(torrents, body_timeout=SOON) as server, connect(server.port) as client:
        client.send(b"\r\n\r\n")
        assert client.rest() == b""
    with (
        guarded(torrents, body_timeout=SOON) as server,
        server.asked(request("GET", "/v1/models")) as client,
    ):
        assert client.answer().status == 200
        client.send(b"\r\n\r\n")
        assert client.rest() == b""


@pytest.mark.parametrize("sent", [b"G", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: half"])
def test_half_a_head_is_not_waited_for_for_ever(sent: bytes) -> None:
    with guarded(torrents, body_timeout=SOON) as server, server.asked(sent) as client:
        answer = client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert answer.code == "headers_timeout"
        assert client.rest() == b""
        server.wait_quiet(tasks=2)


def test_half_a_second_head_is_not_either() -> None:
    with (
        guarded(torrents, body_timeout=SOON) as server,
        server.asked(request("GET", "/v1/models")) as client,
    ):
        assert client.answer().status == 200
        client.send(b"GET / HTTP/1.1\r\n")
        assert client.answer().status == 408


def test_a_head_without_an_end_is_refused_before_it_has_one() -> None:
    with guarded(torrents, max_header=4096) as server, connect(server.port) as client:
        client.send(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|pipe|abort"):
            client.send(b"X-A: some\r\n" * 10_000_000)
    with guarded(torrents, max_header=4096) as server, connect(server.port) as client:
        client.send(b"GET / HTTP/1.1\r\nX-A: " + b"x" * 4096)
        assert client.answer().code == "headers_too_large"


def test_requests_that_come_together_are_not_taken_for_one_large_head() -> None:
    several = request("GET", "/v1/models", {"X-A": "x" * 1000}) * 5
    with guarded(torrents, max_header=2048) as server, connect(server.port) as client:
        client.send(several + several[:500])
        assert [client.answer().status for _ in range(5)] == [200] * 5
        client.send(several[500:])
        assert [client.answer().status for _ in range(5)] == [200] * 5


def test_a_head_may_come_byte_by_byte() -> None:
    with guarded(torrents) as server, connect(server.port) as client:
        for byte in asked("hello"):
            client.send(bytes([byte]))
        assert client.answer().json["choices"][0]["message"]["content"] == "short"


# Bodies.


def test_half_a_body_is_not_waited_for_for_ever() -> None:
    half = asked("hello")[:-5]
    with guarded(torrents, body_timeout=SOON) as server, server.asked(half) as client:
        answer = client.answer()
        assert (answer.status, answer.code, answer.headers["connection"]) == (
            408,
            "body_timeout",
            "close",
        )
        assert client.rest() == b""
        server.wait_quiet(tasks=2)


@pytest.mark.parametrize("more", [b"", b"a"])
def test_the_rest_of_a_body_whose_request_was_answered_is_not_waited_for_for_ever(more: bytes) -> None:
    """Nor as long as a connection is kept between two requests: a clock that stops at the first byte."""
    with (
        guarded(torrents, body_timeout=SOON, keep_alive=600) as server,
        server.asked(request("GET", "/v1/models", {"Content-Length": "1000"})) as client,
    ):
        assert client.answer().status == 200
        client.send(more)
        assert client.rest() == b""
        server.wait_quiet(tasks=2)


def test_a_body_larger_than_it_is_said_to_be_ends_the_connection() -> None:
    """What comes behind it would have to be a request."""
    with guarded(torrents) as server, connect(server.port) as client:
        client.send(asked("hello") + b"and more, which is no request")
        assert client.answer().status == 400
        assert client.rest() == b""
        server.wait_quiet(tasks=2)


# Clients that do not read.


def test_a_client_that_does_not_read_loses_its_turn_and_the_session_is_free(runs: Any) -> None:
    with guarded(torrents, send_timeout=SOON, runs=runs) as server:
        tasks = server.tasks()
        with connect(server.port, receive_buffer=4096) as deaf, connect(server.port) as other:
            deaf.send(asked("for ever", stream=True))
            until(lambda: server.stage.room.stats().builds == 1, "its turn never began")
            other.send(asked("hello"))
            assert other.answer().status == 200
        server.wait_quiet(tasks)
        assert not server.stage.room.has_uncommitted("local/nothing")


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_an_answer_that_nobody_takes_does_not_keep_a_connection(connection: str, runs: Any) -> None:
    """Not even if what is left of it is too little for anybody to wait for."""
    servers: list[Guarded] = []

    async def until_it_is_stuck() -> AsyncIterator[bytes]:
        (transport,) = servers[0].transports()
        while transport.get_write_buffer_size() == 0:
            yield b"x" * 16_384

    def add(app: FastAPI) -> None:
        @app.get("/v1/much")
        async def much() -> StreamingResponse:
            return StreamingResponse(until_it_is_stuck(), headers={"connection": connection})

    with guarded(torrents, add=add, send_timeout=SOON, keep_alive=1, runs=runs) as server:
        servers.append(server)
        with connect(server.port, receive_buffer=4096) as deaf:
            deaf.send(request("GET", "/v1/much"))
            deaf.read_until(b"xxx")
            server.wait_quiet(tasks=2)


# Clients that vanish.


def test_a_client_that_vanishes_ends_its_turn(runs: Any) -> None:
    troupe = Troupe()
    with guarded(troupe, runs=runs) as server:
        tasks = server.tasks()
        client = Raw(server.port)
        client.send(asked("a @door b", stream=True))
        client.read_until(b" a")
        troupe.door("door").wait_reached()
        client.reset()
        troupe.door("door").wait_left()
        server.wait_quiet(tasks)


def test_a_client_that_vanishes_ends_all_that_it_has_asked_for(runs: Any) -> None:
    """uvicorn tells only the last of several requests that were sent at once."""
    troupe = Troupe()
    with guarded(troupe, runs=runs) as server:
        tasks = server.tasks()
        client = Raw(server.port)
        client.send(asked("a @door b", stream=True) + asked("next") + asked("and next"))
        client.read_until(b" a")
        troupe.door("door").wait_reached()
        client.reset()
        troupe.door("door").wait_left()
        server.wait_quiet(tasks)
        assert len(troupe.requests) == 1


def test_a_client_that_vanishes_while_it_waits_waits_no_more() -> None:
    troupe = Troupe()
    with guarded(troupe) as server:
        tasks = server.tasks()
        with connect(server.port) as first:
            first.send(asked("a @door b"))
            troupe.door("door").wait_reached()
            second = Raw(server.port)
            second.send(asked("c"))
            until(
                lambda: server.stage.admission.figures().get(timeout=PATIENCE) == (1, 1), "nobody waits"
            )
            second.reset()
            until(
                lambda: server.stage.admission.figures().get(timeout=PATIENCE) == (1, 0),
                "it waits still",
            )
            troupe.open_all()
            assert first.answer().status == 200
        server.wait_quiet(tasks)


def test_a_client_that_vanishes_with_half_a_body_leaves_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with guarded(torrents) as server:
        tasks = server.tasks()
        client = Raw(server.port)
        client.send(asked("hello")[:-5])
        until(lambda: server.tasks() > tasks, "its request never came")
        client.reset()
        server.wait_quiet(tasks)
    assert "hung up" in caplog.text
    assert " 499 " in caplog.text


# All at once.


def said(number: int) -> bytes:
    """What a client says first, who is going to do one of several things that clients should not do."""
    session = f"s{number}"
    match number % 6:
        case 1:
            return asked("hello", session=session)[:-3]
        case 2:
            return b"POST /v1/chat/completions HTT"
        case 5:
            return asked("hello", session="one for all") * 3
        case _:
            return asked("for ever", session=session, stream=True)


def misbehave(client: Raw, number: int) -> None:
    """Do it. Some only wait."""
    match number % 6:
        case 3:
            client.read_until(b"xxx")
            client.reset()
        case 4:
            client.reset()
        case 5:
            client.hang_up()
        case _:
            pass


def test_of_many_such_clients_nothing_is_left(runs: Any) -> None:
    with guarded(torrents, send_timeout=SOON, body_timeout=SOON, max_running=MANY, runs=runs) as server:
        tasks = server.tasks()
        with contextlib.ExitStack() as clients:
            for number in range(MANY):
                client = clients.enter_context(server.asked(said(number), receive_buffer=4096))
                misbehave(client, number)
            server.wait_quiet(tasks)
        first, *others = (asked("hello", session=f"s{number}") for number in range(0, MANY, 6))
        with server.asked(first) as client:
            assert client.answer().status == 200
            for other in others:
                client.send(other)
                assert client.answer().status == 200
