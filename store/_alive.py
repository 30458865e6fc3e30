"""How a room that was killed is known to be dead at once: it held a lock, and the system took it away.

    a room beats for the first time     its store takes a lock (`hold`), and the room's row names that
    its process dies                    the system frees the lock, whatever the process was doing
    another room looks (`bury`)         the lock is free, and still so at a second look: the row's lease
                                        is ended, and everything goes on as if it had run out

The lock is one on a file for SQLite (`_alive_sqlite`), and an advisory one of a session for PostgreSQL
(`_alive_postgresql`). Each time one is taken it has a new name, so that a row tells which one is meant.
A name is only good in its *world*: one boot of one machine, one run of one server. In another one nobody
can tell, and then the lease decides. It also decides for a room whose process stands still, or that
cannot be reached: such a room has its lock.

A lock can be lost while its room lives: the server was restarted, or the connection cut.

    1. the lock is lost  2. another room finds it free  3. we take another, and write its name down
    4. the other looks again, finds another name in the row, and begins anew

If we are not back at 3 before 4, we are buried alive. That costs us our sessions and nothing else: what
they wrote is fenced off by its epoch, as always. A room whose row names a lock that it has lost begins
and records no turn (`holds`) before the row names another, or none: then the lease decides. Its next
transaction begins with a beat, which sees to that.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import bindparam, select, update

from greenroom.store._rows import Burial
from greenroom.store._tables import NOW, rooms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._engine import Engine

__all__ = ["PAUSE", "Alive", "Lock", "Locks", "NoLock"]

logger = logging.getLogger("greenroom.store")

PAUSE = 0.4
"""How many seconds a lock must have been free. A living room that lost its own has another by then."""

RESPITE, LONGEST_RESPITE = 10.0, 600.0
"""For how many seconds no lock is tried for after one could not be taken. Twice as long each time."""

_LIVING = select(rooms.c.room, rooms.c.lock_name).where(
    rooms.c.lock_name.is_not(None), rooms.c.expires > NOW
)
_BURY = (
    update(rooms)
    .where(rooms.c.room == bindparam("a_room"), rooms.c.lock_name == bindparam("a_lock"))
    .values(expires=NOW, lock_name=None)
)


class NoLock(Exception):
    """There are no locks here that a dead process loses. The text says why."""


class Lock(Protocol):
    """What a living room holds."""

    name: str | None
    """As it stands in the row. `None`: it is lost, for now."""

    said: str | None
    """What the row says."""

    def there(self) -> bool:
        """Whether it can still be of use, or another one should be taken."""
        ...

    def let_go(self) -> None:
        """The room is no more."""
        ...

    def leave_to_parent(self) -> None:
        """In a forked child: have no part in it."""
        ...


class Locks(Protocol):
    """The locks of one database."""

    def take(self, owner: str) -> Lock:
        """Take a lock for a room. `NoLock`, `OSError` or an error of the driver if that cannot be."""
        ...

    def free(self, names: Collection[str]) -> set[str]:
        """Which of these locks nobody has, for sure."""
        ...

    def remove(self, name: str) -> None:
        """Remove what is left of a lock that nobody has."""
        ...

    def tidy(self, names: Collection[str]) -> None:
        """Remove what is left of others than these, which living rooms name."""
        ...


class Alive:
    """The locks that rooms of this store hold, and what can be told from those of others."""

    def __init__(
        self, engine: Engine, locks: Locks | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`locks=None`: a database that nobody else can see."""
        self._engine, self._locks, self._clock = engine, locks, clock
        self._held: dict[str, Lock] = {}
        """By room."""
        self._free_since: dict[str, float] = {}
        """The locks that were free at the last look, and since when they have been so at each."""
        self._tidied = self._warned = False
        self._respite, self._not_before = RESPITE, float("-inf")
        """When to try for a lock, after one could not be taken."""

    # One's own.

    def hold(self, owner: str) -> str | None:
        """See to it that a room has a lock, and return its name for the row. `None`: it has none now,
        and the lease decides."""
        if self._locks is None:
            return None
        held = self._held.get(owner)
        if held is None or not held.there():
            said = None if held is None else held.said
            self.let_go(owner)
            held = self._take(self._locks, owner)
            if held is None:
                return None
            held.said = said
            self._held[owner] = held
            if self._engine.closed:  # by another thread, meanwhile
                self.close()
                return None
        name = held.name
        if held.said is None:
            held.said = name  # should nobody learn that the row says so
        return name

    def _take(self, locks: Locks, owner: str) -> Lock | None:
        if self._clock() < self._not_before:
            return None  # it may take long to fail, and every beat would wait for that
        try:
            lock = locks.take(owner)
        except (NoLock, OSError, *self._engine.errors) as error:
            self._not_before = self._clock() + self._respite
            self._respite = min(2 * self._respite, LONGEST_RESPITE)
            if not self._warned:
                logger.warning(
                    "Room %s cannot hold a lock in the store %s (%s). If it is killed, the others wait "
                    "for the end of its lease",
                    *(owner, self._engine.url, str(error).partition("\n")[0]),
                )
            self._warned = True
            return None
        self._respite = RESPITE
        return lock

    def said(self, owner: str, name: str | None) -> None:
        """The row of a room names this lock now, or none."""
        held = self._held.get(owner)
        if held is not None:
            held.said = name

    def holds(self, owner: str) -> bool:
        """Whether a room may begin and write: what its row names, it has."""
        held = self._held.get(owner)
        return held is None or held.said is None or held.said == held.name

    def let_go(self, owner: str) -> None:
        """A room is no more."""
        held = self._held.pop(owner, None)
        if held is not None:
            held.let_go()

    def close(self) -> None:
        """All rooms of this store are no more."""
        for owner in list(self._held):
            self.let_go(owner)

    def after_fork(self) -> None:
        """In a forked child: rooms and locks are the parent's."""
        held, self._held = self._held, {}
        for lock in held.values():
            lock.leave_to_parent()

    # Others'.

    def bury(self) -> Burial:
        """Look for rooms whose process is dead, and end the leases of those that were so `PAUSE` ago."""
        if self._locks is None:
            return Burial((), again=False)
        try:
            return self._look(self._locks)
        except BaseException:
            self._free_since = {}  # while nobody could look, rooms that live could not get another lock
            raise

    def _look(self, locks: Locks) -> Burial:
        named = self._engine.look(self._living)
        if not self._tidied:
            self._tidied = True
            locks.tidy({name for _, name in named})
        living = {room: name for room, name in named if room not in self._held}
        free = locks.free(living.values())
        now = self._clock()
        self._free_since = {name: self._free_since.get(name, now) for name in free}
        dead = [
            (room, name)
            for room, name in living.items()
            if name in free and now - self._free_since[name] >= PAUSE
        ]
        buried = tuple(room for room, name in dead if self._bury(locks, room, name))
        return Burial(buried, again=len(dead) < len(free))

    def _living(self, connection: PoolProxiedConnection) -> list[tuple[str, str]]:
        return [(room, name) for room, name in self._engine.run(connection, _LIVING, {}).rows]

    def _bury(self, locks: Locks, room: str, name: str) -> bool:
        values = {"a_room": room, "a_lock": name}
        count = self._engine.write(lambda connection: self._engine.run(connection, _BURY, values).count)
        locks.remove(name)
        return count == 1
