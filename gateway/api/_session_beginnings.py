"""How a session begins by name, before its first turn, and what becomes of the one before it.

    begin A ──> turns of A ──> begin B after A: A's work is committed behind the answer ──> turns of B

A session that was begun is there: it has settings, and a row if there is a store. So a name can be had
once.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any

from greenroom import RoomClosed
from greenroom.gateway import _commands as commands
from greenroom.gateway._admission import Ticket
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._errors import ApiError, api_error, bad_request, not_found
from greenroom.gateway._naming import new_session

if TYPE_CHECKING:
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage
    from greenroom.gateway.api._session_models import Begin

__all__ = ["begin_session", "beginning_of", "key_of"]

logger = logging.getLogger("greenroom.gateway")

SETTING = "session"
"""The setting of the room under which it stands what a session was begun with. Agents may read it."""


def key_of(caller: Caller, name: str, param: str = "session") -> str:
    """The key of a session of the caller's. Status 400 for what cannot be a name."""
    try:
        return caller.key(name)
    except ValueError as error:
        raise bad_request(str(error), param=param) from None


async def begin_session(stage: Stage, caller: Caller, wanted: Begin) -> str:
    """Begin a session, and have the work of the previous one committed. Returns its name."""
    if stage.draining:
        raise api_error(RoomClosed("no session begins any more: the server is shutting down"))
    name = new_session() if wanted.session is None else wanted.session
    key = key_of(caller, name)
    previous = None if wanted.previous is None else key_of(caller, wanted.previous, "previous")
    await _check_previous(stage, key, previous)
    if wanted.session is not None and await commands.is_known(stage, key):
        raise _exists(name)
    with commands.translated():
        await _count(stage, caller, key)
        await _found(stage, key, name, wanted)
    if previous is not None:
        stage.behind(_commit(stage, previous))
    return name


async def _check_previous(stage: Stage, key: str, previous: str | None) -> None:
    if previous == key:
        raise bad_request("previous: a session does not follow itself.", param="previous")
    if previous is not None and not await commands.is_known(stage, previous):
        _, _, name = previous.partition("/")
        msg = f"There is no session {name[:80]!r} that another could follow."
        raise not_found(msg, code="session_not_found", param="previous")


async def _count(stage: Stage, caller: Caller, key: str) -> None:
    """Have it count as one of the sessions that the tenant may have, as if it began with a turn."""
    ticket = Ticket(caller.tenant, key, "reject", _nothing)
    try:
        async with asyncio.timeout(stage.config.wait_timeout):
            await stage.admission.enter(ticket)
    except TimeoutError:
        msg = "Too many requests are waiting. Try again later."
        raise ApiError(429, msg, type="rate_limit_error", code="wait_timeout", retry_after=5.0) from None
    finally:
        stage.admission.leave(ticket)


def _nothing() -> None:
    """There is no turn that could be interrupted."""


async def _found(stage: Stage, key: str, name: str, wanted: Begin) -> None:
    mine = {"previous": wanted.previous, "metadata": dict(wanted.metadata or {})}
    settings = stage.room.settings(key)
    # In one step: of two who begin it, one does.
    if await on_a_thread(settings.setdefault, SETTING, mine) is not mine:
        raise _exists(name)
    store = stage.room.store
    if store is not None:
        try:
            await commands.ask_store(store.create_session_soon(key, key=key, source="gateway"))
        except BaseException:
            await on_a_thread(
                functools.partial(stage.room.end, key)
            )  # so that it can be begun once more
            raise


def _exists(name: str) -> ApiError:
    msg = f"There is a session {name[:80]!r} already. Choose another name, or none."
    return ApiError(409, msg, type="conflict_error", code="session_exists", param="session")


async def _commit(stage: Stage, key: str) -> None:
    outcome = await commands.commit(stage, key)
    if outcome["outcome"] == "failed":
        logger.warning("The work of %r could not be committed when it was followed by another", key)


async def beginning_of(stage: Stage, key: str, *, in_room: bool) -> dict[str, Any]:
    """What a session was begun with, as long as the room remembers it."""
    found: dict[str, Any] | None = None
    if in_room:
        with commands.translated():
            found = await on_a_thread(stage.room.settings(key).get, SETTING)
    return found or {"previous": None, "metadata": {}}
