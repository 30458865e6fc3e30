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
lies between the two (`test_mailbox` reads the bytecode). What was in hand when the exception came is
refused; if it was told and not asked, that is all that is lost.

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
from typing import TYPE_CHECKING, Any, TypeVar

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from greenroom.actors.runtime._courtesy import give_way
from greenroom.actors.runtime._dispatch import SPECIAL
from greenroom.actors.runtime._errors import MailboxFull
from greenroom.actors.runtime._future import Future
from greenroom.actors.runtime._life import CLOSED, DOOMED, OPEN, STARTING, Life, _refuse
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import ChildFailed, StopActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._life import Item
    from greenroom.actors.runtime._threads import ThreadState

    Brought = tuple[Any, Future[Any] | None]

__all__ = ["Mailbox"]

T = TypeVar("T")

HOLDER = "holder"
"""The one place of a baton. It is emptied with `clear()`, which gives the dict's table back: of a
million actors, nearly all rest, and without its table an empty dict takes a third of the memory."""

LONG = 64
"""A queue with more messages than this moves to the backlog before it is handled."""

AT_ONCE: Any = ...
"""In the place of the future of a message whose sender waits on this very thread: there is none yet."""


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
        if self.state == CLOSED:
            msg = f"{self} not found"
            raise pykka.ActorDeadError(msg)
        if bounded and self.queue:
            self._refuse_when_full(message)
        thread = LOCAL.state
        if not thread.driving:
            item = (message, future)
            if self._run_here(thread, item, item):
                return
        self.queue.append((message, future, copy_context()))
        self.wake()

    def ask(self, message: Any, timeout: float | None = None, *, gives_way: bool = True) -> Any:
        """Send a message and wait for the answer: at once, if nobody runs the actor and nothing waits.

        With `gives_way=False` the thread does not let others go first when it has its answer
        (`_courtesy`): for an answer that others wait for until it is used.

        This is what `deliver()`, `run()`, `handle()` and `Future.get()` do together in the
        common case, in one piece and without a future. Whatever is not common is left to them.
        """
        thread = LOCAL.state
        if thread.driving or self.state != OPEN:
            return self._ask_and_wait(message, timeout)
        token = (message,)
        future: Future[Any] | None = None
        result: Any = None
        try:
            if self.baton.setdefault(HOLDER, token) is not token:
                return self._ask_and_wait(message, timeout)
            if self.state != OPEN or self._backlog is not None or self.queue:
                self._refuse_when_full(message)
                future = Future()
                self._run_here(thread, token, (message, future))
                return future.get(timeout=timeout)
            self.replying = AT_ONCE
            thread.driving = True
            thread.running = self
            began = monotonic()
            if began > thread.sample_due:
                thread.sample(began)
            try:
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
                    result = self.actor.on_receive(message)  # type: ignore[union-attr]  # an open mailbox has an actor
                if self.replying is not AT_ONCE:
                    future, thread.deferred = thread.deferred, None
                self.replying = None
            except BaseException as exception:
                if self.replying is AT_ONCE:
                    self.replying = future = Future()
                else:
                    future, thread.deferred = thread.deferred, None
                self.failed(message, exception, future)
            finally:
                thread.running = None
                self.baton.clear()
                thread.driving = False
            if monotonic() - began > 0.001:
                self.runtime._report_slow(self, message, thread, began)
            if thread.ready or self.queue or self.state != OPEN:
                self._go_on(thread)
        except BaseException:
            # This thread drove nothing before: what it has left is a helper's, the second look as well.
            thread.driving = False
            thread.running = None
            if self.baton.get(HOLDER) is token:
                self.baton.clear()
            self.runtime._hand_over(self)
            _hand_over_ready(thread)
            raise
        if future is not None:
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
            if baton.get(HOLDER) is argument:
                baton.clear()
            self.runtime._hand_over(self)
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
        if self.runnable():
            thread.ready.append(self)
        drive_ready(thread, self.runtime.batch)

    def wake(self) -> None:
        """See to it that somebody runs this mailbox."""
        thread = LOCAL.state
        if not thread.driving:
            self._run_here(thread, object())
        elif thread.running is not self:
            ready = thread.ready
            if not ready or ready[-1] is not self:
                ready.append(self)

    def _run_here(self, thread: ThreadState, token: object, first: Brought | None = None) -> bool:
        """Run this mailbox, then what its handlers sent to others. False if somebody else runs it.

        This is the bottom of the stack of every handler. It returns after a batch; what is left then
        goes on on a helper thread.
        """
        try:
            if self.baton.setdefault(HOLDER, token) is not token:
                return False
            thread.driving = True
            drive_ready(thread, self.run(thread, self.runtime.batch, token, first))
        except BaseException:
            thread.driving = (
                False  # here and not in a function: an exception may come out of nowhere again
            )
            self.recover(thread, token)
            _hand_over_ready(thread)
            raise
        return True

    def recover(self, thread: ThreadState, token: object) -> None:
        """Clean up after an exception out of nowhere: let go of the baton if it is still ours."""
        if self.baton.get(HOLDER) is token:
            thread.driving, thread.running = False, None
            self.baton.clear()
            self.runtime._hand_over(self)

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
            whole = False
            thread.running = self
            try:
                if first is None:
                    budget = self._run_queue(budget)
                elif self.state == OPEN and self._backlog is None and not queue:
                    budget -= 1
                    self.handle(first[0], first[1])
                else:
                    queue.append((first[0], first[1], copy_context()))
                    budget = self._run_queue(budget)
                if self.state == CLOSED:
                    self.refuse_all()
                whole = True
            finally:
                thread.running = None
                if not whole and self.replying is not None:
                    _refuse(self.replying, f"{self} was interrupted while it handled this")
                    self.replying = None
                self.baton.clear()
                if not whole:
                    self.runtime._hand_over(self)  # somebody else goes on from here
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
        try:
            special = SPECIAL.get(message.__class__)
            result = self.actor.on_receive(message) if special is None else special(self, message)  # type: ignore[union-attr]  # an open mailbox has an actor
            future = self.replying
            if future is not None:
                # What _resolve() does, without the call: this is the way of nearly every answer.
                if future._outcome is None:
                    future._outcome = (result, None)
                    if future._callbacks is not None:
                        future._call_back(future._callbacks)
                self.replying = None
        except BaseException as exception:
            self.failed(message, exception, future)
        if monotonic() - began > 0.001:
            self.runtime._report_slow(self, message, thread, began)

    def _run_queue(self, budget: int) -> int:
        if self.state == STARTING:
            self._run_on_start()
        elif self.state == DOOMED:
            self.end_for_good()
        while self.state == OPEN and (waiting := self._next()) and budget > 0:
            budget -= 1
            # No call between these two: see "Why a signal does not wedge an actor".
            message, self.replying, context = waiting[0]
            del waiting[0]
            context.run(self.handle, message, self.replying)
        return budget

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

    def _run_on_start(self) -> None:
        actor = self.actor
        assert actor is not None
        if self._rare.unfinished is not None:
            self.resume(self._rare.unfinished)
        self.state = OPEN
        self.decided = False
        try:
            actor.on_start()
        except BaseException as exception:
            self.start_failed(exception)
        else:
            if self._rare.failed_starts:
                self._rare.failed_starts = 0


def drive_ready(thread: ThreadState, budget: int) -> None:
    """Run what is on the thread's ready list."""
    ready = thread.ready
    try:
        thread.driving = True
        while ready and budget > 0:
            mailbox = ready.popleft()
            token = object()
            try:
                if mailbox.baton.setdefault(HOLDER, token) is token:
                    budget = mailbox.run(thread, budget, token)
            except BaseException:
                mailbox.recover(thread, token)
                raise
    finally:
        thread.driving = False
        _hand_over_ready(thread)


def _hand_over_ready(thread: ThreadState) -> None:
    """Have helpers go on with what this thread was going to run."""
    ready = thread.ready
    if ready:
        waiting = dict.fromkeys(ready)
        ready.clear()
        for mailbox in waiting:
            mailbox.runtime._hand_over(mailbox)
