"""An app for `test_asgi_server.py`, which runs it in a process.

Its agents answer as they are asked to, and print what they commit. They wait for a file of the test's,
because a server that is ending takes no more requests by which it could be told to go on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from greenroom import BuildContext
from greenroom.integrations.asgi import RoomMiddleware, lifespan, streamed

GATE = os.environ.get("GREENROOM_TEST_GATE", "gate")
DRAIN = float(os.environ.get("GREENROOM_TEST_DRAIN", "20"))

ended: list[str] = []
"""The answers that have come to an end, whichever."""


class Agent:
    def __init__(self, context: BuildContext) -> None:
        self.key = context.key

    async def answer(self, how: str) -> AsyncIterator[str]:
        try:
            yield "begun "
            while how == "endless":
                await asyncio.sleep(0)
                yield "word " * 2000
            while how == "gated" and not os.path.exists(GATE):  # noqa: ASYNC110, ASYNC240  # see above
                await asyncio.sleep(0.005)
            if how == "stuck":
                await asyncio.get_running_loop().create_future()
            yield "done"
        finally:
            ended.append(f"{self.key} {how}")

    async def commit_memory_session(self, generation: int) -> None:
        sys.stdout.write(f"committed {self.key} up to {generation}\n")
        sys.stdout.flush()


async def chat(request: Request) -> Response:
    key, how = request.path_params["chat"], request.path_params["how"]
    pieces = await streamed(request.state.room.turn(key), lambda agent: agent.answer(how))
    return StreamingResponse(pieces)


async def figures(request: Request) -> Response:
    rows = {row.key: [row.state, row.waiting, row.generation] for row in request.state.room.snapshot()}
    return JSONResponse({"rows": rows, "ended": ended})


app = Starlette(
    routes=[Route("/chats/{chat}/{how}", chat, methods=["POST"]), Route("/figures", figures)],
    lifespan=lifespan(Agent, drain=DRAIN),
)
app.add_middleware(RoomMiddleware, ready="/readyz")
