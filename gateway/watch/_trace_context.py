"""Goes on with the trace that a request belongs to, as its headers tell: ASGI middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.propagators import textmap

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TraceContext"]

Headers = list[tuple[bytes, bytes]]


class _Getter(textmap.Getter[Headers]):
    """How propagators read the headers of a request: only those that they ask for."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        wanted = key.lower().encode()
        return [value.decode("latin-1") for name, value in carrier if name == wanted] or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier]


_HEADERS = _Getter()


class TraceContext:
    """What is called for a request has its trace as the current one.

    Where something else has begun a span for the request already, that is left as it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        parent = None
        if scope["type"] == "http" and not trace.get_current_span().get_span_context().is_valid:
            parent = propagate.extract(scope["headers"], getter=_HEADERS)
        if not parent:
            await self._app(scope, receive, send)
            return
        token = otel_context.attach(parent)
        try:
            await self._app(scope, receive, send)
        finally:
            otel_context.detach(token)
