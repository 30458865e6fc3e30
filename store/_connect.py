"""How a database is connected to: a pool for each use of it, and what every connection is told first.

SQLite: the threads of this process queue for the one connection that writes, instead of polling for
SQLite's lock, which is neither fair nor quick. Readers have others, and the write-ahead log sees to it
that they and the writer never wait for each other. A database in memory is its connection: there is one,
and everybody queues for that.

PostgreSQL: connecting, waiting for a lock and any statement end after 5 seconds, waiting for a row of
the ledger after a quarter of one. A silent network is noticed some seconds later. A connection that the
server has dropped is noticed when it is next taken from the pool, and replaced.

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

__all__ = ["BACKEND", "Pools", "connect", "use_write_ahead_log", "wait_readable"]

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
    clerk = _pool(engine, LEDGER_PATIENCE, fence=_wait_for_end)
    return writer, writer, clerk, _pool(engine, LEDGER_PATIENCE, fence=_wait_for_end, beside=clerk)


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


BACKEND = "backend"
"""In the `info` of a connection: the number of the server's process for it, and when that began. Missing
behind a pooler, where it may be another one for each transaction."""

_BEGIN = """SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();
SET statement_timeout = {:.0f}; SET lock_timeout = {:.0f}"""
_END = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_start = %s"""


def _postgresql(url: sa.URL) -> sa.Engine:
    arguments: dict[str, Any] = {
        "autocommit": True,
        "connect_timeout": int(PATIENCE),
        "client_encoding": "utf8",
        "fallback_application_name": "greenroom",
        "keepalives_idle": int(PATIENCE),
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }
    try:
        from psycopg import pq

        if pq.version() >= 120_000:
            arguments["tcp_user_timeout"] = int(PATIENCE * 1000)
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


def _pool(engine: sa.Engine, lock_patience: float, **options: Any) -> Pool:
    begin = _BEGIN.format(PATIENCE * 1000, lock_patience * 1000)

    def first(connection: PoolProxiedConnection) -> None:
        driver: Any = connection.dbapi_connection
        backend = driver.execute(begin).fetchone()
        if backend is not None and backend[0] == driver.info.backend_pid:
            connection.info[BACKEND] = backend

    return Pool(
        engine,
        16,
        first=first,
        patience=PATIENCE,
        plug=_socket_of,
        interrupt=lambda plug: plug.shutdown(socket.SHUT_RDWR),
        check=_ping_if_heard_of,
        **options,
    )


def _wait_for_end(driver: Any, connection: PoolProxiedConnection) -> None:
    """Have the server end what it does for a connection that was given up."""
    backend, deadline = connection.info.get(BACKEND), time.monotonic() + LEDGER_PATIENCE
    while backend is not None and driver.execute(_END, backend).fetchone():
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                "what was asked on a connection that was given up may still happen: try again"
            )
        time.sleep(0.005)


def _socket_of(driver: Any) -> socket.socket:
    """A copy: the driver may close its own at any time, and another file be opened under that number."""
    return socket.fromfd(driver.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM)


def _ping_if_heard_of(driver: Any) -> None:
    """Raise if a connection is broken. Ask only if unread data suggests that the server closed it, since
    asking takes a round trip."""
    if wait_readable(0.0, driver.pgconn.socket):
        driver.execute("SELECT 1")


def wait_readable(seconds: float, *files: int) -> bool:
    """Wait until one of them has something to read. It needs no file descriptor of its own, unlike
    `selectors`: a process that has run out of them can still hear."""
    if not hasattr(select, "poll"):  # Windows, where select() takes any socket
        return bool(select.select(files, [], [], seconds)[0])
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
