"""Transactions and statements, the same for SQLite and PostgreSQL.

The ways to a connection:

    with engine.write() as connection:     one transaction: committed on leaving, rolled back by an error
    with engine.read() as connection:      one snapshot: all statements see the same state

Both give a connection of SQLAlchemy, which takes longer to make than a row takes to be written. What is
called often takes a connection of the pool instead, which is what `run()` takes:

    with engine.writing() as connection:                   the same as `write()`
    with engine.connected(engine.reader) as connection:    each statement sees the state of its own time

SQLite: a write transaction begins as one (BEGIN IMMEDIATE). One that begins by reading and then writes
fails at once if somebody wrote in between, whatever the busy timeout.

PostgreSQL: READ COMMITTED and row locks for writing, REPEATABLE READ for a snapshot.

Durability "full" waits for the disk with each commit. "normal" does not: a commit survives the end of
the process, and after a power failure the last moments may be missing, but nothing before them.

`run()` takes statements that are built once, compiles each once for the database, and runs it on the
driver's own connection. SQLAlchemy builds and compiles them, and keeps the connections. Running them is
left to the driver: finding a compiled statement again and wrapping up its answer takes SQLAlchemy
several times as long as SQLite takes to run it, and those of the ledger are run with every turn. What is
lost is the conversion of results: a boolean may come as 0 or 1.

Where connections come from, who waits for one and for how long: `_connect`.

A fork copies connections, and a child must not use its parent's. Those to a server are left alone for
good. Those to an SQLite file are closed in the child. SQLite asks the system for locks once for all
connections of a process to a file, and notes in memory that it has them:

    1. the child opens the file; its SQLite finds the parent's notes, and asks for no lock
    2. the parent closes its last connection, sees no lock of anybody, and deletes the write-ahead log
    3. the child goes on writing to the deleted log, and nobody will ever read that

Closing an idle connection removes the notes and nothing else: only who has the file alone deletes the
log, and the parent still has its lock. A connection that a thread is using at the fork cannot be closed:
its transaction is in memory that the parent shares, and in the child SQLite's mutexes stay as that
thread had them. So a fork waits until nobody uses one (`_store`), and whoever wants one meanwhile waits
for the fork. Both give up after a moment. If a connection is still in use then, the child cannot use
SQLite, and is told so.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from greenroom.store._connect import connect, use_write_ahead_log
from greenroom.store._errors import StoreClosed, StoreError, StoreUnavailable
from greenroom.store._url import is_memory, parse_url, show_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

__all__ = [
    "DURABILITIES",
    "FORK_PACE",
    "FORK_PATIENCE",
    "Answer",
    "Engine",
    "check_durability",
    "inherited",
]

DURABILITIES = ("full", "normal", "off")
"""What a store can be asked for. It writes with "off" as it does with "normal"."""

_BEGIN = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED"}
_SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ"}
_DURABLE = {
    "sqlite": ("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"),
    "postgresql": ("SET synchronous_commit = on", "SET synchronous_commit = off"),
}
"""What a connection is told: to wait for the disk, and not to."""

_Compiled = tuple[str, dict[str, Any]]
"""A statement's text, and its parameters by name with their defaults."""

FORK_PATIENCE, FORK_PACE = 1.0, 0.0005
"""How many seconds a fork waits until no thread uses SQLite, and how often it looks."""

inherited: list[object] = []
"""What has connections of a parent process. It is kept for good: closing them is its business."""


def check_durability(durability: str) -> str:
    """`ValueError` for what is none."""
    if durability not in DURABILITIES:
        raise ValueError(f"durability={durability!r}: it is one of {', '.join(DURABILITIES)}")
    return durability


@dataclass(slots=True)
class Answer:
    """What a statement gave."""

    rows: list[tuple[Any, ...]]
    count: int
    """How many rows it changed."""

    def row(self) -> tuple[Any, ...] | None:
        """The only row, if there is one."""
        return self.rows[0] if self.rows else None

    def value(self) -> Any:
        """The only column of the only row, or `None` if there is no row."""
        return self.rows[0][0] if self.rows else None


