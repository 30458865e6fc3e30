"""What the runtime itself tells an actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import pykka

from greenroom.messages._protocol import Notice, message

__all__ = ["Answered", "Call", "ChildFailed", "StopActor"]


@message(eq=False)
class Answered(Notice):
    """What an actor has asked another is answered: see `ask_and_hear()`."""

    request: Any
    value: Any = None
    error: BaseException | None = None
    """Why there is no answer."""

    def __str__(self) -> str:
        return f"Answered({type(self.request).__name__})"


P = ParamSpec("P")


class Call(Notice):
    """What an actor tells itself: call this method of yours, at once or when a timer ends.

        self.call_later(pause, Call(self.retry))

    It names the method: if the actor is restarted meanwhile, the next incarnation calls its own."""

    __slots__ = ("args", "name")

    def __init__(self, method: Callable[P, object], *args: P.args, **_: P.kwargs) -> None:
        self.name = method.__name__
        self.args = args

    def __str__(self) -> str:
        return f"{self.name}()"


@message()
class ChildFailed:
    """A child could not handle a message, and waits for its parent's decision.

    Its mailbox still takes messages and handles none until the parent restarts it or gives it up.
    """

    ref: pykka.ActorRef[Any]
    """The child. The same reference stays good after a restart."""

    exception: BaseException
    """What the handler, or `on_start()`, raised."""

    message: Any
    """The message that it raised on; `None` if it was `on_start()`, or what an earlier one decided."""

    state: Any
    """What the child's `hand_over()` returned: for the next incarnation."""

    waiting: tuple[Any, ...]
    """The messages that were waiting when it failed, in order. They stay in the mailbox."""


@message()
class StopActor:
    """Stop, behind what was sent before."""
