"""How a person shows a token to the page: once, in a form. From then on the browser has a cookie.

    POST /login         {"token": "…"}, as JSON or as a form: the cookie, and the same as /login/state
    POST /logout        the browser forgets it
    GET  /login/state   {"needed": …, "who": …, "operator": …}: what the page asks first

The cookie cannot be read by scripts (HttpOnly), is sent by our own page only (SameSite=Strict), over TLS
only if the browser got it over TLS (Secure), and is good for twelve hours. What is in it: `_keys.py`.

The token is in the body, and never in a URL: those end up in logs and histories. Whoever guesses is
slowed down: after ten wrong tokens in a minute an address has to wait, with a right one as well.
"""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, RedirectResponse

from greenroom.gateway._errors import ApiError, bad_request
from greenroom.gateway.api._description import errors
from greenroom.gateway.guard._keys import COOKIE, LIFETIME, LOCAL, KeyRing

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage
    from greenroom.gateway.guard._keys import Keys

__all__ = ["Attempts", "router"]

_FORM = "application/x-www-form-urlencoded"
_LARGEST = 8192
_DESCRIPTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {
                "schema": {
                    "type": "object",
                    "properties": {"token": {"type": "string"}},
                    "required": ["token"],
                }
            }
            for kind in ("application/json", _FORM)
        },
    }
}


class _Login(BaseModel):
    token: str


class LoginState(BaseModel):
    """Who is logged in."""

    needed: bool = Field(description="Whether the server has tokens.")
    who: str | None = Field(description="The name of the token that was shown.")
    operator: bool = Field(description="Whether it is an operator's.")


class Attempts:
    """Counts wrong tokens by address. Owned by the event loop; of too many it forgets the oldest."""

    def __init__(
        self,
        *,
        allowed: int = 10,
        seconds: float = 60.0,
        addresses: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = allowed
        self._seconds = seconds
        self._addresses = addresses
        self._clock = clock
        self._wrong: dict[str, tuple[float, int]] = {}
        """For each address: until when it counts, and how many there were."""

    def wait(self, address: str) -> float:
        """After how many seconds this address may try again; 0: now."""
        until, count = self._wrong.get(_network(address), (0.0, 0))
        return max(0.0, until - self._clock()) if count >= self._allowed else 0.0

    def note_wrong(self, address: str) -> None:
        """A token was wrong."""
        network, now = _network(address), self._clock()
        until, count = self._wrong.pop(network, (0.0, 0))
        if until <= now:
            until, count = now + self._seconds, 0
        self._wrong[network] = until, count + 1
        if len(self._wrong) > self._addresses:
            del self._wrong[next(iter(self._wrong))]

    def __len__(self) -> int:
        return len(self._wrong)


def _network(address: str) -> str:
    """Whoever has one address of IPv6 has 2⁶⁴ of them: those that share the first half count as one."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


def router(stage: Stage) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["Login"])
    ring, attempts = KeyRing(stage), Attempts()

    @routes.post(
        "/login",
        response_model=LoginState,
        openapi_extra=_DESCRIPTION,
        responses={303: {"description": "To the page, after a form."}, **errors(401, 429)},
    )
    async def log_in(request: Request) -> Response:
        """Show a token, and get a cookie for the page."""
        address = request.client.host if request.client else ""
        secret, is_form = await _secret_of(request)
        # When the token is there, and not before: many could be on their way at once.
        wait = attempts.wait(address)
        if wait:
            msg = "Too many wrong tokens came from your address. Try again later."
            raise ApiError(429, msg, type="rate_limit_error", code="too_many_attempts", retry_after=wait)
        keys = ring.keys
        token = keys.token(secret.encode())
        if keys.needed and token is None:
            attempts.note_wrong(address)
            msg = "This token is not known."
            raise ApiError(401, msg, type="authentication_error", code="invalid_api_key")
        caller = keys.caller(token) if token is not None else LOCAL
        response: Response = RedirectResponse("/", 303) if is_form else _state(keys, caller)
        if token is not None:
            _set_cookie(request, response, keys.cookie(token, int(time.time()) + LIFETIME), LIFETIME)
        return response

    @routes.post("/logout", status_code=204)
    async def log_out(request: Request) -> Response:
        """Forget the cookie."""
        response = Response(status_code=204)
        _set_cookie(request, response, "", 0)
        return response

    @routes.get("/login/state", response_model=LoginState)
    async def show_login(request: Request) -> Response:
        """Whether a token is needed, and whose the browser has shown."""
        return _state(ring.keys, request.scope["state"]["caller"])

    return routes


def _state(keys: Keys, caller: Caller | None) -> Response:
    who, operator = (caller.tenant, caller.operator) if caller else (None, False)
    return JSONResponse({"needed": keys.needed, "who": who, "operator": operator})


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=seconds,
        path="/",
        secure=_over_tls(request),
        httponly=True,
        samesite="strict",
    )


def _over_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy: it says so in the origin of its page."""
    return request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")


async def _secret_of(request: Request) -> tuple[str, bool]:
    """The token in the body, and whether that was a form."""
    body = await request.body()
    if len(body) > _LARGEST:
        raise ApiError(413, f"A login may have {_LARGEST} bytes, and has more.", code="body_too_large")
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM
    secret: str | None = None
    try:
        if is_form:
            secret = parse_qs(body.decode(), max_num_fields=10)["token"][0]
        else:
            secret = _Login.model_validate_json(body).token
    except (KeyError, ValueError):
        pass  # what was sent is not shown: it may be most of a token
    if secret is None or not secret.isascii():
        msg = 'A login is {"token": "…"}, as JSON or as a form.'
        raise bad_request(msg, param="token")
    return secret, is_form
