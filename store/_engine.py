"""Transactions and statements, the same for SQLite and PostgreSQL.

The ways to a connection, each of which calls `work` with one:

    engine.change(work)    one transaction: committed when `work` returns, rolled back if it raises
    engine.read(work)      one snapshot: all statements see the same state

Both give a connection of SQLAlchemy, which takes longer to make than a row takes to be written. What is
called often takes a connection of the pool instead, which is what `run()` takes:

    engine.write(work)       the same as `change()`
    engine.write_once(work)  one statement, which is its own transaction
    engine.look(work)        each statement sees the state of its own time

They are calls and not `with` blocks because a signal can end a block without running its `__exit__`
(`_pool`). `reading()` and `lent()` are blocks, for what has to be one.

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
thread had them. So a fork waits until nobody uses one (`_store`), and a thread that wants one meanwhile
waits for the fork. Both give up after a moment. If a connection is still in use then, the child cannot
use SQLite, and is told so.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from greenroom.store._connect import connect, use_write_ahead_log
from greenroom.store._errors import StoreClosed, StoreError, StoreUnavailable
from greenroom.store._pool import NoConnection
from greenroom.store._url import is_memory, parse_url, show_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._pool import Pool

__all__ = [
    "DURABILITIES",
    "FORK_PACE",
    "FORK_PATIENCE",
    "Answer",
    "Engine",
    "check_durability",
    "inherited",
]

T = TypeVar("T")

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
        self.writer, self.reader, self.clerk, self.hurried = connect(parsed)
        self.dialect = self.writer.engine.dialect
        """What compiles statements for this database. Its name is "sqlite" or "postgresql"."""
        self._begin = _BEGIN[self.dialect.name]
        waits, hurries = _DURABLE[self.dialect.name]
        self._durable = {"full": waits, "normal": hurries, "off": hurries}
        self._compiled: dict[sa.ClauseElement, _Compiled] = {}
        self.errors = (SQLAlchemyError, self.dialect.loaded_dbapi.Error, NoConnection)
        """What a database raises, through SQLAlchemy or past it, and what the pool does."""
        if self.path is not None:
            try:
                self.call(self.writer, use_write_ahead_log)
            except BaseException:
                self.close()
                raise
            self._file = os.stat(self.path)

    # Transactions

    def look(self, work: Callable[[PoolProxiedConnection], T]) -> T:
        """Call with a connection that reads. Each statement sees the state of its own time."""
        return self.call(self.reader, work)

    def write(
        self,
        work: Callable[[PoolProxiedConnection], T],
        durability: str | None = None,
        pool: Pool | None = None,
        owner: str | None = None,
    ) -> T:
        """Call within a transaction that writes: committed when it returns, rolled back if it raises."""
        self.check_file()

        def in_a_transaction(connection: PoolProxiedConnection) -> T:
            self.begin(connection, durability)
            result = work(connection)
            connection.commit()
            return result

        return self.call(pool or self.writer, in_a_transaction, owner)

    def write_once(self, work: Callable[[PoolProxiedConnection], T], durability: str | None = None) -> T:
        """Call to run one statement that writes, which is a transaction of its own."""
        self.check_file()

        def run(connection: PoolProxiedConnection) -> T:
            self.make_durable(connection, durability)
            return work(connection)

        return self.call(self.writer, run)

    def change(self, work: Callable[[sa.Connection], T], durability: str | None = None) -> T:
        """The same with a connection of SQLAlchemy's, which takes longer to make than a row to write."""
        return self.write(
            lambda connection: work(sa.Connection(self.writer.engine, connection)), durability
        )

    def read(self, work: Callable[[sa.Connection], T], *, unhurried: bool = False) -> T:
        """Call with a snapshot: all statements see the same state. What is written is rolled back.

        Unhurried: statements may take as long as they need.
        """
        return self.call(self.reader, lambda connection: work(self._snapshot(connection, unhurried)))

    @contextmanager
    def reading(self, *, unhurried: bool = False) -> Iterator[sa.Connection]:
        """The same for a block."""
        with self.lent(self.reader) as connection:
            yield self._snapshot(connection, unhurried)

    def _snapshot(self, connection: PoolProxiedConnection, unhurried: bool) -> sa.Connection:
        driver: Any = connection.dbapi_connection
        driver.execute(_SNAPSHOT[self.dialect.name])
        if unhurried and self.dialect.name == "postgresql":
            driver.execute("SET LOCAL statement_timeout = 0")
        return sa.Connection(self.reader.engine, connection)

    def call(
        self, pool: Pool, work: Callable[[PoolProxiedConnection], T], owner: str | None = None
    ) -> T:
        """Call with a connection of a pool. `interrupt(owner)` has it fail."""
        if Engine.forking:
            Engine.let_fork()
        self.check_open()
        try:
            return pool.call(work, owner)
        except self.errors as error:
            raise self.unavailable(error) from error

    def interrupt(self, owner: str) -> None:
        """Have the calls of this owner fail. What they do may happen all the same."""
        for pool in self._pools():
            pool.interrupt(owner)

    @contextmanager
    def lent(self, pool: Pool) -> Iterator[PoolProxiedConnection]:
        """A connection of a pool, for a block."""
        if Engine.forking:
            Engine.let_fork()
        self.check_open()
        try:
            with pool.lent() as connection:
                yield connection
        except self.errors as error:
            raise self.unavailable(error) from error

    def begin(self, connection: PoolProxiedConnection, durability: str | None) -> None:
        """Begin a transaction that writes."""
        self.make_durable(connection, durability)
        driver: Any = connection.dbapi_connection
        driver.execute(self._begin)

    def make_durable(self, connection: PoolProxiedConnection, durability: str | None) -> None:
        """Have commits of a connection wait for the disk, or not."""
        wanted = self.durability if durability is None else check_durability(durability)
        # It belongs to the connection, and SQLite cannot set it within a transaction.
        setting = self._durable[wanted]
        if connection.info.get("durable") != setting:
            driver: Any = connection.dbapi_connection
            driver.execute(setting)
            connection.info["durable"] = setting

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
        cursor = driver.execute(text, {**defaults, **values, "clock_shift": self.clock_shift})
        rows: list[tuple[Any, ...]] = [] if cursor.description is None else cursor.fetchall()
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
        for pool in self._pools():
            pool.close()

    def _pools(self) -> set[Pool]:
        return {self.writer, self.reader, self.clerk, self.hurried}

    @staticmethod
    def let_fork() -> None:
        """Wait while a thread forks. Not for long: it may be this one, in what a fork calls."""
        deadline = time.monotonic() + FORK_PATIENCE
        while Engine.forking and time.monotonic() < deadline:
            time.sleep(FORK_PACE)

    def before_fork(self) -> None:
        """Close what could not be closed yet."""
        for pool in self._pools():
            pool.tidy()

    def in_use(self) -> bool:
        """Whether a thread uses a connection of SQLite."""
        return self.dialect.name == "sqlite" and any(pool.in_use() for pool in self._pools())

    def after_fork(self, *, idle: bool) -> None:
        """Leave the parent's connections to the parent. A database in memory was copied with us."""
        for pool in self._pools():
            inherited.append(pool.leave_to_parent(close=idle and self.path is not None))


_ADVICE = (
    ("locked", "another program holds a write transaction: end it, or try again"),
    ("full", "make room on the disk"),
    ("readonly", "see to the permissions of the file and its folder"),
    ("unable to open", "see to the permissions of the file and its folder"),
    ("malformed", "the file is damaged: restore a backup"),
    ("not a database", "the file is no SQLite database: choose another"),
    ("every connection", "keep transactions short"),
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
