"""The ledger of generations and the leases on sessions, within one database transaction.

    with store.transaction() as ledger:
        lease = ledger.take("20261115-a1", key="telegram:12345", owner="host:4711:c0ffee")
        …
        ledger.complete("20261115-a1", owner=lease.owner, epoch=lease.epoch, generation=7, linger=2.0)

Leaving the block commits all of it, an exception rolls all of it back. Any number of calls for any
number of sessions fit into one, which is what makes "full" durability affordable: one wait for the disk.

**Leases.** A session belongs to at most one room: its owner. `epoch` grows with each change of owners,
so that owner and epoch together name one time of ownership, and every change of the ledger states both:
who was overtaken changes nothing, and is told so. While its owner is in a turn, `free_at` is NULL and
nobody else gets the session unless the owner's room dies; after the turn, anybody may have it from
`free_at` on. A room lives as long as it beats. Dead or alive is decided by the clock of the database.

**Order.** Rows are locked as they are touched. Callers who touch several sessions in one transaction do
so in sorted order, or may meet a deadlock (PostgreSQL notices, and fails one of them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from greenroom.store import _ledger as sql
from greenroom.store._content import check_name, printable
from greenroom.store._errors import StoreError, StoreUnavailable
from greenroom.store._ledger import lease_row, session_row
from greenroom.store._rows import LeaseRow, SessionRow

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.pool import PoolProxiedConnection

    from greenroom.store._alive import Alive
    from greenroom.store._engine import Answer, Engine

__all__ = ["Transaction"]

_PROBLEM_LENGTH = 1000


class Transaction:
    """One transaction on the ledger. Good within its `with` block, and in one thread."""

    __slots__ = ("_alive", "_connection", "_engine", "_failure", "_locks")

    def __init__(self, engine: Engine, connection: PoolProxiedConnection, alive: Alive) -> None:
        self._engine = engine
        self._connection = connection
        self._failure: StoreError | None = None
        self._alive = alive
        self._locks: dict[str, str | Literal[False] | None] = {}
        """What the rows of rooms say of their locks when this is committed. False: there is no row."""

    def _run(self, statement: sa.ClauseElement, **values: Any) -> Answer:
        if self._failure is not None:
            raise StoreUnavailable("a call before this one failed: leave the block, and begin again")
        try:
            return self._engine.run(self._connection, statement, values)
        except self._engine.errors as error:
            # PostgreSQL takes a COMMIT after this for a ROLLBACK, and says nothing.
            self._failure = self._engine.unavailable(error)
            raise self._failure from error

    def _check(self) -> None:
        """Raise if the block is left as if nothing had happened, and something had."""
        if self._failure is not None:
            raise StoreUnavailable(f"nothing was written: {self._failure}") from self._failure

    def _committed(self) -> None:
        """It happened."""
        for owner, lock in self._locks.items():
            if lock is False:
                self._alive.let_go(owner)
            else:
                self._alive.said(owner, lock)

    # Leases

    def take(self, session_id: str, *, key: str, owner: str) -> LeaseRow:
        """Take a session for a turn, if it may be had. It is created if nobody knows it.

        It may be had if it has no owner, if its `free_at` has come, or if its owner's room is dead.
        One's own may be had unless it is in a turn under another key.
        """
        check_name("session_id", session_id)
        check_name("key", key)
        check_name("owner", owner)
        values = {"sid": session_id, "a_key": key, "an_owner": owner}
        row = self._run(sql.TAKE, **values).row()
        if row is not None:
            return lease_row(row, held=True)
        if self._run(sql.LOCK, sid=session_id).row() is None:
            self._run(sql.CREATE[self._engine.dialect.name], sid=session_id, a_key=key)
            self._run(sql.LOCK, sid=session_id)
        # With the row locked nobody changes its owner any more. A statement of its own, because
        # PostgreSQL reads all but the locked row as it was when the statement began: one that waited
        # for the lock would see the new owner without its room, and take it for dead.
        row = self._run(sql.TAKE_FROM_THE_DEAD, **values).row()
        if row is not None:
            return lease_row(row, held=True)
        *lease, wait, mine = self._run(sql.LOOK, **values).rows[0]
        return lease_row(tuple(lease), held=False, wait=None if mine else max(0.0, wait))

    def pin(self, session_id: str, *, owner: str, epoch: int) -> bool:
        """Keep a session past its `free_at`: another turn of it begins."""
        return self._changed(sql.PIN, session_id, owner, epoch)

    def leave(self, session_id: str, *, owner: str, epoch: int, linger: float) -> int | None:
        """A turn is over, and was not completed. The version of the transcript, or `None`."""
        version: int | None = self._run(
            sql.LEAVE, sid=session_id, an_owner=owner, an_epoch=epoch, linger=linger
        ).value()
        return version

    def hand_over(self, session_id: str, *, owner: str, epoch: int) -> bool:
        """Give a session back: anybody may have it at once."""
        return self._changed(sql.HAND_OVER, session_id, owner, epoch)

    def disclaim(self, session_id: str, *, key: str, owner: str) -> bool:
        """Give back a session that one may have taken without being told. Whatever its epoch is."""
        values = {"sid": session_id, "a_key": key, "an_owner": owner}
        return self._run(sql.DISCLAIM, **values).count == 1

    # Conversations

    def renew(self, key: str, *, session_id: str) -> str:
        """End the current conversation of a key, and make `session_id` the current one. Returns the one
        before. Again changes nothing: the one that is current stays so."""
        check_name("key", key)
        check_name("session_id", session_id)
        before: str = self._run(sql.CONVERSATION, a_key=key).value() or key
        if before != session_id:
            self._run(sql.END, sid=before)
            self._run(sql.RENEW[self._engine.dialect.name], a_key=key, sid=session_id)
        return before

    # Generations

    def complete(
        self, session_id: str, *, owner: str, epoch: int, generation: int, linger: float
    ) -> int | None:
        """A turn was completed. The version of the transcript, or `None` if the lease is not good."""
        version: int | None = self._run(
            sql.COMPLETE,
            sid=session_id,
            an_owner=owner,
            an_epoch=epoch,
            a_generation=generation,
            linger=linger,
        ).value()
        return version

    def intend(self, session_id: str, *, owner: str, epoch: int, generation: int) -> bool:
        """A commit up to this generation, which is therefore completed, is about to begin. Nothing to
        note if it is committed."""
        return self._changed(sql.INTEND, session_id, owner, epoch, a_generation=generation)

    def commit(self, session_id: str, *, owner: str, epoch: int, generation: int) -> bool:
        """A commit up to this generation has succeeded."""
        return self._changed(sql.COMMIT, session_id, owner, epoch, a_generation=generation)

    def fail(
        self, session_id: str, *, owner: str, epoch: int, problem: str, pause: float, most: int
    ) -> bool:
        """A commit has failed: whoever may try again after a pause, or nobody after `most` in a row."""
        return self._changed(
            sql.FAIL,
            session_id,
            owner,
            epoch,
            a_problem=printable(problem, _PROBLEM_LENGTH),
            pause=pause,
            most=most,
        )

    def _changed(
        self, statement: sa.ClauseElement, session_id: str, owner: str, epoch: int, **values: Any
    ) -> bool:
        return self._run(statement, sid=session_id, an_owner=owner, an_epoch=epoch, **values).count == 1

    # Rooms

    def beat(self, owner: str, *, ttl: float, host: str = "", pid: int = 0) -> bool:
        """A room lives for `ttl` seconds more, or as long as this process if that is less. False if it
        was dead or unknown: it lost some."""
        check_name("owner", owner)
        lock = self._locks[owner] = self._alive.hold(owner)
        values = {"an_owner": owner, "ttl": ttl, "a_lock": lock}
        lived = self._run(sql.BEAT, **values).count == 1
        if not lived:
            enter = sql.ENTER[self._engine.dialect.name]
            self._run(enter, **values, a_host=printable(host, 255), a_pid=pid)
        # 1. this lock is lost  2. another is taken, and the row names it  3. we name the lost one again.
        # From 3 on the row is locked: a lock that is taken later is named after this transaction.
        if self._alive.hold(owner) != lock:
            self.beat(owner, ttl=ttl, host=host, pid=pid)
        return lived

    def retire(self, owner: str) -> int:
        """A room is no more: all its sessions are free. How many there were."""
        self._run(sql.LOCK_ALL_OF, an_owner=owner)
        count = self._run(sql.HAND_OVER_ALL, an_owner=owner).count
        self._run(sql.FORGET, an_owner=owner)
        self._locks[owner] = False
        return count

    def orphans(self, *, owner: str, limit: int) -> list[SessionRow]:
        """Sessions that wait for somebody to commit them, the longest waiting first.

        They are dirty, not dead, due, and without a living owner. `owner` asks: its own are none.
        """
        return [session_row(row) for row in self._run(sql.ORPHANS, an_owner=owner, most_rows=limit).rows]

    def forget_rooms(self, older_than: float) -> int:
        """Delete rooms that have been dead for so many seconds and own nothing. How many."""
        return self._run(sql.FORGET_OLD, older_than=older_than).count
