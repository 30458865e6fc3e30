"""The actor class."""

from __future__ import annotations

import weakref
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pykka

from greenroom.actors.runtime._calls import check_at_least
from greenroom.actors.runtime._dispatch import Handlers
from greenroom.actors.runtime._future import Future
from greenroom.actors.runtime._life import AT_ONCE, CLOSED, STARTING
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._mailbox import Mailbox
from greenroom.actors.runtime._ref import ActorRef
from greenroom.actors.runtime._registry import ActorRegistry
from greenroom.actors.runtime._reply import Reply
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL, Birth
from greenroom.actors.runtime._timers import TimerOver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.runtime._ref import StopFlag
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.runtime._timers import Timer
    from greenroom.messages import ChildFailed

__all__ = ["Actor"]

logger = get_log("greenroom.actors")

A = TypeVar("A", bound="Actor")


class Actor(pykka.Actor):
    """An actor that needs no thread: pykka's, with a runtime of our own below it.

    Everything of pykka's is here and means the same: `start`, `stop`, `on_start`, `on_stop`,
    `on_failure`, `on_receive`, proxies. What is different: handlers run on the thread that brings the
    message, so they must not block. What is more: children, deferred replies, timers, slow work whose
    outcome comes as a message.

        class Counter(Actor):
            def __init__(self) -> None:
                super().__init__()
                self._count = 0

            def add(self, n: int) -> int:
                self._count += n
                return self._count

        counter = Counter.start().proxy()
        assert counter.add(2).get() == 2
    """

    mailbox_bound: ClassVar[int | None] = None
    """How many messages may wait. One more is refused with `MailboxFull`. `None`: no bound."""

    lives_on: ClassVar[bool] = True
    """Whether an actor without a parent lives until it is stopped, also if nobody refers to it."""

    # No slots: from Python 3.13 on, attributes of a subclass that has none would then be in a dict of
    # their own, which takes three times the memory.

    # More than pykka asks for, which checkers do not like in an attribute.
    actor_inbox: Mailbox
    _actor_ref: ActorRef[Any]

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        """Give the actor its mailbox and reference. Call it first when you override it."""
        # pykka's constructor is replaced and not called: it makes an event and a URN for every actor,
        # which most actors never have a use for.
        birth = LOCAL.state.birth
        if birth is not None and birth.successor_of is not None:
            self._actor_ref = birth.successor_of
            self.actor_inbox = birth.successor_of.actor_inbox
        else:
            if self.mailbox_bound is not None:
                check_at_least(f"{type(self).__name__}.mailbox_bound", self.mailbox_bound, 1)
            self.actor_inbox = self._create_actor_inbox()  # pyright: ignore[reportIncompatibleVariableOverride]
            self._actor_ref = ActorRef(self)  # pyright: ignore[reportIncompatibleVariableOverride]
        self.actor_inbox.actor = self
        if birth is not None:
            birth.mailbox = self.actor_inbox
        LOCAL.state.birth = None

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> ActorRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride]  # pykka's is invariant in the actor
        """Start an actor on the current runtime: the handler's, else the one entered with `with`, else
        the default.

        It belongs to nobody. See `start_child()` for one that does.
        """
        return _start(cls, Birth(_current_runtime()), args, kwargs)

    @property
    def actor_ref(self) -> ActorRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        """The reference to this actor."""
        return self._actor_ref

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # nobody assigns it
        """The actor's URN."""
        return self.actor_inbox.urn

    @property
    def actor_stopped(self) -> StopFlag:  # type: ignore[override]  # what pykka's Event is used for
        """Tells whether the actor has stopped, and waits for it."""
        return self._actor_ref.actor_stopped

    @property
    def runtime(self) -> Runtime:
        """The runtime that this actor is on: its clock, its timers, its workers."""
        return self.actor_inbox.runtime

    def stop(self) -> None:
        """Stop this actor behind what it was sent before."""
        self.actor_inbox.runtime._stop_mailbox(self.actor_inbox)

    def stop_now(self) -> None:
        """Stop this actor before anything that waits: for one that finds it has nothing left to do.

        To be called in one of its handlers. What waits is refused, so that it can be sent elsewhere.
        """
        if LOCAL.state.running is not self.actor_inbox:
            msg = f"stop_now() of {self.actor_inbox} was called outside its handlers: use stop()"
            raise RuntimeError(msg)
        self.actor_inbox.stop_now()

    def on_receive(self, message: Any) -> Any:
        """Handle a message that is for no proxy. `on_begin_turn()` handles a `BeginTurn`, and whatever
        has no method of its own falls to that of a base class of it: `on_event()`. Override this to
        choose in another way."""
        return self._methods[message.__class__](self, message)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._methods = Handlers(cls)

    _methods: ClassVar[Handlers]

    # Deciding first, acting then.

    def do(self, effects: Iterable[Any]) -> None:
        """Do what a handler has decided: `perform()` one effect after the other.

        An effect counts as done when `perform()` has returned. If it raises, it and the rest are kept:
        the next incarnation goes on with them, if the parent restarts it with `replay=True`; so does
        this one, behind the answer, if the message was asked and its asker gets the exception.

        A handler that answers later calls `defer_reply()` first. `perform()` must not call this.
        """
        mailbox = self.actor_inbox
        outbox: deque[Any] = deque() if mailbox.outbox is None else mailbox.outbox
        outbox.extend(effects)
        mailbox.outbox = outbox
        mailbox.decided = True
        runtime = mailbox.runtime
        while outbox:
            runtime.fault_point("effect")
            more = self.perform(outbox[0])
            outbox.popleft()
            if more:
                outbox.extendleft(reversed([*more]))
        mailbox.outbox = None

    def perform(self, effect: Any) -> Iterable[Any] | None:
        """Do one thing that `do()` was given. What this returns is done next, before the rest."""
        msg = f"{type(self).__name__} does not say how to perform {effect!r}: it must override perform()"
        raise NotImplementedError(msg)

    # Strikes.

    can_restore: ClassVar[bool] = False
    """Whether `save()` and `restore()` are there. A message that a strike ends in the middle is handled
    once more then. Otherwise the actor stays as the handler left it, and the message is refused."""

    def save(self) -> Any:
        """Return what `restore()` needs to put this actor back. Called before each message that is
        handled on its caller's thread, where a signal handler may raise in the middle. Be quick: only
        what the handlers change, one level deep."""

    def restore(self, saved: Any) -> None:
        """Put this actor back to what it was: its handler was ended in the middle, by an exception that
        is its caller's and not its own. What the handler sent was not sent."""

    # Children.

    def start_child(self, actor_class: type[A], *args: Any, **kwargs: Any) -> ActorRef[A]:
        """Start an actor that belongs to this one: it stops with it, and its failures come here."""
        mailbox = self.actor_inbox
        if mailbox.state == CLOSED:
            msg = f"{mailbox} has stopped: it can have no children any more"
            raise pykka.ActorDeadError(msg)
        return _start(actor_class, Birth(mailbox.runtime, mailbox), args, kwargs)

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Decide about a child that failed: restart it or give it up. By default it is given up.

        Until it is decided, which may be later, the child takes messages and handles none.
        """
        self.give_up_child(failure)

    def restart_child(
        self,
        failure: ChildFailed,
        *args: Any,
        replay: bool = False,
        at_most: int = 3,
        **kwargs: Any,
    ) -> None:
        """Put a new instance of its class, made with these arguments, in the place of a failed child.

        The reference, the waiting messages and the deferred replies stay. If the constructor raises,
        the child still waits for a decision. A child that has failed in `on_start()` three times in a
        row starts after a pause, which grows with each further time. It may be given up meanwhile.

        With `replay` the new instance goes on, behind `on_start()`, with what the failed one was doing:
        the rest of what it had decided (see `do()`), or else the message that it failed on. If
        `at_most` restarts did not help against one message or effect, the next drops that: it is
        logged and is a dead letter, whoever waits for an answer to it gets the exception, and the
        instance is told (`on_dropped()`).
        """
        check_at_least("at_most", at_most, 0)
        ref = failure.ref
        mailbox: Mailbox = ref.actor_inbox  # type: ignore[assignment]  # a child is one of ours
        birth = Birth(mailbox.runtime, mailbox.parent, ref)  # type: ignore[arg-type]  # the same
        if not mailbox.restart(
            lambda: _construct(ref.actor_class, birth, args, kwargs), at_most if replay else None
        ):
            msg = f"{ref} does not wait for a decision: it was restarted, given up or stopped before"
            raise ValueError(msg)

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Hear of a message or effect that this actor fails on again and again: it is left out.

        `exception` is what it failed with last. Called before `on_start()`. By default the actor goes on
        as if nothing had been left out.
        """

    def give_up_child(self, failure: ChildFailed) -> None:
        """End a failed child. What waits in its mailbox is answered with `ActorDeadError`."""
        failure.ref.actor_inbox.give_up()  # type: ignore[attr-defined]  # a child is one of ours

    def hand_over(self) -> Any:
        """Return what the next incarnation should know. Called once, on the instance that failed."""
        return None

    # Answering later.

    def defer_reply(self) -> Reply:
        """Take the reply to the current message along. What the handler returns is then ignored."""
        mailbox = self.actor_inbox
        if LOCAL.state.running is not mailbox:
            msg = f"defer_reply() of {mailbox} was called outside its handlers: there is no message"
            raise RuntimeError(msg)
        future, mailbox.replying = mailbox.replying, None
        if future is AT_ONCE:
            future = LOCAL.state.deferred = Future()
            mailbox.decided = False  # as `handle()` has it. The short way of an ask leaves that to us
        return Reply(mailbox, future)

    def pipe_to_self(
        self,
        future: pykka.Future[Any],
        success: Callable[[Any], Any],
        failure: Callable[[BaseException], Any],
    ) -> None:
        """Get the outcome of a future as a message: `success(value)` or `failure(exception)`."""
        mailbox = self.actor_inbox
        to_tell = iter((mailbox,))

        def deliver(done: Future[Any]) -> None:
            error = done.failure
            try:
                message = success(done.get()) if error is None else failure(error)
            except Exception as raised:
                if is_strike(raised):
                    raise
                message = failure(raised)
            # Once, also if this is called again behind a strike: see `_strikes`.
            item = (message, None, copy_context())
            for one in to_tell:
                one.queue.append(item)
            mailbox.wake()

        if not isinstance(future, Future):
            msg = f"pipe_to_self() needs a future of ours, which can call back, not {future!r}"
            raise TypeError(msg)
        future.on_done(deliver)

    # Time.

    def call_later(self, delay: float, message: Any) -> Timer:
        """Tell this actor the message in `delay` seconds. The timer can be cancelled.

        Timers belong to this incarnation: after a restart they do not call any more. They do not keep
        the actor alive.
        """
        return self.runtime.call_later(delay, _timer_called, weakref.ref(self), message)

    def call_every(self, interval: float, message: Any) -> Timer:
        """Tell this actor the message every `interval` seconds until cancelled, or until it stops."""
        return self.runtime.call_every(interval, _timer_called, weakref.ref(self), message)

    # pykka's hooks for new actor types.

    @staticmethod
    def _create_future() -> Future[Any]:
        return Future()

    @staticmethod
    def _create_actor_inbox() -> Mailbox:
        birth = LOCAL.state.birth or Birth(_current_runtime())
        return birth.runtime._create_mailbox(birth.parent)

    def _start_actor_loop(self) -> None:
        mailbox = self.actor_inbox
        mailbox.state = STARTING
        mailbox.wake()


