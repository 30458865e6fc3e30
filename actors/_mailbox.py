"""The mailbox: where an actor's messages wait, and who handles them.

No actor has a thread. A mailbox has a queue and a *baton*, a lock that is only ever tried, never waited
for. Whoever holds the baton runs the actor. `send()` puts the message into the queue and tries the
baton; who gets it handles what is there, up to a batch, and lets go; who does not get it walks away,
because somebody else holds it and will find the message.

Why no wake-up can be lost. It could only be lost between the two sides' decisions:

    1. the holder finds the queue empty
    2. a sender puts its message, tries the baton, fails, walks away
    3. the holder lets go

Nobody would run 2, so after letting go the holder looks once more (`_run`), and if there is something
it tries the baton again. If it fails there, another thread holds it, and that thread took it after the
message was put and looks after letting go, in its turn. A restart and a close change what may be run
before they knock, so the same look covers them too.

Why nothing is lost to a stop. A stopped mailbox still has a queue and a baton. A sender that saw it
open, was held up, and puts its message after the last one was handled, then tries the baton as always;
whoever gets it finds the mailbox closed and refuses what is there. pykka looks first and puts then, and
a message between the two waits for ever.

Sends from inside a handler are not run on its stack. They go on the thread's ready list, and
`drive()`, at the bottom of the stack, works through it.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pykka
from pykka.messages import _ActorStop

from greenroom.actors._courtesy import IN_FLIGHT
from greenroom.actors._dispatch import SPECIAL
from greenroom.actors._errors import MailboxFull
from greenroom.actors._future import Future
from greenroom.actors._threads import LOCAL
from greenroom.messages import ChildFailed

if TYPE_CHECKING:
    from greenroom.actors._actor import Actor
    from greenroom.actors._runtime import Runtime
    from greenroom.actors._threads import ThreadState

__all__ = ["CLOSED", "DOOMED", "OPEN", "STARTING", "SUSPENDED", "UNBORN", "Mailbox", "drive"]

UNBORN, SUSPENDED, STARTING, DOOMED, OPEN, CLOSED = range(6)
"""The life of a mailbox.

    UNBORN ── start ──> STARTING ── on_start() ──> OPEN ── stop, or failure of an orphan ──> CLOSED
                            ^                        │                                         ^
                            └─ restart ─ SUSPENDED <─┘ failure                                 │
                                             └──────────── given up ──> DOOMED ────────────────┘

