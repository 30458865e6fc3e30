"""A room in an ASGI app: it opens and drains with the app, and what it raises becomes an answer.

    app = FastAPI(lifespan=lifespan(build, policy=Policy(cap=64)))     # or Starlette(…)
    app.add_middleware(RoomMiddleware, ready="/readyz")

    @app.post("/chats/{chat}")
    async def chat(chat: str, request: Request):
        turn = request.state.room.turn(f"web:{chat}")
        return StreamingResponse(await streamed(turn, lambda agent: agent.answer()))

Nothing of FastAPI or Starlette is imported: a lifespan is an async context manager of the app, a
middleware is an app around an app, and a streamed answer is an async generator.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Literal, TypeVar

import pykka

from greenroom import AgentHooks, DrainReport, Greenroom, GreenroomError, NotRecorded, Policy, Turn
from greenroom.integrations._asgi_refusals import Refusal, errors_of, refusal_of

__all__ = ["RoomMiddleware", "lifespan", "streamed"]

logger = logging.getLogger("greenroom.integrations")

T = TypeVar("T")
Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]

PATIENCE = 2.0
"""Seconds within which the room's supervisor answers, if it is well."""

LONGEST = 1e9
"""The longest that a drain may be given, in seconds: a room takes no more."""


# From when the app starts until it ends.


