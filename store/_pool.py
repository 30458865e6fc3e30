"""Connections that threads share: a bounded number, each for one thread at a time.

A thread may be struck while it uses one: a signal handler raises, the stack is full. That must cost no
other thread a connection, nor leave a transaction open that others wait for. CPython delivers signals
when a function is entered, after a call and at a backward jump, and nowhere else. So in `call()`:

- A place is taken by the step of a loop. No signal comes between that and the `try` behind it.
- The connection is noted with one call of a C function, and given back with another. A signal comes
  before or after these, and they need no room on the stack.
- A connection whose user was struck may be in the middle of anything: a cursor that only the exception
  refers to still keeps its snapshot. It goes back as *doubtful*, and is closed: at once, or by the next
  thread if the stack is too full. A database in memory is its connection, which is only rolled back.

**Interrupts.** Another thread may have a call fail, from when that waits for a place, and hits nobody
who uses the connection later. Each call has a note, which one of the two takes, in one step:

    who interrupts:  1. takes the note              2. looks what is in `mine`, and interrupts that
    the call:        1. puts a connection there     2. looks whether its note is there: else it fails
    at its end:      1. takes its note: if it is gone, the connection goes back as doubtful

**What may still happen.** A server may still do what it was asked on a doubtful connection. So where
that matters (`fence`) it stays doubtful until the server has ended it, and no call begins before. It is
doubtful before its user goes on.

`lent()` promises less: a strike on the way into its block or out may run none of our code, and then
the connection comes back when the exception is forgotten.

SQLAlchemy's own pools have locks in Python code, and a strike can leave those taken for ever. So we keep
what its engines open: detached, or they would close what they think is garbage.
"""

from __future__ import annotations

import queue
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from greenroom.store._errors import StoreError
from greenroom.store._url import is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa
    from sqlalchemy.pool import PoolProxiedConnection

__all__ = ["AllInUse", "NoConnection", "Pool"]

T = TypeVar("T")

MOST_IDLE = 8
"""How many connections that nobody uses stay open."""


class NoConnection(Exception):
    """None could be had."""


class AllInUse(NoConnection):
    """Other threads have had all connections for too long."""


