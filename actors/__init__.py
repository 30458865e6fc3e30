"""The actor runtime."""

from greenroom.actors._actor import Actor
from greenroom.actors._errors import (
    ActorError,
    MailboxFull,
    ReplyDropped,
    RuntimeClosed,
    WorkTimedOut,
    WouldBlock,
)
from greenroom.actors._future import Future
from greenroom.actors._ref import ActorRef
from greenroom.actors._registry import ActorRegistry
from greenroom.actors._reply import Reply
from greenroom.actors._restart import RestartPolicy
from greenroom.actors._runtime import Runtime, current_runtime, default_runtime
from greenroom.actors._stats import RuntimeStats
from greenroom.actors._timers import ManualClock, Timer

__all__ = [
    "Actor",
    "ActorError",
    "ActorRef",
    "ActorRegistry",
    "Future",
    "MailboxFull",
    "ManualClock",
    "Reply",
    "ReplyDropped",
    "RestartPolicy",
    "Runtime",
    "RuntimeClosed",
    "RuntimeStats",
    "Timer",
    "WorkTimedOut",
    "WouldBlock",
    "current_runtime",
    "default_runtime",
]
