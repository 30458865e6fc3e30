"""Hermes's own database as a room's store: for coherence between processes."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["SessionDBStore"]


class SessionDBRow(NamedTuple):
    """What a room wants to know of a conversation."""

    version: int
    """How many messages it has. Whoever writes one counts this up, in the same transaction."""

    ended: bool
    """Whether it is over: reset, expired, or continued under another id after a compression."""


class SessionDBStore:
    """A `SessionDB`, read only: `Greenroom(…, store=SessionDBStore(db), durability="off")`.

    Agents write their transcript to the database themselves, before `run_conversation()` returns. So
    what a turn wrote is there when it ends, and the room takes it for its own. What the gateway adds to
    the transcript belongs inside the `with` of the turn, too.
    """

    def __init__(self, db: Any) -> None:
        self.db: Any = getattr(db, "_db", db)  # of the facade for event loops, what is behind it

    def __repr__(self) -> str:
        return f"<SessionDBStore on {getattr(self.db, 'db_path', self.db)}>"

    def session(self, session_id: str) -> SessionDBRow:
        """Look a conversation up. Raises `LookupError` for one that has no row: it gets that with the
        first message."""
        row = self.db.get_session(session_id)
        if not row:
            msg = f"there is no session {session_id!r} in {self!r}"
            raise LookupError(msg)
        ended = row.get("ended_at") is not None or row.get("end_reason") is not None
        return SessionDBRow(int(row.get("message_count") or 0), ended)
