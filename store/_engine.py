"""Transactions, the same for SQLite and PostgreSQL.

The ways to a connection:

    with engine.write() as connection:     one transaction: committed on leaving, rolled back by an error
    with engine.read() as connection:      one snapshot: all statements see the same state
    with engine.writing() as connection:   the same as `write()`, for statements that are run often: what
                                           `run()` takes, without a connection of SQLAlchemy, which takes
                                           longer to make than a row takes to be written

SQLite: a write transaction begins as one (BEGIN IMMEDIATE). One that begins by reading and then writes
fails at once if somebody wrote in between, whatever the busy timeout.

PostgreSQL: READ COMMITTED and row locks for writing, REPEATABLE READ for reading.

Durability "full" waits for the disk with each commit. "normal" does not: a commit survives the end of
the process, and after a power failure the last moments may be missing, but nothing before them.

Where connections come from, who waits for one and for how long: `_connect`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from greenroom.store._connect import connect, use_write_ahead_log
from greenroom.store._errors import StoreClosed, StoreError, StoreUnavailable
from greenroom.store._prepared import PreparedStatements
from greenroom.store._url import is_memory, parse_url, show_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from sqlalchemy.pool import Pool, PoolProxiedConnection

    from greenroom.store._prepared import Answer

__all__ = ["DURABILITIES", "AnyConnection", "Engine", "check_durability"]

DURABILITIES = ("full", "normal", "off")
"""What a store can be asked for. It writes with "off" as it does with "normal"."""

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL", "off": "NORMAL"}
_SYNCHRONOUS_COMMIT = {"full": "on", "normal": "off", "off": "off"}

AnyConnection: TypeAlias = "sa.Connection | PoolProxiedConnection"
"""What statements can be run on."""

_inherited: list[Pool] = []
"""Pools of a parent process. They are kept for good: closing their connections is its business."""


def check_durability(durability: str) -> str:
    """`ValueError` for what is none."""
    if durability not in DURABILITIES:
        raise ValueError(f"durability={durability!r}: it is one of {', '.join(DURABILITIES)}")
    return durability


class Engine:
    """The database behind a store."""

    def __init__(self, url: str, *, durability: str = "full") -> None:
        self.durability = check_durability(durability)
        parsed = parse_url(url)
        self.url = show_url(parsed)
        """Without secrets."""
        self.is_memory = is_memory(parsed)
        self.path = None if self.is_memory or parsed.drivername != "sqlite" else parsed.database
        """The file, if it is one."""
        self.closed = False
        engines = connect(parsed, synchronous_commit=_SYNCHRONOUS_COMMIT[durability])
        self._writer, self._reader, self._clerk = engines
        self.dialect_name: str = self._writer.dialect.name
        """"sqlite" or "postgresql"."""
        self._prepared = PreparedStatements(self._writer.dialect)
        self.errors: tuple[type[Exception], ...] = (
            SQLAlchemyError,
            self._writer.dialect.loaded_dbapi.Error,
        )
        """What a database raises, through SQLAlchemy or past it."""
        if self.path is not None:
            try:
                with self._translated(), self._writer.connect() as connection:
                    use_write_ahead_log(_raw(connection))
            except BaseException:
                self.close()
                raise
            found = os.stat(self.path)
            self._file = (found.st_dev, found.st_ino)

    @property
    def dialect(self) -> sa.Dialect:
        """What compiles statements for this database."""
        return self._writer.dialect

    # Transactions

    @contextmanager
    def write(self, durability: str | None = None) -> Iterator[sa.Connection]:
        """One transaction that writes."""
        wanted = self.durability if durability is None else check_durability(durability)
        if self.path is not None:
            self._check_file()
        with self._translated(), self._writer.connect() as connection:
            self._begin(connection.connection, wanted)
            transaction = connection.get_transaction() or connection.begin()
            yield connection
            transaction.commit()

    def _check_file(self) -> None:
        """A file that was deleted or replaced can still be written to, and nobody would ever read it."""
        try:
            found = os.stat(self.path or "")
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            if self.closed:
                raise self.closed_error()
            raise StoreUnavailable(
                f"the file of {self.url} was deleted or replaced: put it back, or close the store and "
                "open it again"
            )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One snapshot. What is written here is rolled back."""
        with self._translated(), self._reader.connect() as connection:
            if self.dialect_name == "sqlite":
                _raw(connection).execute("BEGIN")
            yield connection

    def writing(self, durability: str | None = None, *, ledger: bool = False) -> Writing:
        """One transaction that writes, quickly."""
        wanted = self.durability if durability is None else check_durability(durability)
        return Writing(self, self._clerk if ledger else self._writer, wanted)

    def run(
        self,
        connection: AnyConnection,
        statement: sa.ClauseElement,
        values: dict[str, Any],
    ) -> Answer:
        """Run a statement that is run often: one that is built once and kept."""
        proxied = connection.connection if isinstance(connection, sa.Connection) else connection
        return self._prepared.run(proxied, statement, values)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self.closed:
            raise self.closed_error()
        pools = (self._writer.pool, self._reader.pool)
        try:
            yield
        except self.errors as error:
            raise self.unavailable(error) from error
        finally:
            self._close_what_came_back(pools)

    def _close_what_came_back(self, pools: tuple[Pool, ...]) -> None:
        # 1. a thread takes a connection  2. another closes us, and all that is idle  3. the first gives
        # its connection back, to a pool that nobody will look into. So it does that itself.
        if self.is_closed():
            for pool in pools:
                pool.dispose()
            self._dispose()

    def is_closed(self) -> bool:
        """Whether `close()` was called, by any thread."""
        return self.closed

    def unavailable(self, error: Exception) -> StoreError:
        """The error of ours for one of the database's."""
        if self.closed:
            return self.closed_error()
        unavailable = StoreUnavailable(_explain(self.url, error))
        # One row, and not the database: whoever wanted several may try them one by one.
        unavailable.temporary = "lock timeout" not in str(error)
        return unavailable

    def closed_error(self) -> StoreClosed:
        """What a call gets after `close()`."""
        return StoreClosed(f"the store {self.url} is closed: open_store() opens it again")

    def _begin(self, proxied: PoolProxiedConnection, durability: str) -> None:
        raw: Any = proxied.driver_connection
        if self.dialect_name == "sqlite":
            # It belongs to the connection, and cannot be set within a transaction.
            level = _SYNCHRONOUS[durability]
            if proxied.info.get("synchronous") != level:
                raw.execute(f"PRAGMA synchronous = {level}")
                proxied.info["synchronous"] = level
            raw.execute("BEGIN IMMEDIATE")
        elif _SYNCHRONOUS_COMMIT[durability] != _SYNCHRONOUS_COMMIT[self.durability]:
            raw.execute(f"SET LOCAL synchronous_commit = {_SYNCHRONOUS_COMMIT[durability]}")

    # The end

    def close(self) -> None:
        """Close the connections. What is under way ends as it would have."""
        self.closed = True
        self._dispose()

    def _dispose(self) -> None:
        self._writer.dispose()
        self._reader.dispose()
        self._clerk.dispose()

    def after_fork(self) -> None:
        """Leave the parent's connections to the parent. A database in memory was copied with us."""
        if self.is_memory:
            return
        for engine in (self._writer, self._reader, self._clerk):
            _inherited.append(engine.pool)
            engine.dispose(close=False)


