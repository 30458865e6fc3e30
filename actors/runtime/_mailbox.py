"""The mailbox: where an actor's messages wait, and who handles them.

No actor has a thread. A mailbox has a queue and a *baton*, which is only ever tried, never waited for.
Whoever holds the baton runs the actor. A sender tries the baton; who gets it handles its own message
and what else is there, up to a batch, and lets go; who does not get it puts the message into the queue,
tries once more, and walks away, because somebody else holds the baton and will find the message.

Why no wake-up can be lost. It could only be lost between the two sides' decisions:

    1. the holder finds the queue empty
    2. a sender puts its message, tries the baton, fails, walks away
    3. the holder lets go

Nobody would run 2, so after letting go the holder looks once more (`run`), and if there is something it
tries the baton again. If it fails there, another thread holds it, and that thread took it after the
message was put and looks after letting go, in its turn. A restart and a close change what may be run
before they wake, so the same look covers them too.

Why nothing is lost to a stop. A stopped mailbox still has a queue and a baton. A sender that saw it
open, was held up, and puts its message after the last one was handled, then tries the baton as always;
whoever gets it finds the mailbox closed and refuses what is there. pykka looks first and puts then, and
a message between the two waits for ever.

Why a signal does not wedge an actor. A signal handler may raise between almost any two steps on the
main thread, also between taking the baton and knowing that we have it. So the baton is a dict with one
place, and who takes it puts a token there that is its own: `setdefault` is a single step, and whoever
cleans up after an exception can tell whether the baton is still ours. In the same way somebody's
message must not vanish between the queue and our hand. The interpreter delivers signals when a function
is entered, after a call and at a backward jump, and nowhere else. So the queue is a plain list: senders
append to it, the holder of the baton reads `queue[0]` into its hand and deletes it there, and no call
lies between the two (`test_mailbox` reads the bytecode). What becomes of a message that was in hand when
the exception came is in `_strikes`.

Why a long queue costs no more for each message. Deleting the first of a list moves all the others. So a
queue of more than `LONG` messages moves, as a whole, to the backlog: a deque that is handled before the
queue. A signal must not strike between the copy and the delete either, or all of it would come twice.

Why asks of different actors do not slow each other down without a GIL. Counting the references to an
object that several threads use is an atomic write to one place in memory, and takes longer than all the
rest of an ask. So the short way of `ask` reads nothing that the ask of another actor reads, but for
`LOCAL` and for what CPython does not count: classes, functions, constants. A dict of special messages,
the limit of slow handlers in the runtime and a sentinel of our own were three such objects: see
`benchmarks.cores`. (So the runtime is asked about its limit only behind a handler that took longer than
a millisecond, which is a constant.)

A step is what a handler does, without a message (`step`): a function that is called with the actor while
the baton is held, if nobody holds it and nothing waits. It must be short, must not send, and makes its
calls first and its stores last, so that an exception that strikes in between has changed nothing. The
second look is the same.

    1. a step holds the baton   2. a sender puts its message, fails to get the baton, walks away
    3. the step lets go, looks once more, and runs 2

Sends from inside a handler are not run on its stack. They go on the thread's ready list, and the bottom
of the stack (`drive_ready`) works through it. Context variables: a handler sees those of its sender,
also when another thread runs it; what has to wait in a queue takes its sender's context along.
"""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from time import monotonic
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any, TypeVar

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from greenroom.actors.runtime._courtesy import give_way
from greenroom.actors.runtime._dispatch import SPECIAL
from greenroom.actors.runtime._errors import MailboxFull
from greenroom.actors.runtime._future import Future
from greenroom.actors.runtime._life import (
    AT_ONCE,
    CLOSED,
    DOOMED,
    OPEN,
    STARTING,
    Life,
    _passed_on,
    _refuse,
)
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import ChildFailed, StopActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._life import Item
    from greenroom.actors.runtime._threads import Drive, ThreadState

    Brought = tuple[Any, Future[Any] | None]

__all__ = ["Mailbox"]

T = TypeVar("T")