class Pool:
    """The connections of one engine. Each is opened when it is first needed."""

    def __init__(
        self,
        engine: sa.Engine,
        size: int,
        *,
        first: Callable[[PoolProxiedConnection], object],
        patience: float,
        plug: Callable[[Any], Any],
        interrupt: Callable[[Any], object],
        check: Callable[[Any], object] = bool,
        fence: Callable[[Any, PoolProxiedConnection], object] | None = None,
        beside: Pool | None = None,
    ) -> None:
        """`first` prepares a new connection. The others get the driver's own: `plug` returns what any
        thread may use of it, which is closed with it, and `interrupt` has what runs there fail. `check`
        raises the driver's error if it was idle and is broken. `fence` waits with it for the end of a
        doubtful one, or raises such an error. `beside`: a pool whose doubtful ones matter here, too."""
        self.engine = engine
        self.closed = False
        self._size, self._first, self._patience, self._check = size, first, patience, check
        self._plug, self._interrupt, self._fence = plug, interrupt, fence
        self._is_memory = is_memory(engine.url)
        self._errors = (SQLAlchemyError, engine.dialect.loaded_dbapi.Error)
        self._open: dict[PoolProxiedConnection, Any] = {}
        """All connections, and the driver's own of each: none is garbage before it is closed."""
        self._plugs: dict[PoolProxiedConnection, Any] = {}
        self._calls: dict[object, tuple[str | None, list[PoolProxiedConnection]]] = {}
        """The notes of calls: whose they are, and their connection, when they have one."""
        self._idle: deque[PoolProxiedConnection] = deque()
        self._newest = iter(self._idle.pop, None)
        """What was used last is used next, so that no more are open than are needed."""
        self._doubtful: deque[PoolProxiedConnection] = deque()
        if beside is not None:
            self._open, self._plugs, self._doubtful = beside._open, beside._plugs, beside._doubtful
        self._make_places()

    def _make_places(self) -> None:
        self._free: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """`True` for each connection that nobody uses, open or not."""
        for _ in range(self._size):
            self._free.put(True)
        self._places = iter(partial(self._free.get, True, self._patience), None)

    def call(self, work: Callable[[PoolProxiedConnection], T], owner: str | None = None) -> T:
        """Call with a connection. What it has not committed is rolled back."""
        waiting, settled = True, False
        mine: list[PoolProxiedConnection] = []
        note = object()
        self._calls[note] = owner, mine
        try:
            for _ in self._places:
                waiting = False
                try:
                    try:
                        self._take(mine, note)
                        result = work(mine[0])
                        settled = self._rolled_back(mine) and self._calls.pop(note, None) is not None
                    except (StoreError, *self._errors):  # not a strike: nothing is under way
                        settled = self._rolled_back(mine) and self._calls.pop(note, None) is not None
                        raise
                    finally:
                        (self._idle if settled else self._doubtful).extend(mine)
                        if self.closed or not settled or len(self._idle) > MOST_IDLE:
                            self.tidy()
                finally:
                    self._free.put(True)
                return result
        except queue.Empty:
            if not waiting:
                raise
        finally:
            self._calls.pop(note, None)
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
                    try:
                        self._take(mine)
                        yield mine[0]
                        settled = self._rolled_back(mine)
                    except (StoreError, *self._errors):
                        settled = self._rolled_back(mine)
                        raise
                    finally:
                        (self._idle if settled else self._doubtful).extend(mine)
                        if self.closed or not settled or len(self._idle) > MOST_IDLE:
                            self.tidy()
                finally:
                    self._free.put(True)
                return
        except queue.Empty:
            if not waiting:
                raise
        raise AllInUse(
            f"others have used every connection ({self._size}) for {self._patience:g} seconds"
        )

    def interrupt(self, owner: str) -> None:
        """Have the calls of this owner fail. What they do may happen all the same."""
        for note, (whose, mine) in list(self._calls.items()):
            if whose == owner and self._calls.pop(note, None) is not None:
                for plug in filter(None, map(self._plugs.get, mine)):
                    with suppress(OSError, *self._errors):
                        self._interrupt(plug)

    def in_use(self) -> bool:
        """Whether a thread uses a connection, or was struck while it did."""
        return self._free.qsize() < self._size or bool(self._doubtful)

    def close(self) -> None:
        """Close the connections that are idle, and from now on each that comes back."""
        self.closed = True
        self.tidy()

    def leave_to_parent(self, *, close: bool) -> object:
        """In a forked child: begin anew, with new connections. Returns what is left of the old ones."""
        self._make_places()
        self._calls = {}
        if self._is_memory:
            return None  # it was copied
        left, plugs = self._open.copy(), self._plugs.copy()
        for each in (self._open, self._plugs, self._idle, self._doubtful):
            each.clear()
        for driver in left.values() if close else ():
            driver.close()
        return left, plugs

    def _take(self, mine: list[PoolProxiedConnection], note: object = None) -> None:
        """Note a connection that nobody uses, or a new one."""
        if self._doubtful:
            self.tidy()
        while not mine:
            new = False
            try:
                mine.extend(islice(self._newest, 1))
            except IndexError:  # none is idle
                new = True
                mine.append(self.engine.raw_connection())
                mine[0].detach()
                self._open[mine[0]] = mine[0].dbapi_connection
            driver = mine[0].dbapi_connection
            try:
                if new:
                    self._plugs[mine[0]] = self._plug(driver)
                if note is not None and note not in self._calls:
                    raise NoConnection("interrupted")
                if new:
                    self._first(mine[0])
                else:
                    self._check(driver)
            except (OSError, *self._errors) as error:
                if new:  # it is not to be used
                    raise NoConnection(str(error)) from error
                self._close(mine.pop())
        if self._doubtful and self._fence is not None:
            for doubtful in self._doubtful.copy():
                self._close(doubtful)
                self._fence(mine[0].dbapi_connection, doubtful)
                with suppress(ValueError):  # another thread was quicker
                    self._doubtful.remove(doubtful)

    def _rolled_back(self, mine: list[PoolProxiedConnection]) -> bool:
        """Roll back. False if the connection is broken, or was given up."""
        try:
            for connection in mine:
                driver: Any = connection.dbapi_connection
                if driver is None:
                    return False
                driver.rollback()
        except self._errors:
            return False
        return True

    def tidy(self) -> None:
        """Close doubtful connections and more idle ones than are kept. A closed pool keeps none."""
        if self._fence is not None:
            for connection in self._doubtful.copy():
                self._close(connection)
        else:
            self._make_all_good()
        # Only now: 1. a thread finds us open  2. another closes us  3. the first gives its own back.
        with suppress(IndexError):
            while len(self._idle) > (0 if self.closed else MOST_IDLE):
                self._close(self._idle.popleft())

    def _make_all_good(self) -> None:
        with suppress(IndexError):  # that was the last
            for connection in iter(self._doubtful.pop, None):
                try:
                    self._make_good(connection)
                except BaseException:
                    self._doubtful.append(connection)
                    raise

    def _make_good(self, connection: Any) -> None:
        if connection.dbapi_connection is None:  # SQLAlchemy gives up what it was struck with
            connection.dbapi_connection = self._open.get(connection)
        # SQLite goes on with a transaction until its last cursor is gone, even if it is closed. A server
        # is not asked: the struck thread may have waited for it in vain.
        rolled_back = self.engine.dialect.name == "sqlite" and self._rolled_back([connection])
        if rolled_back and self._is_memory:
            connection.info.clear()
            self._first(connection)
            self._idle.append(connection)
        else:
            self._close(connection)

    def _close(self, connection: PoolProxiedConnection) -> None:
        driver: Any = self._open.get(connection) or connection.dbapi_connection
        connection.detach()
        for each in (driver, self._plugs.get(connection)):
            if each is not None:
                with suppress(OSError, *self._errors):
                    each.close()
        self._open.pop(connection, None)
        self._plugs.pop(connection, None)
