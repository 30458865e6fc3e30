"""A room's lock in PostgreSQL: an advisory lock of a session, on a connection of its own.

The server frees it when the connection ends: at once if the process is killed, after its TCP keepalives
(or `client_connection_check_interval` and the like) if the machine is gone.

A thread watches the connection. When it is cut, or does not answer for `PATIENCE`, the lock is lost: the
thread connects again, every `PACE` until that works, takes a lock under a new key and writes that into
the room's row. All of it takes some milliseconds, and must take less than others wait between two looks.
A connection that was cut has lost its lock already. One that only does not answer may still have it, and
would lose it if it was closed: so that waits until the row names another lock.

What a look finds free tells nothing if the server was started after the key was written down. When one
of its processes crashes, it ends all sessions and frees their locks, and still names the time at which
it was started. But it forgets its statistics then: so the time since which it has them counts, too.

A pooler that gives a connection another session for each transaction breaks these locks. It shows: it
tells the client another process id than the server does.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from greenroom.store._alive import NoLock
from greenroom.store._connect import wait_readable
from greenroom.store._engine import inherited
from greenroom.store._tables import CLOCK, rooms

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine

__all__ = ["ServerLock", "ServerLocks"]

PING = 2.0
"""How often the connection is tried, in seconds."""

PATIENCE = 2.0
"""How long it may take to answer."""

PACE = 0.1
"""How often a lost connection is replaced, or tried to be."""

_WORLD = """concat(
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, '-',
    (SELECT (extract(epoch FROM stats_reset) * 1000000)::bigint FROM pg_stat_bgwriter)
)"""
_TAKE = f"SELECT pg_backend_pid(), pg_try_advisory_lock($1), {_WORLD}"
_SAY = f"""UPDATE {rooms.name} SET lock_name = $1
WHERE room = $2 AND expires > {CLOCK["postgresql"]} + $3::double precision RETURNING room"""
_TAKEN = f"""SELECT {_WORLD}, array(
    SELECT classid::bigint << 32 | objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""


class ServerLocks:
    """The locks of one PostgreSQL database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take(self, owner: str) -> ServerLock:
        """Connect, and take a lock under a new key."""
        return ServerLock(self._engine, owner)

    def free(self, names: Collection[str]) -> set[str]:
        """Which of these the server does not list, although it has been well since."""
        if not names:
            return set()

        def look(connection: PoolProxiedConnection) -> tuple[str, list[int]]:
            driver: Any = connection.dbapi_connection
            here, taken = driver.execute(_TAKEN).fetchone()
            return here, taken

        here, taken = self._engine.look(look)
        held = {str(key) for key in taken}
        splits = ((name, *name.partition("@")) for name in names)
        return {name for name, key, _, world in splits if world == here and key not in held}

    def remove(self, name: str) -> None:
        """Nothing is left of it."""

    def tidy(self, names: Collection[str]) -> None:
        """Nothing is left of others, either."""


class ServerLock:
    """A lock of a session, its connection, and the thread that watches that."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self.name: str | None = None
        self.said: str | None = None
        self._engine, self._owner = engine, owner
        self._driver: Any = None
        self._silent: Any = None
        """A connection that has not answered."""
        self._ended = False
        self._bell, self._ear = socket.socketpair()
        self._thread = threading.Thread(
            target=self._watch, name=f"greenroom-store-lock-{owner}", daemon=True
        )
        try:
            self._take()
            Context().run(self._thread.start)
        except BaseException as error:
            self._close()
            if isinstance(error, RuntimeError):
                raise NoLock(f"nobody can watch it: {error}") from error
            raise

    def there(self) -> bool:
        """Whether somebody sees to it."""
        return self._thread.is_alive()

    def let_go(self) -> None:
        """Close the connection."""
        self._ended = True
        with suppress(OSError):
            self._bell.send(b"x")
        self._thread.join(PATIENCE)
        if not self._thread.is_alive():
            self._close()

    def leave_to_parent(self) -> None:
        """Exchange the copies of the sockets for nothing: the connections shall end with the parent, and
        what closes them here at some time shall reach nobody."""
        drivers = self._driver, self._silent
        inherited.append(drivers)
        self._bell.close()
        self._ear.close()  # so that there is room for another file
        for driver in filter(None, drivers):
            with suppress(OSError, *self._engine.errors):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, driver.pgconn.socket, inheritable=False)
                os.close(nothing)

    # The lock.

    def _take(self) -> None:
        connection = self._engine.writer.engine.raw_connection()
        connection.detach()
        self._driver = connection.dbapi_connection
        try:
            key = str(secrets.randbits(64) - 2**63)
            pgconn = self._driver.pgconn
            pid, taken, world = _ask(pgconn, _TAKE, key)
            if int(pid) != pgconn.backend_pid:
                raise NoLock("there is a pooler in between, where sessions change their connections")
            if taken != "t":
                raise NoLock(f"the key {key} is taken")
        except BaseException:
            self._drop()
            raise
        self.name = f"{key}@{world}"

    def _drop(self) -> None:
        """Close the connection."""
        self.name = None
        self._shut(self._driver)

    def _drop_silent(self) -> None:
        """Close the connection that has not answered, if there is one."""
        self._shut(self._silent)
        self._silent = None

    def _shut(self, driver: Any) -> None:
        """Close a connection: at once, whatever the server does."""
        if driver is not None:
            with suppress(*self._engine.errors):
                driver.close()

    def _say(self) -> None:
        """Write the name of the lock into the row, if the room lives. Else its next beat does."""
        name = self.name or ""
        if _ask(self._driver.pgconn, _SAY, name, self._owner, str(self._engine.clock_shift)):
            self.said = name

    # The thread.

    def _watch(self) -> None:
        while not self._ended:
            lost = self.name is None
            try:
                if lost:
                    self._take()
                    self._say()
                    self._drop_silent()
                    lost = False
                wait_readable(PING, self._ear.fileno(), self._driver.pgconn.socket)
                if not self._ended:
                    self._ping()
            except (NoLock, OSError, *self._engine.errors):
                self._drop()
                if lost:
                    wait_readable(PACE, self._ear.fileno())
        self._close()

    def _ping(self) -> None:
        """Ask the server for an answer."""
        try:
            _ask(self._driver.pgconn, "SELECT 1")
        except TimeoutError:
            self.name, self._silent, self._driver = None, self._driver, None

    def _close(self) -> None:
        self._drop()
        self._drop_silent()
        self._bell.close()
        self._ear.close()


def _ask(pgconn: Any, query: str, *values: str) -> list[str]:
    """The first row that a server answers with, if there is one. The driver would wait for ever, and
    this gives up."""
    deadline = time.monotonic() + PATIENCE
    row: list[str] = []
    pgconn.send_query_params(query.encode(), [value.encode() for value in values])
    while True:
        pgconn.flush()
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                return row
            if result.error_message:
                raise NoLock(result.error_message.decode("utf-8", "replace"))
            if result.ntuples:
                row = [result.get_value(0, at).decode() for at in range(result.nfields)]
        if not wait_readable(max(0.0, deadline - time.monotonic()), pgconn.socket):
            raise TimeoutError(f"the server has not answered for {PATIENCE:g} seconds")
        pgconn.consume_input()
