"""A look at a session's version that waits for nobody.

A room looks before every turn, on the thread that asked for it. So this goes past SQLAlchemy and its
pool, in which threads queue: connections that only read are kept in a deque, whose `pop` and `append`
are atomic.
Finding none, a thread opens another. In the write-ahead log readers do not wait for the writer, and the
busy timeout of these connections is 0: they do not wait at all.

`PRAGMA data_version` as a short cut was tried and left out: asking for it costs three quarters of the
look itself, and our own writes change it too.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.store._errors import CannotPeek
from greenroom.store._tables import sessions

if TYPE_CHECKING:
    from greenroom.store._engine import Engine

__all__ = ["Peeker"]

_MOST_IDLE = 16

_QUERY = f"SELECT version, ended FROM {sessions.name} WHERE session_id = ?"


class Peeker:
    """Looks at versions. Only where the database is an SQLite file."""

    __slots__ = ("_engine", "_idle")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: deque[sqlite3.Connection] = deque()

    def peek(self, session_id: str) -> tuple[int, bool] | None:
        """The version, and whether it is ended. `None` if there is no such session."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        try:
            rows = connection.execute(_QUERY, (session_id,)).fetchall()
        except UnicodeEncodeError:  # no session can have such an id
            rows = []
        except sqlite3.Error as error:
            connection.close()
            raise CannotPeek(f"the store {self._engine.url} cannot be looked at: {error}") from error
        self._keep(connection)
        if not rows:
            return None
        version, ended = rows[0]
        return version, ended is not None

    def _open(self) -> sqlite3.Connection:
        self._engine.check_open()
        if self._engine.path is None:
            raise CannotPeek(f"no look at {self._engine.url} is sure not to wait: ask session()")
        try:
            return sqlite3.connect(
                # Not mode=ro: a reader needs to write to the index of the log.
                Path(self._engine.path).as_uri() + "?mode=rw",
                uri=True,
                timeout=0.0,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise CannotPeek(f"the store {self._engine.url} cannot be looked at: {error}") from error

    def _keep(self, connection: sqlite3.Connection) -> None:
        idle = self._idle
        if len(idle) >= _MOST_IDLE:
            connection.close()
            return
        idle.append(connection)
        # 1. we look at a session  2. the store is closed, and with it all that is idle  3. we come back.
        if self._engine.closed:
            self.close()

    def close(self) -> None:
        """Close what is idle. Who is looking closes after that."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return
