"""The route without greenroom: what one would write by hand, with the gateway's own body and answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.responses import StreamingResponse

from benchmarks.gateway.agents import PATH, agent_for
from benchmarks.stores.bare import INSERT, OWNER, UPDATE, Database
from greenroom.gateway import ChatRequest
from greenroom.gateway.api._bodies import SESSION_HEADER, body_of, pick_session
from greenroom.gateway.api._chat import ChatBody, ChatShape
from greenroom.gateway.api._replies import Answer, dumps

Agents = dict[str, Any]
Record = Callable[[str], Awaitable[object]]
"""Writes that a session has answered."""

NOBODY: Any = None
"""A shape of this API does not look at the performance."""


async def forget(_: str) -> None:
    """Write nothing."""


def record_in(url: str, sessions: Iterable[str]) -> Record:
    """Write a row for each answer, on a thread of its own."""
    database, thread = Database(url, "normal"), ThreadPoolExecutor(1)
    for session in sessions:
        database.change(INSERT, session, OWNER, 0)
    write = database.writer(UPDATE)
    generations = dict.fromkeys(sessions, 0)

    async def record(session: str) -> None:
        generations[session] += 1
        now = time.time()
        row = (generations[session], now, now, session, OWNER, 1)
        await asyncio.get_running_loop().run_in_executor(thread, write, row)

    return record


def plain_route(agents: Agents, record: Record = forget) -> APIRouter:
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
            events = stream(agent, asked, shape, record(session))
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        answer = Answer()
        answer.take(await agent.answer(asked))
        await record(session)
        content = dumps(shape.whole(NOBODY, answer))
        return Response(content, media_type="application/json", headers=headers)

    return routes


async def stream(
    agent: Any, asked: ChatRequest, shape: ChatShape, recorded: Awaitable[object]
) -> AsyncIterator[str]:
    answer = Answer()
    yield "".join(shape.first(NOBODY))
    async for piece in agent.answer(asked):
        text = answer.take(piece)
        if text:
            yield "".join(shape.piece(text))
    await recorded
    yield "".join(shape.last(NOBODY, answer))


def bare_app(agents: Agents) -> FastAPI:
    """An app that has this route and nothing else."""
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(plain_route(agents))
    return app