class Engine:
    """The database behind a store."""

    forking: ClassVar[bool] = False
    """Whether a thread is about to fork."""

    sqlite_is_lost: ClassVar[bool] = False
    """Whether this process was forked while a thread was using SQLite."""

    def __init__(self, url: str, *, durability: str = "full") -> None:
        self.durability = check_durability(durability)
        parsed = parse_url(url)
        self.url = show_url(parsed)
        """Without secrets."""
        self.is_memory = is_memory(parsed)
        self.path = parsed.database if parsed.drivername == "sqlite" else None
        """The file, if it is one."""
        self.closed = False
        self.clock_shift = 0.0
        """By how many seconds statements see the clock ahead. The tests of leases move it."""
        self._engines = connect(parsed)
        self.writer, self.reader, self.clerk = self._engines
        self.dialect = self.writer.dialect
        """What compiles statements for this database. Its name is "sqlite" or "postgresql"."""
        self._begin = _BEGIN[self.dialect.name]
        waits, hurries = _DURABLE[self.dialect.name]
        self._durable = {"full": waits, "normal": hurries, "off": hurries}
        self._compiled: dict[sa.ClauseElement, _Compiled] = {}
        self.errors: tuple[type[Exception], ...] = (SQLAlchemyError, self.dialect.loaded_dbapi.Error)
        """What a database raises, through SQLAlchemy or past it."""
        self._entries: weakref.WeakSet[ConnectionPoolEntry] = weakref.WeakSet()
        """Of the pools of SQLite, whose connections a forked child closes."""
        if self.dialect.name == "sqlite":
            entries = self._entries

            def note(_raw: Any, entry: ConnectionPoolEntry) -> None:
                entries.add(entry)

            for engine in set(self._engines):
                event.listen(engine, "connect", note)
        if self.path is not None:
            try:
                with self.connected(self.writer) as connection:
                    use_write_ahead_log(connection.dbapi_connection)
            except BaseException:
                self.close()
                raise
            self._file = os.stat(self.path)

    # Transactions

    @contextmanager
    def write(self, durability: str | None = None) -> Iterator[sa.Connection]:
        """One transaction that writes."""
        with self.writing(durability) as connection:
            yield sa.Connection(self.writer, connection)

    @contextmanager
    def read(self, *, unhurried: bool = False) -> Iterator[sa.Connection]:
        """One snapshot. What is written here is rolled back.

        Unhurried: statements may take as long as they need.
        """
        with self.connected(self.reader) as connection:
            driver: Any = connection.dbapi_connection
            driver.execute(_SNAPSHOT[self.dialect.name])
            if unhurried and self.dialect.name == "postgresql":
                driver.execute("SET LOCAL statement_timeout = 0")
            yield sa.Connection(self.reader, connection)

    @contextmanager
    def writing(self, durability: str | None = None) -> Iterator[PoolProxiedConnection]:
        """One transaction that writes, quickly."""
        self.check_file()
        with self.connected(self.writer) as connection:
            self.begin(connection, durability)
            yield connection
            connection.commit()

    def connected(self, engine: sa.Engine) -> Connected:
        """A connection of a pool, for a block."""
        return Connected(self, engine)

    def begin(self, connection: PoolProxiedConnection, durability: str | None) -> None:
        """Begin a transaction that writes."""
        wanted = self.durability if durability is None else check_durability(durability)
        driver: Any = connection.dbapi_connection
        # It belongs to the connection, and SQLite cannot set it within a transaction.
        setting = self._durable[wanted]
        if connection.info.get("durable") != setting:
            driver.execute(setting)
            connection.info["durable"] = setting
        driver.execute(self._begin)

    def check_file(self) -> None:
        """A file that was deleted or replaced can still be written to, and nobody would ever read it."""
        if self.path is None:
            return
        try:
            same = os.path.samestat(os.stat(self.path), self._file)
        except OSError:
            same = False
        if not same:
            self.check_open()
            raise StoreUnavailable(
                f"the file of {self.url} was deleted or replaced: put it back, or close the store and "
                "open it again"
            )

    # Statements

    def run(
        self, connection: PoolProxiedConnection, statement: sa.ClauseElement, values: dict[str, Any]
    ) -> Answer:
        """Run a statement that is run often: one that is built once and kept.

        Values that it has no parameters for are left aside.
        """
        text, defaults = self._compiled.get(statement) or self._compile(statement)
        driver: Any = connection.dbapi_connection
        try:
            cursor = driver.execute(text, {**defaults, **values, "clock_shift": self.clock_shift})
            rows: list[tuple[Any, ...]] = [] if cursor.description is None else cursor.fetchall()
        except self.errors as error:
            if self.dialect.is_disconnect(error, driver, None):  # type: ignore[arg-type]  # drivers raise theirs
                connection.invalidate(error)  # the pool shall not give it to the next one
            raise
        return Answer(rows, cursor.rowcount)

    def _compile(self, statement: sa.ClauseElement) -> _Compiled:
        # Two threads may do this at once. Either result is good.
        compiled: Any = statement.compile(dialect=self.dialect)
        self._compiled[statement] = str(compiled), dict(compiled.params)
        return self._compiled[statement]

    # Errors

    def check_open(self) -> None:
        """Raise if the store is closed."""
        if self.closed:
            raise self._closed_error()
        if Engine.sqlite_is_lost and self.dialect.name == "sqlite":
            raise StoreUnavailable(
                f"{self.url} cannot be used here: the parent process was in the middle of a transaction "
                "when it forked, and SQLite does not survive that. Fork earlier, or spawn a process"
            )

    def unavailable(self, error: Exception) -> StoreError:
        """The error of ours for one of the database's."""
        if self.closed:
            return self._closed_error()
        unavailable = StoreUnavailable(_explain(self.url, error))
        # One row, and not the database: whoever wanted several may try them one by one.
        unavailable.temporary = "lock timeout" not in str(error)
        return unavailable

    def _closed_error(self) -> StoreClosed:
        return StoreClosed(f"the store {self.url} is closed: open_store() opens it again")

    # The end

    def close(self) -> None:
        """Close the connections. What is under way ends as it would have."""
        self.closed = True
        self._close_what_came_back()

    def _close_what_came_back(self) -> None:
        # 1. a thread takes a connection  2. another closes us, and all that is idle  3. the first gives
        # its connection back, to a pool that nobody will look into. So it does that itself.
        if self.closed:
            for engine in self._engines:
                engine.pool.dispose()

    @staticmethod
    def let_fork() -> None:
        """Wait while a thread forks. Not for long: it may be this one, in what a fork calls."""
        deadline = time.monotonic() + FORK_PATIENCE
        while Engine.forking and time.monotonic() < deadline:
            time.sleep(FORK_PACE)

    def in_use(self) -> bool:
        """Whether a thread uses a connection of SQLite."""
        return any(entry.in_use for entry in list(self._entries))

    def after_fork(self, *, idle: bool) -> None:
        """Leave the parent's connections to the parent. A database in memory was copied with us."""
        if self.is_memory:
            return
        if idle:
            for entry in list(self._entries):
                entry.close()
        self._entries.clear()
        for engine in self._engines:
            inherited.append(engine.pool)
            engine.dispose(close=False)


class Connected:
    """A connection of a pool, for a block. Giving it back rolls back what is not committed.

    It is on the path of every turn, where a generator with `@contextmanager` would take longer.
    """

    __slots__ = ("_connection", "_engine", "_source")

    def __init__(self, engine: Engine, source: sa.Engine) -> None:
        self._engine = engine
        self._source = source

    def __enter__(self) -> PoolProxiedConnection:
        if Engine.forking:
            Engine.let_fork()
        self._engine.check_open()
        try:
            self._connection = self._source.raw_connection()
        except self._engine.errors as error:
            raise self._engine.unavailable(error) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self._connection.close()
        finally:
            self._engine._close_what_came_back()
        if isinstance(error, self._engine.errors):
            raise self._engine.unavailable(error) from error


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
