"""The route without greenroom: what one would write by hand, with the gateway's own body and answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.responses import StreamingResponse

from benchmarks.gateway.agents import PATH, agent_for
from greenroom.gateway import ChatRequest
from greenroom.gateway.api._bodies import SESSION_HEADER, body_of, pick_session
from greenroom.gateway.api._chat import ChatBody, ChatShape
from greenroom.gateway.api._replies import Answer, dumps

Agents = dict[str, Any]

NOBODY: Any = None
"""A shape of this API does not look at the performance."""


def plain_route(agents: Agents) -> APIRouter:
    """The route alone. What it has agents of is put into `agents`."""
    routes = APIRouter()

    @routes.post(PATH)
    async def create_chat_completion(request: Request) -> Response:
        body = await body_of(request, ChatBody)
        session = pick_session(request, body) or ""
        agent = agents.get(session)
        if agent is None:
            agent = agents[session] = agent_for(session)
        asked = ChatRequest(
            messages=tuple(message.model_dump(exclude_unset=True) for message in body.messages),
            model=body.model,
            options=dict(body.model_extra or {}),
        )
        shape = ChatShape(body.model, usage=False)
        headers = {SESSION_HEADER: session}
        if body.stream:
            events = stream(agent, asked, shape)
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        answer = Answer()
        answer.take(await agent.answer(asked))
        content = dumps(shape.whole(NOBODY, answer))
        return Response(content, media_type="application/json", headers=headers)

    return routes


async def stream(agent: Any, asked: ChatRequest, shape: ChatShape) -> AsyncIterator[str]:
    answer = Answer()
    yield "".join(shape.first(NOBODY))
    async for piece in agent.answer(asked):
        text = answer.take(piece)
        if text:
            yield "".join(shape.piece(text))
    yield "".join(shape.last(NOBODY, answer))


def bare_app(agents: Agents) -> FastAPI:
    """An app that has this route and nothing else."""
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(plain_route(agents))
    return app
