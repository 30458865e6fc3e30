"""The OpenAPI description: what each operation may answer, its errors among it, in one form.

    routes        say which errors they have themselves: `responses=errors(404, 409)`
    describe()    adds those that the guard answers with, before any route is asked, and who may call

Promise: no operation answers with a status or a media type that its description does not name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from fastapi.routing import APIRoute

    from greenroom.gateway._stage import Stage

__all__ = ["ErrorBody", "STREAM", "TURN_ERRORS", "describe", "errors", "operation_id"]

Responses = dict[int | str, dict[str, Any]]

MEANINGS = {
    400: "What was sent makes no sense, and the message says why.",
    401: "A token is needed, or the one that was sent is not known.",
    403: "The token, or the page that the request comes from, may not do this.",
    404: "What was named does not exist, or is not yours.",
    408: "The body did not arrive in time.",
    409: "It is in the way of something else: a turn, or a session of the same name.",
    413: "The body is too large.",
    421: "The server does not answer to the name in the header `Host`.",
    429: "Too much at once. `Retry-After` says when to try again.",
    431: "The headers are too large.",
    500: "The agent failed. The server's log says why.",
    502: "The agent could not be built, or could not commit its work.",
    503: "The server drains, or what it needs is away. `Retry-After` says when to try again.",
    504: "The turn took longer than turns may.",
}

TURN_ERRORS = (400, 409, 429, 500, 502, 503, 504)
"""What may become of a turn."""

STREAM: dict[str, Any] = {"text/event-stream": {}}
"""How a stream is described: OpenAPI has no words for events."""


class Problem(BaseModel):
    """What went wrong."""

    message: str = Field(description="For people: what is wrong, and what to do.")
    type: str = Field(description="Of which kind it is, such as `invalid_request_error`.")
    param: str | None = Field(description="The part of the request that is wrong, if it is one.")
    code: str | None = Field(description="For programs, such as `session_busy`.")


class ErrorBody(BaseModel):
    """An error, in OpenAI's form."""

    error: Problem


def errors(*statuses: int) -> Responses:
    """What a route may answer instead of what was asked for."""
    return {status: {"model": ErrorBody, "description": MEANINGS[status]} for status in statuses}


def operation_id(route: APIRoute) -> str:
    """What generated clients call an operation: as we do."""
    return route.name


def describe(app: FastAPI, stage: Stage, is_open: Callable[[str], bool]) -> None:
    """Have the app's description tell what the guard answers. `is_open`: what never needs a token."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        description: dict[str, Any] = made()
        if fresh:
            _complete(description, is_open)
        description["security"] = [{"token": []}] if stage.config.tokens else []
        return description

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's manual says


def _complete(description: dict[str, Any], is_open: Callable[[str], bool]) -> None:
    parts = description["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(unused, None)
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in description["paths"].items():
        for operation in methods.values():
            _complete_operation(operation, is_open=is_open(path))


def _complete_operation(operation: dict[str, Any], *, is_open: bool) -> None:
    responses = operation["responses"]
    responses.pop("422", None)  # the framework's: what makes no sense is status 400 here
    statuses = [400, 403, 421, 431]
    if is_open:
        operation["security"] = []
    else:
        statuses.append(401)
    if "requestBody" in operation:
        statuses += [408, 413]
    for status in statuses:
        responses.setdefault(str(status), _error(status))
    operation["responses"] = dict(sorted(responses.items()))


def _error(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ErrorBody"}
    return {"description": MEANINGS[status], "content": {"application/json": {"schema": schema}}}
