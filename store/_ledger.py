"""The statements of the ledger. All comparing happens in them, and all reading of clocks.

Each is built once, and compiled once for a database (`_engine.py`). No parameter has the name of a
column: SQLAlchemy would set that column to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam
from sqlalchemy.dialects import postgresql, sqlite

from greenroom.store._rows import LeaseRow, SessionRow
from greenroom.store._tables import DIRTY, NOW, SECONDS, conversations, rooms, sessions

_OWN = ("last_position", "owed_since")
"""What nobody is told."""

_NAMES = tuple(column.name for column in sessions.c if column.name not in _OWN)

SESSION_COLUMNS = tuple(sessions.c[name] for name in _NAMES)
"""What a `SessionRow` is made of."""


def session_row(row: Sequence[Any]) -> SessionRow:
    """The row, frozen."""
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=True))
    values["dead"] = bool(values["dead"])  # SQLite has no booleans
    return SessionRow(**values)


def lease_row(row: Sequence[Any], *, held: bool, wait: float | None = None) -> LeaseRow:
    """What somebody who wanted a session is told: `_LEASE_COLUMNS`."""
    session_id, key, owner, epoch, version, ended, generation, committed, intended, conversation = row
    return LeaseRow(
        session_id=session_id,
        key=key,
        held=held,
        owner=owner,
        epoch=epoch,
        version=version,
        ended=ended is not None,
        generation=generation,
        committed=committed,
        intended=intended,
        conversation=conversation,
        wait=wait,
    )


_sid: sa.BindParameter[str] = bindparam("sid")
_key: sa.BindParameter[str] = bindparam("a_key")
_owner: sa.BindParameter[str] = bindparam("an_owner")
_epoch = bindparam("an_epoch", type_=sa.BigInteger())
_generation = bindparam("a_generation", type_=sa.BigInteger())
_linger = bindparam("linger", type_=SECONDS)
_s = sessions.c

_free = sa.or_(
    _s.owner.is_(None),
    _s.free_at <= NOW,  # not true while it is NULL
    sa.and_(_s.owner == _owner, _s.key == _key),
)
OWNER_IS_ALIVE = sa.exists().where(rooms.c.room == _s.owner, rooms.c.expires > NOW)
_owner_is_dead = sa.and_(_s.owner != _owner, ~OWNER_IS_ALIVE)

_taken = (
    sa.update(sessions)
    .where(_s.session_id == _sid)
    .values(
        owner=_owner,
        key=_key,
        # NULL is another owner. Another key is, too: it has an actor of its own.
        epoch=_s.epoch + sa.case((sa.and_(_s.owner == _owner, _s.key == _key), 0), else_=1),
        free_at=None,
    )
)
CONVERSATION = sa.select(conversations.c.session_id).where(conversations.c.key == _key)
_LEASE_COLUMNS = (
    _s.session_id, _s.key, _s.owner, _s.epoch, _s.version, _s.ended,
    _s.generation, _s.committed, _s.intended, sa.func.coalesce(CONVERSATION.scalar_subquery(), _key),
)  # fmt: skip

TAKE = _taken.where(_free).returning(*_LEASE_COLUMNS)
TAKE_FROM_THE_DEAD = _taken.where(sa.or_(_free, _owner_is_dead)).returning(*_LEASE_COLUMNS)
LOCK = (
    sa.select(_s.owner, _s.epoch, _s.last_position, _s.ended)
    .where(_s.session_id == _sid)
    .with_for_update()
)
LOOK = (
    sa.select(
        *_LEASE_COLUMNS,
        (sa.func.coalesce(_s.free_at, rooms.c.expires, NOW) - NOW).label("wait"),
        (_s.owner == _owner).label("mine"),
    )
    .select_from(sessions.outerjoin(rooms, rooms.c.room == _s.owner))
    .where(_s.session_id == _sid)
)

_ours = sa.update(sessions).where(_s.session_id == _sid, _s.owner == _owner, _s.epoch == _epoch)
_highest = sa.case((_s.generation < _generation, _generation), else_=_s.generation)
_committed = sa.case((_s.committed < _generation, _generation), else_=_s.committed)

PIN = _ours.values(free_at=None)
LEAVE = _ours.values(free_at=NOW + _linger).returning(_s.version)
COMPLETE = _ours.values(generation=_highest, free_at=NOW + _linger, updated=NOW).returning(_s.version)
# Whoever commits a turn has completed it: should that not have been recorded, it is now.
INTEND = _ours.values(
    generation=_highest,
    intended=sa.case((_generation > _s.committed, _generation), else_=_s.intended),
)
COMMIT = _ours.values(
    generation=_highest,
    committed=_committed,
    intended=sa.case((_s.intended <= _committed, 0), else_=_s.intended),
    tries=0,
    next_try=None,
    problem=None,
    dead=False,
)
FAIL = _ours.values(
    tries=_s.tries + 1,
    problem=bindparam("a_problem", type_=sa.Text()),
    next_try=NOW + bindparam("pause", type_=SECONDS),
    dead=_s.tries + 1 >= bindparam("most", type_=sa.Integer()),
    owner=None,
    free_at=None,
)
HAND_OVER = _ours.values(owner=None, free_at=None)
DISCLAIM = (
    sa.update(sessions)
    .where(_s.session_id == _sid, _s.owner == _owner, _s.key == _key)
    .values(owner=None, free_at=None)
)

_ttl = bindparam("ttl", type_=SECONDS)
_lock = bindparam("a_lock", type_=sa.Text())

BEAT = (
    sa.update(rooms)
    .where(rooms.c.room == _owner, rooms.c.expires > NOW)
    .values(expires=NOW + _ttl, lock_name=_lock)
)
LOCK_ALL_OF = (
    sa.select(_s.session_id).where(_s.owner == _owner).order_by(_s.session_id).with_for_update()
)
HAND_OVER_ALL = sa.update(sessions).where(_s.owner == _owner).values(owner=None, free_at=None)
FORGET = sa.delete(rooms).where(rooms.c.room == _owner)
FORGET_OLD = sa.delete(rooms).where(
    rooms.c.expires <= NOW - bindparam("older_than", type_=SECONDS),
    ~sa.exists().where(_s.owner == rooms.c.room),
)
ORPHANS = (
    sa.select(*SESSION_COLUMNS)
    .where(
        DIRTY,
        ~_s.dead,
        sa.or_(_s.next_try.is_(None), _s.next_try <= NOW),
        sa.or_(_s.owner.is_(None), _owner_is_dead),
    )
    .order_by(sa.func.coalesce(_s.next_try, _s.updated), _s.session_id)
    .limit(bindparam("most_rows", type_=sa.Integer()))
)


END = sa.update(sessions).where(_s.session_id == _sid, _s.ended.is_(None)).values(ended=NOW)

_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_entered: dict[str, Any] = {
    "expires": NOW + _ttl,
    "host": bindparam("a_host"),
    "pid": bindparam("a_pid", type_=sa.Integer()),
    "started": NOW,
    "lock_name": _lock,
}

CREATE: dict[str, sa.ClauseElement] = {
    dialect: insert(sessions)
    .values(session_id=_sid, key=_key, source=bindparam("a_source", None, type_=sa.Text()))
    .on_conflict_do_nothing()
    for dialect, insert in _INSERTS.items()
}
_renewed: dict[str, Any] = {
    dialect: insert(conversations).values(key=_key, session_id=_sid)
    for dialect, insert in _INSERTS.items()
}
RENEW: dict[str, sa.ClauseElement] = {
    dialect: insert.on_conflict_do_update(
        index_elements=[conversations.c.key], set_={"session_id": _sid}
    )
    for dialect, insert in _renewed.items()
}
RENEW_UNLESS_THERE: dict[str, Any] = {
    dialect: insert.on_conflict_do_nothing() for dialect, insert in _renewed.items()
}
ENTER: dict[str, sa.ClauseElement] = {
    dialect: insert(rooms)
    .values(room=_owner, **_entered)
    .on_conflict_do_update(index_elements=[rooms.c.room], set_=_entered)
    for dialect, insert in _INSERTS.items()
}
