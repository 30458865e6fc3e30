"""What can go wrong in the runtime.

Exception
├── pykka.ActorDeadError     the actor has stopped, or stopped before it handled the message
│   └── ReplyDropped         a handler took the reply along and nobody ever answered it
└── ActorError
    ├── WouldBlock           the caller's fault: a handler waited for a future
    ├── MailboxFull          the sender's: the actor has a bound, and it is reached
    ├── RuntimeClosed        the caller's: the runtime was closed before
    ├── WorkTimedOut         the system's: slow work was still running at its timeout
    │   └── WorkNotBegun     … or the event loop had not even come to it
    └── simulation.Deadlock  the system's: everybody waits and nothing can run
"""

from __future__ import annotations

import pykka

__all__ = [
    "ActorError",
    "MailboxFull",
    "ReplyDropped",
    "RuntimeClosed",
    "WorkNotBegun",
    "WorkTimedOut",
    "WouldBlock",
]


class ActorError(Exception):
    """Any error of the runtime's own."""


class WouldBlock(ActorError):
    """A handler waited for a future that is not ready.

    Handlers run on threads that belong to other people (the sender's, an event loop's), and an actor
    that waits for one that waits for it would wait for ever.
    """


class MailboxFull(ActorError):
    """The actor's mailbox is bounded and full. The message was not taken."""


class RuntimeClosed(ActorError):
    """The runtime was closed. It starts no actor, timer or work any more."""


class WorkTimedOut(ActorError):
    """Slow work was still running at its timeout. It was written off; its outcome will be ignored."""


class WorkNotBegun(WorkTimedOut):
    """Async work whose event loop did not come to it in time. It was not called, and will not be."""


class ReplyDropped(pykka.ActorDeadError):
    """A deferred reply was let go without an answer."""
