"""How a turn is answered over HTTP: in one piece, or as a stream of events.

A reply is a response that runs its turn when it is sent: what goes wrong before the first byte still
gets the status that fits, and a client that hangs up ends the turn, whichever of the two it is.

    turn begins ──> (stream: head, first event) ──> pieces ──> turn completed, recorded ──> last event

So whoever has seen the end of an answer may rely on it: it counts. What goes wrong in the middle of a
stream is its last event, in the form that errors have.
"""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from greenroom.gateway._agent import Finish, Usage
from greenroom.gateway._errors import ApiError, api_error
from greenroom.gateway.api._pieces import Outgoing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive, Scope, Send

    from greenroom.gateway._performance import Performance

__all__ = ["Answer", "ClientGone", "Shape", "TurnReply", "dumps"]

logger = logging.getLogger("greenroom.gateway")

PATIENCE = 0.05
"""After so many seconds it is worth a task to see whether the client of an unstreamed answer is still
there."""


class ClientGone(Exception):
    """Whoever asked has hung up."""


class Answer:
    """What has come of an answer so far."""

    __slots__ = ("finish", "parts", "usage")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.usage: Usage | None = None
        self.finish = "stop"

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.parts)

    def take(self, piece: object) -> str | None:
        """Note a piece. Returns its text, if it is some."""
        if isinstance(piece, str):
            self.parts.append(piece)
            return piece
        if isinstance(piece, Usage):
            self.usage = piece
        elif isinstance(piece, Finish):
            self.finish = piece.reason
        else:
            msg = f"an answer is made of text, Usage and Finish, not of {type(piece).__name__}"
            raise TypeError(msg)
        return None


class Shape(ABC):
    """How one API writes an answer down. Events are whole: each a list of lines, ready to be sent."""

    @abstractmethod
    def whole(self, performance: Performance, answer: Answer) -> dict[str, Any]:
        """The answer in one piece."""

    @abstractmethod
    def first(self, performance: Performance) -> Iterable[str]:
        """What a stream begins with."""

    @abstractmethod
    def piece(self, text: str) -> Iterable[str]:
        """What is sent for a piece of text."""

    @abstractmethod
    def last(self, performance: Performance, answer: Answer) -> Iterable[str]:
        """What a stream ends with, if all went well."""

    @abstractmethod
    def failed(self, error: ApiError) -> Iterable[str]:
        """What a stream ends with, if not."""


class TurnReply(Response):
    """Runs a turn, and sends what comes of it."""

    def __init__(self, performance: Performance, shape: Shape, *, stream: bool) -> None:
        # Not the base's: there is no body yet.
        self.status_code = 200
        self.background = None
        self._performance = performance
        self._shape = shape
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        watch = _Watch(self._performance, receive)
        try:
            if self._stream:
                await self._send_stream(watch, send)
            else:
                await self._send_whole(watch, scope, receive, send)
        except ClientGone:
            logger.info("The client of %s hung up", self._performance)
        finally:
            watch.end()

    def _head(self) -> dict[str, str]:
        performance = self._performance
        headers = {"x-greenroom-session": ascii_of(performance.session)}
        if not performance.recorded:
            headers["x-greenroom-recorded"] = "false"
        return headers

    async def _send_whole(self, watch: _Watch, scope: Scope, receive: Receive, send: Send) -> None:
        performance, answer = self._performance, Answer()
        watch.begin(PATIENCE)
        try:
            async with performance:
                async for piece in performance:
                    answer.take(piece)
        except ClientGone:
            raise
        except Exception as error:
            problem = api_error(error)
            response = JSONResponse(problem.body(), problem.status, headers=problem.headers)
            await response(scope, receive, send)
            return
        # By hand, and not by a second Response: this is the way of nearly every request.
        body = utf8_of(dumps(self._shape.whole(performance, answer)))
        headers = [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
            *((name.encode(), value.encode()) for name, value in self._head().items()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _send_stream(self, watch: _Watch, send: Send) -> None:
        performance, shape, answer = self._performance, self._shape, Answer()
        started = False
        watch.begin(0.0)
        try:
            async with performance:
                await _send_head(send, self._head())
                started = True
                await _send_lines(send, shape.first(performance))
                await self._send_pieces(answer, send)
            ending = shape.last(performance, answer)
        except ClientGone:
            raise
        except Exception as error:
            problem = api_error(error)
            if not started:
                raise problem from None
            ending = shape.failed(problem)
        await _send_lines(send, ending, more=False)

    async def _send_pieces(self, answer: Answer, send: Send) -> None:
        performance, shape = self._performance, self._shape
        outgoing = Outgoing(lambda lines: _send_lines(send, lines), performance.stop)
        try:
            try:
                async for piece in performance:
                    text = answer.take(piece)
                    if text:
                        await outgoing.put(shape.piece(text))
            except Exception:
                await outgoing.flush()  # what it said before it failed
                raise
            await outgoing.flush()
        finally:
            outgoing.drop()


class _Watch:
    """Sees when the client hangs up, and stops the performance then.

    Nearly all answers that are not streamed are there before `PATIENCE` is over, and cost a timer only.
    """

    def __init__(self, performance: Performance, receive: Receive) -> None:
        self._performance = performance
        self._receive = receive
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, after: float) -> None:
        if after:
            self._timer = asyncio.get_running_loop().call_later(after, self._start)
        else:
            self._start()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._performance.stop(ClientGone())

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None  # it leads back here: only the collector would free the two
        if task is not None:
            task.cancel()


async def _send_head(send: Send, headers: dict[str, str]) -> None:
    head = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",  # nginx collects what it passes on, otherwise
        **headers,
    }
    await _send(
        send,
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(name.encode(), value.encode()) for name, value in head.items()],
        },
    )


async def _send_lines(send: Send, lines: Iterable[str], *, more: bool = True) -> None:
    body = utf8_of("".join(lines))
    await _send(send, {"type": "http.response.body", "body": body, "more_body": more})


async def _send(send: Send, message: Message) -> None:
    try:
        await send(message)
    except OSError as error:
        raise ClientGone from error  # or it does not read, and the guard has lost patience


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """JSON without spaces, in UTF-8."""
    return _encode(value)


def utf8_of(text: str) -> bytes:
    """Text as it is sent. What an agent says may have halves of characters in it, cut out of some
    stream: they are no reason to lose the rest."""
    return text.encode("utf-8", "replace")


def ascii_of(text: str) -> str:
    """Text fit for a header."""
    return text.encode("ascii", "backslashreplace").decode()
