"""A pen: what many threads put down, one of them writes for all.

It is for what only one thread may do at a time, what may block, and what takes hardly longer for many
than for one: a transaction. An actor cannot do that, for handlers must not block. The rule is that of a
mailbox: the baton is tried, and never waited for.

    1. an entry goes on the line
    2. who tries the baton and gets it takes what is on the line, writes that, and tells everybody
    3. the baton is let go, and the line looked at once more

Who walks away in step 2 has put its entry down before. Whoever holds the baton looks after letting go,
and finds it.

**Who writes.** A thread that must wait for its entry anyway writes it (`write_here()`), with what
others have put down meanwhile. It goes on for others for a moment (`GENEROUS`), and then has a worker
write. From a handler, or on an event loop, a worker writes (`have_written()`): one batch, and then
another worker, which is the same thread if more is on the line.

**A write that does not come back** is given up: the timer of its worker does that, or that of
`write_here()`. Whoever puts its name into `Hand.settled` first settles it, the writer or who gives up.
The scribe hears of both, whichever is first:

    who gives up:  1. settles it   2. `end()`    3. looks whether it has come back: `came_back()`
    the writer:    1. cannot settle it           2. notes that, and calls `came_back()`

**A strike** (`_strikes`) ends the write of a thread that writes here, and the rescuer goes on. If
nobody has settled what was in hand, it goes back on the line, and a worker writes it again: so what is
written must bear being written twice. If the writer has, everybody is told once more. If it was given
up, it only has come back. What a worker was given goes back only if no worker has begun with it, and
none begins then: of the worker and the rescuer one wins that (`Hand.begin()`)."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from greenroom.actors.runtime._errors import RuntimeClosed, WorkTimedOut
from greenroom.actors.runtime._mailbox import HOLDER
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL

if TYPE_CHECKING:
    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._runtime import Runtime

__all__ = ["Hand", "Pen", "Scribe"]

E = TypeVar("E")

GENEROUS = 0.001
"""For how many seconds a thread that was to write its own goes on for others."""

WRITER, OTHERS = "writer", "others"
"""Who settles what is in hand."""


class Hand(Generic[E]):
    """What the holder of a pen has in hand. It is the token of the baton, too."""

    __slots__ = (
        "_to_begin",
        "back",
        "ended",
        "entries",
        "error",
        "extra",
        "here",
        "results",
        "settled",
        "since",
    )

    def __init__(self, *, here: bool) -> None:
        self.here = here
        """Whether it is written by a thread that waits for it, and not by a worker."""
        self.entries: list[E] = []
        self.extra: Any = None
        """What the scribe adds."""
        self.since: float | None = None
        """When its write began."""
        self.results: Any = None
        self.error: BaseException | None = None
        self.settled: dict[str, str] = {}
        self.back = False
        """It has come back after it was given up."""
        self._to_begin = [None]
        self.ended = False
        """Everybody was told, or nobody is to be."""

    def begin(self) -> bool:
        """Win the right to write it, or to put it back: the first who asks."""
        try:
            self._to_begin.pop()
        except IndexError:
            return False
        return True

    def settle(self, who: str) -> bool:
        """Whether this one settles it: the first who asks, each time."""
        return self.settled.setdefault(HOLDER, who) is who

    @property
    def given_up(self) -> bool:
        """Whether others settle it, and what is written may happen at any time."""
        return self.settled.get(HOLDER) is OTHERS


class Scribe(Protocol[E]):
    """Who knows what is written."""

    def choose(self, hand: Hand[E], waiting: int) -> int:
        """Say how many of those that wait are written now. With the baton."""
        ...

    def put_back(self, hand: Hand[E]) -> None:
        """What was chosen goes back on the line: it is written again."""

    def wants(self) -> bool:
        """Whether there is something to write although nobody waits."""
        ...

    def write(self, hand: Hand[E]) -> Any:
        """Write, and return the results. May block, and may be called twice."""

    def tell(self, hand: Hand[E]) -> bool:
        """Tell everybody that it is written, if nothing else is to be done: else False. May be called
        twice."""
        ...

    def end(self, hand: Hand[E]) -> None:
        """Tell everybody what became of it. Called once, with the baton, where nothing strikes."""

    def came_back(self, hand: Hand[E]) -> None:
        """What was given up has come to an end, whatever that was. May be called twice."""

    def interrupt(self) -> None:
        """Have a write that is under way fail, if that can be."""


class Pen(Generic[E]):
    """A line, and the baton of who writes it."""

    __slots__ = (
        "__weakref__",
        "_baton",
        "_lane",
        "_runtime",
        "_scribe",
        "_watch",
        "line",
        "timeout",
    )

    def __init__(self, runtime: Runtime, scribe: Scribe[E], lane: str) -> None:
        self._runtime = runtime
        self._scribe = scribe
        self._lane = lane
        self._baton: dict[str, Hand[E]] = {}
        self._watch: object = None
        """The timer that looks whether who writes here is stuck."""
        self.line: list[E] = []
        self.timeout: float | None = None
        """After how many seconds a write is given up."""

    def have_written(self) -> None:
        """Have a worker write what is on the line, unless somebody writes."""
        hand: Hand[E] = Hand(here=False)
        try:
            if self._baton.setdefault(HOLDER, hand) is hand:
                self._take(hand)
                self._give_to_worker(hand)
        except BaseException:
            self._runtime.rescuer.put((self._rescue, hand))
            raise

    def write_here(self) -> None:
        """Write what is on the line, unless somebody writes."""
        hand: Hand[E] = Hand(here=True)
        clock = self._runtime.clock
        began = clock()
        try:
            while self._baton.setdefault(HOLDER, hand) is hand:
                self._runtime.let_others_run()
                self._take(hand)
                if self._watch is None and self.timeout is not None:
                    self._look_in(self.timeout / 2)
                if not self._write(hand) or not self._wanted():
                    return
                if clock() - began > GENEROUS:
                    self.have_written()
                    return
                hand = Hand(here=True)
        except BaseException:
            self._runtime.rescuer.put((self._rescue, hand))
            raise

    def _wanted(self) -> bool:
        return bool(self.line) or self._scribe.wants()

    def _take(self, hand: Hand[E]) -> None:
        line = self.line
        count = self._scribe.choose(hand, len(line))
        # No call between these two: see `_strikes`.
        hand.entries = line[:count]
        del line[:count]

    def _give_to_worker(self, hand: Hand[E]) -> None:
        runtime, lane = self._runtime, self._lane
        work = runtime.create_future(f"{lane} to be written")
        # Before it is submitted: behind that, a strike could come in between.
        work.on_done(functools.partial(self._look_at_work, hand))
        try:
            runtime.submit(
                self._write_on_worker, hand, timeout=self.timeout, name=lane, lane=lane, future=work
            )
        except RuntimeClosed as error:
            runtime.rescuer.elsewhere(functools.partial(self._close, hand, error))

    def _write_on_worker(self, hand: Hand[E]) -> None:
        thread = LOCAL.state
        if hand.begin() and self._write(hand) and self._wanted():
            thread.finishing = True
            try:
                self.have_written()
            finally:
                thread.finishing = False

    def _write(self, hand: Hand[E]) -> bool:
        """Write what is in hand. Whether the baton is let go: else somebody else sees to that."""
        runtime = self._runtime
        hand.since = runtime.clock()
        try:
            hand.results = self._scribe.write(hand)
        except BaseException as error:
            if hand.here and is_strike(error):
                raise
            hand.error = error
        if hand.here:
            runtime.let_others_run()
        if not hand.settle(WRITER):
            runtime.rescuer.elsewhere(functools.partial(self._came_back, hand))
            return False
        if hand.error is None and self._scribe.tell(hand):
            hand.ended = True
            self._baton.clear()
            return True
        runtime.rescuer.elsewhere(functools.partial(self._end, hand))
        return False

    # Where nothing strikes.

    def _end(self, hand: Hand[E]) -> None:
        """With the baton, unless that was let go."""
        if not hand.ended:
            hand.ended = True
            self._scribe.end(hand)
            if hand.back:
                self._scribe.came_back(hand)
        if self._baton.get(HOLDER) is hand:
            self._baton.clear()
        if self._wanted():
            self.have_written()

    def _came_back(self, hand: Hand[E]) -> None:
        """What was given up has come to an end."""
        hand.back = True
        self._scribe.came_back(hand)

    def _close(self, hand: Hand[E], error: RuntimeClosed) -> None:
        """No worker takes it any more, nor what else is on the line."""
        count = len(self.line)
        hand.entries += self.line[:count]
        del self.line[:count]
        self._give_up(hand, error)

    def _rescue(self, hand: Hand[E]) -> None:
        """A strike came while this was in hand, or was to be."""
        if not hand.here and not hand.begin():
            return  # a worker has it
        if hand.given_up:
            self._came_back(hand)
            return
        if hand.settle(OTHERS):
            hand.ended = True
            self._scribe.put_back(hand)
            self.line[:0] = hand.entries
        self._end(hand)

    def _look_at_work(self, hand: Hand[E], work: Future[None]) -> None:
        """A worker has come back, is stuck, or will not begin."""
        if work.failure is not None:
            self._give_up(hand, work.failure)

    def _look_in(self, seconds: float) -> None:
        self._watch = self._runtime._set_timer(seconds, _look_at_writer, weakref.ref(self))

    def look_at_writer(self) -> None:
        """On the timers' thread: see whether somebody writes here and takes too long."""
        self._watch = None
        hand, timeout = self._baton.get(HOLDER), self.timeout
        if hand is None or not hand.here or timeout is None:
            return
        # Without a beginning, its writer has yet to take what is on the line, and has only the baton.
        left = timeout if hand.since is None else hand.since + timeout - self._runtime.clock()
        if left <= timeout / 2:
            self._scribe.interrupt()
        if left <= 0:
            msg = f"{self._lane} was still written after {timeout} seconds. It may still happen"
            self._give_up(hand, WorkTimedOut(msg))
            return
        # What follows in the same write is interrupted, too.
        self._look_in(min(left, timeout / 8) if left <= timeout / 2 else left - timeout / 2)

    def _give_up(self, hand: Hand[E], error: BaseException) -> None:
        if hand.settle(OTHERS):
            hand.error = error
            self._end(hand)


def _look_at_writer(pen: weakref.ref[Pen[Any]]) -> None:
    there = pen()
    if there is not None:
        there.look_at_writer()
