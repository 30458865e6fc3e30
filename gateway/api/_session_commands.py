"""The session commands: `/v1/sessions`, for whoever has sessions, and only for theirs.

A name may hold anything that is printable, slashes and percent signs among it: what stands in a path is
taken as it is after decoding, and the tenant's name is put in front of it. There is no way up from
there: `..` is two dots. A command is the last part of a path, so a session whose name ends in `/commit`
is committed as `…/commit/commit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from greenroom.gateway import _commands as commands
from greenroom.gateway._errors import ApiError
from greenroom.gateway._naming import LONGEST_SESSION
from greenroom.gateway.api._bodies import body_of, describe_body
from greenroom.gateway.api._description import errors
from greenroom.gateway.api._session_beginnings import begin_session, beginning_of, key_of
from greenroom.gateway.api._session_lists import list_sessions
from greenroom.gateway.api._session_models import (
    Begin,
    Committed,
    Ended,
    Evicted,
    Interrupted,
    SessionList,
    SessionShown,
    State,
)

if TYPE_CHECKING:
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage

__all__ = ["router"]

_AT_REST = {"cached": False, "waiting": 0, "idle_seconds": None, "last_reason": None}
"""What holds of every session that is not in the room."""

Name = Annotated[
    str,
    Path(
        description="The session's name, percent-encoded.",
        examples=["anna"],
        json_schema_extra={"minLength": 1, "maxLength": LONGEST_SESSION},  # `key_of` says it better
    ),
]


def router(stage: Stage) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/sessions", tags=["Sessions"])

    @routes.get("", responses=errors(503))
    async def list_your_sessions(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[
            str, Query(max_length=200, description="The `last_id` of the page before.")
        ] = "",
        state: Annotated[State | None, Query(description="Only those in this state.")] = None,
        stored: Annotated[bool, Query(description="Also those that only the store has.")] = False,
    ) -> SessionList:
        """List your sessions, in the order of their names."""
        if after:
            key_of(_caller(request), after, "after")
        return await list_sessions(
            stage, _caller(request), after=after, limit=limit, state=state, stored=stored
        )

    @routes.post(
        "",
        status_code=201,
        openapi_extra=describe_body(Begin, required=False),
        responses=errors(404, 409, 429, 503),
    )
    async def begin_a_session(request: Request) -> SessionShown:
        """Begin a session. The work of the `previous` one is committed behind the answer."""
        # All of it may be left out.
        wanted = await body_of(request, Begin, if_empty=Begin())
        caller = _caller(request)
        name = await begin_session(stage, caller, wanted)
        return await _shown(stage, caller, name)

    @routes.post("/{session:path}/commit", responses=errors(404, 502, 503))
    async def commit_a_session(
        request: Request,
        session: Name,
        timeout: Annotated[float | None, Query(ge=0, le=3600, description="Seconds to wait.")] = None,  # noqa: ASYNC109  the client's own
    ) -> Committed:
        """Commit what is uncommitted, and wait for that."""
        caller = _caller(request)
        done = await commands.commit(stage, key_of(caller, session), timeout)
        if done["outcome"] == "failed":
            raise _commit_failed(done["note"] if caller.operator else "")
        return Committed(id=session, **_only(done, "outcome", "committed", "left"))

    @routes.post("/{session:path}/evict", responses=errors(404, 503))
    async def evict_an_agent(request: Request, session: Name) -> Evicted:
        """Release the agent, now or when its turn ends. The session stays."""
        done = await commands.evict(stage, key_of(_caller(request), session))
        return Evicted(id=session, evicted=done["evicted"])

    @routes.post("/{session:path}/interrupt", responses=errors(404, 503))
    async def interrupt_a_turn(request: Request, session: Name) -> Interrupted:
        """Interrupt the turn that runs."""
        done = await commands.interrupt(stage, key_of(_caller(request), session))
        return Interrupted(id=session, interrupted=done["interrupted"])

    @routes.get("/{session:path}", responses=errors(404, 503))
    async def show_a_session(request: Request, session: Name) -> SessionShown:
        """Show how a session is, and why."""
        return await _shown(stage, _caller(request), session)

    @routes.delete("/{session:path}", responses=errors(404, 409, 503))
    async def end_a_session(
        request: Request,
        session: Name,
        interrupt: Annotated[bool, Query(description="Do not wait for the end of its turn.")] = False,
        forget: Annotated[bool, Query(description="Delete its transcript, too.")] = False,
    ) -> Ended:
        """End a session, now or when its turn ends: commit its turns, close its agent.

        The transcript stays, and the next request with this name goes on with it. `forget` deletes it.
        """
        key = key_of(_caller(request), session)
        if forget:
            done = await commands.forget(stage, key, interrupt=interrupt)
        else:
            done = await commands.end(stage, key, interrupt=interrupt)
        return Ended(
            id=session,
            forgotten=done.get("forgotten", False),
            **_only(done, "ended", "interrupted"),
        )

    return routes


def _caller(request: Request) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


def _only(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names}


async def _shown(stage: Stage, caller: Caller, name: str) -> SessionShown:
    key = key_of(caller, name)
    told = await commands.explain(stage, key)
    figures, stored = told["figures"], told["stored"]
    begun = await beginning_of(stage, key, in_room=figures is not None)
    known: dict[str, Any] = figures or {**stored, **_AT_REST}
    return SessionShown(
        id=name,
        state=told["state"],
        turns=known["generation"],
        uncommitted=known["generation"] - known["committed"],
        why=told["why"] if caller.operator else _for_anybody(told["why"], figures),
        messages=None if stored is None else stored["message_count"],
        figures=figures if caller.operator else None,
        stored=stored if caller.operator else None,
        **_only(known, "cached", "waiting", "idle_seconds", "last_reason"),
        **begun,
    )


def _for_anybody(why: list[str], figures: dict[str, Any] | None) -> list[str]:
    """Without what is the operator's business: hosts, and what went wrong inside."""
    private = [figures[name] for name in ("holder", "last_error") if figures[name]] if figures else []
    return [
        sentence
        for sentence in why
        if not sentence.startswith("In the store,") and not any(secret in sentence for secret in private)
    ]


def _commit_failed(note: str) -> ApiError:
    told = f" What went wrong: {note}" if note else ""
    msg = f"The session's work could not be committed. It is kept, and tried again.{told}"
    return ApiError(502, msg, type="server_error", code="commit_failed")
