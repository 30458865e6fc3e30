"""A FastAPI app in one screen: chats that keep their agent, answers that are streamed, a clean end.

    python examples/fastapi_app.py
    curl -N http://127.0.0.1:8000/chats/anna -d "Hello, I am Anna"

Hang up in the middle of an answer: the turn does not count, and the chat goes on. Send SIGTERM: no
turn begins, answers that are being sent are finished, and what was said is committed before the process
ends. (The lifespan does that with `room.shutdown_on()`.)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated

import uvicorn
from fastapi import Body, Depends, FastAPI
from fastapi.requests import HTTPConnection
from fastapi.responses import StreamingResponse

from greenroom import AgentSpec, BuildContext, Greenroom, Policy
from greenroom.integrations.asgi import RoomMiddleware, lifespan, streamed

SPEC = AgentSpec("offline-1", system_prompt="You are brief.")


class OfflineAgent:
    """Answers without a network, a word at a time."""

    def __init__(self, context: BuildContext) -> None:
        self.session_id = context.session_id
        self.heard: list[str] = []

    async def answer(self, text: str) -> AsyncIterator[str]:
        for word in f"{self.session_id}, message {len(self.heard) + 1}: {text}".split():
            yield f"{word} "
            await asyncio.sleep(0.01)
        self.heard.append(text)

    async def commit_memory_session(self) -> None:
        print(f"committed: {self.session_id}, {len(self.heard)} messages", flush=True)


app = FastAPI(lifespan=lifespan(OfflineAgent, policy=Policy(cap=64), drain=10.0))
app.add_middleware(RoomMiddleware, ready="/readyz")


def get_room(connection: HTTPConnection) -> Greenroom:
    """The room, for requests and websockets alike."""
    room: Greenroom = connection.state.room
    return room


@app.post("/chats/{chat}")
async def chat(
    chat: str, text: Annotated[str, Body()], room: Annotated[Greenroom, Depends(get_room)]
) -> StreamingResponse:
    """One turn, as long as its answer is being sent. A second one of the same chat waits."""
    turn = room.turn(f"web:{chat}", SPEC, timeout=30.0)
    pieces = await streamed(turn, lambda agent: agent.answer(text))
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8")


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), timeout_graceful_shutdown=10)
