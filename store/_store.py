"""The store: transcripts, and transactions on the ledger."""

from __future__ import annotations

import os
import time
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy import bindparam

from greenroom.store._alive import Alive
from greenroom.store._alive_postgresql import ServerLocks
from greenroom.store._alive_sqlite import FileLocks
from greenroom.store._connect import PATIENCE
from greenroom.store._content import check_name
from greenroom.store._engine import FORK_PACE, FORK_PATIENCE, Engine, inherited
from greenroom.store._errors import Fenced, SessionExists, SessionInUse, UnknownSession
from greenroom.store._ledger import (
    CONVERSATION,
    CREATE,
    END,
    LOCK,
    OWNER_IS_ALIVE,
    SESSION_COLUMNS,
    session_row,
)
from greenroom.store._maintenance import Maintenance
from greenroom.store._messages import (
    add_at_once,
    add_one_by_one,
    added_messages,
    as_message,
    encode_messages,
    read_messages,
)
from greenroom.store._own_writes import OwnWrites
from greenroom.store._peek import NO_VERSION, Peeker
from greenroom.store._pending import Threads, soon
from greenroom.store._schema import upgrade
from greenroom.store._tables import DIRTY, messages, sessions
from greenroom.store._transaction import Transaction
from greenroom.store._turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._alive import Locks
    from greenroom.store._messages import Placed
    from greenroom.store._rows import Burial, Fence, LeaseRow, Message, SessionRow
    from greenroom.store._turns import Begun, Ended

__all__ = ["Store", "open_store"]

T = TypeVar("T")

_MOST_SESSIONS = 10_000

_sid: sa.BindParameter[str] = bindparam("sid")
_SESSION = sa.select(*SESSION_COLUMNS).where(sessions.c.session_id == _sid)
_SET_SOURCE = (
    sa.update(sessions)
    .where(sessions.c.session_id == _sid, sessions.c.source.is_(None))
    .values(source=bindparam("a_source"))
)
_USE = (
    sa.select(
        sessions.c.owner,
        sa.and_(sessions.c.free_at.is_(None), OWNER_IS_ALIVE),
        sessions.c.generation - sessions.c.committed,
    )
    .where(sessions.c.session_id == _sid)
    .with_for_update(of=sessions)
)
_DELETE_MESSAGES = sa.delete(messages).where(messages.c.session_id == _sid)
_DELETE = sa.delete(sessions).where(sessions.c.session_id == _sid)


