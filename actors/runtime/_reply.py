"""Deferred replies: an answer that a handler takes along and gives later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.actors.runtime._threads import LOCAL

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
            mailbox.owe(future, self)

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

    def pass_on(self, done: Future[Any]) -> bool:
        """Answer with the outcome of a future that is done: a callback for its `on_done()`."""
        assert done._outcome is not None
        return self._answer(done._outcome)

    def _answer(self, outcome: Outcome) -> bool:
        thread = LOCAL.state
        drive = thread.drive
        if thread.driving and drive is not None and drive.item is not None:
            wanted = self.wanted  # in a handler: it is sent when that has returned
            if wanted:
                drive.sent.append((self._send, outcome, None))
            return wanted
        return self._send(outcome)

    def _send(self, outcome: Outcome) -> bool:
        future = self._future
        if future is None:
            return False
        first = future._offer(outcome)
        self._mailbox.settle_debt(future)
        self._future = None
        return first
