"""How a database is connected to: a pool for each use of it, and what every connection is told first.

SQLite: the threads of this process queue for the one connection that writes, instead of polling for
SQLite's lock, which is neither fair nor quick. Readers have others, and the write-ahead log sees to it
that they and the writer never wait for each other. A database in memory is its connection: there is one,
and everybody queues for that.

PostgreSQL: connecting, waiting for a lock and any statement end after 5 seconds, waiting for a row of
the ledger after a quarter of one. A connection that the server has dropped is noticed when it is next
taken from the pool, and replaced.

The drivers begin no transaction by themselves, `_engine` does. A single
statement that reads needs none, which saves two round trips to a server.

Nothing is connected to before the first use.
"""

from __future__ import annotations

import select
import socket
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from greenroom.store._errors import StoreUnavailable
from greenroom.store._pool import Pool
from greenroom.store._url import is_memory

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

__all__ = ["Pools", "connect", "use_write_ahead_log"]

PATIENCE = 5.0
"""For how many seconds anything waits: for a connection, for a lock, for a statement."""

LEDGER_PATIENCE = 0.25
"""The same for a row of the ledger that somebody else has locked (PostgreSQL). It is shorter because
others' turns wait in the same transaction."""


Pools = tuple[Pool, Pool, Pool, Pool]
"""For writing, for reading, for transactions on the ledger, and for what of it never waits for the disk.
Some of them may be the same."""


def connect(url: sa.URL) -> Pools:
    """The pools for a URL that `parse_url()` has allowed."""
    if url.drivername == "sqlite":
        writer = _sqlite(url, 1)
        return writer, writer if is_memory(url) else _sqlite(url, 8), writer, writer
    # One engine: each looks at the server when it first connects, and nothing would end that.
    engine = _postgresql(url)
    # To change what a connection waits for takes a round trip: so there is one for each.
    writer = _pool(engine, PATIENCE)
    return writer, writer, _pool(engine, LEDGER_PATIENCE), _pool(engine, LEDGER_PATIENCE)


# SQLite


def _sqlite(url: sa.URL, size: int) -> Pool:
    if sqlite3.sqlite_version_info < (3, 35):
        raise StoreUnavailable(
            f"SQLite {sqlite3.sqlite_version} is too old: upgrade to 3.35, or use PostgreSQL"
        )
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        paramstyle="named",  # as PostgreSQL's driver has them
        connect_args={"isolation_level": None, "timeout": PATIENCE, "check_same_thread": False},
    )
    return Pool(
        engine,
        size,
        first=_use_foreign_keys,
        patience=PATIENCE,
        plug=lambda driver: driver,
        # It would hit the next who uses this connection: a database in memory is never closed.
        interrupt=bool if is_memory(url) else lambda driver: driver.interrupt(),
    )


def _use_foreign_keys(connection: PoolProxiedConnection) -> None:
    driver: Any = connection.dbapi_connection
    driver.execute("PRAGMA foreign_keys = ON")


def use_write_ahead_log(raw: Any) -> None:
    """Switch an SQLite file to the write-ahead log. The file remembers it."""
    # While others open the same new file, SQLite refuses this change without asking its busy timeout,
    # so that we have to ask again.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            (mode,) = raw.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise StoreUnavailable(
            f"the file system of this SQLite file allows no write-ahead log (journal_mode={mode!r}): "
            "put it on a local disk"
        )


# PostgreSQL


def _postgresql(url: sa.URL) -> sa.Engine:
    arguments: dict[str, Any] = {
        "autocommit": True,
        "connect_timeout": int(PATIENCE),
        "client_encoding": "utf8",
        "fallback_application_name": "greenroom",
    }
    try:
        return sa.create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={name: value for name, value in arguments.items() if name not in url.query},
        )
    except ImportError as error:
        raise ModuleNotFoundError(
            "a store in PostgreSQL needs psycopg: pip install 'greenroom[postgres]'", name="psycopg"
        ) from error


def _pool(engine: sa.Engine, lock_patience: float) -> Pool:
    begin = (
        f"SET statement_timeout = {PATIENCE * 1000:.0f}; SET lock_timeout = {lock_patience * 1000:.0f}"
    )

    def first(connection: PoolProxiedConnection) -> None:
        driver: Any = connection.dbapi_connection
        driver.execute(begin)

    return Pool(
        engine,
        16,
        first=first,
        patience=PATIENCE,
        plug=_socket_of,
        interrupt=lambda plug: plug.shutdown(socket.SHUT_RDWR),
        check=_ping_if_heard_of,
    )


def _socket_of(driver: Any) -> socket.socket:
    """A copy: the driver may close its own at any time, and another file be opened under that number."""
    return socket.fromfd(driver.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM)


def _ping_if_heard_of(driver: Any) -> None:
    """Raise if a connection is broken. Ask only if unread data suggests that the server closed it, since
    asking takes a round trip."""
    if _is_readable(driver.pgconn.socket):
        driver.execute("SELECT 1")


def _is_readable(file: int) -> bool:
    if not hasattr(select, "poll"):  # Windows, where select() takes any socket
        return bool(select.select([file], [], [], 0)[0])
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
