"""A room in FastAPI and Starlette apps, and in plain ASGI: it opens, drains, refuses and streams."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from greenroom import (
    BuildFailed,
    DrainReport,
    Greenroom,
    GreenroomError,
    LostOwnership,
    NotRecorded,
    NotSettled,
    Overloaded,
    Policy,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    Turn,
    TurnTimeout,
)
from greenroom.gateway._errors import api_error
from greenroom.integrations.asgi import RoomMiddleware, lifespan, streamed
from tests.actors.actors import PATIENCE, in_thread
from tests.room.agents import Cast, row_of, until

FRAMEWORKS = [FastAPI, Starlette]

HTTP = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "headers": [],
    "query_string": b"",
}
"""What a server says of a request; uvicorn, of this version of the protocol."""

Handler = Callable[[Request], Awaitable[Response]]


@pytest.fixture
def cast() -> Iterator[Cast]:
    cast = Cast()
    yield cast
    cast.finish()


def app_of(
    kind: type[Starlette], cast: Cast, handler: Handler | None = None, **kwargs: Any
) -> Starlette:
    """An app with a room, in which `/chats/{chat}` is answered by a handler: with a turn, by default."""
    app = kind(lifespan=lifespan(cast.build, **kwargs))
    app.add_middleware(RoomMiddleware, ready="/readyz")
    app.add_route("/chats/{chat}", handler or take_turn, methods=["POST"])
    return app


async def take_turn(request: Request) -> Response:
    async with request.state.room.turn(request.path_params["chat"], on_busy="reject") as turn:
        return JSONResponse({"reply": turn.agent.run("hello")})


def raising(error: BaseException) -> Handler:
    async def handler(_: Request) -> Response:
        raise error

    return handler


@contextmanager
def draining(room: Greenroom) -> Iterator[None]:
    """Drain a room that cannot be done with it yet, and wait for that in the end."""
    drain = in_thread(room.drain)
    until(lambda: room.stats().draining, "a drain")
    yield
    drain.join(PATIENCE)
    assert not drain.is_alive()


# The life of the app.


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_room_opens_and_drains_with_its_app(kind: type[Starlette], cast: Cast) -> None:
    """D1"""
    app = app_of(kind, cast)
    with TestClient(app) as client:
        assert client.post("/chats/a").json() == {"reply": "a/1: hello"}
        assert client.post("/chats/a").json() == {"reply": "a/1: hello"}
        assert app.state.room.stats().hits == 1
        assert cast.log == ["build a/1"]

    assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
    assert repr(app.state.room) == "<Greenroom, closed>"


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_lifespan_that_there_is_already_opens_before_the_room_and_closes_after_it(
    kind: type[Starlette], cast: Cast
) -> None:
    @asynccontextmanager
    async def pool(_: Any) -> AsyncIterator[dict[str, str]]:
        cast.log.append("the pool opens")
        yield {"pool": "a pool"}
        cast.log.append("the pool closes")

    async def handler(request: Request) -> Response:
        await take_turn(request)
        return JSONResponse({"pool": request.state.pool})

    with TestClient(app_of(kind, cast, handler, outer=pool)) as client:
        assert client.post("/chats/a").json() == {"pool": "a pool"}

    assert cast.log[0] == "the pool opens"
    assert cast.log[-2:] == ["close a/1", "the pool closes"]


def test_a_lifespan_around_it_may_have_no_state(cast: Cast) -> None:
    @asynccontextmanager
    async def nothing(_: Any) -> AsyncIterator[None]:
        yield

    with TestClient(app_of(Starlette, cast, outer=nothing)) as client:
        assert client.post("/chats/a").status_code == 200


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_an_app_whose_room_cannot_be_opened_does_not_start(kind: type[Starlette], cast: Cast) -> None:
    closed: list[str] = []

    @asynccontextmanager
    async def pool(_: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.append("the pool closes")

    app = app_of(kind, cast, store="nonsense:///x", outer=pool)
    with pytest.raises(ValueError, match="nonsense"), TestClient(app):
        pass
    assert closed == ["the pool closes"]


def test_an_app_may_have_several_rooms_and_is_ready_when_all_are(cast: Cast) -> None:
    async def handler(request: Request) -> Response:
        async with request.state.helpers.turn("a") as turn:
            await take_turn(request)
            return JSONResponse({"reply": turn.agent.run("help")})

    others = lifespan(cast.build, name="helpers")
    app = app_of(FastAPI, cast, handler, outer=others)
    with TestClient(app) as client:
        assert client.post("/chats/b").json() == {"reply": "a/1: help"}
        assert client.get("/readyz").status_code == 200
        app.state.helpers.close()
        assert client.get("/readyz").json() == {"status": "draining"}
    assert cast.farewells() == {"a/1": 1, "b/1": 1}


def test_a_room_does_not_take_the_place_of_another_one(cast: Cast) -> None:
    app = app_of(Starlette, cast, outer=lifespan(cast.build))
    with pytest.raises(ValueError, match=r"'room' in the app's state already.*name="), TestClient(app):
        pass
    assert repr(app.state.room) == "<Greenroom, closed>"


def test_an_app_that_is_mounted_has_the_room_of_the_app_around_it(cast: Cast) -> None:
    """Nobody runs its own lifespan."""
    inside = app_of(FastAPI, cast)
    with TestClient(FastAPI(lifespan=lifespan(cast.build))) as client:
        client.app.mount("/sub", inside)  # type: ignore[attr-defined]  # it is the app of above
        assert client.post("/sub/chats/a").json() == {"reply": "a/1: hello"}
        assert client.get("/sub/readyz").json() == {"status": "ready"}
    assert not hasattr(inside.state, "room")


@pytest.mark.parametrize("drain", [-1.0, float("nan"), float("inf"), "30", None, True])
def test_a_drain_that_is_no_time_is_refused_before_there_is_an_app(drain: Any) -> None:
    with pytest.raises(ValueError, match="drain must be from 0 to 1e"):
        lifespan(lambda _: object(), drain=drain)


def test_a_wedged_agent_is_given_up_at_the_deadline_of_the_drain(cast: Cast) -> None:
    """D2"""
    cast.at["commit a"] = cast.gate()
    app = app_of(Starlette, cast, drain=0.1)
    with TestClient(app) as client:
        client.post("/chats/a")

    assert app.state.room.drain().abandoned == ("a",)


def test_a_drain_gets_the_time_that_it_was_promised(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    close = Greenroom.close

    def noting(room: Greenroom, deadline: float = 30.0) -> DrainReport:
        given.append(deadline)
        return close(room, deadline)

    monkeypatch.setattr(Greenroom, "close", noting)
    with TestClient(app_of(Starlette, cast, drain=7.0)):
        pass
    assert given == [7.0]


def test_a_room_drains_although_all_threads_of_the_loop_are_taken(cast: Cast) -> None:
    gate = cast.gate()

    async def handler(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        for _ in range(64):
            loop.run_in_executor(None, gate.wait)
        return await take_turn(request)

    @asynccontextmanager
    async def letting_go(_: Any) -> AsyncIterator[None]:
        yield
        cast.log.append("the room is closed")
        gate.open()

    with TestClient(app_of(Starlette, cast, handler, outer=letting_go)) as client:
        client.post("/chats/a")

    assert cast.log[-2:] == ["close a/1", "the room is closed"]


# What clients are told.

REFUSED = [
    SessionBusy("b"),
    LostOwnership("b"),
    TurnTimeout("b"),
    Overloaded("b"),
    RoomClosed("b"),
    StoreAway("b"),
    SessionFailed("b"),
    BuildFailed("b"),
]


@pytest.mark.parametrize("kind", FRAMEWORKS)
@pytest.mark.parametrize("error", REFUSED, ids=lambda error: type(error).__name__)
def test_a_refused_client_is_told_what_the_gateway_tells(
    kind: type[Starlette], error: GreenroomError, cast: Cast
) -> None:
    with TestClient(app_of(kind, cast, raising(error))) as client:
        answer = client.post("/chats/a")

    known = api_error(error)
    told = answer.json()["error"]
    assert answer.status_code == known.status
    assert {**told, "message": ""} == {**known.body()["error"], "message": ""}
    assert answer.headers.get("retry-after") == known.headers.get("retry-after")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers.get("connection") == ("close" if isinstance(error, RoomClosed) else None)


def test_who_is_told_of_a_turn_that_is_not_recorded_is_not_invited_to_send_it_again(cast: Cast) -> None:
    with TestClient(app_of(Starlette, cast, raising(NotRecorded("b")))) as client:
        answer = client.post("/chats/a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "not_recorded")
    assert "retry-after" not in answer.headers


def test_nobody_is_told_why_an_agent_could_not_be_built(cast: Cast) -> None:
    """T5"""
    cast.at["build"] = OSError("the key sk-secret is wrong")
    with TestClient(app_of(FastAPI, cast)) as client:
        answer = client.post("/chats/a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "agent_not_built")
    assert "secret" not in answer.text


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), NotSettled("b"), GreenroomError("b")])
def test_an_error_that_is_not_for_clients_goes_on(error: Exception, cast: Cast) -> None:
    with TestClient(app_of(Starlette, cast, raising(error))) as client, pytest.raises(type(error)):
        client.post("/chats/a")


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([SessionBusy("b")], "session_busy"),
        ([SessionBusy("b"), ExceptionGroup("inner", [SessionBusy("c")])], "session_busy"),
        ([SessionBusy("b"), NotRecorded("c")], "not_recorded"),
    ],
)
def test_a_client_is_told_of_refusals_in_a_task_group(
    errors: list[Exception], code: str, cast: Cast
) -> None:
    """And is not invited to come back if one of them forbids it."""

    async def handler(_: Request) -> Response:
        raise ExceptionGroup("outer", errors)

    with TestClient(app_of(FastAPI, cast, handler)) as client:
        assert client.post("/chats/a").json()["error"]["code"] == code


def test_a_task_group_in_which_something_else_failed_goes_on(cast: Cast) -> None:
    group = ExceptionGroup("outer", [SessionBusy("b"), ZeroDivisionError("ours")])
    with (
        TestClient(app_of(Starlette, cast, raising(group))) as client,
        pytest.raises(ExceptionGroup, match="outer"),
    ):
        client.post("/chats/a")


class Passing(BaseHTTPMiddleware):
    """A middleware as Starlette shows it: it runs what is inside of it as a task of its own."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        return answer


