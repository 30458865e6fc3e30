"""The beginnings and the ends of turns: one statement for those that begin and one for those that end,
on the driver's own connection. Each is its own transaction.

They do what `Transaction.take()` and `Transaction.complete()` do in the usual case, and leave out what
they cannot have. One row is given as values, which both databases are quickest with. Several come to
SQLite as JSON (those that begin: one after the other, in a transaction), to PostgreSQL as arrays.

A statement whose answer never came may happen late, and a later one knows nothing of it: owner and epoch
are the same.

    1. the end of a turn is on its way to PostgreSQL, and its connection breaks, or is given up
    2. it is written again on another connection, and the next turn begins, under the same epoch
    3. what was on its way arrives, and gives back the session of a running turn

So the next statement on the ledger first ends the server's process for that connection, and waits until
it is gone (`_connect`, `_pool`): then it has happened, or can not happen any more. The process is named
by its number and when it began, or another might be hit that has the same number. Behind a pooler nobody
knows it. There, each statement is in a transaction, which is rolled back with its connection, or keeps
the row locked until it has happened. With SQLite nothing is on its way.

A beginning does not wait for the disk. If it is lost together with what came after it, nobody was told
of anything that came after it: an end that is on the disk has its beginning there, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.store._connect import BACKEND
from greenroom.store._ledger import TAKE, lease_row
from greenroom.store._tables import CLOCK, conversations, sessions

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine
    from greenroom.store._pool import Pool
    from greenroom.store._rows import LeaseRow

__all__ = ["Begun", "Ended", "Turns"]

T = TypeVar("T")

Begun = tuple[str, str]
"""A turn that is to begin: its session id and its key."""

Ended = tuple[str, int, int, float]
"""A turn that is over: its session id, its epoch, its generation, and for how many seconds to linger."""

_TABLE = sessions.name
_SQLITE_NOW, _POSTGRES_NOW = CLOCK["sqlite"], CLOCK["postgresql"]

_ONE = """UPDATE {table} SET generation = {max}(generation, {value}), updated = {now} + {value},
free_at = {now} + {value} + {value} WHERE session_id = {value} AND epoch = {value} AND owner = {value}
RETURNING session_id, version"""
_SQLITE_ONE = _ONE.format(table=_TABLE, now=_SQLITE_NOW, max="max", value="?")
_POSTGRES_ONE = _ONE.format(table=_TABLE, now=_POSTGRES_NOW, max="greatest", value="%s")

# The plus keeps SQLite from going through all sessions of the owner.
_SEVERAL = f"""UPDATE {_TABLE} SET generation = max(generation, json_extract(turn.value, '$[2]')),
updated = {_SQLITE_NOW} + ?, free_at = {_SQLITE_NOW} + json_extract(turn.value, '$[3]') + ?
FROM json_each(?) AS turn
WHERE session_id = json_extract(turn.value, '$[0]') AND epoch = json_extract(turn.value, '$[1]')
AND +owner = ?
RETURNING session_id, version"""

_POSTGRES = f"""UPDATE {_TABLE} SET generation = greatest(generation, turn.number),
updated = {_POSTGRES_NOW} + %s, free_at = {_POSTGRES_NOW} + turn.linger + %s
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::double precision[])
AS turn (id, epoch, number, linger)
WHERE session_id = turn.id AND {_TABLE}.epoch = turn.epoch AND owner = %s
RETURNING session_id, version"""

# Another key is another owner, too: it has an actor of its own.
_POSTGRES_TAKE = f"""UPDATE {_TABLE} SET owner = %(owner)s, key = turn.key, free_at = NULL,
epoch = epoch + CASE WHEN owner = %(owner)s AND {_TABLE}.key = turn.key THEN 0 ELSE 1 END
FROM unnest(%(ids)s::text[], %(keys)s::text[]) AS turn (id, key)
WHERE session_id = turn.id AND (owner IS NULL OR free_at <= {_POSTGRES_NOW} + %(shift)s
OR (owner = %(owner)s AND {_TABLE}.key = turn.key))
RETURNING session_id, {_TABLE}.key, owner, epoch, version, ended, generation, committed, intended,
coalesce((SELECT current.session_id FROM {conversations.name} AS current
WHERE current.key = {_TABLE}.key), {_TABLE}.key)"""


class Turns:
    """Takes sessions for turns, and records the ends of turns."""

    __slots__ = ("_engine", "_sqlite")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sqlite = engine.dialect.name == "sqlite"

    def take(self, turns: Sequence[Begun], owner: str) -> dict[str, LeaseRow]:
        """The leases of the sessions that exist, and could be had at once."""
        engine = self._engine

        def run(connection: PoolProxiedConnection) -> list[tuple[Any, ...]]:
            if len(turns) > 1 and not self._sqlite:
                ids, keys = map(list, zip(*turns, strict=True))
                values = {"ids": ids, "keys": keys, "owner": owner, "shift": engine.clock_shift}
                driver: Any = connection.dbapi_connection
                return driver.execute(_POSTGRES_TAKE, values).fetchall()  # type: ignore[no-any-return]
            rows: list[tuple[Any, ...]] = []
            for session_id, key in turns:
                values = {"sid": session_id, "a_key": key, "an_owner": owner}
                rows += engine.run(connection, TAKE, values).rows
            return rows

        one = len(turns) == 1 or not self._sqlite
        rows = self._run(engine.hurried, owner, "normal", run, one=one)
        return {row[0]: lease_row(row, held=True) for row in rows}

    def record(self, turns: Sequence[Ended], owner: str, durability: str | None) -> dict[str, int]:
        """The version of each session whose lease was good."""
        shift = self._engine.clock_shift
        values: tuple[object, ...]
        if len(turns) == 1:
            text = _SQLITE_ONE if self._sqlite else _POSTGRES_ONE
            session_id, epoch, generation, linger = turns[0]
            values = (generation, shift, linger, shift, session_id, epoch, owner)
        elif self._sqlite:
            text = _SEVERAL
            values = (shift, shift, json.dumps(turns), owner)
        else:
            text = _POSTGRES
            values = (shift, shift, *map(list, zip(*turns, strict=True)), owner)

        def run(connection: PoolProxiedConnection) -> dict[str, int]:
            driver: Any = connection.dbapi_connection
            return dict(driver.execute(text, values).fetchall())

        return self._run(self._engine.clerk, owner, durability, run)

    def _run(
        self,
        pool: Pool,
        owner: str,
        durability: str | None,
        work: Callable[[PoolProxiedConnection], T],
        *,
        one: bool = True,
    ) -> T:
        """`one`: it is one statement."""
        engine = self._engine

        def run(connection: PoolProxiedConnection) -> T:
            if one and (self._sqlite or BACKEND in connection.info):
                engine.make_durable(connection, durability)
                return work(connection)
            engine.begin(connection, durability)
            result = work(connection)
            connection.commit()
            return result

        engine.check_file()
        return engine.call(pool, run, owner)
