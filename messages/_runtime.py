"""What the runtime itself tells an actor."""

from __future__ import annotations

from typing import Any

import pykka

from greenroom.messages._protocol import Notice, message

__all__ = ["Answered", "ChildFailed", "StopActor"]


@message(eq=False)
class Answered(Notice):
    """What an actor has asked another is answered: see `ask_and_hear()`."""

    request: Any
    value: Any = None
    error: BaseException | None = None
    """Why there is no answer."""

    def __str__(self) -> str:
        return f"Answered({type(self.request).__name__})"


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
