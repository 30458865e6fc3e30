"""Connections that threads share: a bounded number, each for one thread at a time.

A thread may be struck while it uses one: a signal handler raises, the stack is full. That must cost no
other thread a connection, nor leave a transaction open that others wait for. CPython delivers signals
when a function is entered, after a call and at a backward jump, and nowhere else. So in `call()`:

- A place is taken by the step of a loop. No signal comes between that and the `try` behind it.
- The connection is noted with one call of a C function, and given back with another. A signal comes
  before or after these, and they need no room on the stack.
- A connection whose user was struck, or raised, may be in the middle of anything. It goes back as
  *doubtful*, and is rolled back or closed: at once, or by the next thread if the stack is too full.

`lent()` promises less: a strike on entry to the `__exit__` of its block runs none of our code, and then
the connection comes back when the exception is forgotten.

SQLAlchemy's own pools have locks in Python code, and a strike can leave those taken for ever. So its
engines keep no connection (`NullPool`), and we keep what they open.
"""

from __future__ import annotations

import queue
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa
    from sqlalchemy.pool import PoolProxiedConnection

__all__ = ["AllInUse", "Pool"]

T = TypeVar("T")


class AllInUse(Exception):
    """Other threads have had all connections for too long."""


class Pool:
    """The connections of one engine. Each is opened when it is first needed."""

    def __init__(
        self,
        engine: sa.Engine,
        size: int,
        *,
        first: str,
        patience: float,
        check: Callable[[Any], object] = bool,
    ) -> None:
        """`first`: a statement that each connection begins with. `check`: raises the driver's error for
        a connection that was idle and is broken."""
        self.engine = engine
        self.closed = False
        self.renewed = partial(Pool, engine, size, first=first, patience=patience, check=check)
        """Makes the same without any connection, for a forked child."""
        self._size, self._first, self._patience, self._check = size, first, patience, check
        self._errors = (SQLAlchemyError, engine.dialect.loaded_dbapi.Error)
        self._free: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """`True` for each connection that nobody uses, open or not."""
        for _ in range(size):
            self._free.put(True)
        self._places = iter(partial(self._free.get, True, patience), None)
        self._idle: deque[PoolProxiedConnection] = deque()
        self._newest = iter(self._idle.pop, None)
        """What was used last is used next, so that no more are open than are needed."""
        self._doubtful: deque[PoolProxiedConnection] = deque()

    def call(self, work: Callable[[PoolProxiedConnection], T]) -> T:
        """Call with a connection. What it has not committed is rolled back."""
        waiting, settled = True, False
        mine: list[PoolProxiedConnection] = []
        try:
            for _ in self._places:
                waiting = False
                try:
                    try:
                        self._take(mine)
                        result = work(mine[0])
                        settled = self._rolled_back(mine[0])
                    finally:
                        (self._idle if settled else self._doubtful).extend(mine)
                        if self.closed or not settled:
                            self._tidy()
                finally:
                    self._free.put(True)
                return result
        except queue.Empty:
            if not waiting:
                raise
        raise AllInUse(
            f"others have used every connection ({self._size}) for {self._patience:g} seconds"
        )

    @contextmanager
    def lent(self) -> Iterator[PoolProxiedConnection]:
        """The same for a block."""
        waiting, settled = True, False
        mine: list[PoolProxiedConnection] = []
        try:
            for _ in self._places:
                waiting = False
                try:
                    self._take(mine)
                    yield mine[0]
                    settled = self._rolled_back(mine[0])
                finally:
                    (self._idle if settled else self._doubtful).extend(mine)
                    self._free.put(True)
                    if self.closed or not settled:
                        self._tidy()
                return
        except queue.Empty:
            if not waiting:
                raise
        raise AllInUse(
            f"others have used every connection ({self._size}) for {self._patience:g} seconds"
        )

    def in_use(self) -> bool:
        """Whether a thread uses a connection, or was struck while it did."""
        return self._free.qsize() < self._size or bool(self._doubtful)

    def close(self) -> None:
        """Close the connections that are idle, and from now on each that comes back."""
        self.closed = True
        self._tidy()

    def _take(self, mine: list[PoolProxiedConnection]) -> None:
        """Note a connection that nobody uses, or a new one."""
        if self._doubtful:
            self._tidy()
        while not mine:
            try:
                mine.extend(islice(self._newest, 1))
            except IndexError:  # none is idle
                mine.append(self.engine.raw_connection())
                self._prepare(mine[0])
                return
            try:
                self._check(mine[0].dbapi_connection)
            except self._errors:
                _close(mine.pop())

    def _prepare(self, connection: PoolProxiedConnection) -> None:
        driver: Any = connection.dbapi_connection
        driver.execute(self._first)
        connection.info.clear()

    def _rolled_back(self, connection: PoolProxiedConnection) -> bool:
        """Roll back. False if the connection is broken, or was given up."""
        driver: Any = connection.dbapi_connection
        if driver is not None:
            try:
                driver.rollback()
                return True
            except self._errors:
                pass
        return False

    def _tidy(self) -> None:
        """Make doubtful connections good, or close them. In a closed pool, close the idle ones."""
        with suppress(IndexError):  # that was the last
            for connection in iter(self._doubtful.pop, None):
                good = False
                try:
                    if self._rolled_back(connection):
                        self._prepare(connection)
                        good = True
                except self._errors:
                    pass
                except BaseException:
                    self._doubtful.append(connection)
                    raise
                if good:
                    self._idle.append(connection)
                else:
                    _close(connection)
        # Only now: 1. a thread finds us open  2. another closes us  3. the first gives its own back.
        if self.closed:
            with suppress(IndexError):
                for connection in iter(self._idle.pop, None):
                    _close(connection)


def _close(connection: PoolProxiedConnection) -> None:
    if connection.dbapi_connection is not None:
        connection.invalidate()
