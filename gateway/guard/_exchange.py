"""One request and its answer, as the guard sees it: an id, the answer's headers, a line in the log.

Every answer goes out through `Exchange.send`, the guard's own included, and gets the headers below. One
that says for itself what may be kept of it (`Cache-Control`), or what a page may load
(`Content-Security-Policy`), is left its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING

from greenroom.gateway.api._replies import ClientGone
from greenroom.gateway.watch._logs import request_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Scope, Send

    from greenroom.gateway._errors import ApiError
    from greenroom.gateway.guard._limits import Body

__all__ = ["HEADERS", "POLICY", "Exchange"]

access = logging.getLogger("greenroom.gateway.access")

Headers = list[tuple[bytes, bytes]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page of ours may load: its own files, and nothing of anybody else's."""

_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_UNLESS_SET: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
]
HEADERS = _ALWAYS + _UNLESS_SET
"""What every answer has that says nothing else."""

_OWN = frozenset(name for name, _ in _UNLESS_SET)

_EXPOSED = b"retry-after, x-greenroom-recorded, x-greenroom-session, x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_GONE = 499
"""What the log has as the status of a request whose client did not wait for the answer."""

_BREATH = 4
"""After so many parts of an answer others get a chance."""

_process = secrets.token_hex(6)
_numbers = itertools.count(1)


class Exchange:
    """A request, while it is answered."""

    __slots__ = ("_began", "_parts", "_scope", "_send", "body", "id", "origin", "status", "tenant")

    def __init__(self, scope: Scope, send: Send, wanted_id: bytes | None) -> None:
        self._began = time.monotonic()
        self._parts = 0
        self._scope = scope
        self._send = send
        if wanted_id is not None and _ID.fullmatch(wanted_id):
            self.id = wanted_id.decode()
        else:
            self.id = f"req_{_process}{next(_numbers):08x}"
        request_id.set(self.id)  # each request is a task of its own, with a context of its own
        self.body: Body | None = None
        self.origin: bytes | None = None
        """Whose page may read the answer, beside our own."""
        self.status = 0
        """Of the answer, once that has begun."""
        self.tenant = "-"

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if self.status == 0:
            if message["type"] != "http.response.start" or (self.body and self.body.problem):
                return  # what a route makes of a body that was refused: the guard answers in its place
            self.status = message["status"]
            message["headers"] = self._dressed(message.get("headers", ()))
        elif self._parts < _BREATH:
            self._parts += 1
        else:
            # An agent that always has something to say never waits, nor does a server whose client has
            # gone: it drops what it is given. Without a break nobody would ever learn of that.
            self._parts = 0
            await asyncio.sleep(0)
        try:
            await self._send(message)
        except OSError as error:
            raise ClientGone from error

    def _dressed(self, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        dressed = [*headers, (b"x-request-id", self.id.encode())]
        own = [name for name, _ in dressed if name in _OWN]
        if own:
            dressed += _ALWAYS
            dressed += [header for header in _UNLESS_SET if header[0] not in own]
        else:
            dressed += HEADERS
        if self.origin is not None:
            dressed += [
                (b"access-control-allow-origin", self.origin),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]
        return dressed

    async def answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Answer without a route."""
        self.body = None
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: ApiError) -> None:
        """Answer with an error."""
        body = json.dumps(error.body()).encode()
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *((name.encode(), value.encode()) for name, value in error.headers.items()),
        ]
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if error.status == 408:
            # The rest of what was to come would be taken for the next request.
            headers.append((b"connection", b"close"))
        await self.answer(error.status, headers, body)

    def log(self) -> None:
        """Write the line that each request leaves. The path as it was sent: it cannot break the line."""
        if not access.isEnabledFor(logging.INFO):
            return
        scope = self._scope
        path = (scope.get("raw_path") or b"?")[:200].decode("latin-1")
        method, status, tenant = scope["method"], self.status or _GONE, self.tenant
        ms = round((time.monotonic() - self._began) * 1000.0, 1)
        extra = {
            "fields": {"method": method, "path": path, "status": status, "ms": ms, "tenant": tenant}
        }
        text, values = "%s %s %d %.1f ms %s", (method, path, status, ms, tenant)
        # Not info(): most of what that costs is to find out which line of which file this is.
        record = access.makeRecord(access.name, logging.INFO, "", 0, text, values, None, extra=extra)
        access.handle(record)