@pytest.mark.parametrize("inside", [True, False])
def test_a_refusal_passes_through_other_middlewares(inside: bool, cast: Cast) -> None:
    app = Starlette(lifespan=lifespan(cast.build))
    app.add_route("/chats/{chat}", raising(SessionBusy("b")), methods=["POST"])
    kinds: list[Any] = [Passing, RoomMiddleware] if inside else [RoomMiddleware, Passing]
    for kind in kinds:
        app.add_middleware(kind)
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    with TestClient(app) as client:
        answer = client.post("/chats/a", headers={"origin": "http://localhost"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_busy")
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_task_that_is_refused_when_the_answer_is_sent_changes_nothing_about_it(cast: Cast) -> None:
    async def refused() -> None:
        raise SessionBusy("b")

    async def handler(_: Request) -> Response:
        return JSONResponse("done", background=BackgroundTask(refused))

    app = app_of(Starlette, cast, handler)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.post("/chats/a").json() == "done"


def test_an_error_after_the_answer_has_begun_goes_on(cast: Cast) -> None:
    async def handler(_: Request) -> Response:
        async def body() -> AsyncIterator[str]:
            yield "once"
            raise SessionBusy("too late")

        return StreamingResponse(body())

    with TestClient(app_of(Starlette, cast, handler)) as client, pytest.raises(SessionBusy):
        client.post("/chats/a")


def test_a_second_turn_of_a_busy_session_is_a_conflict(cast: Cast) -> None:
    """T3"""
    app = app_of(FastAPI, cast)
    with TestClient(app) as client:
        held = cast.hold(app.state.room, "a")
        assert client.post("/chats/a").json()["error"]["code"] == "session_busy"
        assert client.post("/chats/b").status_code == 200
        held.end()


def test_an_app_that_drains_is_not_ready_and_begins_no_turn(cast: Cast) -> None:
    """D1"""
    app = app_of(FastAPI, cast)
    with TestClient(app) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert ready.headers["cache-control"] == "no-store"
        held = cast.hold(app.state.room, "a")
        with draining(app.state.room):
            assert client.post("/chats/b").json()["error"]["code"] == "draining"
            assert client.get("/readyz").json() == {"status": "draining"}
            assert client.get("/readyz").status_code == 503
            held.end()
        app.state.room.close()
        assert client.get("/readyz").json() == {"status": "draining"}
    assert cast.did("build") == ["a/1"]


def test_an_app_without_a_lifespan_is_not_ready() -> None:
    app = Starlette()
    app.add_middleware(RoomMiddleware, ready="/readyz")
    assert TestClient(app).get("/readyz").json() == {"status": "not open"}
    assert TestClient(app).get("/readyz/").status_code == 404


@pytest.mark.parametrize(("method", "body"), [("GET", b'{"status": "not open"}'), ("HEAD", b"")])
def test_a_proxys_prefix_is_no_part_of_the_path(method: str, body: bytes) -> None:
    """And who asks for the head gets no body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {**HTTP, "method": method, "path": "/api/readyz", "root_path": "/api"}
    asyncio.run(RoomMiddleware(Starlette(), ready="/readyz")(scope, receive, send))
    assert (sent[0]["status"], sent[1]["body"]) == (503, body)


# Websockets.


def socket_app(cast: Cast, error: Exception, *, accept: bool) -> Starlette:
    async def socket(websocket: WebSocket) -> None:
        if accept:
            await websocket.accept()
            await websocket.send_text("welcome")
        raise error

    app = app_of(Starlette, cast)
    app.router.routes.append(WebSocketRoute("/socket", socket))
    return app


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (RoomClosed("b"), 1012, "draining"),
        (Overloaded("b"), 1013, "overloaded"),
        (BuildFailed("b"), 1011, "agent_not_built"),
    ],
)
def test_a_websocket_is_closed_with_a_code_that_says_when_to_come_back(
    error: GreenroomError, code: int, reason: str, cast: Cast
) -> None:
    client = TestClient(socket_app(cast, error, accept=True))
    with client, client.websocket_connect("/socket") as socket:
        assert socket.receive_text() == "welcome"
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
    assert (closed.value.code, closed.value.reason) == (code, reason)


def test_a_websocket_that_is_not_open_yet_is_denied_with_a_status(cast: Cast) -> None:
    sent = asyncio.run(sent_by(socket_app(cast, RoomClosed("b"), accept=False), denial=True))
    assert [message["type"] for message in sent] == [
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["error"]["code"] == "draining"


def test_a_server_that_cannot_send_a_status_closes_the_websocket(cast: Cast) -> None:
    sent = asyncio.run(sent_by(socket_app(cast, RoomClosed("b"), accept=False), denial=False))
    assert sent == [{"type": "websocket.close", "code": 1012, "reason": "draining"}]


async def sent_by(app: Starlette, *, denial: bool) -> list[Any]:
    """What an app sends to a websocket that asks to be let in."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {
        "type": "websocket",
        "path": "/socket",
        "headers": [],
        "query_string": b"",
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}} if denial else {},
    }
    await app(scope, receive, send)
    return sent


