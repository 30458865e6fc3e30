"""`POST /v1/chat/completions` and `GET /v1/models`."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from greenroom.gateway._agent import ChatRequest
from greenroom.gateway._errors import bad_request
from greenroom.gateway.api._bodies import Body, body_of, describe_body, once, pick_busy, pick_session
from greenroom.gateway.api._description import STREAM, TURN_ERRORS, errors
from greenroom.gateway.api._direct import direct
from greenroom.gateway.api._replies import Shape, TurnReply, dumps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.gateway._errors import ApiError
    from greenroom.gateway._performance import Performance
    from greenroom.gateway._stage import Stage
    from greenroom.gateway.api._replies import Answer

__all__ = ["router"]

DONE = "data: [DONE]\n\n"

NOT_HERE = ("tools", "functions", "audio", "modalities")
"""What would change the form of the answer. Tools are the agent's own."""


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(BaseModel):
    """What a stream tells besides text."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    include_usage: bool | None = False


class ChatBody(Body):
    """What a client of the Chat Completions API sends."""

    messages: list[ChatMessage] = Field(min_length=1)
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None


def router(stage: Stage) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.post(
        "/chat/completions",
        openapi_extra=describe_body(ChatBody),
        responses={200: {"content": STREAM}, **errors(*TURN_ERRORS)},
    )
    @direct
    async def create_chat_completion(request: Request) -> Response:
        """Take a turn of a session, or one without a session.

        The session is named by the header `X-Greenroom-Session`, by `metadata.session`, or by `user`.
        """
        body = await body_of(request, ChatBody)
        _refuse_what_is_not_here(body)
        session = pick_session(request, body)
        state = request.scope["state"]
        performance = stage.performance(
            state["caller"],
            session or once(),
            ChatRequest(
                messages=tuple(message.model_dump(exclude_unset=True) for message in body.messages),
                model=body.model,
                complete=session is None,
                ephemeral=session is None,
                options=_options(body),
                request_id=state["request_id"],
            ),
            busy=pick_busy(request, body),
        )
        usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        shape = ChatShape(body.model or stage.config.model, usage=usage)
        return TurnReply(performance, shape, stream=bool(body.stream))

    @routes.get("/models")
    async def list_models() -> dict[str, Any]:
        """The models that this server has: one, which is its agent."""
        return {"object": "list", "data": [_model(stage)]}

    @routes.get("/models/{name:path}", responses=errors(404))
    async def show_model(name: str) -> dict[str, Any]:
        """One of them."""
        return {**_model(stage), "id": name} if name == stage.config.model else _no_model(name)

    return routes


def _model(stage: Stage) -> dict[str, Any]:
    return {"id": stage.config.model, "object": "model", "created": 0, "owned_by": "greenroom"}


def _no_model(name: str) -> dict[str, Any]:
    from greenroom.gateway._errors import not_found

    msg = f"There is no model {name[:200]!r} here. GET /v1/models lists what there is."
    raise not_found(msg, code="model_not_found", param="model")


def _refuse_what_is_not_here(body: ChatBody) -> None:
    more = body.model_extra or {}
    for name in NOT_HERE:
        if more.get(name):
            raise _unsupported(name)


def _unsupported(name: str) -> ApiError:
    msg = f"{name!r} cannot be sent here: the tools and the form of an answer are the agent's own."
    return bad_request(msg, param=name, code="unsupported_parameter")


def _options(body: Body) -> dict[str, Any]:
    """What is sent besides: the agent may know what to do with it."""
    return dict(body.model_extra or {})


_HERE = "\x00here"
_HERE_AS_JSON = dumps(_HERE)
_text_as_json: Callable[[str], str] = json.encoder.encode_basestring


class ChatShape(Shape):
    """Answers as the Chat Completions API writes them."""

    def __init__(self, model: str, *, usage: bool) -> None:
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._model = model
        self._created = int(time.time())
        self._usage = usage
        self._around: tuple[str, str] | None = None
        """What comes before and after the text of a piece: the same for all of an answer."""

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def whole(self, performance: Performance, answer: Answer) -> dict[str, Any]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": answer.text, "refusal": None},
            "finish_reason": answer.finish,
            "logprobs": None,
        }
        return {**self._head("chat.completion"), "choices": [choice], **_usage(answer)}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def first(self, performance: Performance) -> Iterable[str]:
        return (self._chunk({"role": "assistant", "content": ""}),)

    def piece(self, text: str) -> Iterable[str]:
        if self._around is None:
            # The last place: a client may call its model what it likes.
            before, _, after = self._chunk({"content": _HERE}).rpartition(_HERE_AS_JSON)
            self._around = before, after
        before, after = self._around
        return (before, _text_as_json(text), after)

    def last(self, performance: Performance, answer: Answer) -> Iterable[str]:
        yield self._chunk({}, answer.finish)
        if self._usage:
            head = self._head("chat.completion.chunk")
            yield _event({**head, "choices": [], "usage": None, **_usage(answer)})
        yield DONE

    def failed(self, error: ApiError) -> Iterable[str]:
        return (_event(error.body()),)


def _event(value: Any) -> str:
    return f"data: {dumps(value)}\n\n"


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    if usage is None:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }
    }
