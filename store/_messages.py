"""The messages of a transcript: how they get into the table, and out again.

What is added together is one transaction and one row a message. SQLite has its database at hand, and
inserts the rows one after the other: as JSON they would be encoded twice. PostgreSQL takes arrays, and
one round trip; its trigger counts all rows of a statement at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from greenroom.store._content import ROLE_LENGTH, check_name, decode, encode
from greenroom.store._rows import Message
from greenroom.store._tables import messages

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine

__all__ = ["Encoded", "add_messages", "as_message", "encode_messages", "read_messages"]

Encoded = tuple[str, str, str, object]
"""A message that can be stored: its role, its content as text, the format of that, and the content."""

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
    f"""INSERT INTO {messages.name} (session_id, position, role, content, format)
    SELECT CAST(:sid AS text), CAST(:last AS integer) + said.number, said.role, said.content, said.format
    FROM unnest(CAST(:roles AS text[]), CAST(:contents AS text[]), CAST(:formats AS text[]))
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


def add_messages(
    engine: Engine,
    connection: PoolProxiedConnection,
    session_id: str,
    last: int,
    said: Sequence[Encoded],
) -> list[Message]:
    """Add messages behind position `last` of a session that is locked."""
    add = _add_one_by_one if engine.dialect.name == "sqlite" else _add_at_once
    created = add(engine, connection, session_id, last, said)
    return [
        Message(
            session_id=session_id,
            position=position,
            role=role,
            content=content,
            created=created[position],
        )
        for position, (role, _, _, content) in enumerate(said, last + 1)
    ]


def _add_one_by_one(
    engine: Engine,
    connection: PoolProxiedConnection,
    session_id: str,
    last: int,
    said: Sequence[Encoded],
) -> dict[int, float]:
    created: dict[int, float] = {}
    for position, (role, text, form, _) in enumerate(said, last + 1):
        values = {
            "sid": session_id,
            "a_position": position,
            "a_role": role,
            "a_content": text,
            "a_format": form,
        }
        created[position] = engine.run(connection, _ADD_ONE, values).value()
    return created


def _add_at_once(
    engine: Engine,
    connection: PoolProxiedConnection,
    session_id: str,
    last: int,
    said: Sequence[Encoded],
) -> dict[int, float]:
    values = {
        "sid": session_id,
        "last": last,
        "roles": [role for role, _, _, _ in said],
        "contents": [text for _, text, _, _ in said],
        "formats": [form for _, _, form, _ in said],
    }
    rows: list[Any] = engine.run(connection, _ADD_ALL, values).rows
    return dict(rows)


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
