"""The store writer: whoever wants something written to the store asks it.

Sessions finish when they like; the store writer writes for all who have asked since it last wrote, in
one transaction (group commit). No lock and no timer decide who goes together: while one transaction is
being written, on a worker, requests wait in the store writer's list; when it is done, the list is the
next one. One session that finishes alone waits for one write; sixty-four that finish together wait for
two.

    session ── RecordTurn ──> writer ── everything that is on the list ──> worker: one transaction
    session <── the answer ── writer <── StoreWritten ────────────────────┘

Order: the list is in order of asking, and a transaction keeps that order for each session id.

What if the write fails? If the store cannot be reached, everybody on it is told so, and decides. If it
was something else, one bad request must not spoil the others': each is tried by itself. What if the
writer crashes? The list, what is being written and those who wait are handed over; the answer of a write
that is under way comes to the next incarnation.

What if a write takes too long? Whoever waits for it is told that it failed. It may still happen, when
nobody expects it any more, and undo what was written since: so nothing else is written for the session
ids in it until it has come back. Whoever asks meanwhile is refused, as if the store were away for them.

The store writer also says that the room lives (`Beat`), three times for every `lease_ttl`: through its
own mailbox, a worker and the store, so that a process that is stopped, or in which nothing moves any
more, stops saying so. Nothing is taken from the store by a room that has not said so for that long.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from greenroom.actors import Actor, Reply, RoomClosed, WorkNotBegun, WorkTimedOut
from greenroom.messages import Beat, CloseBooks, RenewLeases, StoreRequest, StoreWritten

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef, Future, Timer
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.session.context import RoomContext

__all__ = ["StoreWriter"]

logger = logging.getLogger("greenroom.supervisor")

LANE = "store"

HANGS = "a write to the store for this session hangs, and nothing else is written for it meanwhile"

MOST_AT_ONCE = 256
"""How many requests one transaction takes."""

Entry = tuple[Any, Reply | None]
"""A request, and who is to be answered."""


class StoreWriterState:
    """What outlives a crash of the store writer."""

    __slots__ = (
        "beaten",
        "beaten_at",
        "closed",
        "late",
        "number",
        "singly",
        "waiting",
        "writing",
    )

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.writing: list[Entry] | None = None
        self.number = 0
        """Of the transaction that is being written."""
        self.singly = 0
        """How many of those that wait are to be written by themselves: together they failed."""
        self.late: dict[int, frozenset[str]] = {}
        """Transactions that were given up and have not come back, and the session ids in them."""
        self.closed = False
        self.beaten = True
        """Whether the last beat reached the store."""
        self.beaten_at: float | None = None
        """When the last beat that reached it was asked for."""


class StoreWriter(Actor):
    """Writes to the store, for all sessions of a room."""

    def __init__(self, context: RoomContext, state: StoreWriterState | None = None) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        assert context.books is not None
        self._context = context
        self._books: Bookkeeping = context.books
        self._state = StoreWriterState() if state is None else state
        self._beater: Timer | None = None

    def hand_over(self) -> StoreWriterState:
        """Everything."""
        return self._state

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Give up a transaction whose end cannot be handled."""
        if isinstance(dropped, StoreWritten) and dropped.number == self._state.number:
            entries, self._state.writing = self._state.writing, None
            for request, reply in entries or ():
                self._refuse(request, reply, exception)

    def on_start(self) -> None:
        """Say that the room lives, and go on saying so."""
        if self._books.ledger:
            self._renew_leases(RenewLeases())
        self._write_next()

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        if isinstance(message, StoreRequest):
            return self._request(message)
        return self._handlers[message.__class__](self, message)

    def _request(self, request: Any) -> None:
        reply = self.defer_reply()
        if self._state.closed:
            reply.set_exception(
                RoomClosed("the room is closed, and writes nothing to the store any more")
            )
        elif not self._books.ledger:
            self._look(request, reply)
        elif self._hangs(request):
            reply.set_exception(StoreHangs(HANGS))
        else:
            self._state.waiting.append((request, reply))
            self._write_next()

    def _hangs(self, request: Any) -> bool:
        """Whether a write for the same session was given up, and has not come back."""
        session_id = getattr(request, "session_id", None)
        return any(session_id in late for late in self._state.late.values())

    def _look(self, request: Any, reply: Reply) -> None:
        """Without a ledger there is nothing to write, and no order to keep."""
        future = self._submit(self._books.answer, request)

        def answer(done: Future[Any]) -> None:
            try:
                reply.set(done.get())
            except BaseException as error:
                reply.set_exception(error)

        future.on_done(answer)

    def _submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        timeout = self._context.policy.store_timeout
        return self.runtime.submit(call, *args, timeout=timeout, name="store", lane=LANE)

    def _close_books(self, message: CloseBooks) -> None:
        state = self._state
        reply = self.defer_reply()
        if state.closed or not self._books.ledger:
            reply.set(True)
        else:
            state.waiting.append((message, reply))
            self._write_next()
            state.closed = True

    def _renew_leases(self, _: RenewLeases) -> None:
        if self._beater is not None:
            self._beater.cancel()
        self._beater = None
        if not self._state.closed:
            self._beater = self.call_later(self._context.policy.lease_ttl / 3, RenewLeases())
            self._beat()
            self._write_next()

    def _beat(self) -> None:
        waiting = self._state.waiting
        if not any(isinstance(request, Beat) for request, _ in waiting):
            waiting.appendleft((Beat(ttl=self._context.policy.lease_ttl), None))
            self._state.singly += self._state.singly > 0

    # Transactions.

    def _write_next(self) -> None:
        state = self._state
        if state.writing is not None or not state.waiting:
            return
        since = state.beaten_at
        if since is None or self.runtime.clock() - since > self._context.policy.lease_ttl / 3:
            self._beat()
        most = 1 if state.singly else MOST_AT_ONCE
        state.singly = max(0, state.singly - 1)
        state.writing = [state.waiting.popleft() for _ in range(min(most, len(state.waiting)))]
        state.number += 1
        requests = tuple(request for request, _ in state.writing)
        number, now = state.number, self.runtime.clock()
        # It tells by itself how it ended, in time or late. The future only tells that it is stuck, or
        # was never begun.
        work = functools.partial(_write, self._books, requests, number, now, self.actor_ref)
        self._submit(work).on_done(functools.partial(_look_whether_stuck, number, now, self.actor_ref))

    def _store_written(self, message: StoreWritten) -> None:
        state = self._state
        entries = state.writing
        error = message.error
        if state.late.pop(message.number, None) is not None or entries is None:
            return  # it was given up before, and its outcome is nobody's
        if message.number != state.number:
            return
        state.writing = None
        if isinstance(error, WorkTimedOut) and not isinstance(error, WorkNotBegun):
            state.late[message.number] = frozenset(
                request.session_id for request, _ in entries if hasattr(request, "session_id")
            )
            waiting, state.waiting = state.waiting, deque()
            for request, reply in waiting:
                if self._hangs(request):
                    self._refuse(request, reply, StoreHangs(HANGS))
                else:
                    state.waiting.append((request, reply))
        if error is None and any(isinstance(request, Beat) for request, _ in entries):
            state.beaten_at = message.asked
        if error is None:
            assert message.results is not None
            for (request, reply), result in zip(entries, message.results, strict=True):
                self._answer(request, reply, result)
        elif len(entries) > 1 and not _away(error):
            logger.warning(
                "%s requests to the store failed together, and are tried singly", len(entries)
            )
            state.waiting.extendleft(reversed(entries))
            state.singly = len(entries)
        else:
            for request, reply in entries:
                self._refuse(request, reply, error)
        self._write_next()

    def _answer(self, request: Any, reply: Reply | None, result: Any) -> None:
        if reply is not None:
            reply.set(result)
        elif isinstance(request, Beat):
            if not self._state.beaten:
                logger.warning("The store can be reached again")
                if not result:
                    logger.warning("Other rooms may have taken this one for dead, and its sessions over")
            self._state.beaten = True

    def _refuse(self, request: Any, reply: Reply | None, error: BaseException) -> None:
        if reply is not None:
            reply.set_exception(error)
        elif isinstance(request, Beat) and self._state.beaten:
            self._state.beaten = False
            logger.warning("The store cannot be reached: %s: %s", type(error).__name__, error)

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        CloseBooks: _close_books,
        RenewLeases: _renew_leases,
        StoreWritten: _store_written,
    }


class StoreHangs(Exception):
    """A write to the store has not come back, and nothing else is written for its sessions."""

    temporary = True


def _write(
    books: Bookkeeping, requests: tuple[Any, ...], number: int, asked: float, writer: ActorRef[Any]
) -> None:
    """Write, on a worker, and tell the store writer."""
    results: list[Any] | None = None
    error: BaseException | None = None
    try:
        results = books.write(requests)
    except BaseException as raised:
        error = raised
    _tell(writer, StoreWritten(number=number, asked=asked, results=results, error=error))


def _look_whether_stuck(number: int, asked: float, writer: ActorRef[Any], done: Future[Any]) -> None:
    try:
        done.get()
    except BaseException as error:
        _tell(writer, StoreWritten(number=number, asked=asked, results=None, error=error))


def _tell(writer: ActorRef[Any], message: StoreWritten) -> None:
    try:
        writer.tell(message)
    except pykka.ActorDeadError:
        pass  # the room is closed


def _away(error: BaseException) -> bool:
    """Whether it is the store, and not what was asked of it."""
    return isinstance(error, (WorkTimedOut, OSError)) or bool(getattr(error, "temporary", False))