def test_a_client_that_has_gone_is_told_nothing() -> None:
    sent: list[Any] = []

    async def app(_: Any, receive: Any, __: Any) -> None:
        await receive()
        raise SessionBusy("b")

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(RoomMiddleware(app)({"type": "http", "path": "/"}, receive, send))
    assert sent == []


def test_a_client_that_is_found_gone_when_it_is_refused_is_no_error() -> None:
    """Servers of ASGI 2.4 raise an `OSError` then."""

    async def app(_: Any, __: Any, ___: Any) -> None:
        raise SessionBusy("b")

    async def receive() -> Any:
        raise AssertionError("nobody asked")

    async def send(_: Any) -> None:
        raise BrokenPipeError

    asyncio.run(RoomMiddleware(app)({"type": "http", "path": "/"}, receive, send))


# Streams.


class Words:
    """An agent whose answer stops where the test wants it to."""

    def __init__(self) -> None:
        self.closed = 0

    async def answer(self, *words: str | Exception) -> AsyncIterator[str]:
        try:
            for word in words:
                if isinstance(word, Exception):
                    raise word
                yield word
        finally:
            self.closed += 1


def streams(test: Callable[[Greenroom], Awaitable[None]]) -> Words:
    """Run a test with a room, on a loop."""
    agent = Words()

    async def run() -> None:
        async with Greenroom(lambda _: agent, policy=Policy()) as room:
            await test(room)

    asyncio.run(run())
    return agent


