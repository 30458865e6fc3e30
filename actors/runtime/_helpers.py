"""Helper threads: who runs the actors when the thread that brought the message has done its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actors.runtime._crew import Crew
from greenroom.actors.runtime._mailbox import Mailbox

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

__all__ = ["Helpers"]

PATIENCE = 5.0
"""A helper that found nothing to do for so many seconds ends."""


class Helpers:
    """A few threads that take mailboxes, and odd jobs, in the order they were handed over."""

    def __init__(self, name: str, most: int) -> None:
        self._crew: Crew[Mailbox | Callable[[], object]] = Crew(
            f"{name}-helper", most, PATIENCE, self._help
        )

    def take(self, job: Mailbox | Callable[[], object]) -> None:
        """Have a helper run this mailbox, or call this."""
        self._crew.put(job)

    def alive(self) -> int:
        """Tell how many threads there are now."""
        return self._crew.alive()

    def close(self) -> None:
        """End the helpers. What was handed over and not begun is done here and now."""
        for job in self._crew.close() + self._crew.join(PATIENCE):
            self._do(job)

    def _help(self, job: Mailbox | Callable[[], object], _: threading.Thread) -> bool:
        self._do(job)
        return True

    def _do(self, job: Mailbox | Callable[[], object]) -> None:
        if not isinstance(job, Mailbox):
            job()
        else:
            job.wake()