class Store(Maintenance):
    """Transcripts and the ledger, in one database. `open_store` makes one.

    Every method may be called from any thread, and blocks until it is done. Its twin with the suffix
    `_soon` takes the same arguments and returns a `Pending` at once.
    """

    def __init__(self, url: str, *, durability: str = "full") -> None:
        self._engine = Engine(url, durability=durability)
        try:
            self._own_writes = OwnWrites()
            self._own_writes_done = OwnWrites()
            upgrade(self._engine)
            self._peeker = Peeker(self._engine)
            self._turns = Turns(self._engine)
            self._alive = Alive(self._engine, _locks(self._engine))
            self._threads = Threads()
            _stores.add(self)
        except BaseException:
            self._engine.close()
            raise
        self.url = self._engine.url
        """Where it is, without secrets."""
        self.durability = self._engine.durability
        """What a write waits for, if it does not say so itself."""
        self.patience = 2 * PATIENCE
        """How many seconds `record()` waits at most: for a connection, and for the database. Only a disk
        that hangs takes longer."""
        self.can_peek = self._engine.path is not None
        """Whether `peek()` works for this database."""
        self.can_bury = not self._engine.is_memory
        """Whether there may be rooms of other processes, for `bury()` to look at."""

    # Transcripts

    def create_session(self, session_id: str, *, key: str, source: str | None = None) -> SessionRow:
        """Make a session, or find it made. `SessionExists` if it belongs to another key.

        `source` tells where it comes from. The first who knows it sets it.
        """
        check_name("session_id", session_id)
        check_name("key", key)
        if source is not None:
            check_name("source", source)
        values = {"sid": session_id, "a_key": key, "a_source": source}

        def create(connection: PoolProxiedConnection) -> SessionRow:
            self._engine.run(connection, CREATE[self._engine.dialect.name], values)
            if source is not None:
                self._engine.run(connection, _SET_SOURCE, values)
            row = self._row(connection, session_id)
            if row.key != key:
                raise SessionExists(session_id, row.key)
            return row

        return self._engine.write(create)

    def append(
        self, session_id: str, *, role: str, content: object, fence: Fence | None = None
    ) -> Message:
        """Add a message to a transcript. With a `fence`, only if that lease is good: else `Fenced`."""
        return self.extend(session_id, [(role, content)], fence=fence)[0]

    def extend(
        self, session_id: str, said: Iterable[tuple[str, object]], *, fence: Fence | None = None
    ) -> list[Message]:
        """Add messages, each a role and a content, to a transcript: all of them, or none.

        One transaction, however many there are. Each counts in the version. The `fence` is as in
        `append()`.
        """
        check_name("session_id", session_id)
        encoded = encode_messages(said)

        def at_once(connection: PoolProxiedConnection) -> list[Placed]:
            return add_at_once(self._engine, connection, session_id, fence, encoded)

        def one_by_one(connection: PoolProxiedConnection) -> list[Placed]:
            last, _ = self._lock(connection, session_id, fence)
            return add_one_by_one(self._engine, connection, session_id, last, encoded)

        def add() -> tuple[list[Message], int]:
            placed = [] if self._engine.dialect.name == "sqlite" else self._engine.write_once(at_once)
            # If nothing was added there, this finds out why.
            placed = placed or self._engine.write(one_by_one)
            return added_messages(session_id, encoded, placed), len(encoded)

        return self._write_own(session_id, len(encoded), add)

    def messages(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Message]:
        """The messages of a session in order, those behind position `after`, and at most `limit`."""
        check_name("session_id", session_id)
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit!r}: give a positive number, or None for all")

        def select(connection: PoolProxiedConnection) -> list[tuple[Any, ...]]:
            rows = read_messages(self._engine, connection, session_id, after, limit)
            if not rows:
                self._row(connection, session_id)
            return rows

        return [as_message(session_id, row) for row in self._engine.look(select)]

    def session(self, session_id: str) -> SessionRow:
        """All that is known of a session. `UnknownSession` if there is none."""
        check_name("session_id", session_id)
        return self._engine.look(lambda connection: self._row(connection, session_id))

    def conversation(self, key: str) -> str:
        """The session id of a key's current conversation: the key itself, until `room.renew(key)`."""
        values = {"a_key": check_name("key", key)}
        found = self._engine.look(lambda connection: self._engine.run(connection, CONVERSATION, values))
        return str(found.value() or key)

    def end_session(self, session_id: str, *, fence: Fence | None = None) -> SessionRow:
        """Note that a session is over. Again is fine: the first time counts."""
        check_name("session_id", session_id)

        def end(connection: PoolProxiedConnection) -> tuple[SessionRow, int]:
            _, ended = self._lock(connection, session_id, fence)
            if not ended:
                self._engine.run(connection, END, {"sid": session_id})
            return self._row(connection, session_id), 0 if ended else 1

        return self._write_own(session_id, 1, lambda: self._engine.write(end))

    def delete_session(self, session_id: str, *, force: bool = False) -> bool:
        """Delete a session with its transcript, for good. False if there is none.

        `SessionInUse` while a living room is in a turn of it, or while completed turns are uncommitted:
        `force` deletes it all the same. End it first in the room that has it; one that still has an
        agent for it begins a new and empty transcript with its next turn, or loses that turn.
        """
        check_name("session_id", session_id)
        values = {"sid": session_id}

        def delete(connection: PoolProxiedConnection) -> bool:
            row = self._engine.run(connection, _USE, values).row()
            if row is None:
                return False
            owner, in_turn, uncommitted = row
            if not force and (in_turn or uncommitted > 0):
                raise SessionInUse(session_id, owner if in_turn else None, uncommitted)
            # Messages first: they refer to it. Each of them counts in its version, to the last.
            self._engine.run(connection, _DELETE_MESSAGES, values)
            self._engine.run(connection, _DELETE, values)
            return True

        return self._engine.write(delete)

    def sessions(
        self,
        *,
        key: str | None = None,
        ended: bool | None = None,
        dirty: bool | None = None,
        dead: bool | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[SessionRow]:
        """A page of sessions in the order of their ids. `after` is the last id of the page before."""
        if not 1 <= limit <= _MOST_SESSIONS:
            raise ValueError(f"limit={limit!r}: give 1 to {_MOST_SESSIONS}")
        query = sa.select(*SESSION_COLUMNS).order_by(sessions.c.session_id).limit(limit)
        if key is not None:
            query = query.where(sessions.c.key == check_name("key", key))
        for is_so, wanted in (
            (sessions.c.ended.is_not(None), ended),
            (DIRTY, dirty),
            (sessions.c.dead, dead),
        ):
            if wanted is not None:
                query = query.where(is_so if wanted else ~is_so)
        if after is not None:
            query = query.where(sessions.c.session_id > check_name("after", after))
        return self._engine.read(
            lambda connection: [session_row(row) for row in connection.execute(query)]
        )

    def _row(self, connection: PoolProxiedConnection, session_id: str) -> SessionRow:
        row = self._engine.run(connection, _SESSION, {"sid": session_id}).row()
        if row is None:
            raise UnknownSession(session_id)
        return session_row(row)

    def _lock(
        self, connection: PoolProxiedConnection, session_id: str, fence: Fence | None
    ) -> tuple[int, bool]:
        """Lock a session. Its last position, and whether it is ended."""
        row = self._engine.run(connection, LOCK, {"sid": session_id}).row()
        if row is None:
            raise UnknownSession(session_id)
        owner, epoch, last_position, ended = row
        if fence is not None and (owner != fence.owner or epoch != fence.epoch):
            raise Fenced(session_id, owner, epoch)
        return last_position, ended is not None

    create_session_soon = soon(create_session)
    append_soon = soon(append)
    extend_soon = soon(extend)
    messages_soon = soon(messages)
    session_soon = soon(session)
    conversation_soon = soon(conversation)
    end_session_soon = soon(end_session)
    delete_session_soon = soon(delete_session)
    sessions_soon = soon(sessions)

    # Coherence

    def own_writes(self, session_id: str) -> int:
        """How many versions this very object added to a session, those under way among them.

        A version that grew by more than this did was written by somebody else.
        """
        return self._own_writes.of(session_id)

    def own_writes_done(self, session_id: str) -> int:
        """How many of them are done, and therefore in any version that is read from now on."""
        return self._own_writes_done.of(session_id)

    def _write_own(self, session_id: str, most: int, write: Callable[[], tuple[T, int]]) -> T:
        """Write, and count how many versions that adds before it happens: `most`, or fewer as it turns
        out.

        A thread that is struck here counts too little, which at worst looks like another's write.
        """
        self._own_writes.add(session_id, most)
        try:
            result, versions = write()
            if versions:
                self._own_writes_done.add(session_id, versions)
            if versions < most:
                self._own_writes.add(session_id, versions - most)
        except BaseException:
            self._own_writes.add(session_id, -most)
            raise
        return result

    def peek(self, session_id: str, expected: int = NO_VERSION) -> tuple[int, bool] | None:
        """The version of a transcript, and whether it is ended; `None` for an unknown session. It is
        quicker if the version is the `expected` one.

        It waits for nobody, or raises `CannotPeek`.
        """
        return self._peeker.peek(session_id, expected)

    # The ledger

    @contextmanager
    def transaction(self, durability: str | None = None) -> Iterator[Transaction]:
        """One transaction on the ledger and the leases. Calls of the store itself are no part of it."""
        engine = self._engine
        engine.check_file()
        with engine.lent(engine.clerk) as connection:
            engine.begin(connection, durability)
            ledger = Transaction(engine, connection, self._alive)
            yield ledger
            ledger._check()
            connection.commit()
            ledger._committed()

    def transact(
        self,
        work: Callable[[Transaction], object],
        *,
        owner: str | None = None,
        durability: str | None = None,
    ) -> None:
        """The same as a call: a strike within it is at an end when the call is, whoever still handles
        the exception. `owner`: who may interrupt it."""

        def run(connection: PoolProxiedConnection) -> Transaction:
            ledger = Transaction(self._engine, connection, self._alive)
            work(ledger)
            ledger._check()
            return ledger

        self._engine.write(run, durability, self._engine.clerk, owner)._committed()

    def take_all(self, turns: Sequence[Begun], *, owner: str) -> dict[str, LeaseRow]:
        """Take different sessions for turns in a transaction of their own, as `Transaction.take()` does:
        session id and key of each. The leases of those that exist, and could be had at once."""
        return self._turns.take(turns, owner)

    def record(
        self, turns: Sequence[Ended], *, owner: str, durability: str | None = None
    ) -> dict[str, int]:
        """Complete turns of different sessions in a transaction of their own, as
        `Transaction.complete()` does: session id, epoch, generation and linger of each. The version of
        each transcript whose lease was good."""
        return self._turns.record(turns, owner, durability)

    def interrupt(self, owner: str) -> None:
        """Have the `take_all()`, `record()` and `transact()` of this owner fail that are running. What
        they do may have happened all the same."""
        self._engine.interrupt(owner)

    # Rooms that died

    def holds(self, owner: str) -> bool:
        """Whether a room of this store may begin and write. Not while its row names a lock that it has
        lost: others may take it for dead. With its next beat it may again."""
        return self._alive.holds(owner)

    def let_go(self, owner: str) -> None:
        """A room of this store is over, whether it could say so here or not: free its lock."""
        self._alive.let_go(owner)

    def bury(self) -> Burial:
        """Look for rooms whose process has ended, and end the leases of those that had ended at an
        earlier look, too. It waits for nothing: whoever is told to look again sees to the time."""
        return self._alive.bury()

    # The end

    def close(self) -> None:
        """Finish what was asked for, and let the database go. Again is fine."""
        self._threads.close()
        self._engine.close()
        self._peeker.close()
        self._alive.close()

    def _in_use(self) -> bool:
        return self._engine.in_use() or self._peeker.in_use()

    def _after_fork(self, idle: bool) -> None:
        self._engine.after_fork(idle=idle)
        if idle:
            self._peeker.close()
        inherited.append(self._peeker)
        self._alive.after_fork()
        self._peeker = Peeker(self._engine)
        self._threads = Threads()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.url}{' closed' if self._engine.closed else ''}>"


