"""What the runtime knows about the thread it is on."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextvars import Context
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._life import Item
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._pen import Pen
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime

    Sending = tuple[Callable[[Any], object], Any, Mailbox | None]
    """What to call with what, and whom to wake afterwards."""

__all__ = [
    "LOCAL",
    "Birth",
    "Drive",
    "OwnThread",
    "ThreadState",
    "forget_parent",
    "in_flight",
    "taking",
]


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


class Drive:
    """What a thread has in hand while it runs actors. If the thread is struck, a rescuer goes on from
    here: see `_strikes`."""

    __slots__ = ("doing", "item", "mailbox", "ready", "saved", "sending", "sent", "token")

    def __init__(self) -> None:
        self.ready: deque[Mailbox] = deque()
        """Mailboxes that got a message from a handler on this thread, in order."""

        self.mailbox: Mailbox | None = None
        """The mailbox that is being run, if its baton is held with this token."""
        self.token: object = None

        self.item: Item | None = None
        """The message in hand, until its handler has returned. From then on it has happened."""

        self.saved: tuple[Any, deque[Any] | None] | None = None
        """What its actor and its outbox were before, on a thread that may be struck."""

        self.sent: list[Sending] = []
        """What the handler has sent: it goes out when the handler has returned."""

        self.sending: Iterator[Sending] | None = None
        """The rest of that, while it goes out."""

        self.doing: Sending | None = None
        """The last that was taken from there."""


class ThreadState:
    """One thread's. A plain object behind a thread-local, so that a message costs one look-up."""

    __slots__ = (
        "__weakref__",
        "answers_left",
        "birth",
        "deferred",
        "drive",
        "driving",
        "entered",
        "exposed",
        "finishing",
        "held",
        "pen",
        "running",
        "sample_due",
        "sampled",
        "slice_began",
        "waking",
        "will_wait",
    )

    def __init__(self) -> None:
        self.driving = False
        """Whether this thread is running actors. What is sent meanwhile goes on the ready list."""

        self.waking = False
        """Whether it was woken by an answer and does not run yet, or stands in line to run."""

        self.exposed = True
        """Whether signals and other strikes may reach it: it is not one of the runtime's own."""

        self.drive: Drive | None = Drive()
        """What it has in hand while it drives. `None`: it was struck, and a rescuer has that."""

        self.running: Mailbox | None = None
        """The mailbox whose handler is on this thread's stack."""

        self.deferred: Future[Any] | None = None
        """The future that was made for a deferred reply to a message that was asked on this thread."""

        self.will_wait = False
        """Whether what a handler has sent is sent now, and the thread then waits for the answer."""

        self.pen: Pen[Any] | None = None
        """What it writes with before it waits."""

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

    def begin_drive(self) -> Drive:
        """After a strike: have something to hold what is in hand again."""
        self.drive = Drive()
        return self.drive

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

    def run(self) -> None:
        """Run, where no signal handler does, and nobody recurses."""
        LOCAL.state.exposed = False
        super().run()


def taking(lock: Any) -> Iterator[object]:
    """Take a lock, on a thread that may be struck:

        for _ in taking(lock):
            try:
                ...
            finally:
                lock.release()

    A step of a loop takes it, and no strike comes between that and the `try`. From Python 3.14 on, one
    may come between the beginning of a `with` and its block, and the lock would stay taken.
    """
    return map(lock.acquire, (True,))


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


LOCAL = _Local()
"""`LOCAL.state` is the state of the thread that reads it."""


def forget_parent() -> None:
    """In a forked child: there is no other thread, and what this one was in is the parent's."""
    _every.clear()
    LOCAL.state = ThreadState()
