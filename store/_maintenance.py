"""What an operator does with a store: look at it, check it, let failed commits be tried again, tidy up.

None of this is on the path of a turn, and none of it makes a room wait for long: looking takes a
snapshot, and vacuuming takes the locks that the database itself thinks fit. On PostgreSQL these
statements may take longer than the few seconds that all others get.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError

from greenroom.store._connect import PATIENCE
from greenroom.store._engine import Engine
from greenroom.store._errors import UnknownSession
from greenroom.store._rows import RoomRow, StoreInfo
from greenroom.store._tables import DIRTY, NOW, conversations, messages, rooms, schema, sessions
from greenroom.store._transfer import Transfer
from greenroom.store._url import is_memory, parse_url

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

__all__ = ["Maintenance", "is_there"]

TABLES = (sessions, messages, conversations, rooms)

MOST = 100
"""Problems of one kind that are listed. Whoever has more has seen enough."""

CLOCK_TIME = sa.select(NOW)
IN_ORDER = (messages.c.session_id, messages.c.position)
SIZE = {
    "sqlite": "(SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)",
    "postgresql": " + ".join(f"pg_total_relation_size('{table.name}')" for table in TABLES),
}
"""Bytes, as each database counts them."""
VACUUM = {
    "sqlite": ("VACUUM", "PRAGMA optimize", "PRAGMA wal_checkpoint(TRUNCATE)"),
    "postgresql": (
        "SET statement_timeout = 0",
        f"VACUUM (ANALYZE) {', '.join(table.name for table in TABLES)}",
        f"SET statement_timeout = {PATIENCE * 1000:.0f}",
    ),
}
"""The steps of giving space back."""


class Maintenance(Transfer):
    """The part of a `Store` that operators use."""

    def now(self) -> float:
        """Seconds since 1970, by the clock of the database."""
        return float(
            self._engine.look(lambda connection: self._engine.run(connection, CLOCK_TIME, {})).value()
        )

    def rooms(self) -> list[RoomRow]:
        """The rooms that have, or had, leases: the living first, then by name."""
        alive = (rooms.c.expires > NOW).label("alive")
        statement = sa.select(rooms, alive).order_by(alive.desc(), rooms.c.room)
        values = {"clock_shift": self._engine.clock_shift}
        return self._engine.read(
            lambda connection: [
                RoomRow(**row) for row in connection.execute(statement, values).mappings()
            ]
        )

    def retry(self, session_id: str | None = None) -> int:
        """Let failed commits be tried at once, and dead letters at all; tell how many sessions that is.

        The next room that looks for orphans takes them. `None` means every session. The last problem
        stays on record until a commit succeeds.
        """
        failed = sa.or_(sessions.c.dead, sessions.c.tries > 0, sessions.c.next_try.is_not(None))
        which = sa.true() if session_id is None else sessions.c.session_id == session_id

        def forget(connection: sa.Connection) -> int:
            there = sa.select(sessions.c.session_id).where(which)
            if session_id is not None and connection.execute(there).first() is None:
                raise UnknownSession(session_id)
            statement = sa.update(sessions).where(failed, which)
            return connection.execute(statement.values(dead=False, tries=0, next_try=None)).rowcount

        return self._engine.change(forget)

    def counts(self) -> StoreInfo:
        """How much is in the store, all of it at one moment."""
        left = sa.func.sum(sessions.c.generation - sessions.c.committed)
        statement = sa.select(
            sa.select(sa.func.max(schema.c.version)).scalar_subquery().label("schema_version"),
            _how_many(sessions).label("sessions"),
            _how_many(sessions, sessions.c.ended.is_not(None)).label("ended"),
            _how_many(messages).label("messages"),
            _how_many(sessions, DIRTY).label("dirty"),
            sa.select(sa.func.coalesce(left, 0)).where(DIRTY).scalar_subquery().label("uncommitted"),
            _how_many(sessions, sessions.c.dead).label("dead"),
            _how_many(rooms).label("rooms"),
            sa.literal_column(SIZE[self._engine.dialect.name], sa.BigInteger).label("size"),
        )
        row = self._engine.read(
            lambda connection: connection.execute(statement).mappings().one(), unhurried=True
        )
        return StoreInfo(**{name: int(value) for name, value in row.items()})

    def check(self) -> list[str]:
        """Look for damage: a line for each problem. Empty if all is well."""
        return self._engine.read(_problems, unhurried=True)

    def vacuum(self) -> None:
        """Give back the space of what was deleted, and let the planner know what is there.

        SQLite rewrites the file: writers wait meanwhile, and the disk needs room for a second one.
        PostgreSQL makes the space free for new rows, and nobody waits.
        """
        steps = VACUUM[self._engine.dialect.name]

        def clean(connection: PoolProxiedConnection) -> None:
            driver: Any = connection.dbapi_connection
            for step in steps:
                driver.execute(step)

        self._engine.call(self._engine.writer, clean)


def is_there(url: str) -> bool:
    """Tell whether there is a store at this URL. Unlike opening it, looking leaves no trace."""
    parsed = parse_url(url)
    if is_memory(parsed):
        return False
    if parsed.drivername == "sqlite":
        return _is_store_file(Path(parsed.database or ""))
    engine = Engine(url)
    try:
        return engine.read(lambda connection: sa.inspect(connection).has_table(schema.name))
    finally:
        engine.close()


def _is_store_file(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            return database.execute(query, (schema.name,)).fetchone() is not None
    except sqlite3.Error:
        return True  # something is wrong with it, which whoever opens it will be told


def _how_many(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(*conditions).scalar_subquery()


# What can be wrong


def _problems(connection: sa.Connection) -> list[str]:
    damage = _damage(connection)
    if damage:
        return damage  # what the tables would say now means nothing
    looks = (_ledger, _orphaned, _miscounted, _formats, _unreadable)
    return [problem for look in looks for problem in _first(look(connection))]


def _first(problems: Generator[str]) -> Iterator[str]:
    """The first so many, and a last line if there are more."""
    with closing(problems):
        for number, problem in enumerate(problems):
            if number == MOST:
                yield "there is more of this kind"
                return
            yield problem


def _damage(connection: sa.Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    try:
        found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    except DatabaseError as error:
        found = [error.orig]
    return [f"the file is damaged: {line}" for line in found if line != "ok"]


def _ledger(connection: sa.Connection) -> Generator[str]:
    wrong = sa.select(sessions).where(sessions.c.committed > sessions.c.generation)
    for row in _each(connection, wrong.order_by(sessions.c.session_id)):
        yield (
            f"session {row.session_id!r}: {row.committed} turns are committed and only "
            f"{row.generation} completed"
        )
    unmarked = sa.select(sessions).where((sessions.c.generation > sessions.c.committed) != DIRTY)
    for row in _each(connection, unmarked.order_by(sessions.c.session_id)):
        yield (
            f"session {row.session_id!r}: {row.committed} of {row.generation} turns are committed, and "
            "it is not marked so"
        )


def _orphaned(connection: sa.Connection) -> Generator[str]:
    belongs = sa.exists().where(sessions.c.session_id == messages.c.session_id)
    for row in _each(connection, sa.select(messages).where(~belongs).order_by(messages.c.id)):
        yield f"message {row.id}: there is no session {row.session_id!r}"


def _miscounted(connection: sa.Connection) -> Generator[str]:
    there = sa.func.count(messages.c.id).label("there")
    last = sa.func.coalesce(sa.func.max(messages.c.position), 0).label("last")
    statement = (
        sa.select(sessions.c.session_id, sessions.c.message_count, sessions.c.last_position, there, last)
        .select_from(sessions.outerjoin(messages))
        .group_by(sessions.c.session_id)
        .having(sa.or_(there != sessions.c.message_count, last > sessions.c.last_position))
        .order_by(sessions.c.session_id)
    )
    for row in _each(connection, statement):
        if row.there != row.message_count:
            yield f"session {row.session_id!r}: it says {row.message_count} messages and has {row.there}"
        if row.last > row.last_position:
            yield (
                f"session {row.session_id!r}: its last position is said to be {row.last_position} "
                f"and is {row.last}"
            )


def _formats(connection: sa.Connection) -> Generator[str]:
    unknown = sa.select(messages).where(messages.c.format.not_in(("text", "json")))
    for row in _each(connection, unknown.order_by(*IN_ORDER)):
        yield f"{_which(row)}: its format {row.format!r} is unknown"


def _unreadable(connection: sa.Connection) -> Generator[str]:
    encoded = sa.select(messages).where(messages.c.format == "json")
    for row in _each(connection, encoded.order_by(*IN_ORDER)):
        try:
            json.loads(row.content)
        except (ValueError, RecursionError) as error:
            yield f"{_which(row)}: its content is no JSON: {error}"


def _which(row: Any) -> str:
    return f"session {row.session_id!r}, message {row.position}"


def _each(connection: sa.Connection, statement: sa.Executable) -> Iterator[Any]:
    """The rows, a few at a time: a store may be larger than memory."""
    with connection.execute(statement, execution_options={"yield_per": 200}) as rows:
        yield from rows