async def turn_of(request: Request) -> AsyncIterator[Turn]:
    async with request.state.room.turn("a") as turn:
        yield turn


def test_a_turn_of_a_dependency_counts_although_the_client_hung_up(cast: Cast) -> None:
    """Which is why there is `streamed`: an answer that Starlette breaks off ends without an error."""
    app = FastAPI(lifespan=lifespan(cast.build))

    @app.post("/chat")
    async def chat(_: Annotated[Turn, Depends(turn_of)]) -> StreamingResponse:
        return StreamingResponse(never())

    async def never() -> AsyncIterator[str]:
        yield "once"
        await asyncio.get_running_loop().create_future()

    async def hang_up(room: Greenroom) -> int:
        hung_up = asyncio.get_running_loop().create_future()

        async def receive() -> Any:
            return await hung_up

        async def send(message: Any) -> None:
            if message.get("body") and not hung_up.done():
                hung_up.set_result({"type": "http.disconnect"})

        scope = {**HTTP, "path": "/chat", "method": "POST", "state": {"room": room}}
        await app(scope, receive, send)
        return row_of(room, "a").generation

    room = cast.room()
    assert asyncio.run(hang_up(room)) == 1


def test_a_client_that_hangs_up_on_a_server_that_says_so_when_it_sends_ends_its_turn_uncounted() -> None:
    """T4, where ASGI is 2.4: Starlette drops the answer where it is, and closes nothing."""

    async def test(room: Greenroom) -> None:
        async def chat(request: Request) -> Response:
            turn = request.state.room.turn("a")
            return StreamingResponse(await streamed(turn, lambda agent: agent.answer("once", "upon")))

        async def receive() -> Any:
            raise AssertionError("nobody asked")

        async def send(message: Any) -> None:
            if message.get("body") == b"upon":
                raise BrokenPipeError

        app = Starlette()
        app.add_route("/chat", chat, methods=["POST"])
        app.add_middleware(RoomMiddleware)
        asgi = {"version": "3.0", "spec_version": "2.4"}
        scope = {**HTTP, "asgi": asgi, "path": "/chat", "method": "POST", "state": {"room": room}}
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)
        await asyncio.create_task(look_at(room))
        assert row_of(room, "a").generation == 0

    assert streams(test).closed == 1


