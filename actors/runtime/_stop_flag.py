"""What pykka keeps a `threading.Event` for in every actor, at no cost until somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pykka

from greenroom.actors.runtime._life import CLOSED
from greenroom.messages import StopActor

if TYPE_CHECKING:
    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._mailbox import Mailbox

__all__ = ["StopFlag"]


class StopFlag:
    """Whether an actor has stopped: `is_set()` and `wait(timeout)` of an event."""

    __slots__ = ("_mailbox",)

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def is_set(self) -> bool:
        """Tell whether it has stopped."""
        return self._mailbox.state == CLOSED

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
