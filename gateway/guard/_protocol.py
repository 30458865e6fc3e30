"""How long a connection may say nothing, say half of something, and not listen.

uvicorn times a connection between two requests, and nothing else. A client that sends nothing at all, or
half a head, or only empty lines, would be kept for ever, and so would one that never reads what it was
sent; and a head may be as long as a client likes. So uvicorn is given `protocol_of(stage)` in place of
its own, as `http=`:

    head        must be there within `body_timeout` of the connection, or of its first byte       408
                may take `max_header` bytes and what is read at once: the guard counts exactly     431
    body        what is left of it when the request has been answered: `body_timeout` for all
    answer      must be taken within `send_timeout`, or the connection is cut: what runs for it sees that
                its client is gone, as if it had hung up
    hanging up  ends all requests that were sent, and not only the last
    nonsense    is refused as everything else is: in the form that errors have                    400
    upgrades    are not offered: who asks for one, as Java's client does, is answered all the same. The
                parser would take all that follows such a head, the body too, for another protocol

A request that comes in one piece, as nearly all do, costs no timer.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from greenroom.gateway._errors import ApiError, bad_request
from greenroom.gateway.guard._exchange import HEADERS
from greenroom.gateway.guard._limits import headers_too_large

if TYPE_CHECKING:
    import asyncio

    from greenroom.gateway._stage import Stage

__all__ = ["protocol_of"]

_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}
_UPGRADE = re.compile(rb"\r\nupgrade(?=[ \t]*:)", re.IGNORECASE)


class _Protocol(HttpToolsProtocol):
    stage: Stage

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = False
        self._in_message = False
        self._refused = False
        self._head_size = 0
        self._overtaken: list[Any] = []
        """Cycles that were not over when the next request came."""
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    # What comes.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        cycle, between_bodies = self.cycle, self._in_head or not self._in_message
        if not self._in_message:
            data = _without_upgrade(data)
        super().data_received(data)
        if between_bodies and self._in_head and self.cycle is cycle:  # all of it is of this head
            self._head_size += len(data)
            if self._head_size > self.stage.config.max_header:
                self._refuse(headers_too_large(self.stage.config))
        if self._idle:
            self._wait_for_request()
        elif self._late is not None:
            self._late.cancel()
            self._late = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._in_message = True
        self._head_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # behind a body there may be more of them: nobody here wants those
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        parser: Any = self.parser  # there is one while it calls us, whatever pyright makes of uvicorn
        if parser.should_upgrade() and any(map(_announces_body, self.headers)):
            # A head that came in pieces, or behind another request, still has its wish for an upgrade.
            # The parser takes such a head for the whole request, and its body for the next one.
            self._in_head, self._refused = False, True
            self._refuse(bad_request("A request with a body cannot ask for another protocol."))
            return
        before = None if self._idle else self.cycle
        super().on_headers_complete()
        self._in_head = False
        if before is not None and before is not self.cycle:
            self._overtaken.append(before)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()
        self._in_message = False

    @property
    def _idle(self) -> bool:
        cycle: Any = self.cycle  # none yet, whatever uvicorn's annotation says
        return cycle is None or cycle.response_complete

    def _wait_for_request(self) -> None:
        """Nothing runs here: whatever the client sends must be a request before long."""
        if self._late is None:
            self._late = self.loop.call_later(self.stage.config.body_timeout, self._too_late)

    def _too_late(self) -> None:
        self._late = None
        if self._in_head and not self.transport.is_closing():
            seconds = self.stage.config.body_timeout
            msg = f"The headers did not arrive within {seconds:g} seconds."
            self._refuse(ApiError(408, msg, code="headers_timeout"))
        self.transport.close()
        self._cut_unless_taken()

    def send_400_response(self, msg: str) -> None:
        self._refuse(bad_request(msg))

    def _unsupported_upgrade_warning(self) -> None:
        pass  # uvicorn would have the operator install something

    def _refuse(self, error: ApiError) -> None:
        if not self._idle and (self._overtaken or self.cycle.response_started):
            # The client sends the next request without waiting for this one's answer. It gets neither.
            self.transport.abort()
            return
        body = json.dumps(error.body()).encode()
        head = (
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n%s\r\n"
        )
        more = b"".join(b"%s: %s\r\n" % header for header in HEADERS)
        self.transport.write(head % (error.status, _REASONS[error.status], len(body), more) + body)
        self.transport.close()
        self._cut_unless_taken()

    # What goes.

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._overtaken = [cycle for cycle in self._overtaken if not cycle.response_complete]
        if self._in_message and self.cycle.response_complete:
            self._wait_for_request()
        self._cut_unless_taken()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_unless_taken()

    def shutdown(self) -> None:
        super().shutdown()
        self._cut_unless_taken()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cut_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._take_back_cut()

    def _cut_unless_taken(self) -> None:
        """A connection that is closed stays until the client has taken what was sent: not for ever."""
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._cut_later()

    def _cut_later(self) -> None:
        if self._stuck is None:
            self._stuck = self.loop.call_later(self.stage.config.send_timeout, self.transport.abort)

    def _take_back_cut(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    # The end.

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._take_back_cut()
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if self.timeout_keep_alive_task is not None:  # of a client that vanished uvicorn leaves it
            self.timeout_keep_alive_task.cancel()
        for cycle in self._overtaken:
            cycle.disconnected = True
            cycle.message_event.set()
        self._overtaken.clear()
        self.pipeline.clear()


def _announces_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0") != b"")


def _without_upgrade(data: bytes) -> bytes:
    """What a client sends, without a wish for another protocol in the head that this begins with."""
    end = data.find(b"\r\n\r\n")
    if not _UPGRADE.search(data, 0, end + 2):
        return data
    return _UPGRADE.sub(b"\r\nx-upgrade", data[:end]) + data[end:]


def protocol_of(stage: Stage) -> type[asyncio.Protocol]:
    """The protocol for the connections of a stage's server."""
    return type("Protocol", (_Protocol,), {"stage": stage})
