"""Deferred replies: an answer that a handler takes along and gives later."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from greenroom.actors.runtime._errors import ReplyDropped

if TYPE_CHECKING:
    from greenroom.actors.runtime._future import Future, Outcome
    from greenroom.actors.runtime._mailbox import Mailbox

__all__ = ["Reply"]


class Reply:
    """The answer that somebody waits for. Made by `Actor.defer_reply()`, answered from anywhere, once.

    A reply that is let go without an answer answers with `ReplyDropped`; if its actor stops first, it
    answers with `ActorDeadError`. It survives a restart of its actor, so it may be part of what
    `hand_over()` returns.
    """

    __slots__ = ("__weakref__", "_future", "_mailbox")

    def __init__(self, mailbox: Mailbox, future: Future[Any] | None) -> None:
        self._mailbox = mailbox
        self._future = future
        if future is not None:
            mailbox.owe(future)

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits. False for a `tell()`, and once it was answered."""
        return self._future is not None and self._mailbox.owes(self._future)

    def set(self, value: Any = None) -> bool:
        """Answer. False if there is nobody to answer: it was told, or answered before."""
        return self._answer((value, None))

    def set_exception(self, exception: BaseException) -> bool:
        """Answer with an exception. False as for `set()`."""
        return self._answer((None, (type(exception), exception, exception.__traceback__)))

    def _answer(self, outcome: Outcome) -> bool:
        future, self._future = self._future, None
        if future is None or not self._mailbox.settle_debt(future):
            return False
        future._resolve(outcome)
        return True

    def __del__(self) -> None:
        future = self._future
        if future is None or sys.is_finalizing() or not self._mailbox.settle_debt(future):
            return
        error = ReplyDropped(f"{self._mailbox} took a reply along and let it go without an answer")

        # The last reference may go at any point of anybody's code, so callbacks do not run from here.
        self._mailbox.runtime._run_soon(lambda: future._resolve((None, (type(error), error, None))))
