"""Answers as the Responses API writes them: one object, or a stream of events that tells how it grows.

    created, in_progress            the response, still empty
    output_item.added               a message begins
    content_part.added              its text begins
    output_text.delta …             pieces of it
    output_text.done, content_part.done, output_item.done
    completed | incomplete | failed the response, whole

Each event has the next `sequence_number`. There is always one message with one text in it, though it be
empty.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.gateway.api._replies import Shape, dumps

if TYPE_CHECKING:
    from greenroom.gateway._errors import ApiError
    from greenroom.gateway._performance import Performance
    from greenroom.gateway.api._replies import Answer

__all__ = ["ResponseShape"]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why an answer is not whole, by why the agent finished."""

ECHOED: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and what that is if the request does not say."""


class ResponseShape(Shape):
    """Writes one response down."""

    def __init__(self, response_id: str, model: str, request: Mapping[str, Any]) -> None:
        """`request` is what the client sent, of which some is repeated."""
        self._number = -1
        self._item_id = f"msg_{secrets.token_hex(12)}"
        self._parts: list[str] = []
        echo = {name: otherwise for name, otherwise in ECHOED.items() if request.get(name) is None}
        echo.update((name, request[name]) for name in ECHOED if request.get(name) is not None)
        self._base = {
            "id": response_id,
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            **echo,
        }

    # In one piece.

    def whole(self, performance: Performance, answer: Answer) -> dict[str, Any]:
        reason = _INCOMPLETE.get(answer.finish)
        status = "completed" if reason is None else "incomplete"
        return {
            **self._response(performance, status, [self._item(status, answer.text)]),
            "completed_at": int(time.time()) if reason is None else None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "usage": _usage(answer),
        }

    def _response(
        self, performance: Performance | None, status: str, output: list[dict[str, Any]]
    ) -> dict[str, Any]:
        response = {
            **self._base,
            "status": status,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }
        if performance is not None:
            named = not performance.request.ephemeral
            self._base["conversation"] = {"id": performance.session} if named else None
            response["conversation"] = self._base["conversation"]
        return response

    def _item(self, status: str, text: str | None) -> dict[str, Any]:
        return {
            "id": self._item_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [] if text is None else [_part(text)],
        }

    # As a stream.

    def _event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        event = {"type": kind, "sequence_number": self._number, **fields}
        return f"event: {kind}\ndata: {dumps(event)}\n\n"

    def _of_part(self, kind: str, **fields: Any) -> str:
        return self._event(kind, item_id=self._item_id, output_index=0, content_index=0, **fields)

    def first(self, performance: Performance) -> Iterable[str]:
        empty = self._response(performance, "in_progress", [])
        yield self._event("response.created", response=empty)
        yield self._event("response.in_progress", response=empty)
        item = self._item("in_progress", None)
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._of_part("response.content_part.added", part=_part(""))

    def piece(self, text: str) -> Iterable[str]:
        self._parts.append(text)
        yield self._of_part("response.output_text.delta", delta=text, logprobs=[])

    def last(self, performance: Performance, answer: Answer) -> Iterable[str]:
        response = self.whole(performance, answer)
        status = response["status"]
        yield self._of_part("response.output_text.done", text=answer.text, logprobs=[])
        yield self._of_part("response.content_part.done", part=_part(answer.text))
        yield self._event("response.output_item.done", output_index=0, item=response["output"][0])
        yield self._event(f"response.{status}", response=response)

    def failed(self, error: ApiError) -> Iterable[str]:
        text = "".join(self._parts)
        response = self._response(None, "failed", [self._item("incomplete", text)] if text else [])
        problem = {"code": error.code or "server_error", "message": error.message}
        response["error"] = {**problem, "type": error.type, "param": error.param}
        yield self._event("response.failed", response=response)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(answer: Answer) -> dict[str, Any] | None:
    usage = answer.usage
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
