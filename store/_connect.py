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
import sqlite3
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from greenroom.store._errors import StoreUnavailable
from greenroom.store._pool import Pool
from greenroom.store._url import is_memory

__all__ = ["Pools", "connect", "use_write_ahead_log", "wait_readable"]

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
    writer = _postgresql(url, PATIENCE)
    # To change what a connection waits for takes a round trip: so there is one for each.
    return writer, writer, _postgresql(url, LEDGER_PATIENCE), _postgresql(url, LEDGER_PATIENCE)


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
    return Pool(engine, size, first="PRAGMA foreign_keys = ON", patience=PATIENCE)


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


def _postgresql(url: sa.URL, lock_patience: float) -> Pool:
    arguments = {
        "autocommit": True,
        "connect_timeout": int(PATIENCE),
        "client_encoding": "utf8",
        "fallback_application_name": "greenroom",
    }
    try:
        engine = sa.create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={name: value for name, value in arguments.items() if name not in url.query},
        )
    except ImportError as error:
        raise ModuleNotFoundError(
            "a store in PostgreSQL needs psycopg: pip install 'greenroom[postgres]'", name="psycopg"
        ) from error
    first = (
        f"SET statement_timeout = {PATIENCE * 1000:.0f}; SET lock_timeout = {lock_patience * 1000:.0f}"
    )
    return Pool(engine, 16, first=first, patience=PATIENCE, check=_ping_if_heard_of)


def _ping_if_heard_of(driver: Any) -> None:
    """Raise if a connection is broken. Ask only if unread data suggests that the server closed it, since
    asking takes a round trip."""
    if wait_readable(0.0, driver.pgconn.socket):
        driver.execute("SELECT 1")


def wait_readable(seconds: float, *sockets: int) -> bool:
    """Wait until one of them has something to read. It needs no file descriptor of its own, unlike
    `selectors`: a process that has run out of them can still hear."""
    if not hasattr(select, "poll"):  # Windows, where select() takes any socket
        return bool(select.select(sockets, [], [], seconds)[0])
    poll = select.poll()
    for socket in sockets:
        poll.register(socket, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