class NotHeardOf(Turn):
    """A turn whose end the store does not hear of."""

    async def __aexit__(self, *error: Any) -> None:
        await super().__aexit__(*error)
        if error[0] is None:
            raise NotRecorded("the disk is full")


async def look_at(room: Greenroom) -> None:
    """Take a turn that does not count, once there is one to be had."""
    async with room.turn("a", timeout=PATIENCE, ephemeral=True):
        pass


def test_a_turn_lasts_as_long_as_its_stream_and_counts_then() -> None:
    async def test(room: Greenroom) -> None:
        pieces = await streamed(room.turn("a"), lambda agent: agent.answer("once", "upon"))
        assert room.stats().in_turn == 1
        assert [piece async for piece in pieces] == ["once", "upon"]
        assert room.stats().in_turn == 0
        assert row_of(room, "a").generation == 1

    assert streams(test).closed == 1


def test_a_stream_whose_turn_cannot_begin_has_no_pieces() -> None:
    async def test(room: Greenroom) -> None:
        async with room.turn("a"):
            with pytest.raises(SessionBusy):
                await streamed(room.turn("a", on_busy="reject"), lambda agent: agent.answer("once"))

    assert streams(test).closed == 0


def test_an_agent_that_fails_in_a_stream_leaves_the_turn_uncounted() -> None:
    """T4"""

    async def test(room: Greenroom) -> None:
        pieces = await streamed(room.turn("a"), lambda agent: agent.answer("once", OSError("away")))
        assert await anext(pieces) == "once"
        with pytest.raises(OSError, match="away"):
            await anext(pieces)
        assert (room.stats().in_turn, row_of(room, "a").generation) == (0, 0)

    assert streams(test).closed == 1


