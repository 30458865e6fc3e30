"""References to actors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pykka

from greenroom.actors.runtime._errors import MailboxFull
from greenroom.actors.runtime._life import CLOSED
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import StopActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._mailbox import Mailbox

__all__ = ["ActorRef", "StopFlag"]

A = TypeVar("A", bound="Actor")
T = TypeVar("T")
V = TypeVar("V")


class ActorRef(pykka.ActorRef[A]):
    """A reference to an actor: `tell()`, `ask()`, `stop()` and `proxy()` as in pykka.

    It stays good when the actor is restarted by its parent. It holds the mailbox and nothing else;
    what pykka copies into every reference is looked up there.
    """

    __slots__ = ("actor_inbox",)

    # More than pykka asks for, which checkers do not like in an attribute.
    actor_inbox: Mailbox

    def __init__(self, actor: A) -> None:
        self.actor_inbox = actor.actor_inbox  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def actor_class(self) -> type[A]:  # type: ignore[override]  # nobody assigns it
        """The class of the actor."""
        return cast("type[A]", self.actor_inbox.actor_class)

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # nobody assigns it
        """The actor's URN."""
        return self.actor_inbox.urn

    @property
    def actor_stopped(self) -> StopFlag:  # type: ignore[override]  # what pykka's Event is used for
        """Tells whether the actor has stopped, and waits for it."""
        return StopFlag(self.actor_inbox)

    def _actor_weakref(self) -> A | None:  # type: ignore[override]  # pykka's proxies call it, as here
        return cast("A | None", self.actor_inbox.actor)

    def is_alive(self) -> bool:
        """Tell whether the actor has not stopped. In a forked child none of the parent's lives."""
        return not self.actor_stopped.is_set()

    def tell(self, message: Any) -> None:
        """Send a message. Raises `ActorDeadError`, or `MailboxFull`, if it is not taken.

        A message that was taken and then found the actor stopped is counted as a dead letter.
        """
        self.actor_inbox.deliver(message, None, True)

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Send a message and wait for the answer, or return a future of it (`block=False`).

        The future is awaitable: `await ref.ask(message, block=False)`.
        """
        mailbox = self.actor_inbox
        if block:
            return mailbox.ask(message, timeout)
        future = mailbox.create_future(message)
        try:
            mailbox.deliver(message, future, True)
        except (pykka.ActorDeadError, MailboxFull):
            future._resolve((None, sys.exc_info()))
        return future

    def step(self, act: Callable[[A, V], T], argument: V) -> T | None:
        """Call `act(actor, argument)` here and now, between two of the actor's messages.

        `None` if that cannot be, because the actor is at work or has messages waiting: send one, too.
        `act` must be quick, and must not raise, send or block. `argument` must be an object that nobody
        else passes meanwhile.
        """
        return self.actor_inbox.step(LOCAL.state, act, argument)

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Ask the actor to stop, behind what it was sent before.

        True when it and all its children have stopped, False if it was dead before.
        """
        mailbox = self.actor_inbox
        stopped = mailbox.runtime._stop_mailbox(mailbox)
        return stopped.get(timeout=timeout) if block else stopped


class StopFlag:
    """Whether an actor has stopped: `is_set()` and `wait(timeout)` of the event that pykka keeps for
    each. It costs nothing until it is looked at."""

    __slots__ = ("_mailbox",)

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def is_set(self) -> bool:
        """Tell whether it has stopped."""
        return self._mailbox.state == CLOSED or self._mailbox.runtime.forked

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has stopped, or the timeout is over, and tell whether it has."""
        mailbox = self._mailbox
        own = mailbox.create_future(StopActor())
        # Two threads may be here at once: setdefault is a single step, one future wins.
        stopped: Future[bool] = mailbox.rare.__dict__.setdefault("stopped", own)
        if self.is_set():
            return True
        try:
            return stopped.get(timeout=timeout)
        except pykka.Timeout:
            return False
