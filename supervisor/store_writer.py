"""The store writer: whoever wants something written to the store asks it.

Sessions finish when they like; the store writer writes for all who have asked since it last wrote, in
one transaction (group commit). No lock and no timer decide who goes together: while one transaction is
being written, on a worker, requests wait in the store writer's list; when it is done, the list is the
next one. One session that finishes alone waits for one write; sixty-four that finish together wait for
two.

    session ── RecordTurn ──> writer ── everything that is on the list ──> worker: one transaction
    session <── the answer ── writer <── written() ───────────────────────┘

Order: the list is in order of asking, and a transaction keeps that order for each session id.

What if the write fails? If the store cannot be reached, everybody on it is told so, and decides. If it
was something else, one bad request must not spoil the others': each is tried by itself. What if the
writer crashes? The list, what is being written and those who wait are handed over; the answer of a write
that is under way comes to the next incarnation.

What if a write takes too long? Whoever waits for it is told that it failed. It may still happen, when
nobody expects it any more, and undo what was written since: so nothing else is written for the session
ids in it until it has come back. Whoever asks meanwhile is refused, as if the store were away for them.

`WriteQueue` decides all that: who goes into a transaction, and what its end means for them. The actor
around it has transactions written, and answers.

The store writer also says that the room lives (`Beat`), three times for every `lease_ttl`: through its
own mailbox, a worker and the store, so that a process that is stopped, or in which nothing moves any
more, stops saying so. Nothing is taken from the store by a room that has not said so for that long.
"""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors import Actor, Reply, RoomClosed, WorkNotBegun, WorkTimedOut
from greenroom.actors.ledger.bookkeeping import Beat
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._saving import Saved, put_back, take_down
from greenroom.messages import Call, CloseBooks, RenewLeases

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import Future, Timer
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.session.context import RoomContext
    from greenroom.messages import StoreRequest

__all__ = ["StoreWriter"]

logger = get_log("greenroom.supervisor")

LANE = "store"

HANGS = "a write to the store for this session hangs, and nothing else is written for it meanwhile"

MOST_AT_ONCE = 256
"""How many requests one transaction takes."""

Entry = tuple[Any, Reply | None]
"""A request, and who is to be answered. A `Beat` is nobody's."""


@dataclass(slots=True, eq=False)
class WriteQueue:
    """What waits to be written, what is being written, and what hangs. It decides and does nothing, and
    outlives a crash of the store writer."""

    waiting: deque[Entry] = field(default_factory=deque[Entry])
    singly: int = 0
    """How many of those that wait are to be written by themselves: together they failed."""

    writing: list[Entry] | None = None
    number: int = 0
    """Of the transaction that is being written."""

    hanging: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """Transactions that were given up and have not come back, and the session ids in them."""

    closed: bool = False
    beat_due: bool = False
    """It is time to say that the room lives."""

    beaten: bool = True
    """Whether the last beat reached the store."""

    beaten_at: float | None = None
    """When the last beat that reached it was sent on its way."""

    def add(self, request: Any, reply: Reply | None) -> bool:
        """Put a request on the list. False: a write for the same session hangs."""
        session_id = getattr(request, "session_id", "")
        if session_id and any(session_id in held for held in self.hanging.values()):
            return False
        self.waiting.append((request, reply))
        return True

    def next_transaction(self, now: float, ttl: float) -> list[Entry]:
        """What is written next. Nothing: nobody waits, or a transaction is being written."""
        if self.writing is not None or not (self.waiting or self.beat_due):
            return []
        entries: list[Entry] = []
        if self.beat_due or self.beaten_at is None or now - self.beaten_at > ttl / 3:
            self.beat_due = False
            entries.append((Beat(ttl), None))
        if not self.singly:
            most = min(MOST_AT_ONCE, len(self.waiting))
            entries += [self.waiting.popleft() for _ in range(most)]
        elif not entries:
            self.singly -= 1
            entries.append(self.waiting.popleft())
        self.writing = entries
        self.number += 1
        return entries

    def written(self, number: int, error: BaseException | None) -> list[Entry]:
        """A transaction was written, or could not be, or is given up and may still be written. Returns
        those who are told so: nobody, if that was known, or if they are tried once more."""
        entries = self.writing
        if self.hanging.pop(number, None) is not None or number != self.number or entries is None:
            return []  # it was given up before, and its outcome is nobody's
        self.writing = None
        if error is not None and len(entries) > 1 and not _away(error):
            logger.warning(
                "%s requests to the store failed together, and are tried singly", len(entries)
            )
            self.waiting.extendleft(reversed(entries))
            self.singly = len(entries)
            return []
        if isinstance(error, WorkTimedOut) and not isinstance(error, WorkNotBegun):
            self.hanging[number] = frozenset(
                getattr(request, "session_id", "") for request, _ in entries
            )
            waiting, self.waiting = self.waiting, deque()
            entries += [entry for entry in waiting if not self.add(*entry)]
        return entries


