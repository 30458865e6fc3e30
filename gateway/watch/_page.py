"""The page of whoever runs the server, and what it asks for.

    GET  /, /page/{file}, /docs     the page, its parts, and a page about the API
    GET  /room/events               what happens, as it happens: see `_live.py`
    GET  /room/state                the same, once, with a search for sessions
    GET  /room/sessions/explain     why a session is as it is
    POST /room/sessions/…           commit, evict, end, interrupt

Everything under `/room` shows and commands the sessions of all tenants: it is for operators. The pages
themselves hold nothing that is not in the package, and ask for nothing from anywhere else: the guard's
content security policy would not let them.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.routing import Route

from greenroom.gateway import _commands
from greenroom.gateway._errors import ApiError, bad_request, not_found
from greenroom.gateway._naming import Caller
from greenroom.gateway.api._description import errors
from greenroom.gateway.watch._picture import STATES
from greenroom.gateway.watch._survey import MOST_ROWS

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from greenroom.gateway._stage import Stage
    from greenroom.gateway.watch._live import Live

__all__ = ["router"]

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

PATIENCE = 10.0
"""Seconds that somebody who looks at a page waits for a commit."""


def _printable(key: str) -> str:
    """No session has another name, and not every store could be asked for one."""
    if not key.isprintable():
        raise ValueError("a key is made of printable characters")
    return key


Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=300,
        description="The room's key: tenant/session.",
        examples=["local/anna"],
    ),
    AfterValidator(_printable),
]


class SessionBody(BaseModel):
    """Names a session of the room."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: Key


class EndBody(SessionBody):
    """Names a session that is to end."""

    interrupt: bool = Field(False, description="Interrupt its turn, rather than wait for its end.")


async def operator(request: Request) -> Caller:
    """Whoever calls, if they may see and command the whole room."""
    return check_operator(request.scope)


def check_operator(scope: Scope) -> Caller:
    """Raise the error that others get."""
    caller = scope["state"]["caller"]
    if not isinstance(caller, Caller) or not caller.operator:
        msg = "Only an operator may see and command the room. Use a token that is one's."
        raise ApiError(403, msg, type="permission_error", code="not_an_operator")
    return caller


def router(stage: Stage, live: Live) -> APIRouter:
    """The routes."""
    routes = APIRouter()
    routes.include_router(_files())
    routes.include_router(_looks(live))
    routes.include_router(_orders(stage))
    return routes


# Files.


def _files() -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    parts = {
        item.name: item.read_bytes() for item in files("greenroom.gateway").joinpath("page").iterdir()
    }

    @routes.api_route("/", methods=["GET", "HEAD"])
    async def show_page(request: Request) -> Response:
        return _file(request, parts, "index.html")

    @routes.api_route("/docs", methods=["GET", "HEAD"])
    async def show_docs(request: Request) -> Response:
        return _file(request, parts, "docs.html")

    @routes.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def show_part(request: Request, name: str) -> Response:
        return _file(request, parts, name)

    return routes


def _file(request: Request, parts: dict[str, bytes], name: str) -> Response:
    content = parts.get(name)
    kind = TYPES.get(name.rpartition(".")[2])
    if content is None or kind is None:
        msg = f"The page has no part called {name[:80]!r}."
        raise not_found(msg, code="unknown_url")
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {
        "etag": tag,
        "cache-control": "no-cache",  # kept, but asked about: a new release shows at once
    }
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


# Looking.


class _Events:
    """The stream, for operators. Not a function: those cost a connection more (see `_streams.py`)."""

    def __init__(self, live: Live) -> None:
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_operator(scope)
        turns = parse_qs(scope["query_string"], keep_blank_values=True).get(b"turns", [b"0"])[-1]
        if turns not in (b"0", b"1"):
            msg = (
                f"turns must be 1 (to be told of every turn) or 0, not {turns[:80].decode('latin-1')!r}"
            )
            raise bad_request(msg, param="turns")
        await self._live(scope, receive, send, turns=turns == b"1")


def _looks(live: Live) -> APIRouter:
    routes = APIRouter(prefix="/room", tags=["Room"], dependencies=[Depends(operator)])
    routes.routes.append(Route("/room/events", _Events(live), methods=["GET"], include_in_schema=False))

    @routes.get("/state", responses=errors(503))
    async def show_room(
        text: Annotated[str, Query(max_length=300, description="Part of a key.")] = "",
        state: Annotated[
            str,
            Query(description="Only those in this state.", json_schema_extra={"enum": ["", *STATES]}),
        ] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = MOST_ROWS,
    ) -> dict[str, Any]:
        """How the room is: counters, limits, memory, what happened last, and the sessions that are asked
        for, the most interesting first. `found` is how many of these there are, `total` how many in all.
        """
        if state and state not in STATES:
            msg = f"state must be one of {', '.join(STATES)}, not {state[:80]!r}"
            raise bad_request(msg, param="state")
        return await live.state(text, state, limit)

    return routes


# Commands.


def _orders(stage: Stage) -> APIRouter:
    routes = APIRouter(prefix="/room/sessions", tags=["Room"], dependencies=[Depends(operator)])

    @routes.get("/explain", responses=errors(404, 503))
    async def explain_any_session(key: Annotated[Key, Query()]) -> dict[str, Any]:
        """Why a session is as it is: what keeps it, and what is uncommitted."""
        return await _commands.explain(stage, key)

    @routes.post("/commit", responses=errors(404, 503))
    async def commit_any_session(body: SessionBody) -> dict[str, Any]:
        """Have a session's completed turns committed. What takes longer than a few seconds goes on."""
        return await _commands.commit(stage, body.key, timeout=PATIENCE)

    @routes.post("/evict", responses=errors(404, 503))
    async def evict_any_session(body: SessionBody) -> dict[str, Any]:
        """Release a session's agent, now or when its turn ends. Its next turn builds another one."""
        return await _commands.evict(stage, body.key)

    @routes.post("/end", responses=errors(404, 503))
    async def end_any_session(body: EndBody) -> dict[str, Any]:
        """End a session, now or when its turn ends. Its transcript stays, for its next turn."""
        return await _commands.end(stage, body.key, interrupt=body.interrupt)

    @routes.post("/interrupt", responses=errors(404, 503))
    async def interrupt_any_session(body: SessionBody) -> dict[str, Any]:
        """Interrupt a session's turn."""
        return await _commands.interrupt(stage, body.key)

    return routes
