"""What the runtime knows about the thread it is on."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from greenroom.actors._mailbox import Mailbox
    from greenroom.actors._ref import ActorRef
    from greenroom.actors._runtime import Runtime

__all__ = ["LOCAL", "Birth", "ThreadState"]


class Birth(NamedTuple):
    """What `Actor.__init__()` must know and its caller cannot pass: the arguments are the user's."""

    runtime: Runtime
    parent: Mailbox | None = None
    successor_of: ActorRef[Any] | None = None
    """For a restart: the reference, and with it the mailbox, that the new instance takes over."""


class ThreadState:
    """One thread's. A plain object behind a thread-local, so that a message costs one look-up."""

    __slots__ = ("birth", "driving", "ready", "running", "runtime")

    def __init__(self) -> None:
        self.driving = False
        """Whether this thread is running actors. What is sent meanwhile goes on the ready list."""

        self.ready: deque[Mailbox] = deque()
        """Mailboxes that got a message from a handler on this thread, in order."""

        self.running: Mailbox | None = None
        """The mailbox whose handler is on this thread's stack."""

        self.runtime: Runtime | None = None
        """The runtime that was entered with `with` on this thread."""

        self.birth: Birth | None = None
        """Set from `start()` until the constructor of `Actor` has taken it."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


LOCAL = _Local()
"""`LOCAL.state` is the state of the thread that reads it."""
