"""The actor runtime, on pykka: it knows nothing of sessions, and is for anyone's actors.

`greenroom.actors` has its public names and its guarantees, `docs/runtime.md` the picture. The arguments
stand where the code is: `_mailbox` (who runs an actor, and why no wake-up is lost), `_life` (how an
actor fails and ends), `_resume` (how the next one goes on), `_courtesy` (how threads share the
interpreter).
"""

from greenroom.actors.runtime._actor import Actor
from greenroom.actors.runtime._errors import (
    ActorError,
    MailboxFull,
    ReplyDropped,
    RuntimeClosed,
    WorkNotBegun,
    WorkTimedOut,
    WouldBlock,
)
from greenroom.actors.runtime._future import Future
from greenroom.actors.runtime._ref import ActorRef, StopFlag
from greenroom.actors.runtime._registry import ActorRegistry
from greenroom.actors.runtime._reply import Reply
from greenroom.actors.runtime._restart import RestartPolicy
from greenroom.actors.runtime._runtime import Runtime, current_runtime, default_runtime
from greenroom.actors.runtime._saving import put_back, take_down
from greenroom.actors.runtime._stats import RuntimeStats
from greenroom.actors.runtime._timers import Clock, ManualClock, Timer
from greenroom.messages import Call, ChildFailed

__all__ = [
    "Actor",
    "ActorError",
    "ActorRef",
    "ActorRegistry",
    "Call",
    "ChildFailed",
    "Clock",
    "Future",
    "MailboxFull",
    "ManualClock",
    "Reply",
    "ReplyDropped",
    "RestartPolicy",
    "Runtime",
    "RuntimeClosed",
    "RuntimeStats",
    "StopFlag",
    "Timer",
    "WorkNotBegun",
    "WorkTimedOut",
    "WouldBlock",
    "current_runtime",
    "default_runtime",
    "put_back",
    "take_down",
]
