"""The store writer: whoever wants something written to the store asks it.

It writes for all who have asked since it last wrote, in one transaction (group commit), with a pen
(`greenroom.actors.runtime._pen`). A turn that ends on a thread is written by that thread, if nobody
writes. What actors ask, a worker writes.

    caller  ── record(RecordTurn) ─> the line ── everything on it ──> one transaction, on this thread
    session ── ask(EnterStore) ────> the line ── everything on it ──> one transaction, on a worker

Order: the line is in order of asking, and a transaction keeps that order for each session id.

What if the write fails? If the store cannot be reached, everybody on it is told so, and decides. If it
was something else, one bad request must not spoil the others': each is tried by itself.

What if a write takes too long? Callers write only if the store says that it gives up before
`store_timeout`, and are interrupted after half of that. After a failure of the store workers write,
until a beat has reached it. A write that has not come back after `store_timeout` is given up: who waits
for it is told that it failed. It may still happen, when nobody expects it any more, and undo what was
written since: so nothing else is written for the session ids in it until it has come back. Who asks
meanwhile is refused, as if the store were away for them.

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
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors import RoomClosed, WorkTimedOut
from greenroom.actors.ledger.bookkeeping import Beat, ToWrite
from greenroom.actors.runtime._calls import describe
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.runtime._pen import Pen
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import Answered, CloseBooks, EnterStore, RecordTurn

if TYPE_CHECKING:
    from greenroom.actors import Timer
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._pen import Hand
    from greenroom.actors.session.context import RoomContext

__all__ = ["StoreWriter"]

logger = get_log("greenroom.supervisor")

LANE = "store"

HANGS = "a write to the store for this session hangs, and nothing else is written for it meanwhile"
CLOSED = "the room is closed, and writes nothing to the store any more"

MOST_AT_ONCE = 256
"""How many requests one transaction takes."""


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
        self._hanging: dict[Hand[ToWrite], frozenset[str]] = {}
        """Writes that were given up and have not come back, and the session ids in them."""
        self._closing: ToWrite | None = None
        """The last that is written."""
        self._beater: Timer | None = None

    def __str__(self) -> str:
        return "StoreWriter"

    # Asking.

    def ask(self, request: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Have something written: its answer, or with `block=False` a future of that. In a handler, it
        is asked when that has returned."""
        answer = self._runtime.create_future(f"{self} to answer {describe(request)}")
        self._runtime.send(self._put, ToWrite(request, answer))
        return answer.get(timeout=timeout) if block else answer

    def _put(self, entry: ToWrite) -> None:
        """May be called twice, behind a strike."""
        if not self._books.ledger:
            self._answer_without_ledger(entry)
        elif self._closing not in (None, entry):
            if isinstance(entry.request, CloseBooks):
                entry.answer._offer((True, None))
            else:
                entry.fail(RoomClosed(CLOSED))
        else:
            if isinstance(entry.request, CloseBooks):
                self._closing = entry
            self._pen.line.append(entry)
            thread = LOCAL.state
            free = thread.will_wait and thread.pen in (None, self._pen)
            may = free and _may_take_a_while(entry.request) and self._callers_write()
            if may and self._is_on_thread():
                self._pen.timeout = self._context.policy.store_timeout
                thread.pen = self._pen
            else:
                self._have_written()

    def _answer_without_ledger(self, entry: ToWrite) -> None:
        """There is nothing to write, and no order to keep."""
        if isinstance(entry.request, CloseBooks):
            entry.answer._offer((True, None))
            return
        timeout = self._context.policy.store_timeout
        looked = self._runtime.submit(
            self._books.answer, entry.request, timeout=timeout, name=LANE, lane=LANE
        )
        looked.on_done(lambda done: entry.answer._offer(done._outcome))  # type: ignore[arg-type]

    def record(self, entry: ToWrite) -> None:
        """Write the end of a turn, whose caller waits for that. To be called outside of handlers."""
        self.put_down(entry)
        if not self._pen.line:
            return  # the room is closed, or somebody else has taken it
        if self._callers_write() and not LOCAL.state.driving and self._is_on_thread():
            self._pen.timeout = self._context.policy.store_timeout
            self._pen.write_here()
        else:
            self._have_written()

    def put_down(self, entry: ToWrite) -> None:
        """The same in two steps, so that others may come in between. The second is `write_soon()`. If
        that never comes, the next beat sees to it."""
        if self._closing is None:
            self._pen.line.append(entry)
        else:
            entry.fail(RoomClosed(CLOSED))

    def write_soon(self) -> None:
        """Have a worker write what was put down, unless somebody has taken it."""
        if self._pen.line:
            self._have_written()

    def _callers_write(self) -> bool:
        """Whether the store is well, and gives up in time if it is not."""
        patience, timeout = self._books.patience, self._context.policy.store_timeout
        if patience is None or timeout is None or patience > timeout:
            return False
        return self._health.callers_write and not self._hanging

    def _is_on_thread(self) -> bool:
        """Whether this thread may wait."""
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

    def choose(self, hand: Hand[ToWrite], waiting: int) -> int:
        """Choose what is written now, and whether it begins with a beat."""
        health, ttl = self._health, self._context.policy.lease_ttl
        now, since = self._runtime.clock(), health.beaten_at
        if health.beat_due or since is None or now - since > ttl / 3 or not self._books.holds():
            health.beat_due = False
            hand.extra = Beat(ttl)
        if health.singly:
            # A beat goes alone. If the last one failed, one entry goes with it: else none is ever told.
            return 0 if hand.extra is not None and health.beaten else 1
        return min(waiting, MOST_AT_ONCE)

    def put_back(self, hand: Hand[ToWrite]) -> None:
        """It is chosen once more."""
        self._health.beat_due |= hand.extra is not None

    def wants(self) -> bool:
        """Whether a beat is due."""
        return self._health.beat_due and self._closing is None

    def write(self, hand: Hand[ToWrite]) -> list[Any]:
        """One transaction."""
        if self._hanging:
            self._refuse_what_hangs(hand)
        requests = [entry.request for entry in hand.entries]
        if hand.extra is not None:
            requests.insert(0, hand.extra)
        return self._books.write(requests) if requests else []

    def _refuse_what_hangs(self, hand: Hand[ToWrite]) -> None:
        held = frozenset[str]().union(*list(self._hanging.values())) - {""}
        for entry in hand.entries:
            if entry.session_id in held:
                entry.fail(StoreHangs(HANGS))
        hand.entries = [entry for entry in hand.entries if entry.session_id not in held]

    def tell(self, hand: Hand[ToWrite]) -> bool:
        """The usual case."""
        if hand.extra is not None or self._health.singly:
            return False
        for entry, result in zip(hand.entries, hand.results, strict=True):
            entry.answer._offer((result, None))
        return True

    def end(self, hand: Hand[ToWrite]) -> None:
        """All cases."""
        error, health = hand.error, self._health
        if hand.given_up and isinstance(error, WorkTimedOut):
            self._hanging[hand] = frozenset(entry.session_id for entry in hand.entries)
        together = len(hand.entries) + (hand.extra is not None) > 1 and not health.singly
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
            if error is None:
                entry.answer._offer((results[at], None))
            else:
                entry.fail(error)
            if hand.given_up and entry.session is not None:
                _tell(entry.session, Answered(request=entry.request, error=error))

    def _try_singly(self, hand: Hand[ToWrite]) -> None:
        logger.warning(
            "%s requests to the store failed together, and are tried singly",
            len(hand.entries) + (hand.extra is not None),
        )
        self._health.singly = len(hand.entries)
        self._health.beat_due |= hand.extra is not None
        self._pen.line[:0] = hand.entries

    def came_back(self, hand: Hand[ToWrite]) -> None:
        """Its sessions may be written again."""
        self._hanging.pop(hand, None)

    def interrupt(self) -> None:
        """A caller has been writing for half of `store_timeout`."""
        self._books.interrupt()

    def _beaten(self, hand: Hand[ToWrite], *, lived: bool) -> None:
        health, error = self._health, hand.error
        if error is not None:
            if health.beaten:
                logger.warning("The store cannot be reached: %s: %s", type(error).__name__, error)
            health.beaten = False
            return
        health.beaten_at = hand.since
        health.callers_write = True
        if not health.beaten:
            logger.warning("The store can be reached again")
            if not lived:
                logger.warning("Other rooms may have taken this one for dead, and its sessions over")
        health.beaten = True


class StoreHangs(Exception):
    """A write to the store has not come back, and nothing else is written for its sessions."""

    temporary = True


def _may_take_a_while(request: Any) -> bool:
    """Whether its caller waits for this, and for nothing that must come sooner."""
    if type(request) is RecordTurn:
        return request.turn is not None
    return type(request) is EnterStore and request.here


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
