"""A look at a session's version that waits for nobody.

A room looks before every turn, on the thread that asked for it. So this goes past SQLAlchemy and its
pool, in which threads queue: connections that only read are kept in a deque, whose `pop` and `append`
are atomic.
Finding none, a thread opens another. In the write-ahead log readers do not wait for the writer, and the
busy timeout of these connections is 0: they do not wait at all.

`PRAGMA data_version` as a short cut was tried and left out: asking for it costs three quarters of the
look itself, and our own writes change it too.

What costs most where many threads look is not SQLite. The driver gives the interpreter away whenever it
steps or resets a statement, and has to queue for it again. A look at what is as expected finds no row:
it is over with its first step, and takes two such queues in the place of three.
"""

from __future__ import annotations

import functools
import sqlite3
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.store._errors import CannotPeek
from greenroom.store._tables import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.store._engine import Engine

__all__ = ["NO_VERSION", "Peeker"]

_MOST_IDLE = 16

NO_VERSION = -1
"""A version that no transcript has."""

_connect = functools.partial(
    sqlite3.connect, uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
)

_QUERY = f"""SELECT version, ended FROM (SELECT ? AS asked) LEFT JOIN {sessions.name}
ON session_id = asked WHERE version IS NOT ? OR ended IS NOT NULL"""
"""Finds nothing if the version is as expected: see above."""


class Peeker:
    """Looks at versions. Only where the database is an SQLite file."""

    __slots__ = ("_engine", "_idle", "_opened")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: deque[sqlite3.Connection] = deque()
        self._opened: set[sqlite3.Connection] = set()
        """Those that are idle, and those that a thread looks with."""

    def peek(self, session_id: str, expected: int = NO_VERSION) -> tuple[int, bool] | None:
        """The version, and whether it is ended. `None` if there is no such session."""
        if self._engine.forking:
            self._engine.let_fork()
        try:
            return self._peek(session_id, expected, iter(self._idle.pop, None))
        except IndexError:  # none is idle
            return self._peek(session_id, expected, self._opening())

    def _peek(
        self, session_id: str, expected: int, connections: Iterator[sqlite3.Connection]
    ) -> tuple[int, bool] | None:
        rows: list[tuple[int | None, float | None]] = []
        try:
            # A step of a loop: no signal comes between that and the `try`, so that none is lost.
            for connection in connections:
                try:
                    self._opened.add(connection)
                    try:
                        rows = connection.execute(_QUERY, (session_id, expected)).fetchall()
                    except UnicodeEncodeError:  # no session can have such an id
                        rows = [(None, None)]
                    idle = self._idle
                    if len(idle) >= _MOST_IDLE:
                        self._close(connection)
                        break
                except BaseException:
                    connection.close()
                    self._opened.discard(connection)
                    raise
                idle.append(connection)  # no call between the `try` and this one
                break
        except sqlite3.Error as error:
            raise CannotPeek(f"the store {self._engine.url} cannot be looked at: {error}") from error
        # 1. we look at a session  2. the store is closed, and with it all that is idle  3. we come back.
        if self._engine.closed:
            self.close()
        if not rows:
            return expected, False
        version, ended = rows[0]
        return None if version is None else (version, ended is not None)

    def _opening(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, opened by the step of a loop."""
        self._engine.check_open()
        if self._engine.path is None:
            raise CannotPeek(f"no look at {self._engine.url} is sure not to wait: ask session()")
        # Not mode=ro: a reader needs to write to the index of the log.
        return map(_connect, (Path(self._engine.path).as_uri() + "?mode=rw",))

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()
        self._opened.discard(connection)

    def in_use(self) -> bool:
        """Whether a thread looks."""
        return len(self._opened) > len(self._idle)

    def close(self) -> None:
        """Close what is idle. Who is looking closes after that."""
        try:
            for connection in iter(self._idle.pop, None):
                self._close(connection)
        except IndexError:  # all are closed
            return