@pytest.mark.parametrize("taken", [0, 1])
def test_a_stream_that_is_dropped_ends_its_turn_uncounted(taken: int) -> None:
    """T4"""

    async def test(room: Greenroom) -> None:
        pieces = await streamed(room.turn("a"), lambda agent: agent.answer("once", "upon"))
        for _ in range(taken):
            await anext(pieces)
        del pieces
        gc.collect()
        await asyncio.create_task(look_at(room))
        assert row_of(room, "a").generation == 0

    assert streams(test).closed == taken


class Pieces:
    """An answer that is no generator: nobody closes it but who was given it."""

    def __init__(self, room: Greenroom) -> None:
        self._room = room
        self.closed_in_turn: list[bool] = []

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> str:
        return "word"

    async def aclose(self) -> None:
        self.closed_in_turn.append(self._room.stats().in_turn == 1)


def test_a_stream_that_is_closed_closes_the_answer_before_the_turn_ends() -> None:
    async def test(room: Greenroom) -> None:
        answer = Pieces(room)
        pieces = await streamed(room.turn("a"), lambda _: answer)
        assert await anext(pieces) == "word"
        await pieces.aclose()
        assert answer.closed_in_turn == [True]
        assert (room.stats().in_turn, row_of(room, "a").generation) == (0, 0)

    streams(test)


def test_an_answer_that_was_sent_is_not_broken_off_because_it_is_not_recorded_yet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(room: Greenroom) -> None:
        turn = NotHeardOf(room, "a", None, None, "a", "wait", None, False)
        pieces = await streamed(turn, lambda agent: agent.answer("once"))
        assert [piece async for piece in pieces] == ["once"]

    streams(test)
    assert "the disk is full" in caplog.text


def test_the_answers_own_trouble_with_a_record_is_not_taken_for_the_turns() -> None:
    async def test(room: Greenroom) -> None:
        pieces = await streamed(room.turn("a"), lambda agent: agent.answer("once", NotRecorded("b")))
        assert await anext(pieces) == "once"
        with pytest.raises(NotRecorded):
            await anext(pieces)

    streams(test)
