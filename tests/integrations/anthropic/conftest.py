"""Claude without a network: an endpoint on loopback, rooms, and other processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from frameworks_kit import Endpoint, answer_head
from frameworks_kit import another_process as another_process
from frameworks_kit import no_thread_left as no_thread_left
from frameworks_kit import patience as patience
from frameworks_kit import pytest_collection_modifyitems as pytest_collection_modifyitems
from frameworks_kit import url as url


class Messages(Endpoint):
    """An endpoint that speaks Anthropic's Messages API, streamed.

    An answer is pieces of text, blocks in the API's form, `...` for silence until the client hangs up,
    and `{"stop": reason}` for why the message ends; `None` is no reason, and the connection ends there.
    A request that the API would not take is refused.
    """

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if problem := problem_of(await self._take(reader)):
            body = {"type": "error", "error": {"type": "invalid_request_error", "message": problem}}
            writer.write(answer_head("400 Bad Request", "application/json") + json.dumps(body).encode())
        else:
            writer.write(answer_head("200 OK", "text/event-stream"))
            if not self._answer(self.answers.pop(0), writer):
                await self._be_silent(reader)

    def _answer(self, parts: list[Any], writer: asyncio.StreamWriter) -> bool:
        """Send an answer. False: it ends in silence."""
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg", "type": "message", "role": "assistant", "model": "claude"}
        start: dict[str, Any] = {
            **message,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        writer.write(_event("message_start", message=start))
        blocks = -1
        stop: str | None = "end_turn"
        text_open = False
        for part in parts:
            if part is ...:
                return False
            if isinstance(part, dict) and "stop" in part:
                stop = part["stop"]
                continue
            if isinstance(part, str) and text_open:
                writer.write(_delta(blocks, {"type": "text_delta", "text": part}))
                continue
            blocks += 1
            text_open = isinstance(part, str)
            writer.write(b"".join(_block(blocks, part)))
            if isinstance(part, dict) and part["type"] == "tool_use":
                stop = "tool_use"
        if stop is not None:
            ended = {"stop_reason": stop, "stop_sequence": None}
            writer.write(_event("message_delta", delta=ended, usage=usage) + _event("message_stop"))
        return True


def _block(index: int, part: Any) -> Iterator[bytes]:
    """The events of a block. One of text is left open for more."""
    if isinstance(part, str):
        yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        yield _delta(index, {"type": "text_delta", "text": part})
        return
    if part["type"] == "tool_use":
        yield _event("content_block_start", index=index, content_block={**part, "input": {}})
        yield _delta(index, {"type": "input_json_delta", "partial_json": json.dumps(part["input"])})
    elif part["type"] == "thinking":
        yield _event(
            "content_block_start",
            index=index,
            content_block={"type": "thinking", "thinking": "", "signature": ""},
        )
        yield _delta(index, {"type": "thinking_delta", "thinking": part["thinking"]})
        yield _delta(index, {"type": "signature_delta", "signature": part["signature"]})
    else:
        yield _event("content_block_start", index=index, content_block=part)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def problem_of(request: dict[str, Any]) -> str:
    """Why the API would refuse a request, as far as a history can be to blame. "": it would not."""
    waiting: set[str] = set()
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            return "all messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "text content blocks must contain non-whitespace text"
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != waiting:
            return f"tool_use ids {waiting} were found with tool_result blocks of {results}"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if blocks[-1]["type"] == "thinking":
            return "the final block in an assistant message cannot be thinking"
        if (waiting or results) and not request.get("tools"):
            return "requests with tool_use or tool_result blocks must define tools"
        if any(block.get("is_error") and not block["content"] for block in blocks):
            return "content cannot be empty if is_error is true"
    if request["messages"][-1]["role"] == "user" and (searches := unanswered(request["messages"])):
        return f"web_search tool use with ids {searches} was found without a web_search_tool_result"
    return "" if request["messages"][0]["role"] == "user" else "first message must be the user's"


def unanswered(messages: list[dict[str, Any]]) -> set[str]:
    """The calls of Anthropic's own tools that are without a result."""
    lists = [message["content"] for message in messages if isinstance(message["content"], list)]
    blocks = [block for content in lists for block in content]
    calls = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    return calls - {block.get("tool_use_id") for block in blocks}


@pytest.fixture
def endpoint() -> type[Messages]:
    """An endpoint, for `async with endpoint(["Hel", "lo"]) as running`."""
    return Messages
