"""Sessions in the order of their names, a page at a time: the room's, and those that only the store has.

The room is asked once for all of its sessions, on a thread: that costs some microseconds for each of
them, whosever they are. The store is asked for no more than a page, and again only to make up for those
that the room has as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._commands import STORED, ask_store
from greenroom.gateway.api._session_models import Session, SessionList

if TYPE_CHECKING:
    from greenroom import SessionRow
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage

__all__ = ["list_sessions", "session_of_room", "session_of_store"]


def session_of_room(name: str, row: SessionRow) -> Session:
    """A session as the room knows it."""
    return Session(
        id=name,
        state=row.state,  # type: ignore[arg-type]  # the room says which there are
        turns=row.generation,
        uncommitted=row.generation - row.committed,
        cached=row.cached,
        waiting=row.waiting,
        idle_seconds=row.idle_seconds,
        last_reason=None if row.last_reason is None else str(row.last_reason),
    )


def session_of_store(name: str, row: Any) -> Session:
    """A session as the store knows it, and the room does not."""
    return Session(
        id=name,
        state="stored",
        turns=row.generation,
        uncommitted=row.generation - row.committed,
        cached=False,
        waiting=0,
        idle_seconds=None,
        last_reason=None,
    )


async def list_sessions(
    stage: Stage, caller: Caller, *, after: str, limit: int, state: str | None, stored: bool
) -> SessionList:
    """A page of the caller's sessions, those whose names come after `after`."""
    rows = await on_a_thread(stage.room.snapshot)
    live = {name: row for row in rows if (name := caller.session(row.key)) is not None}
    found = {
        name: session_of_room(name, row)
        for name, row in live.items()
        if name > after and state in (None, row.state)
    }
    if stored and state in (None, STORED):
        found.update(await _from_store(stage, caller, live, after, limit + 1))
    names = sorted(found)
    page = [found[name] for name in names[:limit]]
    return SessionList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(names) > limit,
    )


async def _from_store(
    stage: Stage, caller: Caller, live: dict[str, SessionRow], after: str, wanted: int
) -> dict[str, Session]:
    """The first sessions of the store that the room has not."""
    store, found = stage.room.store, dict[str, Session]()
    last = f"{caller.tenant}/{after}"
    while store is not None and len(found) < wanted:
        rows = await ask_store(store.sessions_soon(after=last, limit=wanted))
        for row in rows:
            name = caller.session(row.session_id)
            if name is None:
                return found  # the next tenant's begin here
            # What a program besides this one keeps under a key of its own is none of our sessions.
            if name not in live and row.key == row.session_id:
                found[name] = session_of_store(name, row)
        if len(rows) < wanted:
            break
        last = rows[-1].session_id
    return found