def open_store(url: str, *, durability: str = "full") -> Store:
    """Open a store, and make or upgrade its tables if need be.

    `sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite://` (in memory, gone when closed) or
    `postgresql://user:password@host/database`.
    """
    return Store(url, durability=durability)


def _locks(engine: Engine) -> Locks | None:
    """What rooms in this database can hold."""
    if engine.dialect.name == "postgresql":
        return ServerLocks(engine)
    return None if engine.path is None else FileLocks(engine.path)


_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _in_use() -> bool:
    """Whether a thread uses SQLite."""
    try:
        return any(store._in_use() for store in list(_stores))
    except RuntimeError:
        return True  # another thread has opened a store or a connection meanwhile


def _before_fork() -> None:
    """Wait until no thread uses SQLite: see `_engine`."""
    Engine.forking = True
    with suppress(RuntimeError):  # another thread has opened a store meanwhile
        for store in list(_stores):
            store._engine.before_fork()
    deadline = time.monotonic() + FORK_PATIENCE
    while _in_use() and time.monotonic() < deadline:
        time.sleep(FORK_PACE)


def _after_fork_in_parent() -> None:
    Engine.forking = False


def _after_fork_in_child() -> None:
    Engine.forking = False
    idle = not _in_use()
    Engine.sqlite_is_lost |= not idle
    for store in list(_stores):
        store._after_fork(idle)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
