"""Futures: pykka's, that also call back and can be awaited without blocking the loop.

A future is set once, by anyone, and read by any number of threads, callbacks and tasks. It owns no
lock. The usual one is ready before anybody asks, and then `get()` is two attribute reads. Who must wait
leaves a callback, and the order of two steps on either side makes sure that it is called:

    the setter:  1. store the outcome   2. look for callbacks, call each
    the waiter:  1. leave the callback  2. look for an outcome, and if it is there call what is left

Whichever second step comes last sees the other's first. Both may see everything; `deque.popleft` is a
single step, so that each callback still goes to exactly one of them.

Derived futures (`map`, `filter`, `join`, `reduce`) are lazy as in pykka: the function runs once, on the
thread of whoever first wants the value, not on the thread of the actor that answered.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pykka

from greenroom.actors.runtime._courtesy import give_way
from greenroom.actors.runtime._errors import WouldBlock
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.runtime._strikes import RESCUERS, STRIKES, is_strike
from greenroom.actors.runtime._threads import LOCAL, taking

if TYPE_CHECKING:
    from types import TracebackType

    ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
    Outcome = tuple[Any, ExcInfo | None]

__all__ = ["Derived", "Future"]

logger = get_log("greenroom.actors")

T = TypeVar("T")
J = TypeVar("J")
M = TypeVar("M")
R = TypeVar("R")


class Future(pykka.Future[T], Generic[T]):
    """A value that is there now or later. See `pykka.Future` for `get`, `set`, `map` and the others."""

    # Class attributes are the initial state: a future that is set and read allocates nothing else.
    _outcome: Outcome | None = None
    _callbacks: deque[Callable[[Future[T]], object]] | None = None
    _hook: tuple[threading.Lock, Callable[[float | None], T]] | None = None

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        # pykka's constructor sets what is a class attribute here, so there is nothing left to do.
        __init__ = object.__init__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'done' if self.done() else 'pending'}>"

    def done(self) -> bool:
        """Tell whether `get()` would answer without waiting."""
        return self._outcome is not None

    def get(self, *, timeout: float | None = None) -> T:
        """Return the value, or raise the exception, waiting for it if need be.

        Raises `pykka.Timeout` after `timeout` seconds, and `WouldBlock` if it would have to wait
        inside a handler.
        """
        outcome = self._outcome
        if outcome is None:
            outcome = self._wait(timeout)
        else:
            thread = LOCAL.state
            thread.answers_left -= 1
            if thread.answers_left < 0 and not thread.driving:
                give_way(thread)
        value, exc_info = outcome
        if exc_info is None:
            return value  # type: ignore[no-any-return]  # a cast is a call
        raise _raisable(exc_info)

    def set(self, value: T | None = None) -> None:
        """Set the value. Raises `queue.Full` if there is an outcome, or a get hook, already."""
        self._settle((value, None))

    def set_exception(self, exc_info: ExcInfo | BaseException | None = None) -> None:
        """Set an exception: the current one, an `exc_info` triple, or an exception instance."""
        if exc_info is None:
            exc_info = sys.exc_info()
        elif isinstance(exc_info, BaseException):
            exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
        self._settle((None, exc_info))

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Have `get()` call `func(timeout)`, once. Callbacks cannot be had on such a future."""
        if self._outcome is not None:
            raise queue.Full
        self._hook = (threading.Lock(), func)

    @property
    def failure(self) -> BaseException | None:
        """The exception that is its outcome, and that `get()` raises. `None`: there is none, or no
        outcome yet."""
        outcome = self._outcome
        return None if outcome is None or outcome[1] is None else _raisable(outcome[1])

    def on_done(self, callback: Callable[[Future[T]], object]) -> None:
        """Call `callback(self)` once there is an outcome: at once if there is one.

        It runs on the thread that sets the future, so it must be quick and must not wait; telling an
        actor is the usual thing to do. What it raises is logged.
        """
        if self._hook is not None:
            msg = "a future with a get hook does not know when it is done: use get() or await it"
            raise TypeError(msg)
        callbacks = self._callbacks
        if callbacks is None:
            # Two threads may be here at once: setdefault is a single step, one deque wins.
            callbacks = self.__dict__.setdefault("_callbacks", deque())
        callbacks.append(callback)
        if self._outcome is not None:
            self._call_back(callbacks)

    def forget(self, callback: Callable[[Future[T]], object]) -> bool:
        """Take a callback back. False if it was called before, or is being called now."""
        try:
            (self._callbacks or deque()).remove(callback)
        except ValueError:
            return False
        return True

    def filter(self: Future[Iterable[J]], func: Callable[[J], bool]) -> Future[Iterable[J]]:
        """See `pykka.Future.filter`."""
        return Derived((self,), lambda: list(filter(func, self.get())))

    def join(self: Future[Any], *futures: pykka.Future[Any]) -> Future[Iterable[Any]]:
        """See `pykka.Future.join`."""
        every = (self, *futures)
        return Derived(every, lambda: [future.get() for future in every])

    def map(self, func: Callable[[T], M]) -> Future[M]:
        """See `pykka.Future.map`."""
        return Derived((self,), lambda: func(self.get()))

    def reduce(self: Future[Iterable[J]], func: Callable[[R, J], R], *args: R) -> Future[R]:
        """See `pykka.Future.reduce`."""
        return Derived((self,), lambda: functools.reduce(func, self.get(), *args))

    def __await__(self) -> Generator[Any, None, T]:
        outcome = self._outcome
        if outcome is None:
            yield from self._settled()
            outcome = self._outcome or self._wait(0.0)
        value, exc_info = outcome
        if exc_info is None:
            return value  # type: ignore[no-any-return]  # a cast is a call
        raise _raisable(exc_info)

    __iter__ = __await__

    # For the runtime.

    def _settle(self, outcome: Outcome) -> None:
        """Set once: of two threads that try, one succeeds and the other gets `queue.Full`."""
        if self._hook is not None or not self._offer(outcome):
            raise queue.Full

    def _offer(self, outcome: Outcome) -> bool:
        """Set it if nobody has. Of two threads that try, one succeeds. May be called again with the same
        outcome, behind a strike."""
        try:
            if self.__dict__.setdefault("_outcome", outcome) is not outcome:
                return False
            if self._callbacks is not None:
                self._call_back(self._callbacks)
        except BaseException:
            for rescuer in RESCUERS[-1:]:
                rescuer.put((self._call_the_rest,))
            raise
        return True

    def _resolve(self, outcome: Outcome) -> None:
        """`_offer` without the contest, for an actor that answers its own message. Behind a strike, who
        has called this calls it again."""
        if self._outcome is None:
            self._outcome = outcome
        if self._callbacks is not None:
            self._call_back(self._callbacks)

    def _call_the_rest(self) -> None:
        """Call those back that were not called because of a strike."""
        if self._outcome is not None and self._callbacks is not None:
            self._call_back(self._callbacks)

    def _call_back(self, callbacks: deque[Callable[[Future[T]], object]]) -> None:
        try:
            # A loop: no strike comes between its step and its store, so what was taken out is in hand.
            for callback in iter(callbacks.popleft, None):
                try:
                    callback(self)
                except BaseException as error:
                    if LOCAL.state.exposed and (isinstance(error, STRIKES) or is_strike(error)):
                        callbacks.appendleft(callback)  # the thread that goes on from here calls it
                        raise
                    logger.exception("The callback %r of a future failed", callback)
        except IndexError as error:
            if is_strike(error):
                raise

    def _wait(self, timeout: float | None) -> Outcome:
        """Block this thread until there is an outcome."""
        if self._hook is not None:
            return self._run_hook(*self._hook, timeout)
        _refuse_in_a_handler()
        if (simulation := self._simulation()) is not None:
            return cast("Outcome", simulation._drive_until(self, timeout))
        thread = LOCAL.state
        woken = threading.Lock()
        woken.acquire()

        def wake(_: Future[T]) -> None:
            thread.waking = True  # from here on that thread wants the interpreter
            if woken.locked():
                woken.release()

        in_time = False
        try:
            self.on_done(wake)
            in_time = woken.acquire(timeout=_lock_timeout(timeout))
        finally:
            if not in_time and not self.forget(wake):
                woken.acquire(timeout=1.0)  # it is being called at this moment
            thread.waking = False
        if self._outcome is None:
            msg = f"{timeout} seconds"
            raise pykka.Timeout(msg)
        return self._outcome

    def _simulation(self) -> Any:
        """Return the simulation that this thread is in, if it is in one: waiting then drives it."""
        entered = LOCAL.state.entered
        return entered[-1] if entered and entered[-1].simulated else None

    def _run_hook(
        self, lock: threading.Lock, hook: Callable[[float | None], T], timeout: float | None
    ) -> Outcome:
        if not lock.acquire(timeout=_lock_timeout(timeout)):
            msg = f"{timeout} seconds"
            raise pykka.Timeout(msg)
        try:
            if self._outcome is None:
                self._outcome = (hook(timeout), None)
            return self._outcome
        finally:
            lock.release()

    def _settled(self) -> Generator[Any, None, None]:
        """Wait on the running event loop until `get()` would not block. The outcome is not raised."""
        if self._simulation() is not None:
            yield self
            return
        loop = asyncio.get_running_loop()
        if self._hook is not None:
            # Nobody knows what the hook does, so it may not do it on the loop's thread.
            self._outcome = yield from loop.run_in_executor(None, _outcome_of, self)
            return
        done = loop.create_future()

        def wake(_: Future[T]) -> None:
            _wake_loop(loop, done)

        self.on_done(wake)
        try:
            yield from done
        finally:
            self.forget(wake)


