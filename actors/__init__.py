"""The actor runtime: pykka's actors, without a thread for each.

Purpose. A session of a chat gateway is an actor: state with one owner, changed by messages only. A
gateway has tens of thousands of them, nearly all idle, and is called from threads and from event loops.
So an idle actor must cost next to nothing, a call to one no thread switch, and awaiting one must not
block a loop.

    class Counter(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def add(self, n: int) -> int:
            self.count += n
            return self.count

    counter = Counter.start().proxy()
    counter.add(1).get()          # in a thread
    await counter.add(1)          # on an event loop

The thread that brings a message runs the actor if nobody is running it; whoever runs it takes what
arrives meanwhile. `docs/runtime.md` has the picture, `_mailbox` the argument, `_life` how an actor
fails and ends, `_resume` how its next incarnation goes on, `_courtesy` how threads share the
interpreter.

Guarantees, each with tests in `tests/actors/`:

- One message of an actor at a time, ever; messages of one sender in the order they were sent
  (`test_mailbox`, `test_mailbox_model`, `test_stress`).
- Every ask is answered: with a value, an exception, or `ActorDeadError`. Every tell is handled, refused,
  kept for the next incarnation or reported as a dead letter (`test_mailbox_model`, `test_ends`).
- A deferred reply is answered, or answers for itself (`test_replies`).
- A parent hears of a child's failure with all it needs to restart it without losing a message
  (`test_failures`). Children go with their parent.
- If its parent says so, a failed actor goes on with the message in hand, or with what it had decided.
  What it fails on again and again is dropped and reported (`test_resume`).
- Waiting for an unready future inside a handler raises at once (`test_mailbox`).
- Awaiting wakes the right event loop and never blocks it, cancellation included (`test_asyncio`).
- Stuck work is written off at its timeout, delays nobody after that, and does not keep the process alive
  (`test_workers`).

When not to use it: for handlers that compute for long or block. They run on somebody else's thread. Do
such work with `runtime.submit()`, and get its outcome as a message with `pipe_to_self()`.
"""

from greenroom.actors.errors import (
    BuildFailed,
    GreenroomError,
    LostOwnership,
    NotRecorded,
    NotSettled,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    TurnTimeout,
)
from greenroom.actors.runtime import (
    Actor,
    ActorError,
    ActorRef,
    ActorRegistry,
    Call,
    ChildFailed,
    Clock,
    Future,
    MailboxFull,
    ManualClock,
    Reply,
    ReplyDropped,
    RestartPolicy,
    Runtime,
    RuntimeClosed,
    RuntimeStats,
    StopFlag,
    Timer,
    WorkNotBegun,
    WorkTimedOut,
    WouldBlock,
    current_runtime,
    default_runtime,
    put_back,
    take_down,
)
from greenroom.actors.session import Session
from greenroom.actors.session.context import RoomContext
from greenroom.actors.session.hooks import AgentHooks
from greenroom.actors.session.policy import Policy
from greenroom.actors.session.resources import BuildContext, Resources, Settings

__all__ = [
    "Actor",
    "ActorError",
    "ActorRef",
    "ActorRegistry",
    "AgentHooks",
    "BuildContext",
    "BuildFailed",
    "Call",
    "ChildFailed",
    "Clock",
    "Future",
    "GreenroomError",
    "LostOwnership",
    "MailboxFull",
    "ManualClock",
    "NotRecorded",
    "NotSettled",
    "Overloaded",
    "Policy",
    "Reply",
    "ReplyDropped",
    "Resources",
    "RestartPolicy",
    "RoomClosed",
    "RoomContext",
    "Runtime",
    "RuntimeClosed",
    "RuntimeStats",
    "Session",
    "SessionBusy",
    "SessionFailed",
    "Settings",
    "StopFlag",
    "StoreAway",
    "Timer",
    "TurnTimeout",
    "WorkNotBegun",
    "WorkTimedOut",
    "WouldBlock",
    "current_runtime",
    "default_runtime",
    "put_back",
    "take_down",
]
