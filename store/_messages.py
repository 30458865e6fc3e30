"""The messages of a transcript: how they get into the table, and out again.

What is added together is one transaction, and one row a message. PostgreSQL takes arrays: the session is
locked, its lease compared and all rows are added in one statement, which is one round trip. SQLite has
its database at hand, so that statements cost next to nothing, and content as JSON would cost more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from greenroom.store._content import ROLE_LENGTH, check_name, decode, encode
from greenroom.store._rows import Message
from greenroom.store._tables import messages, sessions

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine
    from greenroom.store._rows import Fence

__all__ = [
    "Encoded",
    "Placed",
    "add_at_once",
    "add_one_by_one",
    "added_messages",
    "as_message",
    "encode_messages",
    "read_messages",
]

Encoded = tuple[str, str, str, object]
"""A message that can be stored: its role, its content as text, the format of that, and the content."""

Placed = tuple[int, float]
"""Where a message was added, and when."""

_sid: sa.BindParameter[str] = bindparam("sid")
_ADD_ONE = (
    sa.insert(messages)
    .values(
        session_id=_sid,
        position=bindparam("a_position"),
        role=bindparam("a_role"),
        content=bindparam("a_content"),
        format=bindparam("a_format"),
    )
    .returning(messages.c.created)
)
_ADD_ALL = sa.text(
    f"""WITH session AS (
        SELECT last_position FROM {sessions.name}
        WHERE session_id = :sid AND (
            NOT CAST(:fenced AS boolean)
            OR owner IS NOT DISTINCT FROM CAST(:an_owner AS text) AND epoch = :an_epoch
        )
        FOR UPDATE
    )
    INSERT INTO {messages.name} (session_id, position, role, content, format)
    SELECT :sid, session.last_position + said.number, said.role, said.content, said.format
    FROM session, unnest(CAST(:roles AS text[]), CAST(:contents AS text[]), CAST(:formats AS text[]))
    WITH ORDINALITY AS said (role, content, format, number)
    ORDER BY said.number
    RETURNING position, created"""
)
_MESSAGES = (
    sa.select(
        messages.c.position, messages.c.role, messages.c.content, messages.c.format, messages.c.created
    )
    .where(messages.c.session_id == _sid, messages.c.position > bindparam("after", type_=sa.Integer()))
    .order_by(messages.c.position)
)
_FIRST_MESSAGES = _MESSAGES.limit(bindparam("most_rows", type_=sa.Integer()))


def encode_messages(said: Iterable[tuple[str, object]]) -> list[Encoded]:
    """Roles and contents as they are stored. `ValueError` or `TypeError` for what cannot be."""
    return [(check_name("role", role, ROLE_LENGTH), *encode(content), content) for role, content in said]


def add_one_by_one(
    engine: Engine,
    connection: PoolProxiedConnection,
    session_id: str,
    last: int,
    said: Sequence[Encoded],
) -> list[Placed]:
    """Add messages behind position `last` of a session that is locked."""
    placed: list[Placed] = []
    for position, (role, text, form, _) in enumerate(said, last + 1):
        values = {
            "sid": session_id,
            "a_position": position,
            "a_role": role,
            "a_content": text,
            "a_format": form,
        }
        placed.append((position, engine.run(connection, _ADD_ONE, values).value()))
    return placed


def add_at_once(
    engine: Engine,
    connection: PoolProxiedConnection,
    session_id: str,
    fence: Fence | None,
    said: Sequence[Encoded],
) -> list[Placed]:
    """Add messages with one statement. Without any, there is no such session or the lease is not good.
    Only PostgreSQL can."""
    values = {
        "sid": session_id,
        "fenced": fence is not None,
        "an_owner": None if fence is None else fence.owner,
        "an_epoch": 0 if fence is None else fence.epoch,
        "roles": [role for role, _, _, _ in said],
        "contents": [text for _, text, _, _ in said],
        "formats": [form for _, _, form, _ in said],
    }
    rows: list[Any] = engine.run(connection, _ADD_ALL, values).rows
    return sorted(rows)


def added_messages(session_id: str, said: Sequence[Encoded], placed: Sequence[Placed]) -> list[Message]:
    """What was added, as messages."""
    return [
        Message(session_id=session_id, position=position, role=role, content=content, created=created)
        for (role, _, _, content), (position, created) in zip(said, placed, strict=True)
    ]


def read_messages(
    engine: Engine, connection: PoolProxiedConnection, session_id: str, after: int, limit: int | None
) -> list[tuple[Any, ...]]:
    """The rows of a session behind a position, in order: what `as_message` takes."""
    values = {"sid": session_id, "after": after, "most_rows": limit}
    query = _MESSAGES if limit is None else _FIRST_MESSAGES
    return engine.run(connection, query, values).rows


def as_message(session_id: str, row: tuple[Any, ...]) -> Message:
    """A row as a message."""
    position, role, text, form, created = row
    return Message(
        session_id=session_id,
        position=position,
        role=role,
        content=decode(text, form),
        created=created,
    )
