"""What can be asked of one session, by its owner or by an operator.

    explain(stage, key)      how it is and why, as the room and the store know it
    commit(stage, key)       commit what is uncommitted, and wait for that
    evict(stage, key)        release its agent; the session stays
    interrupt(stage, key)    interrupt the turn that runs
    end(stage, key)          end the session; the store keeps its transcript
    forget(stage, key)       delete the transcript, too, once the session has ended
    drop(stage, key)         the same for a session that nobody has heard of yet

Each takes a key of the room: whose it may be is for the caller to see to. A key that neither the room
nor the store knows is `ApiError` 404, `session_not_found`. Nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pykka

from greenroom import GreenroomError, RoomClosed
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._errors import ApiError, api_error, not_found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from greenroom import Explanation, SessionRow
    from greenroom.gateway._stage import Stage

__all__ = [
    "STORED",
    "ask_store",
    "commit",
    "drop",
    "end",
    "evict",
    "explain",
    "figures_of",
    "forget",
    "interrupt",
    "is_known",
    "stored_figures_of",
    "translated",
    "unknown",
]

PATIENCE = 5.0
"""For how many seconds the end of a session is waited for. Then it happens behind the answer."""

AGAIN = (0.05, 0.5, 3.0)
"""After how many seconds a session is dropped once more that the store cannot delete yet."""

STORED = "stored"
"""The state of a session that only the store knows."""


@contextmanager
def translated() -> Iterator[None]:
    """What the room and the admission raise, as errors of the API."""
    try:
        yield
    except pykka.ActorDeadError as error:
        raise api_error(RoomClosed("the server is closed")) from error
    except GreenroomError as error:
        raise api_error(error) from error


def unknown(key: str) -> ApiError:
    """What is said of a session that is not there."""
    _, _, session = key.partition("/")
    msg = f"There is no session {session[:80]!r}. GET /v1/sessions lists those that are live."
    return not_found(msg, code="session_not_found", param="session")


async def explain(stage: Stage, key: str) -> dict[str, Any]:
    """How a session is: `state`, sentences in `why`, and the figures of the room and the store."""
    explanation, stored = await _find(stage, key)
    row, why = explanation.session, list(explanation.why)
    if row is None:
        why[:1] = ["It is not in memory. The store has it, and its next turn builds an agent."]
    return {
        "key": key,
        "state": STORED if row is None else row.state,
        "why": why,
        "figures": None if row is None else figures_of(row),
        "stored": None if stored is None else stored_figures_of(stored),
    }


async def commit(stage: Stage, key: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ASYNC109
    """Commit what is uncommitted, for at most `timeout` seconds; afterwards it goes on by itself.

    `outcome` is `committed`, `nothing` (there was nothing to commit), `pending` (it takes longer), or
    `failed`; `note` says why, and is the operator's business: it may quote what the agent raised.
    """
    began = time.monotonic()
    outcome = await _ask(stage, key, "commit", timeout=timeout)
    if outcome is None:
        left = await _left_in_store(stage, key)
        note = "nobody has it in memory; a room that looks for such sessions commits it" if left else ""
        kind = "pending" if left else "nothing"
        return {"key": key, "outcome": kind, "committed": 0, "left": left, "note": note}
    waited = timeout is not None and time.monotonic() - began >= timeout
    if not outcome.note:
        kind = "committed"
    elif not outcome.left:
        kind = "nothing"
    else:
        kind = "pending" if waited else "failed"
    return {
        "key": key,
        "outcome": kind,
        "committed": outcome.committed,
        "left": outcome.left,
        "note": outcome.note,
    }


async def evict(stage: Stage, key: str) -> dict[str, Any]:
    """Release a session's agent, now or when its turn ends. `evicted` is false if it has none."""
    return {"key": key, "evicted": bool(await _ask(stage, key, "evict"))}


async def end(stage: Stage, key: str, *, interrupt: bool = False) -> dict[str, Any]:
    """End a session, now or when its turn ends, which `interrupt` ends before its time.

    `ended` is false if the room does not have it, and only the store knows it.
    """
    accepted = bool(await _ask(stage, key, "end"))
    if accepted:
        stage.endings.tell(key)  # before the client hears of it: the room says so later, on a thread
    # After it was accepted: what waits behind the interrupted turn belongs to a new session of the name.
    with translated():
        interrupted = interrupt and await stage.interrupt(key)
    return {"key": key, "ended": accepted, "interrupted": interrupted}


async def interrupt(stage: Stage, key: str) -> dict[str, Any]:
    """Interrupt the turn that runs. `interrupted` is false if there is none."""
    with translated():
        interrupted = await stage.interrupt(key)
    if not interrupted:
        await _find(stage, key)
    return {"key": key, "interrupted": interrupted}


