"""The app: routes, and who may use them."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match

from greenroom.gateway._errors import ApiError, api_error, bad_request
from greenroom.gateway.api import _chat, _responses, _session_commands
from greenroom.gateway.api._description import describe, operation_id
from greenroom.gateway.api._direct import Direct
from greenroom.gateway.guard import _login
from greenroom.gateway.guard._guard import Guard, is_open
from greenroom.gateway.server import _health
from greenroom.gateway.watch import _metrics, _page
from greenroom.gateway.watch._live import Live
from greenroom.gateway.watch._metrics import Metrics
from greenroom.gateway.watch._tracing import tracing_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from greenroom.gateway._stage import Stage

__all__ = ["create_app"]


def create_app(stage: Stage) -> FastAPI:
    """Make the app for a stage."""
    app = FastAPI(
        title="greenroom",
        version=version("greenroom"),
        description="An OpenAI-compatible front for agents that live in sessions.",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=operation_id,
        telemetry={"logs": False},  # it would log what was sent
    )
    live, metrics = Live(stage), Metrics(stage)
    stage.farewells.append(live.end)
    metrics.attach()
    turns = _chat.router(stage), _responses.router(stage)
    for routes in (
        *turns,
        _session_commands.router(stage),
        _page.router(stage, live),
        _login.router(stage),
        _metrics.router(metrics),
        _health.router(stage),
    ):
        app.include_router(routes)
    describe(app, stage, is_open)
    app.add_exception_handler(ApiError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_defect)
    app.add_middleware(Direct, routes=[route for router in turns for route in router.routes])
    app.add_middleware(Guard, stage=stage)
    tracing = tracing_of(stage)
    if tracing is not None:
        tracing.attach()
        app.add_middleware(tracing.middleware)
    return app


async def _answer_error(_: Request, error: Exception) -> Response:
    problem = api_error(error)
    return JSONResponse(problem.body(), problem.status, headers=problem.headers)


async def _answer_defect(request: Request, _: Exception) -> Response:
    """What is nobody's but ours. The server logs it, with where it came from."""
    text = "Something went wrong in the server. Its log says what."
    return await _answer_error(request, ApiError(500, text, type="server_error", code="internal_error"))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"][1:])
    return await _answer_error(request, bad_request(f"{where}: {first['msg']}", param=where or None))


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    text = {
        404: f"There is nothing at {request.method} {path}. GET /docs says what there is.",
        405: f"{path} cannot be used with {request.method}. GET /docs says how.",
    }.get(error.status_code, str(error.detail))
    problem = ApiError(error.status_code, text, code="unknown_url" if error.status_code == 404 else None)
    response = await _answer_error(request, problem)
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """What can be done with a path. The framework names the methods of the first route for it only."""
    return [
        method
        for method in ("DELETE", "GET", "HEAD", "POST")
        if any(_fits(route, {**request.scope, "method": method}) for route in request.app.routes)
    ]


def _fits(route: BaseRoute, scope: Scope) -> bool:
    return route.matches(scope)[0] is Match.FULL
