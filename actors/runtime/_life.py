"""How an actor's life goes on and ends: start, failure, restart, stop, and what is owed at the end.

    UNBORN ── start ──> STARTING ── on_start() ──> OPEN ── stop, or failure of an orphan ──> CLOSED
                            ^                        │                                         ^
                            └─ restart ─ SUSPENDED <─┘ failure                                 │
                                             └──────────── given up ──> DOOMED ────────────────┘

Only the holder of the baton changes the state, but for three steps out of states in which no holder does
anything: starting, restarting and giving up. Who takes such a step wakes the mailbox afterwards. Out of
`SUSPENDED` there are two ways and several people who may choose (the parent, whoever stops the actor,
the end of the parent), so the choice itself is an object: who takes it out of `rare.choice` has it.

What an incarnation was doing when it failed, the next one may go on with: see `_resume.py`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import ref

import pykka

from greenroom.actors.runtime._calls import describe
from greenroom.actors.runtime._errors import ReplyDropped
from greenroom.actors.runtime._future import Future
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._registry import ActorRegistry
from greenroom.actors.runtime._resume import LookForDropped, Resume, Unfinished
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL, taking
from greenroom.messages import ChildFailed, StopActor

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.runtime._threads import Drive

    Item = tuple[Any, Future[Any] | None, Context]

__all__ = ["CLOSED", "DOOMED", "OPEN", "STARTING", "SUSPENDED", "UNBORN", "Life"]

logger = get_log("greenroom.actors")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""How many seconds an actor waits that failed in `on_start()` three times in a row; twice that after the
next time, and so on."""

AT_ONCE: Any = ...
"""In the place of the future of a message whose sender waits on this very thread: there is none yet."""

UNBORN, SUSPENDED, STARTING, DOOMED, OPEN, CLOSED = range(6)


class Rare:
    """What next to no actor has. Of a million, nearly all rest and have never failed, have no children
    and are never named."""

    # Class attributes are the initial state: most mailboxes that have one of these have no other.
    children: dict[Mailbox, ActorRef[Any]] | None = None
    choice: list[None] | None = None
    """Who takes out what is in it decides what becomes of a suspended actor."""
    unfinished: Unfinished | None = None
    failed_starts = 0
    """How many incarnations in a row failed in `on_start()`."""
    paused = False
    """Whether the next one is made, and waits before it starts."""
    ending: Actor | None = None
    """It ends when the message in hand was handled."""
    ended: Future[Any] | None = None
    """Set when all children have stopped, too."""
    stopped: Future[bool] | None = None
    """What somebody waits for who waits for the actor's end."""
    actor_class: type[Actor]
    """Of an actor that has stopped."""
    urn: str | None = None


NOTHING = Rare()
"""Of all actors that have nothing rare. Nobody changes it."""

_lock = threading.RLock()
"""For two threads that are the first to need what is rare of one actor. Reentrant: a signal handler may
log."""