async def forget(stage: Stage, key: str, *, interrupt: bool = False) -> dict[str, Any]:
    """End a session, and delete its transcript once it has ended, which is waited for a few seconds.

    `forgotten` is false if that takes longer, and is done behind the answer. Turns that could not be
    committed keep their transcript: `ApiError` 409, or a line in the log if the answer was given.
    """
    ending = stage.endings.expect(key)
    try:
        ended = await end(stage, key, interrupt=interrupt)
    except BaseException:
        ending.cancel()
        raise
    forgetting = asyncio.ensure_future(_delete(stage, key, ending, wait=ended["ended"]))
    done, _ = await asyncio.wait([forgetting], timeout=PATIENCE)
    if not done:
        stage.behind(_awaited(forgetting))
        return {**ended, "forgotten": False}
    return {**ended, "forgotten": forgetting.result()}


async def drop(stage: Stage, key: str) -> None:
    """End a session if there is one, and leave nothing of it in the store."""
    ending = stage.endings.expect(key)
    try:
        ended = bool(await on_a_thread(stage.room.end, key))
        if not ended:
            stage.admission.ended(key)  # nobody else will say so
        for pause in AGAIN:
            try:
                await _delete(stage, key, ending, wait=ended)
                return
            except ApiError:
                # One that was still entering when it was ended is given back a moment after its end.
                await asyncio.sleep(pause)
        await _delete(stage, key, ending, wait=ended)
    finally:
        ending.cancel()


async def is_known(stage: Stage, key: str) -> bool:
    """Whether the room or the store knows a session."""
    try:
        await _find(stage, key)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def ask_store(asked: Awaitable[Any]) -> Any:
    """Wait for the store. What goes wrong with it is status 503, or 409 if the session is in use."""
    try:
        return await asked
    except Exception as error:
        if getattr(error, "in_use", False):
            msg = "This session is in use, or has uncommitted turns. End it, and try again."
            raise ApiError(409, msg, type="conflict_error", code="session_busy") from error
        msg = "The store cannot be reached. Try again later."
        raise ApiError(503, msg, type="server_error", code="store_away", retry_after=5.0) from error


def figures_of(row: SessionRow) -> dict[str, Any]:
    """What the room knows of a session, in numbers."""
    figures = asdict(row)
    for inside in ("key", "busy", "used", "empty"):
        del figures[inside]
    figures["last_reason"] = None if row.last_reason is None else str(row.last_reason)
    return figures


def stored_figures_of(row: Any) -> dict[str, Any]:
    """What the store knows of a session, in numbers."""
    names = ("message_count", "version", "generation", "committed", "created", "updated", "ended")
    return {**{name: getattr(row, name) for name in names}, "dead": row.dead, "problem": row.problem}


async def _find(stage: Stage, key: str) -> tuple[Explanation, Any]:
    """What the room says, and the store's row. On a thread: the room's answer is waited for there."""
    explanation = await on_a_thread(stage.room.explain, key)
    stored = await _stored(stage, key)
    if not explanation.known and stored is None:
        raise unknown(key)
    return explanation, stored


async def _stored(stage: Stage, key: str) -> Any:
    store = stage.room.store
    if store is None:
        return None
    rows = await ask_store(store.sessions_soon(key=key, limit=20))
    return next((row for row in rows if row.session_id == key), None)


async def _left_in_store(stage: Stage, key: str) -> int:
    row = await _stored(stage, key)
    return 0 if row is None else int(row.generation - row.committed)


async def _ask(stage: Stage, key: str, what: str, **arguments: Any) -> Any:
    """Ask the session's actor. `None`: there is none, and only the store knows the session."""
    explanation, _ = await _find(stage, key)
    if not explanation.known:
        return None
    with translated():
        # Should it have ended meanwhile, another one is started, which is waited for: on a thread.
        session = await on_a_thread(stage.room.session, key)
        try:
            return await getattr(session, what)(**arguments)
        except pykka.ActorDeadError:
            return None  # it has ended since


async def _delete(stage: Stage, key: str, ending: asyncio.Future[None], *, wait: bool) -> bool:
    """Delete what the store has, behind the end of the session: until then the room may write to it."""
    while wait and not ending.done() and not stage.draining:
        # A room that is drained ends no session, so that nobody would be told.
        await asyncio.wait([ending], timeout=1.0)
    ending.cancel()
    store = stage.room.store
    return store is None or bool(await ask_store(store.delete_session_soon(key)))


async def _awaited(task: asyncio.Future[Any]) -> None:
    await task