def lifespan(
    build: Callable[[Any], Any],
    *,
    policy: Policy | None = None,
    store: Any = None,
    durability: Literal["full", "normal", "off"] = "full",
    hooks: AgentHooks | None = None,
    prepare: Callable[[Any, Turn], Any] | None = None,
    drain: float = 30.0,
    outer: Lifespan | None = None,
    name: str = "room",
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """A lifespan that opens a room, and drains and closes it when the app ends.

    A signal that ends the server starts the drain, and reaches the server when the room is drained. The
    room is `request.state.room`, `websocket.state.room` and `app.state.room`. One that cannot be
    opened keeps the app from starting.

    Args:
        build: makes an agent. This and the next five are `Greenroom`'s.
        policy: see there.
        store: see there.
        durability: see there.
        hooks: see there.
        prepare: see there.
        drain: how many seconds running turns, commits and closes get at the end.
        outer: a lifespan that there is already. It is entered before the room opens and left after it
            has drained, so that agents may use what it provides to the last; its state is passed on.
        name: what the room is called in the states, if an app has several.
    """
    if isinstance(drain, bool) or not isinstance(drain, (int, float)) or not 0 <= drain <= LONGEST:
        msg = f"drain must be from 0 to {LONGEST:g} seconds, not {drain!r}"
        raise ValueError(msg)

    @asynccontextmanager
    async def live(app: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            around = None if outer is None else await stack.enter_async_context(outer(app))
            if name in (around or {}):
                msg = f"there is a {name!r} in the app's state already: give this one another name="
                raise ValueError(msg)
            # A store may take a moment to open: the app serves nobody yet.
            room = Greenroom(
                build, policy=policy, store=store, durability=durability, hooks=hooks, prepare=prepare
            )
            stack.push_async_callback(_close, room, drain)
            signals = _handled_signals()
            if signals:
                await stack.enter_async_context(room.shutdown_on(*signals, deadline=drain))
            if hasattr(app, "state"):
                setattr(app.state, name, room)
            yield {**(around or {}), name: room}

    return live


def _handled_signals() -> list[signal.Signals]:
    """The signals for which the server has a handler. None on another thread than the main one, where
    test clients run apps: Python handles signals only there."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in (signal.SIGTERM, signal.SIGINT) if callable(signal.getsignal(number))]


async def _close(room: Greenroom, deadline: float) -> None:
    """Drain a room and close it, on a thread of its own: the loop goes on, for turns that run need it to
    come to their end. Its executor would not do: a few calls that hang take all of its threads."""
    done: concurrent.futures.Future[DrainReport] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # who stops waiting for it does not stop it

    def close() -> None:
        try:
            done.set_result(room.close(deadline))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=close, name="greenroom-drain", daemon=True).start()
    report = await asyncio.wrap_future(done)
    logger.log(
        logging.INFO if report else logging.WARNING,
        "Drained in %.2f s. Sessions committed: %d, failed: %s, abandoned: %s",
        report.seconds,
        len(report.committed),
        list(report.failed),
        list(report.abandoned),
    )


# A turn that lasts as long as its answer is being sent.


async def streamed(turn: Turn, answer: Callable[[Any], AsyncIterator[T]]) -> AsyncGenerator[T, None]:
    """Begin a turn, and return what `answer(agent)` yields, as a body for a streaming response.

    What keeps the turn from beginning is raised here, while there can still be another status than 200.
    The turn is completed when the last piece has been taken. It ends without that if the agent raises,
    and if the client hangs up: then the answer is closed first, and its `finally` runs.
    """
    pieces = _within(turn, answer)
    await anext(pieces)
    return pieces  # type: ignore[return-value]  # what it yields beside pieces was taken just now


async def _within(
    turn: Turn, answer: Callable[[Any], AsyncIterator[T]]
) -> AsyncGenerator[T | None, None]:
    whole = False
    try:
        async with turn:
            # From here on the generator has begun: if nobody takes a piece any more, or none at all, the
            # loop closes it as soon as it is dropped.
            yield None
            pieces = answer(turn.agent)
            try:
                async for piece in pieces:
                    yield piece
            finally:
                close: Any = getattr(pieces, "aclose", None)
                if close is not None:
                    await close()
            whole = True
    except NotRecorded as problem:
        if not whole:
            raise
        # It counts, and is recorded as soon as that works. The client has had the answer.
        logger.warning("%s", problem)


# What a client is told.


class RoomMiddleware:
    """Answers for the room: to requests whose turn it refuses, and to whoever asks whether it is ready.

    What a task group raises is answered if there is nothing but refusals in it. Any other error, and one
    that comes when the answer has begun, goes on to whoever is around. Of several middlewares, those
    that add headers to every answer (CORS) belong around this one.
    """

    def __init__(self, app: App, *, ready: str | None = None) -> None:
        """`ready`: the path at which a load balancer asks. 200 if a turn could begin, else 503.
        Of several rooms, in each."""
        self._app = app
        self._ready = ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if self._ready is not None and scope["type"] == "http" and _path(scope) == self._ready:
            await _tell_readiness(scope, send)
            return
        line = _Line(scope, receive, send)
        try:
            await self._app(scope, line.receive, line.send)
        except (GreenroomError, ExceptionGroup) as error:
            refusal = refusal_of(error)
            if refusal is None or line.answered:
                raise
            level = logging.WARNING if refusal.status >= 500 else logging.INFO
            for each in errors_of(error):
                logger.log(level, "A turn was refused: %s", each)
            with suppress(OSError):  # the client has hung up meanwhile
                await line.refuse(refusal)


class _Line:
    """What has passed between the app and the client of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._accepted = False
        self._gone = False
        self.answered = False
        """Whether the client was told something that cannot be taken back."""

    async def receive(self) -> Message:
        message = await self._receive()
        self._gone = self._gone or message["type"] in ("http.disconnect", "websocket.disconnect")
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept":
            self._accepted = True
        elif kind != "websocket.send":
            self.answered = True
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if self._gone:
            return
        websocket = self._scope["type"] == "websocket"
        denial = "websocket.http.response"
        if not websocket or (not self._accepted and denial in self._scope.get("extensions", {})):
            answer = denial if websocket else "http.response"
            headers = refusal.headers(self._scope.get("http_version", "1.1"))
            await self._send({"type": f"{answer}.start", "status": refusal.status, "headers": headers})
            await self._send({"type": f"{answer}.body", "body": refusal.body})
        else:
            reason = refusal.code
            await self._send({"type": "websocket.close", "code": refusal.close_code, "reason": reason})


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


async def _tell_readiness(scope: Scope, send: Send) -> None:
    rooms = [room for room in scope.get("state", {}).values() if isinstance(room, Greenroom)]
    standings = [await _standing(room) for room in rooms] or ["not open"]
    standing = next((standing for standing in standings if standing != "ready"), "ready")
    body = json.dumps({"status": standing}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    status = 200 if standing == "ready" else 503
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _standing(room: Greenroom) -> str:
    try:
        async with asyncio.timeout(PATIENCE):
            stats = await room.supervisor.stats()
    except pykka.ActorDeadError:
        return "draining"  # and done with it
    except TimeoutError:
        return "stalled"
    return "draining" if stats.draining else "ready"
