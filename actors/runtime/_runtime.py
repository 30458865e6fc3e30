"""The runtime: what actors stand on. Threads, time, slow work, and the books.

Nothing here runs until it is needed: a runtime without timers has no timer thread, one whose callers
run everything themselves has no helper, one without slow work has no worker. All threads are daemons.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
import os
import random
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pykka

from greenroom.actors.runtime import _courtesy, _life
from greenroom.actors.runtime._actor import Actor, _start
from greenroom.actors.runtime._calls import (
    check_at_least,
    check_seconds,
    check_wait,
    describe,
    is_async,
    name_of,
)
from greenroom.actors.runtime._crew import Crew
from greenroom.actors.runtime._errors import RuntimeClosed, WouldBlock
from greenroom.actors.runtime._future import Derived, Future
from greenroom.actors.runtime._life import CLOSED, SUSPENDED, Life
from greenroom.actors.runtime._logging import LogWriter, forget_writers, get_log
from greenroom.actors.runtime._loops import Loops, usable
from greenroom.actors.runtime._mailbox import Mailbox
from greenroom.actors.runtime._ref import ActorRef
from greenroom.actors.runtime._registry import ActorRegistry
from greenroom.actors.runtime._stats import RuntimeStats, Tally
from greenroom.actors.runtime._strikes import RESCUERS, Rescuer
from greenroom.actors.runtime._threads import LOCAL, Birth, forget_parent
from greenroom.actors.runtime._timers import Clock, ManualClock, ManualTimers, Timer, TimerThread
from greenroom.actors.runtime._workers import Work, Workers
from greenroom.messages import StopActor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from greenroom.actors.runtime._threads import ThreadState

__all__ = ["Runtime", "current_runtime", "default_runtime"]

logger = get_log("greenroom.actors")

A = TypeVar("A", bound=Actor)
T = TypeVar("T")

HELPER_PATIENCE = 5.0
"""A helper thread that found nothing to do for so many seconds ends."""

SLOW_PAUSE = 1.0
"""After a line about a slow handler there is none for so many seconds. They are counted all the same."""

_numbers = itertools.count(1)


class Runtime:
    """A place for actors to run. There is a default one; make your own to set its limits or to end it.

        with Runtime(workers=8) as runtime:
            counter = runtime.start(Counter)
            ...

    Inside the `with`, on that thread, `Counter.start()` uses it too. Leaving it closes it.
    """

    simulated: ClassVar[bool] = False
    """Whether waiting on the thread that entered it drives it."""

    def __init__(
        self,
        *,
        name: str = "greenroom",
        batch: int = 128,
        helpers: int = 4,
        workers: int = 32,
        slow_handler: float | None = 0.1,
        clock: Clock | None = None,
        on_dead_letter: Callable[[pykka.ActorRef[Any] | str, Any], object] | None = None,
    ) -> None:
        """Make a runtime.

        Args:
            name: what the names of its threads begin with.
            batch: how many messages a thread handles for others before it hands over.
            helpers: how many threads may take over what is handed over.
            workers: how many pieces of slow work may run at once, in each lane.
            slow_handler: a handler that uses more seconds of processor time is logged, one a second at
                most; a millisecond is never too long. `None`: never.
            clock: a `ManualClock` for tests; real time otherwise.
            on_dead_letter: called with the name of the actor and the message that nobody handled.
        """
        check_at_least("batch", batch, 1)
        check_at_least("helpers", helpers, 1)
        check_at_least("workers", workers, 1)
        check_seconds("slow_handler", slow_handler)
        self.name = f"{name}-{next(_numbers)}"
        self.batch = batch
        self.slow_handler = math.inf if slow_handler is None else slow_handler
        self.clock: Clock = clock or time.monotonic
        self.tick: Callable[[], float] = time.perf_counter_ns if clock is not None else self.clock
        """Numbers that grow, for putting things in the order in which they happened. They need no
        counter that all threads share."""
        self.random = random.Random()
        """For whatever is spread at random. A simulation's comes from its seed."""
        self._on_dead_letter = on_dead_letter
        self._closed = False
        self._was_struck = False
        """Whether an exception struck while it was being closed."""
        self.forked = False
        """Whether it belongs to the parent process, which this one was forked from."""
        self._started, self._ended = Tally(), Tally()
        self._failures, self._restarts, self._dead_letters = Tally(), Tally(), Tally()
        self._slow, self._hand_overs = Tally(), Tally()
        self._slow_told, self._slow_again = 0, -math.inf
        self.rescuer = Rescuer(f"{self.name}-rescuer")
        """Finishes what a struck thread had in hand. It runs from the first actor on."""
        weakref.finalize(self, self.rescuer.end).atexit = False
        self.log = LogWriter(f"{self.name}-log", self.rescuer)
        """Writes what is logged on threads that may be struck."""
        weakref.finalize(self, self.log.end).atexit = False
        # With a full stack no finaliser can be called, but this can: it is a C function, which takes the
        # weak reference for a flag.
        self.rescuer.owner = weakref.ref(
            self, functools.partial(self.rescuer.put, (_end, self.log, self.rescuer))
        )
        self._timers: TimerThread | ManualTimers = (
            ManualTimers(clock)
            if isinstance(clock, ManualClock)
            else TimerThread(f"{self.name}-timers", self.clock, self._collecting, self.rescuer.elsewhere)
        )
        self._helpers: Crew[Callable[[], object]] = Crew(
            f"{self.name}-helper", helpers, HELPER_PATIENCE, _call_job, self.rescuer.elsewhere
        )
        """They run actors when the thread that brought the message has done its share."""
        self._most_workers = workers
        self._workers: dict[str, Workers] = {}
        self._loops = Loops(self.name, self._set_timer)
        _runtimes.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # For everybody.

    def start(self, actor_class: type[A], *args: Any, **kwargs: Any) -> ActorRef[A]:
        """Start an actor here."""
        return _start(actor_class, Birth(self), args, kwargs)

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> Timer:
        """Call in `delay` seconds, on the timer thread: be quick. Telling an actor is quick."""
        self._refuse_when_closed()
        check_wait("a delay", delay)
        return self._set_timer(delay, call, *args)

    def call_every(self, interval: float, call: Callable[..., object], *args: Any) -> Timer:
        """Call every `interval` seconds until cancelled."""
        self._refuse_when_closed()
        check_seconds("interval", interval)
        return self._set_timer(interval, call, *args, interval=interval)

    def submit(
        self,
        call: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,
        name: str | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        lane: str = "worker",
        most: int | None = None,
        future: Future[Any] | None = None,
    ) -> Future[Any]:
        """Do slow work: a function on a worker thread, an async one on `loop` or our own event loop.

        Each lane has workers of its own: what is slow in one delays nothing in another. `most` is how
        many it may have, when it is first named. The caller's context variables go along. After
        `timeout` seconds the future gets `WorkTimedOut` and the worker is written off. In an actor,
        `pipe_to_self()` turns the outcome into a message. `future`: one that has its callbacks already.
        """
        self._refuse_when_closed()
        check_seconds("timeout", timeout)
        future = future or Future()
        name = name or name_of(call)
        if is_async(call):
            work = Work(functools.partial(call, *args), future, name, timeout)
            submit = functools.partial(self._loops.submit, work, loop)
            self.send(self.rescuer.elsewhere if loop is None else operator.call, submit)
        else:
            whole = functools.partial(self._call_and_await, call, args, loop)
            self.send(self._lane(lane, most).submit, Work(whole, future, name, timeout))
        return future

    def send(self, send: Callable[[Any], object], what: Any) -> None:
        """Call this when the handler on this thread has returned, or at once if there is none."""
        thread = LOCAL.state
        drive = thread.drive
        if thread.driving and drive is not None and drive.item is not None:
            drive.sent.append((send, what, None))
        else:
            send(what)

    def fault_point(self, name: str) -> None:
        """Mark a place where a simulation may make things fail. Here it does nothing."""

    def let_others_run(self) -> None:
        """Mark a place where a simulation may let others run. Here they do so anyway."""

    def create_future(self, awaited: str) -> Future[Any]:
        """Make a future that somebody sets from outside of any actor."""
        return Future()

    def stats(self) -> RuntimeStats:
        """Tell what is going on, and what has been."""
        started = self._started.total
        lanes = list(self._workers.values())
        return RuntimeStats(
            actors=started - self._ended.total,
            started=started,
            failures=self._failures.total,
            restarts=self._restarts.total,
            dead_letters=self._dead_letters.total,
            slow_handlers=self._slow.total,
            hand_overs=self._hand_overs.total,
            helpers=self._helpers.alive(),
            timers=self._timers.pending(),
            workers=sum(lane.crew.alive() for lane in lanes),
            workers_busy=sum(lane.crew.busy() for lane in lanes),
            work_queued=sum(lane.crew.queued() for lane in lanes),
            workers_lost=sum(lane.lost_total for lane in lanes) + self._loops.lost_total,
            stuck=(*(name for lane in lanes for name in lane.lost()), *self._loops.lost()),
        )

    def close(self, timeout: float = 5.0) -> None:
        """Stop the actors, last started first, refuse work that has not begun, and end the threads.

        Waits `timeout` seconds in all for handlers and work that are still running. What is stuck then
        is left behind, on daemon threads. Closing twice does nothing.
        """
        if LOCAL.state.driving:
            msg = f"{self.name} was to be closed inside a handler, which would wait for itself"
            raise WouldBlock(msg)
        if self._closed and not self._was_struck:
            return
        self._closed, self._was_struck = True, False
        try:
            self._end_all(time.monotonic() + timeout)
        except BaseException:
            self._was_struck = True  # so that it can be closed again
            raise

    def _end_all(self, deadline: float) -> None:
        roots = [mailbox for mailbox in self._mailboxes() if mailbox.is_root()]
        stopping = [(mailbox, self._stop_mailbox(mailbox)) for mailbox in reversed(roots)]
        for mailbox, stopped in stopping:
            try:
                stopped.get(timeout=max(0.0, deadline - time.monotonic()))
            except pykka.Timeout:
                logger.warning("%s did not stop in time: a handler of it is stuck", mailbox)
            except pykka.ActorDeadError:
                pass
        self._loops.close()
        for crew in list(self._workers.values()):
            crew.close(max(0.0, deadline - time.monotonic()))
        self._timers.close()
        for job in self._helpers.close() + self._helpers.join(HELPER_PATIENCE):
            job()  # nobody else will
        self.rescuer.close(HELPER_PATIENCE)
        self.log.close(HELPER_PATIENCE)

    def __enter__(self) -> Self:
        LOCAL.state.entered.append(self)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered = LOCAL.state.entered
        if self in entered:
            entered.reverse()
            entered.remove(self)  # the innermost of its entries on this thread
            entered.reverse()
        self.close()

    # What a simulation does in another way.

    def _create_mailbox(self, parent: Mailbox | None) -> Mailbox:
        return Mailbox(self, parent)

    def _hand_over(self, mailbox: Mailbox) -> None:
        self._hand_overs.add()
        self._run_soon(mailbox.wake)

    def _run_soon(self, call: Callable[[], object]) -> None:
        self._helpers.put(call)

    # For actors and mailboxes.

    def _refuse_when_closed(self) -> None:
        if self._closed:
            why = "belongs to the parent process, which this one was forked from" if self.forked else ""
            msg = f"{self.name} {why or 'is closed'}: it starts no actor, timer or work any more"
            raise RuntimeClosed(msg)

    def _leave_to_parent(self) -> None:
        """In a forked child: start nothing and wait for nobody. None of the threads is here, and what
        they had locked stays locked."""
        for mailbox in self._mailboxes():
            mailbox.state = CLOSED
        self._closed = self.forked = True
        # Kept: dropping what waits there might run a finaliser of the program's.
        self._parents = self._timers, self._helpers, self._workers, self.rescuer, self.log
        self.rescuer = Rescuer(self.name)
        self.log = LogWriter(self.name, self.rescuer)
        self._timers = ManualTimers(ManualClock())
        self._helpers = Crew(self.name, 0, HELPER_PATIENCE, _call_job)
        self._workers = {}

    def _refs(self) -> list[ActorRef[Any]]:
        """Return the actors here, and those that have stopped and wait for their children."""
        refs = [ref for ref in ActorRegistry.every() if isinstance(ref, ActorRef)]
        return [ref for ref in refs if ref.actor_inbox.runtime is self]

    def _mailboxes(self) -> list[Mailbox]:
        return [ref.actor_inbox for ref in self._refs() if ref.is_alive()]

    def _stop_mailbox(self, mailbox: Mailbox) -> Future[bool]:
        """Have an actor stop. The future tells whether it had not stopped before."""
        message = StopActor()
        future = mailbox.create_future(message)
        try:
            mailbox.deliver(message, future)
        except pykka.ActorDeadError:
            future.set(False)
        if mailbox.state == SUSPENDED:
            mailbox.give_up()
        return future

    def _stop_children(self, children: Iterable[Mailbox]) -> Future[bool]:
        return Derived(tuple(self._stop_mailbox(child) for child in list(children)), bool)

    def _stop_all(self) -> None:
        for mailbox in reversed(self._mailboxes()):
            self._stop_mailbox(mailbox)

    def _dead_letter(self, mailbox: Life, message: Any) -> None:
        self._dead_letters.add()
        logger.debug("%s did not handle %s", mailbox, describe(message))
        if self._on_dead_letter is not None:
            try:
                self._on_dead_letter(str(mailbox), message)
            except Exception:
                logger.exception("on_dead_letter failed")

    def _report_slow(self, mailbox: Life, message: Any, thread: ThreadState, began: float) -> None:
        """A handler took more than a millisecond. It is to blame if that was more than the limit and the
        thread has worked for as long: on a busy machine handlers mostly wait to go on."""
        if time.monotonic() - began <= self.slow_handler:
            return
        took = time.thread_time() - thread.sampled
        if took <= self.slow_handler:
            return
        self._slow.add()
        # On a machine that is out of breath every handler is slow, and thousands of lines do not help.
        if (now := self.clock()) < self._slow_again:
            return
        self._slow_again = now + SLOW_PAUSE
        untold, self._slow_told = self._slow.total - self._slow_told - 1, self._slow.total
        logger.warning(
            "%s worked %.3f s on %s, on its caller's thread%s. Handlers must be quick: "
            "do slow work with runtime.submit() and get its outcome as a message",
            mailbox,
            took,
            describe(message),
            f" ({untold} other handlers were slow since the last warning)" if untold > 0 else "",
        )

    def _report_failure(self, mailbox: Life) -> None:
        if isinstance(sys.exception(), RuntimeClosed):
            logger.debug("%s was still at work when %s was closed", mailbox, self.name)
            return
        self._failures.add()
        logger.error("Unhandled exception in %s:", mailbox, exc_info=sys.exc_info())

    def _report_restart(self, mailbox: Life, pause: float) -> None:
        self._restarts.add()
        if pause:
            logger.warning("Restarting %s in %s s: its on_start() fails again and again", mailbox, pause)
        else:
            logger.info("Restarting %s", mailbox)

    # Time and work.

    def _set_timer(
        self, delay: float, call: Callable[..., object], *args: Any, interval: float | None = None
    ) -> Timer:
        timer = Timer(self.clock() + delay, interval, call, args)
        self.send(self._timers.add, timer)
        return timer

    def _lane(self, name: str, most: int | None = None) -> Workers:
        crew = self._workers.get(name)
        if crew is None:
            # Two threads may be here at once: setdefault is a single step, one of them wins.
            most = most or self._most_workers
            elsewhere = self.rescuer.elsewhere
            crew = Workers(f"{self.name}-{name}", most, self._set_timer, elsewhere)
            crew = self._workers.setdefault(name, crew)
            if self._closed:
                crew.close(0.0)
        return crew

    def _collecting(self, call: Callable[[], bool]) -> bool:
        """Call, and have helpers run the actors that were told something: the thread is the timers'."""
        thread = LOCAL.state
        ready = (thread.drive or thread.begin_drive()).ready
        thread.driving = True
        try:
            return call()
        finally:
            thread.driving = False
            while ready:
                self._run_soon(ready.popleft().wake)

    def _call_and_await(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop | None,
    ) -> Any:
        """Call on a worker; a plain function that returns a coroutine has it awaited on the loop."""
        result = call(*args)
        if not inspect.isawaitable(result):
            return result

        async def awaited() -> Any:
            return await result

        outcome: Future[Any] = Future()
        self._loops.submit(Work(awaited, outcome, name_of(call), None), usable(loop))
        return outcome.get()


def _call_job(job: Callable[[], object], _: threading.Thread) -> bool:
    job()
    return True


def _end(*threads: Rescuer) -> None:
    for thread in threads:
        thread.end()


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child: nobody releases what other threads had locked, and nobody but us is in line."""
    global _default_lock
    _default_lock = threading.RLock()
    _life._lock = threading.RLock()
    _courtesy._line.clear()
    forget_parent()
    forget_writers()
    RESCUERS.clear()
    for runtime in list(_runtimes):
        runtime._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_default: Runtime | None = None
_default_lock = threading.RLock()


def default_runtime() -> Runtime:
    """Return the runtime of whoever did not choose one. It is made on first use, and after a close."""
    global _default
    runtime = _default
    if runtime is None or runtime._closed:
        with _default_lock:
            if _default is None or _default._closed:
                _default = Runtime()
            runtime = _default
    return runtime


def current_runtime() -> Runtime:
    """Return the running handler's runtime, else the one entered with `with`, else the default."""
    thread = LOCAL.state
    if thread.running is not None:
        return thread.running.runtime
    return next((r for r in reversed(thread.entered) if not r._closed), None) or default_runtime()