class Derived(Future[T]):
    """The value of other futures through a function, which runs once, when it is first wanted."""

    def __init__(self, sources: tuple[pykka.Future[Any], ...], compute: Callable[[], T]) -> None:
        self._sources = sources
        self._compute = compute
        self._computing = threading.Lock()

    def done(self) -> bool:
        return self._outcome is not None or all(_is_done(source) for source in self._sources)

    def set(self, value: T | None = None) -> None:
        raise queue.Full

    def set_exception(self, exc_info: ExcInfo | BaseException | None = None) -> None:
        raise queue.Full

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        raise queue.Full

    def on_done(self, callback: Callable[[Future[T]], object]) -> None:
        """As `Future.on_done`; the function runs on the thread that sets the last of the sources."""
        first = self._callbacks is None and self._outcome is None
        if first and not all(isinstance(source, Future) for source in self._sources):
            msg = "a future of another kind among the sources cannot call back: use get() or await it"
            raise TypeError(msg)
        super().on_done(callback)
        if first:
            self._subscribe(deque(self._sources))

    def _subscribe(self, remaining: deque[pykka.Future[Any]]) -> None:
        while remaining and _is_done(remaining[0]):
            remaining.popleft()
        if remaining:
            cast("Future[Any]", remaining[0]).on_done(lambda _: self._subscribe(remaining))
        else:
            for mine in map(self._computing.acquire, (False,)):  # a step of a loop: see `taking`
                try:
                    # Else another thread is at it, and will call back when it is done.
                    if mine:
                        self._evaluate()
                finally:
                    if mine:
                        self._computing.release()
            self._call_the_rest()

    def _wait(self, timeout: float | None) -> Outcome:
        deadline = None if timeout is None else monotonic() + timeout
        for source in self._sources:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            _wait_for(source, left)
        for _ in taking(self._computing):
            try:
                self._evaluate()
            finally:
                self._computing.release()
        self._call_the_rest()
        assert self._outcome is not None
        return self._outcome

    def _evaluate(self) -> None:
        """Compute, unless that was done, with the lock held."""
        if self._outcome is None:
            try:
                self._outcome = (self._compute(), None)
            except (Exception, asyncio.CancelledError) as error:
                if LOCAL.state.exposed and is_strike(error):
                    raise
                self._outcome = (None, sys.exc_info())

    def _settled(self) -> Generator[Any, None, None]:
        for source in self._sources:
            if isinstance(source, Future):
                if not source.done():
                    yield from source._settled()
            else:
                loop = asyncio.get_running_loop()
                yield from loop.run_in_executor(None, _outcome_of, source)


