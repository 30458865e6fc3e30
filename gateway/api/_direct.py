"""Calls the routes that take turns without the framework's routing, which costs as much as a warm turn.

An endpoint that is marked with `@direct` takes the request, returns the response, and leaves nothing to
the framework in between: it reads its own body, and what it raises is the guard's to answer. Its route
stays where it is: the framework describes it, refuses other methods, and calls it for requests that it
traces itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi.routing import APIRoute
from starlette.requests import Request

from greenroom.gateway.guard._guard import route_path

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    Endpoint = Callable[[Request], Awaitable[Response]]

__all__ = ["Direct", "direct"]

EndpointT = TypeVar("EndpointT", bound=Callable[[Request], Awaitable[Any]])


def direct(endpoint: EndpointT) -> EndpointT:
    """Mark an endpoint, for a route of POST without parameters."""
    endpoint.is_direct = True  # type: ignore[attr-defined]  # a mark on a function
    return endpoint


class Direct:
    """ASGI middleware: the innermost, right before the framework's own."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._routes = {
            route.path: route
            for route in routes
            if isinstance(route, APIRoute) and getattr(route.endpoint, "is_direct", False)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the framework do so."""
        route = None
        if scope["type"] == "http" and scope["method"] == "POST":
            route = self._routes.get(route_path(scope))
        if route is None or scope.get("fastapi.telemetry") is not None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["endpoint"] = route, route.endpoint  # where those look who watch requests
        response: Response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
