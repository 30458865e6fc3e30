"""The tables as they are now, and the clock. `_schema.py` makes them, from whatever version there is.

Time is seconds since 1970 by the clock of the database, in every row and every comparison, so that the
clocks of the hosts need not agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

__all__ = [
    "CLOCK",
    "DIRTY",
    "NOW",
    "SECONDS",
    "conversations",
    "messages",
    "metadata",
    "rooms",
    "schema",
    "sessions",
]

CLOCK = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)",
}
"""Seconds since 1970, as each database says it."""


SECONDS: sa.Double[float] = sa.Double()


class seconds_now(FunctionElement[float]):
    """Seconds since 1970, by the clock of the database."""

    type = SECONDS
    inherit_cache = True


@compiles(seconds_now)
def _say_now(_element: seconds_now, compiler: SQLCompiler, **_options: Any) -> str:
    return CLOCK[compiler.dialect.name]


NOW = seconds_now() + sa.bindparam("clock_shift", 0.0, type_=SECONDS)
"""Now. Who binds `clock_shift` sees the clock that many seconds ahead: the tests of leases do."""

metadata = sa.MetaData()

schema = sa.Table(
    "greenroom_schema",
    metadata,
    sa.Column("version", sa.Integer, nullable=False),
)

sessions = sa.Table(
    "greenroom_sessions",
    metadata,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("source", sa.Text),
    sa.Column("message_count", sa.Integer, nullable=False),
    sa.Column("last_position", sa.Integer, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("updated", sa.Double, nullable=False),
    sa.Column("ended", sa.Double),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("committed", sa.BigInteger, nullable=False),
    sa.Column("owed_since", sa.Double),
    sa.Column("intended", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("free_at", sa.Double),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("next_try", sa.Double),
    sa.Column("problem", sa.Text),
    sa.Column("dead", sa.Boolean, nullable=False),
)

DIRTY = sessions.c.owed_since.is_not(None)
"""More turns are completed than committed. Triggers see to it, and there is an index."""

messages = sa.Table(
    "greenroom_messages",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("session_id", sa.Text, sa.ForeignKey(sessions.c.session_id), nullable=False),
    sa.Column("position", sa.Integer),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
)

conversations = sa.Table(
    "greenroom_conversations",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, nullable=False),
)
"""The current conversation of each key that was renewed. That of any other is named like the key."""

rooms = sa.Table(
    "greenroom_rooms",
    metadata,
    sa.Column("room", sa.Text, primary_key=True),
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("lock_name", sa.Text),
)
