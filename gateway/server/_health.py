"""Whether the server lives, and whether it should be sent requests: for supervisors and load balancers.

    GET /healthz    200 as long as the event loop runs, during a drain too: restart it if this stays away
    GET /readyz     200 if a turn could begin, else 503: the server drains, or the room does not answer

They need no token and tell no figures. A store that cannot be reached makes no server unready: all that
share it would be taken away at once, and turns of sessions that are in memory go on without it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from greenroom.gateway._stage import Stage

__all__ = ["PATHS", "router"]

logger = logging.getLogger("greenroom.gateway")

PATHS = ("/healthz", "/readyz")
"""What anybody may ask."""

PATIENCE = 2.0
"""Seconds within which the room's actors answer, if they are well."""


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok", "ready", "draining", "stalled"]


def router(stage: Stage) -> APIRouter:
    """The routes for a stage."""
    routes = APIRouter(tags=["health"])

    async def healthz() -> JSONResponse:
        """Whether the server lives."""
        return _answer(200, "ok")

    async def readyz() -> JSONResponse:
        """Whether the server takes turns."""
        if stage.draining:
            return _answer(503, "draining")
        return _answer(200, "ready") if await _answers(stage) else _answer(503, "stalled")

    refused: dict[int | str, dict[str, Any]] = {
        503: {"model": Health, "description": "It drains, or its room does not answer."}
    }
    routes.get("/healthz", response_model=Health)(healthz)
    routes.get("/readyz", response_model=Health, responses=refused)(readyz)
    routes.head("/healthz", include_in_schema=False)(healthz)
    routes.head("/readyz", include_in_schema=False)(readyz)
    return routes


def _answer(status: int, text: str) -> JSONResponse:
    return JSONResponse({"status": text}, status, headers={"cache-control": "no-store"})


async def _answers(stage: Stage) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            await stage.room.supervisor.stats()
            await stage.admission.figures()
    except Exception as error:
        logger.warning("The room does not answer: %r", error)
        return False
    return True
