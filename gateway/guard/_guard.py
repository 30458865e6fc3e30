"""The guard: what every request passes before it reaches a route, and every answer on its way out.

    request id      the client's own, if it makes sense, or a new one: in logs, and in the answer
    head            not larger than it may be; what may be there once is there once           431, 400
    host            a name that the server answers to: no page can rebind a name to it        400, 421
    origin          a browser's request comes from our own page, or from one that is named    403
    token           whose it is: `scope["state"]["caller"]`                                   401, 403
    body            not larger, and not later, than it may be                                 413, 408
    answer          headers that keep browsers from doing more with it than they should

What is refused is answered in the form that errors have, for the first of these that is wrong.

**Promises**
  - A route that is not open to all is only ever called with a caller whose token holds at this moment.
  - Neither a token, nor a cookie, nor a query, nor a body is ever logged, or told to anybody.
  - What a route raises, whatever it is, becomes an answer, or the connection's end if that has begun.
  - It costs a request some microseconds: everything is prepared when the configuration changes.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from greenroom.gateway._errors import ApiError, bad_request
from greenroom.gateway.api._replies import ClientGone
from greenroom.gateway.guard._exchange import Exchange
from greenroom.gateway.guard._hosts import Hosts
from greenroom.gateway.guard._keys import LOCAL, Keys
from greenroom.gateway.guard._limits import Body, check_length, headers_too_large

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage

    Found = dict[bytes, bytes]

__all__ = ["Guard", "is_open", "route_path"]

logger = logging.getLogger("greenroom.gateway")

OPEN = frozenset(
    {"/", "/docs", "/favicon.ico", "/healthz", "/readyz", "/login", "/login/state", "/logout"}
)
"""What nobody needs a token for, beside the files of the page: nothing in them is about anybody."""

OPEN_FOLDER = "/page/"

OPERATORS = ("/room/", "/metrics/")
"""What only an operator may use: these, and all that is below them."""

WANTED = frozenset(
    {
        b"access-control-request-headers",
        b"access-control-request-method",
        b"authorization",
        b"content-length",
        b"cookie",
        b"host",
        b"origin",
        b"sec-fetch-mode",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"x-request-id",
    }
)
ONCE = frozenset({b"authorization", b"content-length", b"host", b"origin"})
SAFE = frozenset({"GET", "HEAD"})

_HEADER_NAMES = re.compile(rb"[A-Za-z0-9, _-]{1,1000}")


def is_open(path: str) -> bool:
    """Whether nobody needs a token for it."""
    return path in OPEN or path.startswith(OPEN_FOLDER)


class Guard:
    """ASGI middleware. Its state belongs to the event loop."""

    def __init__(self, app: ASGIApp, *, stage: Stage) -> None:
        self._app = app
        self._stage = stage
        self._wrong_tokens = _WrongTokens()
        self._prepare()

    def _prepare(self) -> None:
        self._config = config = self._stage.config
        self._hosts = Hosts(config)
        self._keys = Keys(config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._pass_other(scope, receive, send)
            return
        if self._stage.config is not self._config:
            self._prepare()
        found, problem = self._read_head(scope)
        exchange = Exchange(scope, send, found.get(b"x-request-id"))
        try:
            if problem is not None:
                raise problem
            self._check_host(found)
            path = route_path(scope)
            free = is_open(path)
            self._check_origin(scope, found, exchange, is_open=free)
            if exchange.origin is not None and b"access-control-request-method" in found:
                await exchange.answer(204, _preflight(found))
                return
            self._check_caller(scope, found, exchange, path, is_open=free)
            if b"content-length" in found or b"transfer-encoding" in found:
                check_length(self._config, found.get(b"content-length"))
                exchange.body = Body(self._config, receive)
                receive = exchange.body.receive
            await self._app(scope, receive, exchange.send)
            await _refuse_body(exchange)
        except Exception as error:
            await _settle(exchange, error)
        finally:
            exchange.log()

    async def _pass_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:  # a WebSocket: there is none here, and nobody has looked at who asks
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    def _read_head(self, scope: Scope) -> tuple[Found, ApiError | None]:
        found: Found = {}
        twice = None
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name in WANTED:
                if name in found and name in ONCE:
                    twice = name
                found[name] = value
        if size > self._config.max_header:
            return found, headers_too_large(self._config)
        if twice is not None:
            return found, bad_request(f"There may be one header {twice.decode()!r}, and there are more.")
        return found, None

    def _check_host(self, found: Found) -> None:
        host = found.get(b"host")
        if host is None:
            raise bad_request("The header 'Host' is missing.", code="host_missing")
        if not self._hosts.allows(host):
            shown = host[:100].decode("latin-1")
            msg = f"The server does not answer to {shown!r}. Its operator can add it to allowed_hosts."
            raise ApiError(421, msg, code="wrong_host")

    def _check_origin(self, scope: Scope, found: Found, exchange: Exchange, *, is_open: bool) -> None:
        origin, site, safe = found.get(b"origin"), found.get(b"sec-fetch-site"), scope["method"] in SAFE
        if origin is None:
            if site is None or site in (b"same-origin", b"none"):
                return
            # A link from elsewhere may lead here. What else another page fetches, it fetches for itself.
            allowed = safe and (is_open or found.get(b"sec-fetch-mode") == b"navigate")
        elif self._hosts.owns(origin, scope["scheme"], found[b"host"]):
            allowed = safe or site in (None, b"same-origin", b"none")
        else:
            found.pop(b"cookie", None)  # it is for our own page
            if self._hosts.trusts(origin):
                exchange.origin = origin
                return
            allowed = safe and is_open
        if not allowed:
            shown = "another page" if origin is None else repr(origin[:100].decode("latin-1"))
            msg = f"Pages of {shown} may not call here. The operator can add them to allowed_origins."
            raise ApiError(403, msg, type="permission_error", code="wrong_origin")

    def _check_caller(
        self, scope: Scope, found: Found, exchange: Exchange, path: str, *, is_open: bool
    ) -> None:
        caller = self._caller(scope, found) if self._keys.needed else LOCAL
        if caller is not None:
            exchange.tenant = caller.tenant
        if not is_open:
            if caller is None:
                raise _unknown(given=b"authorization" in found)
            if not caller.operator and f"{path}/".startswith(OPERATORS):
                msg = f"{path[:100]} is for operators, and the token {caller.tenant!r} is not one's."
                raise ApiError(403, msg, type="permission_error", code="operators_only")
        state = scope.setdefault("state", {})
        state["caller"] = caller
        state["request_id"] = exchange.id

    def _caller(self, scope: Scope, found: Found) -> Caller | None:
        authorization = found.get(b"authorization")
        if authorization is not None:
            caller = self._keys.caller_of_bearer(authorization)
            if caller is None:
                self._wrong_tokens.note(scope.get("client"))
            return caller
        cookie = found.get(b"cookie")
        return None if cookie is None else self._keys.caller_of_cookie(cookie, time.time())


def route_path(scope: Scope) -> str:
    """The path as routes see it: without the prefix that a proxy adds."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _unknown(*, given: bool) -> ApiError:
    msg = (
        "This token is not known."
        if given
        else "A token is needed: send it as 'Authorization: Bearer …'."
    )
    return ApiError(401, msg, type="authentication_error", code="invalid_api_key")


