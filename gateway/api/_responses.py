"""`POST /v1/responses`: a turn of a session, as clients of the Responses API ask for it.

Which session:

    previous_response_id                  that of the response, which must be its last
    the header, `conversation`,
    `metadata.session`, or `user`         the one that is named; all that are given must be the same
    none of them                          a new one, which stays; `store=false`: one for this request

The id of a response tells its session, so that continuing one needs no memory of responses. It is no
secret, and opens nothing: whose session it is goes by the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from greenroom.gateway._agent import ChatRequest
from greenroom.gateway._commands import is_known
from greenroom.gateway._errors import bad_request, not_found
from greenroom.gateway._naming import check_session, new_response_id, new_session, session_of
from greenroom.gateway.api._bodies import Body, body_of, describe_body, once, pick_busy, pick_session
from greenroom.gateway.api._continuations import Continuations, ResponseTurn
from greenroom.gateway.api._description import STREAM, TURN_ERRORS, errors
from greenroom.gateway.api._direct import direct
from greenroom.gateway.api._replies import TurnReply
from greenroom.gateway.api._response_items import messages_of, options_of, unsupported
from greenroom.gateway.api._response_shape import ResponseShape

if TYPE_CHECKING:
    from greenroom.gateway._errors import ApiError
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage

__all__ = ["ResponsesBody", "router"]

NOT_HERE = ("tools", "background", "prompt", "context_management", "modalities", "audio")
"""What would change who does what, or the form of the answer. Tools are the agent's own."""

NOT_OPTIONS = frozenset(
    {"include", "max_tool_calls", "parallel_tool_calls", "stream_options", "tool_choice"}
)
"""What changes nothing here, and is no option of an agent's either."""


class ResponsesBody(Body):
    """What a client of the Responses API sends."""

    input: str | list[dict[str, Any]] = Field(description="Text, or items of type message.")
    instructions: str | None = Field(
        default=None, description="What the agent is to keep to in this turn."
    )
    previous_response_id: str | None = Field(
        default=None, description="Continues the session of this response, which must be its last one."
    )
    conversation: str | dict[str, Any] | None = Field(
        default=None, description="The name of the session, or an object with it as `id`."
    )
    store: bool | None = Field(
        default=None, description="False: a request that names no session leaves none behind."
    )
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


def router(stage: Stage) -> APIRouter:
    """The route."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])
    continuations = Continuations(stage.endings)

    @routes.post(
        "/responses",
        openapi_extra=describe_body(ResponsesBody),
        responses={200: {"content": STREAM}, **errors(404, *TURN_ERRORS)},
    )
    @direct
    async def create_response(request: Request) -> Response:
        """Take a turn of a session, a new one if none is named.

        The session is named by `previous_response_id`, by the header `X-Greenroom-Session`, by
        `conversation`, by `metadata.session`, or by `user`.
        """
        body = await body_of(request, ResponsesBody)
        more = body.model_extra or {}
        for name in NOT_HERE:
            if more.get(name):
                raise unsupported(name)
        messages, options = messages_of(body.input), _options(body)
        caller = request.scope["state"]["caller"]
        session = await _session(stage, continuations, caller, request, body)
        ephemeral = session is None and body.store is False
        fresh = session is None and not ephemeral
        session = session or (once() if ephemeral else new_session())
        response_id = new_response_id(session)
        turn = ResponseTurn(
            continuations,
            response_id,
            body.previous_response_id or None,
            stage,
            caller,
            session,
            ChatRequest(
                messages=messages,
                model=body.model,
                instructions=body.instructions,
                complete=ephemeral,
                ephemeral=ephemeral,
                options=options,
                request_id=request.scope["state"]["request_id"],
            ),
            pick_busy(request, body) or stage.config.busy,
            fresh=fresh,
        )
        shape = ResponseShape(response_id, body.model or stage.config.model, body.model_dump())
        return TurnReply(turn, shape, stream=bool(body.stream))

    return routes


def _options(body: ResponsesBody) -> dict[str, Any]:
    own = {"max_output_tokens", "temperature", "top_p"}
    given = {**body.model_dump(include=own), **(body.model_extra or {})}
    return options_of({name: value for name, value in given.items() if name not in NOT_OPTIONS})


async def _session(
    stage: Stage, continuations: Continuations, caller: Caller, request: Request, body: ResponsesBody
) -> str | None:
    """Whose session it is. `None`: nobody's."""
    named = _named(request, body)
    previous = body.previous_response_id
    if previous is None or previous == "":
        return named
    try:
        session = session_of(previous)
    except ValueError:
        raise _no_response(previous) from None
    if named is not None and named != session:
        msg = f"previous_response_id belongs to another session than the {named[:80]!r} that is named."
        raise bad_request(msg, param="previous_response_id", code="session_mismatch")
    key = caller.key(session)
    if not continuations.knows(key) and not await is_known(stage, key):
        raise _no_response(previous)
    continuations.check(key, previous)
    return session


def _named(request: Request, body: ResponsesBody) -> str | None:
    session, conversation = pick_session(request, body), _conversation(body)
    if session is not None and conversation not in (None, session):
        msg = f"conversation names another session than the {session[:80]!r} that is named besides."
        raise bad_request(msg, param="conversation", code="session_mismatch")
    return session or conversation


def _conversation(body: ResponsesBody) -> str | None:
    given = body.conversation
    name = given.get("id") if isinstance(given, dict) else given
    if given is None or name == "":
        return None
    if not isinstance(name, str):
        raise bad_request(
            "conversation: give its name, or an object with it as id.", param="conversation"
        )
    try:
        return check_session(name)
    except ValueError as error:
        raise bad_request(str(error), param="conversation") from None


def _no_response(previous: str) -> ApiError:
    msg = f"There is no response {previous[:80]!r} that could be continued."
    return not_found(msg, code="previous_response_not_found", param="previous_response_id")