def _timer_called(ref: weakref.ref[Actor], message: Any) -> None:
    actor = ref()
    if actor is None or actor.actor_inbox.actor is not actor:
        raise TimerOver
    actor.actor_inbox.deliver(message)


def _current_runtime() -> Runtime:
    from greenroom.actors.runtime._runtime import current_runtime  # it imports this module

    return current_runtime()


def _start(
    actor_class: type[A], birth: Birth, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ActorRef[A]:
    runtime = birth.runtime
    runtime._refuse_when_closed()
    runtime.rescuer.start()
    actor = _construct(actor_class, birth, args, kwargs)
    if not hasattr(actor, "_actor_ref"):
        msg = (
            f"{actor_class.__name__}.__init__() did not call Actor.__init__(). "
            "Call super().__init__() in your override"
        )
        raise TypeError(msg)
    ref: ActorRef[A] = actor.actor_ref
    runtime._started.add()
    logger.debug("Starting %s", ref)
    if birth.parent is None:
        # When garbage is collected, no seed says: in a simulation, every actor lives on.
        ActorRegistry.register(ref, lives_on=actor_class.lives_on or runtime.simulated)
    else:
        birth.parent.adopt(actor.actor_inbox, ref)
    actor._start_actor_loop()
    return ref


def _construct(actor_class: type[A], birth: Birth, args: tuple[Any, ...], kwargs: dict[str, Any]) -> A:
    # A constructor that starts another actor before it calls super() must not lose its own birth.
    thread = LOCAL.state
    outer, thread.birth = thread.birth, birth
    try:
        return actor_class(*args, **kwargs)
    except BaseException:
        made = birth.mailbox
        if made is not None and birth.successor_of is None:
            made.runtime._stop_children(made.children)  # they have no parent now
        raise
    finally:
        thread.birth = outer
