"""The agents, which do next to nothing, and what is asked of them. Both sides of the wire need this."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the client does without
    from greenroom.gateway import ChatRequest

PATH = "/v1/chat/completions"
TEXT = "A trivial answer."
PIECE = "piece "
PIECES = 20
"""Of a streamed answer, unless the request says otherwise."""

WHOLE, STREAM = KINDS = "whole", "stream"


class Speaker:
    """Answers in one piece."""

    async def answer(self, request: ChatRequest) -> str:
        return TEXT


class Streamer:
    """Answers in pieces, at the pace that is asked for."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        pace = request.options.get("pace", 0.0)
        for _ in range(request.options.get("pieces", PIECES)):
            if pace:
                await asyncio.sleep(pace)
            yield PIECE


def agent_for(session: str) -> Any:
    """A session's name says which kind its agent is of."""
    return Streamer() if session.startswith(STREAM) else Speaker()


def session_name(kind: str, number: int) -> str:
    return f"{kind}-{number}"


def body_for(kind: str, **options: Any) -> bytes:
    """What a client sends."""
    message = {"role": "user", "content": "What do you say to that?"}
    streamed = {"stream": True} if kind == STREAM else {}
    return json.dumps({"model": "greenroom", "messages": [message], **streamed, **options}).encode()


def check_answer(kind: str, status: int, body: bytes, pieces: int = PIECES) -> None:
    """Make sure that nobody is quick because of answering something else."""
    if kind == STREAM:
        # One event to begin with, one for each piece, one that says why it ends, and the end's mark.
        right = body.count(b"data: ") == pieces + 3 and body.endswith(b"data: [DONE]\n\n")
    else:
        right = TEXT.encode() in body
    if status != 200 or not right:
        raise RuntimeError(f"not the answer that was asked for: {status}, {body[:500]!r}")