HOLDER = "holder"
"""The one place of a baton. It is emptied with `clear()`, which gives the dict's table back: of a
million actors, nearly all rest, and without its table an empty dict takes a third of the memory."""

LONG = 64
"""A queue with more messages than this moves to the backlog before it is handled."""

BATCH = 128
"""How many messages the rescuer handles for others before helpers go on."""

START: Any = "on_start()"
"""In the place of a message: the actor starts."""

HERE: Any = None
"""In the place of the context of a message that is handled on its sender's thread: that has it."""


class Mailbox(Life):
    """The inbox of one actor, and all that the runtime knows about it."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.actor_class.__name__} ({self.urn})"

    def create_future(self, message: Any) -> Future[Any]:
        """Make the future of an answer to this message."""
        return Future()

    # Sending.

    @property
    def bound(self) -> int | None:
        """How many messages may wait."""
        return None if self.actor is None else self.actor.mailbox_bound

    def _refuse_when_full(self, message: Any) -> None:
        bound = self.bound
        if bound is not None and len(self.queue) >= bound:
            msg = (
                f"{self} has {bound} messages waiting, its bound, and did not take "
                f"{type(message).__name__}. Send less, or later, or raise its mailbox_bound"
            )
            raise MailboxFull(msg)

    def deliver(self, message: Any, future: Future[Any] | None = None, bounded: bool = False) -> None:
        """Take a message and see to it that somebody handles it. Raises if it is not taken.

        The bound of the actor counts if `bounded`: not for what it, or the runtime, has set in motion.
        """
        if self.state == CLOSED or self.runtime.forked:
            where = " here: it runs in the parent process" if self.runtime.forked else ""
            msg = f"{self} not found{where}"
            raise pykka.ActorDeadError(msg)
        if bounded and self.queue:
            self._refuse_when_full(message)
        thread = LOCAL.state
        if not thread.driving:
            if self._run_here(thread, (message, future)):
                return
        elif thread.drive is not None and thread.drive.item is not None:
            thread.drive.sent.append((self.queue.append, (message, future, copy_context()), self))
            return
        item = (message, future, copy_context())
        try:
            self.queue.append(item)
            self.wake()
        except BaseException:
            self.runtime.rescuer.put((self.wake,))
            raise

    def ask(self, message: Any, timeout: float | None = None, *, gives_way: bool = True) -> Any:
        """Send a message and wait for the answer: at once, if nobody runs the actor and nothing waits.

        With `gives_way=False` the thread does not let others go first when it has its answer
        (`_courtesy`): for an answer that others wait for until it is used.

        This is what `deliver()`, `run()`, `handle()` and `Future.get()` do together in the
        common case, in one piece and without a future. Whatever is not common is left to them.
        """
        thread = LOCAL.state
        if thread.driving or self.state != OPEN or self._backlog is not None or self.queue:
            return self._ask_and_wait(message, timeout)
        drive = thread.drive or thread.begin_drive()
        drive.mailbox = self
        drive.token = token = (message,)
        future: Future[Any] | None = None
        result: Any = None
        thread.driving = True  # before the baton: a signal handler that sends has a drive of its own
        try:
            mine = self.baton.setdefault(HOLDER, token) is token
            if mine and self.state == OPEN and self._backlog is None and not self.queue:
                thread.running = self
                self.replying = AT_ONCE
                began = monotonic()
                if began > thread.sample_due:
                    thread.sample(began)
                drive.item = (message, None, HERE)
                try:
                    actor: Actor = self.actor  # type: ignore[assignment]  # an open mailbox has an actor
                    if thread.exposed:
                        outbox = self.outbox
                        drive.saved = (actor.save(), None if outbox is None else outbox.copy())
                    kind = message.__class__
                    if (
                        kind is ProxyCall
                        or kind is ProxyGetAttr
                        or kind is ProxySetAttr
                        or kind is StopActor
                        or kind is ChildFailed
                    ):
                        result = SPECIAL[kind](self, message)
                    else:
                        result = actor.on_receive(message)
                    if self.replying is not AT_ONCE:
                        future, thread.deferred = thread.deferred, None
                except BaseException as exception:
                    if thread.exposed and is_strike(exception):
                        raise
                    if self.replying is AT_ONCE:
                        self.replying = future = Future()
                    else:
                        future, thread.deferred = thread.deferred, None
                    self.failed(message, exception, future)
                self.replying = drive.item = drive.saved = None
                if drive.sent:
                    thread.will_wait = future is not None
                    self.send_out(drive)
                    thread.will_wait = False
                thread.running = None
                self.baton.clear()
                thread.driving = False
                drive.mailbox = drive.token = None
                if monotonic() - began > 0.001:
                    self.runtime._report_slow(self, message, thread, began)
                if drive.ready or self.queue or self.state != OPEN:
                    self._go_on(thread)
            else:
                drive.mailbox = drive.token = None
                if mine:
                    mine = False
                    self.baton.clear()
                thread.driving = False
        except BaseException:
            # Nothing but C calls: see `_strikes`.
            thread.driving = False
            thread.running = thread.drive = None
            self.runtime.rescuer.put((rescue, drive))
            if thread.pen is not None:
                self.runtime.rescuer.put((thread.pen.have_written,))
            thread.will_wait, thread.pen = False, None
            raise
        if not mine:
            return self._ask_and_wait(message, timeout)
        if future is not None:
            pen = thread.pen
            if pen is not None:
                thread.pen = None
                try:
                    pen.write_here()
                except BaseException:
                    self.runtime.rescuer.put((pen.have_written,))
                    raise
            return future.get(timeout=timeout)
        if gives_way:
            thread.answers_left -= 1
            if thread.answers_left < 0:
                give_way(thread)
        return result

    def step(
        self,
        thread: ThreadState,
        act: Callable[[Any, Any], T],
        argument: object,
        gives_way: bool = False,
    ) -> T | None:
        """Call `act(actor, argument)` with the baton held, here and now. `None` if that cannot be: the
        actor is being run, something waits, or this thread runs another one. Then send a message.

        `thread` is the caller's, and `argument` must be an object that nobody else has: it is the token
        of the baton, too.
        """
        if thread.driving:
            return None
        result: T | None = None
        baton = self.baton
        try:
            if baton.setdefault(HOLDER, argument) is not argument:
                return None
            thread.driving = True
            if self.state == OPEN and self._backlog is None and not self.queue:
                result = act(self.actor, argument)
            baton.clear()
            thread.driving = False
            if self.queue or self.state != OPEN:
                self._go_on(thread)
        except BaseException:
            thread.driving = False
            self.runtime.rescuer.put((self.let_go_of, argument))
            raise
        if gives_way:
            thread.answers_left -= 1
            if thread.answers_left < 0:
                give_way(thread)
        return result

    def _ask_and_wait(self, message: Any, timeout: float | None) -> Any:
        future = self.create_future(message)
        self.deliver(message, future, bounded=True)
        return future.get(timeout=timeout)

    def _go_on(self, thread: ThreadState) -> None:
        """See to what has come meanwhile, and to what the handler has sent to others."""
        drive = thread.drive or thread.begin_drive()
        if self.runnable():
            drive.ready.append(self)
        try:
            drive_ready(thread, self.runtime.batch)
        except BaseException:
            thread.driving = False
            thread.running = thread.drive = None
            self.runtime.rescuer.put((rescue, drive))
            raise

    def wake(self) -> None:
        """See to it that somebody runs this mailbox."""
        thread = LOCAL.state
        if not thread.driving:
            self._run_here(thread)
        elif thread.running is not self:
            drive = thread.drive or thread.begin_drive()
            ready = drive.ready
            if not ready or ready[-1] is not self:
                ready.append(self)

    def _run_here(self, thread: ThreadState, first: Brought | None = None) -> bool:
        """Run this mailbox, then what its handlers sent to others. False if somebody else runs it.

        This is the bottom of the stack of every handler. It returns after a batch; what is left then
        goes on on a helper thread.
        """
        drive = thread.drive or thread.begin_drive()
        drive.mailbox = self
        drive.token = token = (first,)
        thread.driving = True
        try:
            if self.baton.setdefault(HOLDER, token) is not token:
                drive.mailbox = drive.token = None
                thread.driving = False
                return False
            drive_ready(thread, self.run(thread, self.runtime.batch, token, first))
        except BaseException:
            thread.driving = False
            thread.running = thread.drive = None
            self.runtime.rescuer.put((rescue, drive))
            raise
        return True

    def put(self, envelope: Any) -> None:
        """Take one of pykka's envelopes: the interface of a pykka inbox."""
        self.deliver(envelope.message, envelope.reply_to, bounded=True)

    def get(self) -> Any:
        """Refuse: nobody but the runtime takes messages out."""
        msg = f"{self}: only the runtime takes messages out of a mailbox"
        raise TypeError(msg)

    def empty(self) -> bool:
        """Tell whether nothing waits."""
        return not self.queue and not self._backlog

    # Running, with the baton in hand.

    def run(self, thread: ThreadState, budget: int, token: object, first: Brought | None = None) -> int:
        """Handle up to `budget` messages, let go of the baton, and return what is left of the budget.

        `first` was brought along by the thread. If nothing else waits it need not go through the queue.
        """
        queue = self.queue
        while True:
            thread.running = self
            if first is None:
                budget = self._run_queue(thread, budget)
            elif self.state == OPEN and self._backlog is None and not queue:
                budget -= 1
                thread.drive.item = (first[0], first[1], HERE)  # type: ignore[union-attr]  # it drives
                self.handle(first[0], first[1])
            else:
                queue.append((first[0], first[1], copy_context()))
                budget = self._run_queue(thread, budget)
            if self.state == CLOSED:
                self.refuse_all()
            thread.running = None
            self.baton.clear()
            # The second look: see the module's docstring.
            if (not queue and self.state == OPEN and self._backlog is None) or not self.runnable():
                return budget
            if budget <= 0:
                self.runtime._hand_over(self)
                return budget
            if self.baton.setdefault(HOLDER, token) is not token:
                return budget
            first = None

    def runnable(self) -> bool:
        """Tell whether there is something to do. Needs no baton."""
        state = self.state
        if state >= OPEN:
            return bool(self.queue or self._backlog)
        return state >= STARTING

    def handle(self, message: Any, future: Future[Any] | None) -> None:
        """Handle one message and answer it."""
        self.replying = future
        self.decided = False
        began = monotonic()
        thread = LOCAL.state
        if began > thread.sample_due:
            thread.sample(began)
        drive: Drive = thread.drive  # type: ignore[assignment]  # it drives
        try:
            actor: Actor = self.actor  # type: ignore[assignment]  # an open mailbox has an actor
            if thread.exposed:
                outbox = self.outbox
                drive.saved = (actor.save(), None if outbox is None else outbox.copy())
            special = SPECIAL.get(message.__class__)
            result = actor.on_receive(message) if special is None else special(self, message)
            future = self.replying
            if future is not None:
                drive.sent.append((future._resolve, (result, None), None))
        except BaseException as exception:
            if thread.exposed and is_strike(exception):
                raise
            self.failed(message, exception, future)
        self.happened(drive)
        if monotonic() - began > 0.001:
            self.runtime._report_slow(self, message, thread, began)

    def happened(self, drive: Drive) -> None:
        """The message in hand was handled. What that has sent goes out."""
        self.replying = drive.item = drive.saved = None
        if drive.sent:
            self.send_out(drive)

    def send_out(self, drive: Drive) -> None:
        """Send what a handler has sent: from the beginning, or from where a strike came in between."""
        if drive.sending is None:
            _reach_deeper()
            drive.sending = iter(drive.sent)
        for drive.doing in drive.sending:  # noqa: B020  # what is taken is noted with no strike between
            send, what, mailbox = drive.doing
            send(what)
            if mailbox is not None:
                mailbox.wake()
        drive.doing = None
        drive.sent.clear()
        drive.sending = None

    def _run_queue(self, thread: ThreadState, budget: int) -> int:
        drive: Drive = thread.drive  # type: ignore[assignment]  # it drives
        if self.state == STARTING:
            self._run_on_start(thread)
        elif self.state == DOOMED:
            self.end_for_good()
            self.send_out(drive)
        while self.state == OPEN and (waiting := self._next()) and budget > 0:
            budget -= 1
            # No call between these two: see `_strikes`.
            drive.item = waiting[0]
            del waiting[0]
            message, future, context = drive.item
            context.run(self.handle, message, future)
        return budget

    # After a strike, on the rescuer.

    def let_go_of(self, token: object) -> None:
        """Let go of the baton if it is held with this token, and look once more."""
        if self.baton.get(HOLDER) is token:
            self.baton.clear()
        if self.runnable():
            self.wake()

    def go_on(self, drive: Drive) -> None:
        """Finish what a struck thread had in hand here, with its baton."""
        item, saved = drive.item, drive.saved
        if item is None:
            if drive.doing is not None:
                send, what, mailbox = drive.doing
                if not isinstance(send, BuiltinMethodType):
                    send(what)
                if mailbox is not None:
                    mailbox.wake()
            self.send_out(drive)
            return
        message, future, context = item
        if future is not None and self._debts is not None:
            self._debts.pop(future, None)  # the reply that was taken along is void
        self.replying = None
        actor = self.come_back()
        if actor is not None and saved is not None:
            actor.restore(saved[0])
            self.outbox = saved[1]
        if actor is not None and message is START:
            self.state = STARTING
        elif actor is not None and actor.can_restore:
            self._put_first((message, _passed_on(future), context or copy_context()))
        elif future is not None:
            _refuse(future, f"{self} was interrupted while it handled this")
        elif message is not START:
            self.runtime._dead_letter(self, message)

    def _next(self) -> list[Item] | deque[Item]:
        """Return where the next message is: in the backlog, if there is one, else in the queue."""
        queue = self.queue
        if self._backlog is None:
            length = len(queue)
            if length <= LONG or self.bound is not None:
                return queue
            # No call between the store and the delete: again because of signals.
            self._backlog = deque(queue[:length])
            del queue[:length]
        elif not self._backlog:
            self._backlog = None
            if self._rare.unfinished is not None:
                self._rare.unfinished = None  # whatever was handed on is done
            return queue
        return self._backlog

    def _run_on_start(self, thread: ThreadState) -> None:
        drive: Drive = thread.drive  # type: ignore[assignment]  # it drives
        actor: Actor = self.actor  # type: ignore[assignment]  # a mailbox that starts has an actor
        if self._rare.unfinished is not None:
            self.resume(self._rare.unfinished)
        self.decided = False
        drive.item = (START, None, HERE)
        self.state = OPEN
        try:
            if thread.exposed:
                drive.saved = (actor.save(), self.outbox)
            actor.on_start()
        except BaseException as exception:
            if thread.exposed and is_strike(exception):
                raise
            self.start_failed(exception)
        else:
            if self._rare.failed_starts:
                self._rare.failed_starts = 0
        self.happened(drive)


def drive_ready(thread: ThreadState, budget: int) -> None:
    """Run what is on the thread's ready list."""
    drive: Drive = thread.drive  # type: ignore[assignment]  # it drives
    ready = drive.ready
    thread.driving = True
    while ready and budget > 0:
        drive.mailbox = mailbox = ready[0]
        drive.token = token = (mailbox,)
        if mailbox.baton.setdefault(HOLDER, token) is token:
            budget = mailbox.run(thread, budget, token)
        ready.popleft()
    thread.driving = False
    drive.mailbox = drive.token = None
    while ready:
        ready[0].runtime._hand_over(ready[0])
        ready.popleft()


def rescue(drive: Drive) -> None:
    """Finish what a struck thread had in hand."""
    thread, mailbox = LOCAL.state, drive.mailbox
    thread.driving = True
    try:
        if mailbox is not None and mailbox.baton.get(HOLDER) is drive.token:
            thread.running = mailbox
            try:
                mailbox.go_on(drive)
            finally:
                thread.running = None
                mailbox.baton.clear()
                mailbox.wake()
        for other in drive.ready:
            other.wake()
    finally:
        drive_ready(thread, BATCH)


def _reach_deeper() -> None:
    """Make sure that a call can be made from where this was called."""
    len(())
