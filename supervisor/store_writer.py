"""The store writer: whoever wants something written to the store asks it.

It writes for all who have asked since it last wrote, in one transaction (group commit), with a pen
(`greenroom.actors.runtime._pen`). A turn that ends on a thread is written by that thread, if nobody
writes. What actors ask, a worker writes.

    caller  ── record(RecordTurn) ─> the line ── everything on it ──> one transaction, on this thread
    session ── ask(EnterStore) ────> the line ── everything on it ──> one transaction, on a worker

Order: the line is in order of asking, and a transaction keeps that order for each session id.

What if the write fails? If the store cannot be reached, everybody on it is told so, and decides. If it
was something else, one bad request must not spoil the others': each is tried by itself.

What if a write takes too long? A caller's is interrupted after half of `store_timeout`, where the store
can do that; else callers write nothing. After that workers write, until a beat has reached the store. A
write that has not come back after `store_timeout` is given up: whoever waits for it is told that it
failed. It may still happen, when nobody expects it any more, and undo what was written since: so
nothing else is written for the session ids in it until it has come back. Whoever asks meanwhile is
refused, as if the store were away for them.

What if it happens twice? A write that a signal has ended is written again. Each request names its owner
and its epoch, and says how things are to be, so that the second time changes nothing.

The store writer also says that the room lives (`Beat`), three times for every `lease_ttl`: through a
worker and the store, so that a process that is stopped, or in which nothing moves any more, stops saying
so. Nothing is taken from the store by a room that has not said so for that long.

It is no actor: who holds the pen changes what it knows, and nobody else.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pykka

from greenroom.actors import RoomClosed, WorkTimedOut
from greenroom.actors.ledger.bookkeeping import Beat
from greenroom.actors.runtime._calls import describe
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.runtime._pen import Pen
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import Answered, CloseBooks

if TYPE_CHECKING:
    from greenroom.actors import Future, Timer
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._pen import Hand
    from greenroom.actors.session.context import RoomContext
    from greenroom.messages import RecordTurn

__all__ = ["StoreWriter"]

logger = get_log("greenroom.supervisor")

LANE = "store"

HANGS = "a write to the store for this session hangs, and nothing else is written for it meanwhile"
CLOSED = "the room is closed, and writes nothing to the store any more"

MOST_AT_ONCE = 256
"""How many requests one transaction takes."""


class Entry(NamedTuple):
    """Something to be written."""

    request: Any
    answer: Future[Any]
    session: Mailbox | None = None
    """Who is told if it is given up, because the caller who would tell it may be stuck in it."""

    @property
    def session_id(self) -> str:
        """The session id that it is about. Empty: it is about none."""
        return getattr(self.request, "session_id", "")


@dataclass(slots=True, eq=False)
class Health:
    """What the last writes have shown. Whoever holds the pen changes it."""

    singly: int = 0
    """How many of those that wait are to be written by themselves: together they failed."""

    beat_due: bool = True
    """It is time to say that the room lives."""

    beaten: bool = True
    """Whether the last beat reached the store."""

    beaten_at: float | None = None
    """When the last beat that reached it was sent on its way."""

    callers_write: bool = False
    """Whether the store has answered in time since it last did not."""


class StoreWriter:
    """Writes to the store, for all sessions of a room."""

    def __init__(self, context: RoomContext) -> None:
        assert context.books is not None
        self._context = context
        self._runtime = context.runtime
        self._books: Bookkeeping = context.books
        self._health = Health()
        self._pen = Pen(context.runtime, self, LANE)
        self._hanging: dict[Hand[Entry], frozenset[str]] = {}
        """Writes that were given up and have not come back, and the session ids in them."""
        self._closing: Entry | None = None
        """The last that is written."""
        self._beater: Timer | None = None

    def __str__(self) -> str:
        return "StoreWriter"

    # Asking.

    def ask(self, request: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Have something written: its answer, or with `block=False` a future of that. In a handler, it
        is asked when that has returned."""
        answer = self._runtime.create_future(f"{self} to answer {describe(request)}")
        self._runtime.send(self._put, Entry(request, answer))
        return answer.get(timeout=timeout) if block else answer

    def _put(self, entry: Entry) -> None:
        """May be called twice, behind a strike."""
        if not self._books.ledger:
            self._answer_without_ledger(entry)
        elif self._closing not in (None, entry):
            again = isinstance(entry.request, CloseBooks)
            entry.answer._offer((True, None) if again else _failure(RoomClosed(CLOSED)))
        else:
            if isinstance(entry.request, CloseBooks):
                self._closing = entry
            self._pen.line.append(entry)
            self._have_written()

    def _answer_without_ledger(self, entry: Entry) -> None:
        """There is nothing to write, and no order to keep."""
        if isinstance(entry.request, CloseBooks):
            entry.answer._offer((True, None))
            return
        timeout = self._context.policy.store_timeout
        looked = self._runtime.submit(
            self._books.answer, entry.request, timeout=timeout, name=LANE, lane=LANE
        )
        looked.on_done(lambda done: entry.answer._offer(done._outcome))  # type: ignore[arg-type]

    def record(self, request: RecordTurn, session: Mailbox) -> Future[Any]:
        """Write the end of a turn, whose caller waits for that. To be called outside of handlers."""
        answer = session.create_future(request)
        if self._closing is not None:
            answer.set_exception(RoomClosed(CLOSED))
            return answer
        self._pen.line.append(Entry(request, answer, session))
        if self._caller_writes():
            self._pen.timeout = self._context.policy.store_timeout
            self._pen.write_here()
        else:
            self._have_written()
        return answer

    def _caller_writes(self) -> bool:
        if not self._health.callers_write or self._hanging or LOCAL.state.driving:
            return False
        if self._runtime.simulated:
            return self._runtime.random.random() < 0.5
        return running_loop() is None

    def _have_written(self) -> None:
        self._pen.timeout = self._context.policy.store_timeout
        self._pen.have_written()

    # Beats.

    def beat(self) -> None:
        """Say that the room lives, now and again and again. In a handler: when that has returned."""
        self._runtime.send(_beat, weakref.ref(self))

    def _beat(self) -> None:
        if self._beater is not None:
            self._beater.cancel()
        self._beater = None
        if self._closing is None and self._books.ledger and not self._runtime._closed:
            pause = self._context.policy.lease_ttl / 3
            self._beater = self._runtime.call_later(pause, _beat, weakref.ref(self))
            self._health.beat_due = True
            self._have_written()

    # What the pen asks: see `Scribe`.

    def choose(self, hand: Hand[Entry], waiting: int) -> int:
        """Choose what is written now, and whether it begins with a beat."""
        health, ttl = self._health, self._context.policy.lease_ttl
        now, since = self._runtime.clock(), health.beaten_at
        if health.beat_due or since is None or now - since > ttl / 3 or not self._books.holds():
            health.beat_due = False
            hand.extra = Beat(ttl)
        if health.singly:
            return 0 if hand.extra is not None else 1
        return min(waiting, MOST_AT_ONCE)

    def put_back(self, hand: Hand[Entry]) -> None:
        """It is chosen once more."""
        self._health.beat_due |= hand.extra is not None

    def wants(self) -> bool:
        """Whether a beat is due."""
        return self._health.beat_due and self._closing is None

    def write(self, hand: Hand[Entry]) -> list[Any]:
        """One transaction."""
        if self._hanging:
            self._refuse_what_hangs(hand)
        requests = [entry.request for entry in hand.entries]
        if hand.extra is not None:
            requests.insert(0, hand.extra)
        return self._books.write(requests) if requests else []

    def _refuse_what_hangs(self, hand: Hand[Entry]) -> None:
        held: frozenset[str] = frozenset().union(*list(self._hanging.values())) - {""}
        for entry in hand.entries:
            if entry.session_id in held:
                entry.answer._offer(_failure(StoreHangs(HANGS)))
        hand.entries = [entry for entry in hand.entries if entry.session_id not in held]

    def tell(self, hand: Hand[Entry]) -> bool:
        """The usual case."""
        if hand.extra is not None or self._health.singly:
            return False
        for entry, result in zip(hand.entries, hand.results, strict=True):
            entry.answer._offer((result, None))
        return True

    def end(self, hand: Hand[Entry]) -> None:
        """All cases."""
        error, health = hand.error, self._health
        if hand.given_up and isinstance(error, WorkTimedOut):
            self._hanging[hand] = frozenset(entry.session_id for entry in hand.entries)
        together = len(hand.entries) + (hand.extra is not None) > 1
        if error is not None and _away(error):
            health.callers_write = False
        elif error is not None and not hand.given_up and together:
            self._try_singly(hand)
            return
        if health.singly and hand.entries:
            health.singly -= 1
        results = list(hand.results or ())
        if hand.extra is not None:
            self._beaten(hand, lived=bool(results and results.pop(0)))
        for at, entry in enumerate(hand.entries):
            entry.answer._offer((results[at], None) if error is None else _failure(error))
            if hand.given_up and entry.session is not None:
                _tell(entry.session, Answered(request=entry.request, error=error))

    def _try_singly(self, hand: Hand[Entry]) -> None:
        logger.warning(
            "%s requests to the store failed together, and are tried singly",
            len(hand.entries) + (hand.extra is not None),
        )
        self._health.singly = len(hand.entries)
        self._health.beat_due |= hand.extra is not None
        self._pen.line[:0] = hand.entries

    def came_back(self, hand: Hand[Entry]) -> None:
        """Its sessions may be written again."""
        self._hanging.pop(hand, None)

    def interrupt(self) -> None:
        """A caller has been writing for half of `store_timeout`."""
        self._books.interrupt()

    def _beaten(self, hand: Hand[Entry], *, lived: bool) -> None:
        health, error = self._health, hand.error
        if error is not None:
            if health.beaten:
                logger.warning("The store cannot be reached: %s: %s", type(error).__name__, error)
            health.beaten = False
            return
        health.beaten_at = hand.since
        health.callers_write = self._books.can_interrupt
        if not health.beaten:
            logger.warning("The store can be reached again")
            if not lived:
                logger.warning("Other rooms may have taken this one for dead, and its sessions over")
        health.beaten = True


class StoreHangs(Exception):
    """A write to the store has not come back, and nothing else is written for its sessions."""

    temporary = True


def _failure(error: BaseException) -> tuple[None, Any]:
    return None, (type(error), error, error.__traceback__)


def _tell(session: Mailbox, message: Any) -> None:
    try:
        session.deliver(message)
    except pykka.ActorDeadError:
        pass


def _beat(writer: weakref.ref[StoreWriter]) -> None:
    there = writer()
    if there is not None:
        there._beat()


def _away(error: BaseException) -> bool:
    """Whether it is the store, and not what was asked of it."""
    return isinstance(error, (WorkTimedOut, OSError)) or bool(getattr(error, "temporary", False))
