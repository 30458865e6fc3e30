"""The end of turns: one statement, which is its own transaction, on the driver's own connection.

It does what `Transaction.complete()` does, for any number of sessions at once, and says the version of
each transcript whose lease was good. SQLite plans one row best when it is given as values, and several
when they come as JSON. PostgreSQL takes arrays, and one round trip."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom.store._tables import CLOCK, sessions

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine

__all__ = ["Ended", "Recorder"]

Ended = tuple[str, int, int, float]
"""A turn that is over: its session id, its epoch, its generation, and for how many seconds to linger."""

_TABLE = sessions.name
_SQLITE_NOW, _POSTGRES_NOW = CLOCK["sqlite"], CLOCK["postgresql"]

_ONE = f"""UPDATE {_TABLE} SET generation = max(generation, ?3), updated = {_SQLITE_NOW} + ?5,
free_at = {_SQLITE_NOW} + ?4 + ?5 WHERE session_id = ?1 AND epoch = ?2 AND owner = ?6
RETURNING session_id, version"""

# The plus keeps SQLite from going through all sessions of the owner.
_SEVERAL = f"""UPDATE {_TABLE} SET generation = max(generation, json_extract(turn.value, '$[2]')),
updated = {_SQLITE_NOW} + ?2, free_at = {_SQLITE_NOW} + json_extract(turn.value, '$[3]') + ?2
FROM json_each(?1) AS turn
WHERE session_id = json_extract(turn.value, '$[0]') AND epoch = json_extract(turn.value, '$[1]')
AND +owner = ?3
RETURNING session_id, version"""

_POSTGRES = f"""UPDATE {_TABLE} SET generation = greatest(generation, turn.number),
updated = {_POSTGRES_NOW} + %s, free_at = {_POSTGRES_NOW} + turn.linger + %s
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::double precision[])
AS turn (id, epoch, number, linger)
WHERE session_id = turn.id AND {_TABLE}.epoch = turn.epoch AND owner = %s
RETURNING session_id, version"""


class Recorder:
    """Records the ends of turns."""

    __slots__ = ("_engine", "_under_way")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._under_way: dict[str, Any] = {}
        """By owner, the driver's connection on which a statement of theirs is running."""

    def record(self, turns: Sequence[Ended], owner: str, durability: str | None) -> dict[str, int]:
        """The version of each session whose lease was good."""
        engine = self._engine
        sqlite = engine.dialect.name == "sqlite"
        shift = engine.clock_shift
        values: tuple[Any, ...]
        if not sqlite:
            text = _POSTGRES
            values = (shift, shift, *map(list, zip(*turns, strict=True)), owner)
        elif len(turns) == 1:
            text = _ONE
            values = (*turns[0], shift, owner)
        else:
            text = _SEVERAL
            values = (json.dumps(turns), shift, owner)

        def run(connection: PoolProxiedConnection) -> dict[str, int]:
            engine.make_durable(connection, durability)
            driver: Any = connection.dbapi_connection
            self._under_way[owner] = driver
            try:
                return dict(driver.execute(text, values).fetchall())
            except engine.errors as error:
                if engine.dialect.is_disconnect(error, driver, None):  # type: ignore[arg-type]  # drivers raise theirs
                    connection.invalidate(error)
                raise
            finally:
                del self._under_way[owner]

        engine.check_file()
        return engine.call(engine.clerk, run)

    def interrupt(self, owner: str) -> None:
        """Have a statement that is running fail. It may have happened all the same."""
        driver = self._under_way.get(owner)
        if driver is None:
            return
        with suppress(OSError, *self._engine.errors):
            if self._engine.dialect.name == "sqlite":
                driver.interrupt()
            else:  # a server that does not answer would not answer to a request to cancel, either
                with socket.fromfd(driver.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM) as its:
                    its.shutdown(socket.SHUT_RDWR)