class Writing:
    """A transaction on a connection of the pool: committed on leaving, rolled back by an error."""

    __slots__ = ("_connections", "_durability", "_engine", "_pool", "_proxied")

    def __init__(self, engine: Engine, connections: sa.Engine, durability: str) -> None:
        self._engine = engine
        self._connections = connections
        self._durability = durability
        self._pool = connections.pool

    def __enter__(self) -> PoolProxiedConnection:
        engine = self._engine
        if engine.closed:
            raise engine.closed_error()
        if engine.path is not None:
            engine._check_file()
        try:
            self._proxied = self._connections.raw_connection()
        except engine.errors as error:
            raise engine.unavailable(error) from error
        try:
            engine._begin(self._proxied, self._durability)
        except BaseException as error:
            self._give_back()
            if isinstance(error, engine.errors):
                raise engine.unavailable(error) from error
            raise
        return self._proxied

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        engine = self._engine
        try:
            if exception_type is None:
                self._proxied.commit()
        except engine.errors as error:
            raise engine.unavailable(error) from error
        finally:
            self._give_back()
        if isinstance(exception, engine.errors):
            raise engine.unavailable(exception) from exception

    def _give_back(self) -> None:
        try:
            self._proxied.close()  # which rolls back what is not committed
        finally:
            self._engine._close_what_came_back((self._pool,))


def _raw(connection: sa.Connection) -> Any:
    """The driver's own connection."""
    return connection.connection.driver_connection


_ADVICE = (
    ("locked", "another program holds a write transaction: end it, or try again"),
    ("full", "make room on the disk"),
    ("readonly", "see to the permissions of the file and its folder"),
    ("unable to open", "see to the permissions of the file and its folder"),
    ("malformed", "the file is damaged: restore a backup"),
    ("not a database", "the file is no SQLite database: choose another"),
    ("QueuePool limit", "other threads have all connections: keep transactions short"),
    ("timeout", "another program holds a lock, or the server is overloaded: try again"),
)


def _explain(url: str, error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    # The first line: what follows may quote a row.
    what = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
    advice = next(
        (advice for word, advice in _ADVICE if word in what), "see to the database, or try again"
    )
    return f"the store {url} cannot be used now: {what}; {advice}"