def _raisable(exc_info: ExcInfo) -> BaseException:
    exception_type, exception, traceback = exc_info
    if exception is None:
        assert exception_type is not None
        exception = exception_type()
    if exception.__traceback__ is not traceback:
        exception = exception.with_traceback(traceback)
    return exception


def _refuse_in_a_handler() -> None:
    if LOCAL.state.driving:
        where = LOCAL.state.running
        msg = (
            f"{where or 'a handler'} waits for a future that is not ready. Handlers must not block: use "
            "pipe_to_self(future, ...) to get the outcome as a message, or on_done(callback), and "
            "defer_reply() if somebody waits for the answer"
        )
        raise WouldBlock(msg)


def _lock_timeout(timeout: float | None) -> float:
    return -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)


def _wait_for(source: pykka.Future[Any], timeout: float | None) -> None:
    if not isinstance(source, Future):
        source.get(timeout=timeout)
    elif source._outcome is None:
        source._wait(timeout)


def _is_done(source: pykka.Future[Any]) -> bool:
    return isinstance(source, Future) and source.done()


def _wake_loop(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Have the loop go on, unless its task does not wait any more.

    It is an iterator, which C functions run: a strike in a callback of ours would be swallowed by the
    loop. It looks when it is run: a task that was cancelled meanwhile has cancelled `done`, too. And it
    is only ever run by the loop: a strike while `done` tells its task would be lost with that, and here
    it is scheduled again.
    """
    kind: Any = asyncio.Future
    wake = map(kind.set_result, itertools.filterfalse(kind.done, (done,)), (None,))
    soon = loop.call_soon if running_loop() is loop else loop.call_soon_threadsafe
    try:
        soon(list, wake)
    except RuntimeError:
        logger.debug("The event loop that awaited a future was closed before the answer came")


def _outcome_of(future: pykka.Future[Any]) -> Outcome:
    try:
        return future.get(), None
    except Exception:
        return None, sys.exc_info()
