"""The clerk: whoever wants something written to the store asks it.

Sessions finish when they like; the clerk writes for all who have asked since it last wrote, in one
transaction (group commit). No lock and no timer decide who goes together: while one transaction is being
written, on a worker, requests wait in the clerk's list; when it is done, the list is the next one. One
session that finishes alone waits for one write; sixty-four that finish together wait for two.

    session ── RecordTurn ──> clerk ── everything that is on the list ──> worker: one transaction
    session <── the answer ── clerk <── StoreWritten ────────────────────┘

Order: the list is in order of asking, and a transaction keeps that order for each session id.

What if the write fails? If the store cannot be reached, everybody on it is told so, and decides. If it
was something else, one bad request must not spoil the others': each is tried by itself. What if the
clerk crashes? The list, what is being written and those who wait are handed over; the answer of a write
that is under way comes to the next incarnation.

The clerk also says that the room lives (`Beat`), three times for every `lease_ttl`: through its own
mailbox, a worker and the store, so that a process that is stopped, or in which nothing moves any more,
stops saying so.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors import Actor, Reply, RoomClosed, WorkTimedOut
from greenroom.messages import (
    Beat,
    CloseBooks,
    DisclaimSession,
    EnterStore,
    FailRecovery,
    FindOrphans,
    HandOver,
    IntendCommit,
    PinLease,
    RecordCommit,
    RecordTurn,
    RenewLeases,
    StoreWritten,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import Future
    from greenroom.actors.board import Board
    from greenroom.actors.bookkeeping import Bookkeeping

__all__ = ["Clerk"]

logger = logging.getLogger("greenroom.supervisor")

LANE = "store"

MOST_AT_ONCE = 256
"""How many requests one transaction takes."""

Entry = tuple[Any, Reply | None]
"""A request, and who is to be answered."""


class ClerkState:
    """What outlives a crash of the clerk."""

    __slots__ = ("beaten", "closed", "number", "redo", "singly", "waiting", "writing")

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.writing: list[Entry] | None = None
        self.number = 0
        """Of the transaction that is being written."""
        self.singly = 0
        """How many of those that wait are to be written by themselves: together they failed."""
        self.closed = False
        self.beaten = True
        """Whether the last beat reached the store."""
        self.redo: Any = None


class Clerk(Actor):
    """Writes to the store, for all sessions of a room."""

    def __init__(self, board: Board, state: ClerkState | None = None) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        assert board.books is not None
        self._board = board
        self._books: Bookkeeping = board.books
        self._restarted = state is not None
        self._state = ClerkState() if state is None else state

    def hand_over(self) -> ClerkState:
        """Everything."""
        return self._state

    def on_start(self) -> None:
        """Say that the room lives, and go on saying so."""
        if self._books.ledger:
            self.call_every(self._board.policy.lease_ttl / 3, RenewLeases())
            if not self._restarted:
                self._renew_leases(RenewLeases())
        redo, self._state.redo = self._state.redo, None
        if redo is not None:
            self.on_receive(redo)
        self._write_next()

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    def _request(self, request: Any) -> None:
        reply = self.defer_reply()
        if self._state.closed:
            reply.set_exception(
                RoomClosed("the room is closed, and writes nothing to the store any more")
            )
        elif self._books.ledger:
            self._state.waiting.append((request, reply))
            self._write_next()
        else:
            self._look(request, reply)

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
        timeout = self._board.policy.store_timeout
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
        state = self._state
        if not state.closed and not any(isinstance(request, Beat) for request, _ in state.waiting):
            state.waiting.append((Beat(), None))
            self._write_next()

    # Transactions.

    def _write_next(self) -> None:
        state = self._state
        if state.writing is not None or not state.waiting:
            return
        most = 1 if state.singly else MOST_AT_ONCE
        state.singly = max(0, state.singly - 1)
        state.writing = [state.waiting.popleft() for _ in range(min(most, len(state.waiting)))]
        state.number += 1
        number = state.number
        self.pipe_to_self(
            self._submit(self._books.write, [request for request, _ in state.writing]),
            lambda results: StoreWritten(number=number, results=results, error=None),
            lambda error: StoreWritten(number=number, results=None, error=error),
        )

    def _store_written(self, message: StoreWritten) -> None:
        state = self._state
        entries = state.writing
        if entries is None or message.number != state.number:
            return
        state.writing = None
        error = message.error
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
        DisclaimSession: _request,
        EnterStore: _request,
        FailRecovery: _request,
        FindOrphans: _request,
        HandOver: _request,
        IntendCommit: _request,
        PinLease: _request,
        RecordCommit: _request,
        RecordTurn: _request,
        RenewLeases: _renew_leases,
        StoreWritten: _store_written,
    }


def _away(error: BaseException) -> bool:
    """Whether it is the store, and not what was asked of it."""
    return isinstance(error, (WorkTimedOut, OSError)) or bool(getattr(error, "temporary", False))