def _preflight(found: Found) -> list[tuple[bytes, bytes]]:
    names = found.get(b"access-control-request-headers", b"")
    headers = [
        (b"access-control-allow-methods", b"DELETE, GET, POST"),
        (b"access-control-max-age", b"600"),
    ]
    if _HEADER_NAMES.fullmatch(names):
        headers.append((b"access-control-allow-headers", names))
    return headers


async def _refuse_body(exchange: Exchange) -> None:
    body = exchange.body
    if exchange.status == 0 and body is not None and body.problem is not None:
        await exchange.refuse(body.problem)


async def _settle(exchange: Exchange, error: Exception) -> None:
    """End an exchange that something was raised in."""
    if isinstance(error, (ClientDisconnect, ClientGone)):
        logger.info("The client of request %s hung up", exchange.id)
        return
    if exchange.status:
        raise error  # half of an answer is there: the server closes the connection, and says why
    body = exchange.body
    if body is not None and body.problem is not None:
        error = body.problem
    if not isinstance(error, ApiError):
        logger.error("Request %s failed", exchange.id, exc_info=error)
        msg = f"The server failed. Its log says why, under {exchange.id}."
        error = ApiError(500, msg, type="server_error", code="server_failed")
    await exchange.refuse(error)


class _WrongTokens:
    """Warns of wrong tokens: of the first at once, of more once a minute, however many there are."""

    PAUSE = 60.0

    def __init__(self) -> None:
        self._more = 0
        self._quiet_until = 0.0

    def note(self, client: tuple[str, int] | None) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            self._more += 1
            return
        more = f", as {self._more} before it had" if self._more else ""
        logger.warning("A request from %s had a wrong token%s", client[0] if client else "?", more)
        self._more, self._quiet_until = 0, now + self.PAUSE