class Life:
    """The half of a mailbox that is about the actor. The methods need the baton unless they say not."""

    __slots__ = (
        "_backlog",
        "_debts",
        "_rare",
        "actor",
        "baton",
        "decided",
        "outbox",
        "parent",
        "queue",
        "replying",
        "runtime",
        "state",
    )

    def __init__(self, runtime: Runtime, parent: Mailbox | None) -> None:
        self.queue: list[Item] = []
        self.baton: dict[str, object] = {}
        self.runtime = runtime
        self.parent = parent
        self.state = UNBORN
        self.actor: Actor | None = None
        self.replying: Future[Any] | None = None
        """Who waits for the message in hand. `defer_reply()` takes it."""
        self.decided = False
        """Whether `do()` was called for the message in hand. Right wherever that can come again."""
        self.outbox: deque[Any] | None = None
        """What was decided and is not yet done."""
        self._backlog: deque[Item] | None = None
        self._debts: dict[Future[Any], ref[Reply]] | None = None
        self._rare = NOTHING

    @property
    def rare(self) -> Rare:
        """What this mailbox has and hardly any other: one of its own, to be changed. Needs no baton."""
        if self._rare is NOTHING:
            for _ in taking(_lock):
                try:
                    self._rare = Rare() if self._rare is NOTHING else self._rare
                finally:
                    _lock.release()
        return self._rare

    @property
    def actor_class(self) -> type[Actor]:
        """Whose mailbox it is. Needs no baton."""
        actor = self.actor
        return self.rare.actor_class if actor is None else type(actor)

    @property
    def children(self) -> dict[Mailbox, ActorRef[Any]]:
        """The actors that belong to this one: their mailboxes, and references to them."""
        return self._rare.children or {}

    def adopt(self, child: Mailbox, ref: ActorRef[Any]) -> None:
        """Remember a child. Called by the actor itself, while it is being made or run."""
        rare = self.rare
        if rare.children is None:
            rare.children = {}
        rare.children[child] = ref

    @property
    def urn(self) -> str:
        """The actor's URN, made when it is first wanted: most actors are never looked up by it."""
        # Two threads may be here at once: setdefault is a single step, one of them wins.
        return self._rare.urn or self.rare.__dict__.setdefault("urn", uuid4().urn)

    def is_root(self) -> bool:
        """Tell whether no living parent will take it along."""
        return self.parent is None or self.parent.state in (UNBORN, CLOSED)

    # Stopping.

    def stop(self) -> None:
        """Stop the actor when the message in hand was handled: nothing that waits behind it is."""
        thread = LOCAL.state
        future, self.replying = self.replying, None
        if future is AT_ONCE:
            future = thread.deferred = Future()
        self.stop_now(future)

    def stop_now(self, stopped: Future[Any] | None = None) -> None:
        """The same, and leave the answer to that message alone."""
        if self.actor is not None:
            self._end_soon(self.actor, stopped, self.actor.on_stop)

    def _end_soon(
        self,
        actor: Actor,
        stopped: Future[Any] | None = None,
        hook: Callable[[], object] | None = None,
    ) -> None:
        """End for good when the message in hand was handled, and call this hook of the actor's. Each of
        these steps may be made again, behind a strike."""
        drive: Drive = LOCAL.state.drive  # type: ignore[assignment]  # in a handler
        self.rare.ending = actor
        drive.sent.append((self._close, None, None))
        if hook is not None:
            drive.sent.append((self._call_hook, hook, None))
        drive.sent.append((lambda _: self._bury(actor, stopped), None, None))

    def _call_hook(self, hook: Callable[..., object], *args: Any) -> None:
        """Call one of the actor's hooks. What it raises is logged, and ends nothing but the hook, unless
        it is the thread's."""
        try:
            hook(*args)
        except BaseException as exception:
            if LOCAL.state.exposed and is_strike(exception):
                raise
            self.runtime._report_failure(self)

    def _close(self, _: None) -> None:
        if self.actor is not None:
            self.let_go()
            logger.debug("Stopped %s", self)
        _answer(self.rare.stopped)

    def let_go(self) -> None:
        """Be closed, and have no actor any more."""
        actor = self.actor
        assert actor is not None
        rare = self.rare
        rare.actor_class, rare.unfinished = type(actor), None
        self.runtime._ended.add()
        self.state = CLOSED
        self.actor = self.outbox = None

    def _bury(self, actor: Actor, stopped: Future[Any] | None) -> None:
        """Take the children along, and answer what nobody else will."""
        for future in list(self._debts or ()):
            _refuse(future, f"{self} stopped before it answered")
            self.settle_debt(future)
        if self.children:
            ended = self.rare.ended = self.runtime._stop_children(self.children)
            ended.on_done(lambda _: self._leave(actor, stopped))
        else:
            self._leave(actor, stopped)

    def _leave(self, actor: Actor, stopped: Future[Any] | None) -> None:
        """Nothing below it is left: be known to nobody. (Its children are found through it.)"""
        if self.parent is None:
            ActorRegistry.unregister(actor.actor_ref)
        else:
            self.parent.children.pop(self, None)  # type: ignore[call-overload]  # a life is half of a mailbox
        self.parent = self.rare.ending = None
        _answer(stopped)

    def refuse_all(self) -> None:
        """Answer whatever is in a closed mailbox."""
        ended = self._rare.ended
        while waiting := self._next():
            message, future, _ = waiting[0]
            if type(message) is ChildFailed:
                message.ref.actor_inbox.give_up()  # type: ignore[attr-defined]  # a child of ours
            elif isinstance(message, Resume):
                pass
            elif future is None:
                self.runtime._dead_letter(self, message)
            elif type(message) is not StopActor:
                _refuse(future, f"{self} stopped before handling the message")
            elif ended is None:
                _answer(future)
            else:
                ended.on_done(lambda _, future=future: _answer(future))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            del waiting[0]  # last: behind a strike, it is answered again

    def waiting(self) -> list[Item]:
        """Return what waits, in the order in which it is handled."""
        return [*(self._backlog or ()), *self.queue]

    # Failing.

    def failed(
        self, message: Any, exception: BaseException, deferred: Future[Any] | None = None
    ) -> None:
        """Give an exception to whoever asked, or end this incarnation.

        `deferred` is the future of a reply that the handler may have taken along.
        """
        future = self.replying
        again = (message, deferred, copy_context()) if future is None else None
        # CancelledError is no Exception, but here it is only what some work ended with.
        if isinstance(exception, (Exception, asyncio.CancelledError)):
            if future is None:
                self._fail(message, exception, again)
            else:
                exc_info = sys.exc_info()
                logger.info("Exception returned from %s to caller:", self, exc_info=exc_info)
                future._resolve((None, exc_info))
                self.replying = None
                if self.outbox:
                    self.handle(Resume(), None)
            return
        # What is no Exception, and no strike, ends everything, as in pykka.
        if future is not None:
            _refuse(future, f"{self} was ended by {exception!r} while it handled this", exception)
            self.replying = None
        if isinstance(exception, KeyboardInterrupt):  # of a library that a thread of ours has called
            self._fail(message, exception, again)
        else:
            logger.debug("%r in %s. Stopping all actors.", exception, self)
            self.stop_now()
            drive: Drive = LOCAL.state.drive  # type: ignore[assignment]  # in a handler
            drive.sent.append((lambda _: self.runtime._stop_all(), None, None))

    def start_failed(self, exception: BaseException) -> None:
        """End an incarnation whose `on_start()` raised: `on_failure()` is not for it."""
        self.rare.failed_starts += 1
        self._fail(None, exception, notify_actor=False)

    def _fail(
        self,
        message: Any,
        exception: BaseException,
        again: Item | None = None,
        *,
        notify_actor: bool = True,
    ) -> None:
        """End this incarnation. With a parent the mailbox waits for it, else it is closed."""
        actor = self.actor
        if actor is None or self._rare.ending is actor:
            return  # it raised after it had stopped
        self.runtime._report_failure(self)
        hook = partial(actor.on_failure, type(exception), exception, exception.__traceback__)
        if self.parent is None or self.parent.state == CLOSED:
            self._end_soon(actor, None, hook if notify_actor else None)
            return
        if notify_actor:
            self._call_hook(hook)
        self._suspend(actor, message, exception, again)

    def _suspend(self, actor: Actor, message: Any, exception: BaseException, again: Item | None) -> None:
        rare = self.rare
        rare.unfinished = unfinished = rare.unfinished or Unfinished()
        unfinished.item = None if self.decided else again
        unfinished.exception = exception
        state: list[Any] = [None]
        self._call_hook(lambda: state.insert(0, actor.hand_over()))
        self.state = SUSPENDED
        rare.choice = [None]  # last: who has the choice may change the state
        failure = ChildFailed(
            ref=actor.actor_ref,
            exception=exception,
            message=None if isinstance(message, Resume) else message,
            state=state[0],
            waiting=tuple(m for m, _, _ in self.waiting() if not isinstance(m, Resume)),
        )
        try:
            self.parent.deliver(failure)  # type: ignore[union-attr]  # an orphan is not suspended
        except pykka.ActorDeadError:
            if self.choose():
                self._end_soon(actor)

    def come_back(self) -> Actor | None:
        """After a strike: undo an end or a failure that nobody was told of. `None`: it was told."""
        if self._rare.ending is not None:
            self._rare.ending = None
        if self.state == SUSPENDED and self.choose():
            self.state = OPEN
        return self.actor if self.state == OPEN else None

    # What becomes of a suspended actor. Needs no baton.

    def choose(self) -> bool:
        """Win the right to say what becomes of a suspended actor. True for one caller only."""
        try:
            (self.rare.choice or []).pop()
        except IndexError:
            return False
        return True

    def give_up(self) -> None:
        """End a suspended actor, unless somebody else has chosen before."""
        if self.choose():
            self.state = DOOMED
            self.wake()

    def restart(self, make: Callable[[], object], at_most: int | None) -> bool:
        """Put what `make` makes in the place of a suspended actor, unless somebody else has chosen.

        `at_most` says how often it may go on with the same thing. `None`: with nothing.
        """
        rare = self.rare
        if rare.paused or not self.choose():
            return False
        failed = self.actor
        try:
            make()
        except BaseException:
            self.actor = failed
            rare.choice = [None]
            raise
        assert rare.unfinished is not None  # it was made when the actor was suspended
        rare.unfinished.at_most = at_most
        pause = _pause_after(rare.failed_starts)
        self.runtime._report_restart(self, pause)
        if pause:
            rare.paused = True
            rare.choice = [None]  # who stops or gives it up meanwhile does not have to wait
            self.runtime._set_timer(pause, self._restart_now)
        else:
            self._start_again()
        return True

    def _restart_now(self) -> None:
        if self.choose():
            self.rare.paused = False
            self._start_again()

    def _start_again(self) -> None:
        self.state = STARTING
        self.wake()

    def end_for_good(self) -> None:
        """End an actor that was given up. Needs the baton."""
        if self.actor is not None:
            self._end_soon(self.actor)

    def resume(self, unfinished: Unfinished) -> None:
        """Put what the failed incarnation was doing before everything that waits. Needs the baton."""
        item, at_most, outbox = unfinished.item, unfinished.at_most, self.outbox
        if at_most is None:
            self.outbox = outbox = None
        elif self.decided and outbox:
            if unfinished.strike(outbox[0]) > at_most:
                self._leave_out(outbox.popleft(), unfinished)
        elif item is not None:
            message, future, context = item
            if future is not None and not self.settle_debt(future):
                future = None
            if unfinished.strike(message) > at_most:
                error = self._leave_out(message, unfinished)
                if future is not None:
                    future._resolve((None, (type(error), error, error.__traceback__)))
            else:
                self._put_first((message, _passed_on(future), context))
                unfinished.item = item = None  # or a strike in `on_start()` brings it once more
        if item is not None and type(item[0]) is ChildFailed:
            child: Mailbox = item[0].ref.actor_inbox  # type: ignore[assignment]  # a child of ours
            if not child.rare.paused:
                child.give_up()  # nobody else will decide
        if outbox:
            self._put_first((Resume(), None, copy_context()))
        if not self._backlog:
            self.rare.unfinished = None  # else when all that waits here was handled

    def _put_first(self, item: Item) -> None:
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.appendleft(item)

    def _leave_out(self, what: Any, unfinished: Unfinished) -> BaseException:
        logger.error("%s fails on %s again and again: it is dropped", self, describe(what))
        self.runtime._dead_letter(self, what)
        actor, error = self.actor, unfinished.exception
        assert actor is not None
        assert error is not None
        self._call_hook(actor.on_dropped, what, error)
        return error

    if TYPE_CHECKING:

        def deliver(self, message: Any) -> None:
            """Take a message that another thread may handle: the other half's. Needs no baton."""

        def _next(self) -> list[Item] | deque[Item]:
            """Return where the next message is: the other half's."""
            return self.queue

        def wake(self) -> None:
            """See to it that somebody runs this mailbox: the other half's. Needs no baton."""

        def handle(self, message: Any, future: Future[Any] | None) -> None:
            """Handle one message and answer it: the other half's."""

    # Deferred replies. Taking one out of the dict is a single step, and decides who answers: the
    # reply, the end of the reply, or the end of the actor. Needs no baton, but for `owe`.

    def owe(self, future: Future[Any], reply: Reply) -> None:
        """Remember that a caller waits for this answer, and whose it is to give."""
        if self._debts is None:
            self._debts = {}
        # A C function, and no finaliser: the last reference to the reply may go at any point of
        # anybody's code, and what strikes a finaliser is swallowed. `put` ignores the weak reference.
        dropped = partial(self.runtime.rescuer.put, (self._look_for_dropped,))
        self._debts[future] = ref(reply, dropped)

    def _look_for_dropped(self) -> None:
        try:
            self.deliver(LookForDropped())
        except pykka.ActorDeadError:
            pass  # all of them are answered

    def refuse_dropped(self) -> None:
        """Answer for replies that were let go without an answer."""
        for future, reply in list((self._debts or {}).items()):
            if reply() is None and self.settle_debt(future):
                error = ReplyDropped(f"{self} took a reply along and let it go without an answer")
                future._offer((None, (type(error), error, None)))

    def owes(self, future: Future[Any]) -> bool:
        """Tell whether it is still to be answered."""
        return future in (self._debts or ())

    def settle_debt(self, future: Future[Any]) -> bool:
        """Claim the right to answer. True for one caller only."""
        debts = self._debts
        if debts is None or debts.pop(future, None) is None:
            return False
        if not debts and LOCAL.state.running is self:
            self._debts = None  # only who has the baton adds one. Most actors of a million owe nothing
        return True


def _pause_after(failed_starts: int) -> float:
    """Tell how many seconds to wait before the next start: nothing at first, then longer and longer."""
    if failed_starts < 3:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(failed_starts - 3, 30), LONGEST_PAUSE)


def _answer(stopped: Future[bool] | None) -> None:
    if stopped is not None:
        stopped._resolve((True, None))


def _passed_on(future: Future[Any] | None) -> Future[Any] | None:
    """Make a future whose outcome is this one's, too, for a reply that the older ones cannot answer."""
    if future is None:
        return None
    successor: Future[Any] = Future()
    successor.on_done(lambda done: future._resolve(done._outcome))  # type: ignore[arg-type]  # it is done
    return successor


def _refuse(future: Future[Any], text: str, cause: BaseException | None = None) -> None:
    error = pykka.ActorDeadError(text)
    error.__cause__ = cause
    future._resolve((None, (type(error), error, None)))
