"""What the runtime knows about the thread it is on."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextvars import Context
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime

__all__ = ["LOCAL", "Birth", "OwnThread", "ThreadState", "in_flight"]


class Birth:
    """What `Actor.__init__()` must know and its caller cannot pass: the arguments are the user's."""

    __slots__ = ("mailbox", "parent", "runtime", "successor_of")

    def __init__(
        self,
        runtime: Runtime,
        parent: Mailbox | None = None,
        successor_of: ActorRef[Any] | None = None,
    ) -> None:
        self.runtime = runtime
        self.parent = parent
        self.successor_of = successor_of
        """For a restart: the reference, and with it the mailbox, that the new instance takes over."""
        self.mailbox: Mailbox | None = None
        """What the constructor has made, should it raise later."""


class ThreadState:
    """One thread's. A plain object behind a thread-local, so that a message costs one look-up."""

    __slots__ = (
        "__weakref__",
        "answers_left",
        "birth",
        "deferred",
        "driving",
        "entered",
        "finishing",
        "held",
        "ready",
        "running",
        "sample_due",
        "sampled",
        "slice_began",
        "waking",
    )

    def __init__(self) -> None:
        self.driving = False
        """Whether this thread is running actors. What is sent meanwhile goes on the ready list."""

        self.waking = False
        """Whether it was woken by an answer and does not run yet, or stands in line to run."""

        self.ready: deque[Mailbox] = deque()
        """Mailboxes that got a message from a handler on this thread, in order."""

        self.running: Mailbox | None = None
        """The mailbox whose handler is on this thread's stack."""

        self.deferred: Future[Any] | None = None
        """The future that was made for a deferred reply to a message that was asked on this thread."""

        self.entered: list[Runtime] = []
        """The runtimes that were entered with `with` on this thread, the innermost last."""

        self.finishing = False
        """Whether it is a worker that is about to end its job: what it submits now it may do itself."""

        self.held: Any = None
        """The innermost turn that was entered on this thread: see `holding`."""

        self.answers_left = 0
        """How many answers this thread may still get before it looks whether to give way."""

        self.slice_began = 0.0
        """When those began to be counted."""

        self.sample_due = 0.0
        """When its processor time is looked at again, on the clock of `time.monotonic()`."""

        self.sampled = 0.0
        """Its processor time at the last look."""

        self.birth: Birth | None = None
        """Set from `start()` until the constructor of `Actor` has taken it."""

        key = id(self)
        _every[key] = weakref.ref(self, lambda _: _every.pop(key, None))

    def sample(self, now: float) -> None:
        """Look at this thread's processor time, now and then: each look costs as much as a handler.

        A handler that took long by the clock may have waited for the interpreter or for a core. From the
        last look on, `SAMPLE_EVERY` before it at the most, one can tell how long it really worked.
        """
        self.sample_due = now + SAMPLE_EVERY
        self.sampled = thread_time()


SAMPLE_EVERY = 0.01
"""How many seconds lie between two looks at a thread's processor time, at least."""

_every: dict[int, weakref.ref[ThreadState]] = {}


def in_flight() -> int:
    """Tell how many threads run actors, or want to go on and wait for the interpreter.

    It looks at each thread that ever had to do with actors and still lives; the threads themselves
    only set flags of their own, which costs them nothing. One that waits for an answer does not count.
    """
    states = [ref() for ref in list(_every.values())]
    return sum(state is not None and (state.driving or state.waking) for state in states)


class OwnThread(threading.Thread):
    """A daemon thread that begins with no context variables.

    Without a GIL a thread inherits those of its starter. Ours work for everybody in turn, and would keep
    the first one's for the rest of their lives.
    """

    def __init__(self, run: Callable[..., object], *args: Any, name: str) -> None:
        super().__init__(target=run, args=args, name=name, daemon=True)

    def start(self) -> None:
        """Start it, in a context that is empty."""
        Context().run(super().start)


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


LOCAL = _Local()
"""`LOCAL.state` is the state of the thread that reads it."""