class StoreWriter(Actor):
    """Writes to the store, for all sessions of a room."""

    def __init__(self, context: RoomContext, queue: WriteQueue | None = None) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        assert context.books is not None
        self._context = context
        self._books: Bookkeeping = context.books
        self._queue = WriteQueue() if queue is None else queue
        self._beater: Timer | None = None

    def hand_over(self) -> WriteQueue:
        """Everything."""
        return self._queue

    can_restore = True

    def save(self) -> tuple[Timer | None, Saved]:
        """Everything that a message may change."""
        queue = self._queue
        return self._beater, take_down((queue, queue.waiting, queue.hanging))

    def restore(self, saved: tuple[Timer | None, Saved]) -> None:
        """Put it back."""
        self._beater, then = saved
        put_back(then)

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Take a transaction whose end cannot be handled for one that failed."""
        if isinstance(dropped, Call):
            number: Any = dropped.args[0]
            self._refuse(self._queue.written(number, exception), exception)

    def on_start(self) -> None:
        """Say that the room lives, and go on saying so."""
        if self._books.ledger:
            self.on_renew_leases(RenewLeases())
        self._write_next()

    def on_store_request(self, request: StoreRequest[Any]) -> None:
        """Write it with the next transaction."""
        reply = self.defer_reply()
        if self._queue.closed:
            reply.set_exception(
                RoomClosed("the room is closed, and writes nothing to the store any more")
            )
        elif not self._books.ledger:
            self._look(request, reply)
        elif self._queue.add(request, reply):
            self._write_next()
        else:
            reply.set_exception(StoreHangs(HANGS))

    def _look(self, request: Any, reply: Reply) -> None:
        """Without a ledger there is nothing to write, and no order to keep."""

        self._submit(self._books.answer, request).on_done(reply.pass_on)

    def _submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        timeout = self._context.policy.store_timeout
        return self.runtime.submit(call, *args, timeout=timeout, name="store", lane=LANE)

    def on_close_books(self, message: CloseBooks) -> None:
        """Write what waits, and then nothing any more."""
        reply = self.defer_reply()
        if self._queue.closed or not self._books.ledger:
            reply.set(True)
        else:
            self._queue.add(message, reply)
            self._write_next()
            self._queue.closed = True

    def on_renew_leases(self, message: RenewLeases) -> None:
        """Say that the room lives, and set the time for the next time."""
        if self._beater is not None:
            self._beater.cancel()
        self._beater = None
        if not self._queue.closed:
            self._beater = self.call_later(self._context.policy.lease_ttl / 3, message)
            self._queue.beat_due = True
            self._write_next()

    # Transactions.

    def _write_next(self) -> None:
        now = self.runtime.clock()
        entries = self._queue.next_transaction(now, self._context.policy.lease_ttl)
        if not entries:
            return
        tell = functools.partial(self._tell_written, self._queue.number, now)
        # It tells by itself how it ended, in time or late. The future only tells that it is stuck, or
        # was never begun.
        work = functools.partial(_write, self._books, [request for request, _ in entries], tell)
        self._submit(work).on_done(functools.partial(_look_whether_stuck, tell))

    def _tell_written(
        self, number: int, asked: float, results: list[Any] | None, error: BaseException | None
    ) -> None:
        """On a worker: have that handled here, or by the incarnation that is here then."""
        try:
            self.actor_ref.tell(Call(self.written, number, asked, results, error))
        except pykka.ActorDeadError:
            pass  # the room is closed

    def written(
        self, number: int, asked: float, results: list[Any] | None, error: BaseException | None
    ) -> None:
        """A transaction that was sent on its way at that time is over, or is given up."""
        entries = self._queue.written(number, error)
        if error is not None:
            self._refuse(entries, error)
        else:
            for (_, reply), result in zip(entries, results or (), strict=False):
                if reply is not None:
                    reply.set(result)
                else:
                    self._queue.beaten_at = asked
                    self._say_reached(lived=result)
        self._write_next()

    def _say_reached(self, *, lived: bool) -> None:
        if not self._queue.beaten:
            logger.warning("The store can be reached again")
            if not lived:
                logger.warning("Other rooms may have taken this one for dead, and its sessions over")
        self._queue.beaten = True

    def _refuse(self, entries: list[Entry], error: BaseException) -> None:
        for _, reply in entries:
            if reply is not None:
                reply.set_exception(error)
            elif self._queue.beaten:
                self._queue.beaten = False
                logger.warning("The store cannot be reached: %s: %s", type(error).__name__, error)


class StoreHangs(Exception):
    """A write to the store has not come back, and nothing else is written for its sessions."""

    temporary = True


def _write(books: Bookkeeping, requests: list[Any], tell: Callable[..., None]) -> None:
    """Write, on a worker, and tell the store writer."""
    try:
        results = books.write(requests)
    except BaseException as error:
        tell(None, error)
    else:
        tell(results, None)


def _look_whether_stuck(tell: Callable[..., None], done: Future[Any]) -> None:
    if done.failure is not None:
        tell(None, done.failure)


def _away(error: BaseException) -> bool:
    """Whether it is the store, and not what was asked of it."""
    return isinstance(error, (WorkTimedOut, OSError)) or bool(getattr(error, "temporary", False))