Only the holder of the baton changes the state, but for three steps out of states in which no holder
does anything: starting, restarting and giving up. Whoever takes such a step knocks afterwards.
"""


class Mailbox:
    """The inbox of one actor, and all that the runtime knows about it."""

    __slots__ = (
        "_backlog",
        "_debts",
        "_urn",
        "actor",
        "actor_class",
        "baton",
        "bound",
        "children",
        "parent",
        "queue",
        "replying",
        "runtime",
        "state",
    )

    actor_class: type[Actor]
    bound: int | None

    def __init__(self, runtime: Runtime, parent: Mailbox | None) -> None:
        self.runtime = runtime
        self.parent = parent
        self.actor: Actor | None = None
        self.queue: SimpleQueue[tuple[Any, Future[Any] | None]] = SimpleQueue()
        self.baton = threading.Lock()
        self.state = UNBORN
        self.children: dict[Mailbox, None] | None = None
        self.replying: Future[Any] | None = None
        self._urn: str | None = None
        self._backlog: deque[tuple[Any, Future[Any] | None]] | None = None
        self._debts: set[Future[Any]] | None = None

    def belong_to(self, actor_class: type[Actor]) -> None:
        """Learn whose mailbox it is."""
        self.actor_class = actor_class
        self.bound = actor_class.mailbox_bound

    @property
    def urn(self) -> str:
        """The actor's URN, made when it is first wanted: most actors are never looked up by it."""
        if self._urn is None:
            with _urn_lock:
                self._urn = self._urn or uuid4().urn
        return self._urn

    def __str__(self) -> str:
        return f"{self.actor_class.__name__} ({self.urn})"

    def create_future(self, message: Any) -> Future[Any]:
        """Make the future of an answer to this message."""
        return Future()

    # Sending.

    def send(self, message: Any, future: Future[Any] | None) -> None:
        """Take a message and see to it that somebody handles it. Raises if it is not taken."""
        if self.bound is not None and self.queue.qsize() >= self.bound:
            msg = (
                f"{self} has {self.bound} messages waiting, its bound, and did not take "
                f"{type(message).__name__}. Send less, or later, or raise its mailbox_bound"
            )
            raise MailboxFull(msg)
        self.deliver(message, future)

    def deliver(self, message: Any, future: Future[Any] | None = None) -> None:
        """`send` without the bound: for what the actor itself, or the runtime, has set in motion."""
        if self.state == CLOSED:
            msg = f"{self} not found"
            raise pykka.ActorDeadError(msg)
        thread = LOCAL.state
        if not thread.driving and self.baton.acquire(False):
            drive(thread, self, (message, future))
        else:
            self.queue.put((message, future))
            self.knock()

    def knock(self) -> None:
        """See to it that somebody runs this mailbox."""
        thread = LOCAL.state
        if not thread.driving:
            if self.baton.acquire(False):
                drive(thread, self)
        elif thread.running is not self:
            thread.ready.append(self)

    def put(self, envelope: Any) -> None:
        """Take one of pykka's envelopes: the interface of a pykka inbox."""
        self.send(envelope.message, envelope.reply_to)

    def get(self) -> Any:
        """Refuse: nobody but the runtime takes messages out."""
        msg = f"{self}: only the runtime takes messages out of a mailbox"
        raise TypeError(msg)

    def empty(self) -> bool:
        """Tell whether nothing waits."""
        return self.queue.empty() and not self._backlog

    # Running. The caller holds the baton unless it says otherwise.

    def run(
        self, thread: ThreadState, budget: int, first: tuple[Any, Future[Any] | None] | None = None
    ) -> int:
        """Handle up to `budget` messages, let go of the baton, and return what is left of the budget.

        `first` was brought along by the thread. If nothing else waits it need not go through the queue.
        """
        queue = self.queue
        while True:
            whole = False
            thread.running = self
            try:
                if first is not None:
                    if self.state == OPEN and self._backlog is None and queue.empty():
                        self.handle(*first)
                        budget -= 1
                    else:
                        queue.put(first)
                    first = None
                if self.state != OPEN or self._backlog is not None:
                    budget = self._run_unusual(budget)
                while self.state == OPEN and budget > 0 and not queue.empty():
                    message, future = queue.get_nowait()
                    budget -= 1
                    self.handle(message, future)
                if self.state == CLOSED:
                    self._refuse_all()
                whole = True
            finally:
                thread.running = None
                self.baton.release()
                if not whole:
                    self.runtime._hand_over(self)  # interrupted: somebody else goes on from here
            # The second look: see the module's docstring.
            if (queue.empty() and self.state == OPEN and not self._backlog) or not self.runnable():
                return budget
            if budget <= 0:
                self.runtime._hand_over(self)
                return budget
            if not self.baton.acquire(False):
                return budget

    def runnable(self) -> bool:
        """Tell whether there is something to do. Needs no baton."""
        state = self.state
        if state >= OPEN:
            return not self.queue.empty() or bool(self._backlog)
        return state >= STARTING

    def handle(self, message: Any, future: Future[Any] | None) -> None:
        """Handle one message and answer it."""
        self.replying = future
        began = monotonic()
        try:
            result = SPECIAL.get(message.__class__, _receive)(self, message)
            future = self.replying
            if future is not None:
                self.replying = None
                future._resolve((result, None))
        except BaseException as exception:
            self._failed(message, exception)
        took = monotonic() - began
        if took > self.runtime.slow_handler:
            self.runtime._report_slow(self, message, took)

    def _run_unusual(self, budget: int) -> int:
        if self.state == STARTING:
            self._run_on_start()
        elif self.state == DOOMED:
            self._end_for_good()
        backlog = self._backlog
        while backlog and self.state == OPEN and budget > 0:
            budget -= 1
            self.handle(*backlog.popleft())
        if not backlog:
            self._backlog = None
        return budget

    def _run_on_start(self) -> None:
        actor = self.actor
        assert actor is not None
        self.state = OPEN
        try:
            actor.on_start()
        except Exception as exception:
            self._fail(None, exception, notify_actor=False)

    # Ending.

    def adopt(self, child: Mailbox) -> None:
        """Remember a child. Called by the actor itself, while it is being run."""
        if self.children is None:
            self.children = {}
        self.children[child] = None

    def stop(self) -> None:
        """Stop the actor: nothing that waits behind this is handled."""
        actor = self._close()
        self.runtime._debug("Stopped %s", self)
        try:
            actor.on_stop()
        except Exception:
            self.runtime._report_failure(self)
        future, self.replying = self.replying, None
        self._bury(future)

    def give_up(self) -> None:
        """End a suspended actor. Needs no baton, and may be done twice."""
        if self.state == SUSPENDED:
            self.state = DOOMED
            self.knock()

    def _end_for_good(self) -> None:
        if self.actor is None:
            self.state = CLOSED  # given up twice, and the first has been seen to
        else:
            self._close()
            self._bury(None)

    def _failed(self, message: Any, exception: BaseException) -> None:
        future, self.replying = self.replying, None
        if isinstance(exception, Exception):
            if future is None:
                self._fail(message, exception)
            else:
                self.runtime._report_returned(self)
                future._resolve((None, sys.exc_info()))
            return
        if future is not None:
            dead = pykka.ActorDeadError(f"{self} was ended by {exception!r} while it handled this")
            dead.__cause__ = exception
            future._resolve((None, (type(dead), dead, None)))
        self._collapse(message, exception)

    def _collapse(self, message: Any, exception: BaseException) -> None:
        if isinstance(exception, KeyboardInterrupt):
            # Ctrl-C was meant for the thread that happened to run us. One actor fails, as with any
            # exception, the others stay for whatever the program does about it.
            self._fail(message, exception)
            raise exception
        self.runtime._debug("%r in %s. Stopping all actors.", exception, self)
        self.stop()
        self.runtime._stop_all()

    def _fail(self, message: Any, exception: BaseException, *, notify_actor: bool = True) -> None:
        """End this incarnation. With a parent the mailbox waits for it, else it is closed."""
        self.runtime._report_failure(self)
        actor = self.actor
        assert actor is not None
        orphan = self.parent is None or self.parent.state == CLOSED
        if orphan:
            self._close()
        if notify_actor:
            try:
                actor.on_failure(type(exception), exception, exception.__traceback__)
            except Exception:
                self.runtime._report_failure(self)
        if orphan:
            self._bury(None)
        else:
            self._suspend(actor, message, exception)

    def _suspend(self, actor: Actor, message: Any, exception: BaseException) -> None:
        try:
            state = actor.hand_over()
        except Exception:
            self.runtime._report_failure(self)
            state = None
        # The queue cannot be read without taking it apart, so what waits moves to the backlog, which
        # is handled first. What arrives from here on goes to the queue, behind it.
        backlog = self._backlog = self._backlog or deque()
        while not self.queue.empty():
            backlog.append(self.queue.get_nowait())
        self.state = SUSPENDED
        failure = ChildFailed(
            ref=actor.actor_ref,
            exception=exception,
            message=message,
            state=state,
            waiting=tuple(waiting for waiting, _ in backlog),
        )
        try:
            self.parent.deliver(failure)  # type: ignore[union-attr]  # an orphan is not suspended
        except pykka.ActorDeadError:
            self._close()
            self._bury(None)

    def _close(self) -> Actor:
        actor = self.actor
        assert actor is not None
        self.runtime._unregister(actor.actor_ref)
        self.state = CLOSED
        self.actor = None
        waiting = self.runtime._stop_waiters.pop(self, None)
        if waiting is not None:
            waiting._resolve((None, None))
        return actor

    def _bury(self, stop_reply: Future[Any] | None) -> None:
        """Take the children along, and answer what nobody else will."""
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(self, None)
        self.parent = None
        while self._debts:
            future = self._debts.pop()
            error = pykka.ActorDeadError(f"{self} stopped before it answered")
            future._resolve((None, (type(error), error, None)))
        children, self.children = self.children, None
        self.runtime._stop_children(list(children or ()), stop_reply)

    def _refuse_all(self) -> None:
        for message, future in self._take_all():
            if type(message) is ChildFailed:
                message.ref.actor_inbox.give_up()  # type: ignore[attr-defined]  # a child of ours
            elif future is None:
                self.runtime._dead_letter(self, message)
            elif type(message) is _ActorStop:
                future._resolve((None, None))
            else:
                error = pykka.ActorDeadError(f"{self} stopped before handling the message")
                future._resolve((None, (type(error), error, None)))

    def _take_all(self) -> list[tuple[Any, Future[Any] | None]]:
        backlog, self._backlog = self._backlog, None
        taken = list(backlog or ())
        while not self.queue.empty():
            taken.append(self.queue.get_nowait())
        return taken

    # Deferred replies. The set is made by the holder of the baton; `remove` is a single step and
    # decides who answers: the reply, its end, or the end of the actor.

    def owe(self, future: Future[Any]) -> None:
        """Remember that somebody waits for this answer."""
        if self._debts is None:
            self._debts = set()
        self._debts.add(future)

    def owes(self, future: Future[Any]) -> bool:
        """Tell whether it is still to be answered."""
        return future in (self._debts or ())

    def settle_debt(self, future: Future[Any]) -> bool:
        """Claim the right to answer. True for one caller only."""
        try:
            (self._debts or set()).remove(future)
        except KeyError:
            return False
        return True


def _receive(mailbox: Mailbox, message: Any) -> Any:
    return mailbox.actor.on_receive(message)  # type: ignore[union-attr]  # an open mailbox has an actor


_urn_lock = threading.RLock()
"""For two threads that are the first to want the URN of one actor. Reentrant: a signal handler logs."""


def drive(
    thread: ThreadState, mailbox: Mailbox, first: tuple[Any, Future[Any] | None] | None = None
) -> None:
    """Run a mailbox whose baton the caller holds, then what its handlers sent to others.

    This is the bottom of the stack of every handler. It returns after a batch; what is left then goes
    on on a helper thread.
    """
    ready = thread.ready
    IN_FLIGHT.append(None)
    thread.driving = True
    try:
        budget = mailbox.run(thread, mailbox.runtime.batch, first)
        while ready and budget > 0:
            mailbox = ready.popleft()
            if mailbox.baton.acquire(False):
                budget = mailbox.run(thread, budget)
    finally:
        thread.driving = False
        IN_FLIGHT.pop()
        while ready:
            mailbox = ready.popleft()
            mailbox.runtime._hand_over(mailbox)
