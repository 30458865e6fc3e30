"""Plain tests of past bugs: exceptions that struck a thread where the runtime was not ready (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom.actors import Actor, Future, Runtime, put_back, take_down
from greenroom.actors.runtime import _life, _stats
from greenroom.actors.runtime._future import Derived
from greenroom.actors.runtime._logging import flush_logs, get_log
from tests.actors.actors import PATIENCE, Recorder, in_thread, join_all
from tests.strikes.recursion import with_frames_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Struck(BaseException):
    pass


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have a signal handler raise on the main thread, once, on entry to a function or behind it."""

    def handle(_signum: int, _frame: object) -> None:
        raise Struck

    def plant(owner: Any, name: str, *, behind: bool = False, only: object = None) -> None:
        real = getattr(owner, name)

        def planted(self: Any, *args: Any, **kwargs: Any) -> Any:
            here = threading.current_thread() is threading.main_thread()
            if not here or (only is not None and self is not only):
                return real(self, *args, **kwargs)
            monkeypatch.setattr(owner, name, real)
            if not behind:
                signal.raise_signal(signal.SIGUSR1)
            result = real(self, *args, **kwargs)
            signal.raise_signal(signal.SIGUSR1)
            return result

        monkeypatch.setattr(owner, name, planted)

    before = signal.signal(signal.SIGUSR1, handle)
    yield plant
    signal.signal(signal.SIGUSR1, before)


class Parent(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    def give_birth(self) -> Any:
        return self.start_child(Fragile)

    def on_child_failed(self, failure: Any) -> None:
        self.failures += 1
        self.restart_child(failure)


class Fragile(Actor):
    def on_receive(self, message: Any) -> Any:
        if message == "fail":
            raise LookupError(message)
        return message


def test_a_strike_while_a_child_is_suspended_leaves_it_alive(
    runtime: Runtime, strike: Callable[..., None]
) -> None:
    child = runtime.start(Parent).proxy().give_birth().get()
    strike(_life.Life, "waiting", only=child.actor_inbox)

    with pytest.raises(Struck):
        child.tell("fail")

    assert child.ask("hello", timeout=PATIENCE) == "hello"


def test_a_strike_in_on_failure_leaves_nobody_waiting(
    runtime: Runtime, strike: Callable[..., None]
) -> None:
    class Orphan(Fragile):
        def on_receive(self, message: Any) -> Any:
            if message == "later":
                self.reply = self.defer_reply()
                return None
            return super().on_receive(message)

    ref = runtime.start(Orphan)
    asked = ref.ask("later", block=False)
    strike(Orphan, "on_failure")

    with pytest.raises(Struck):
        ref.tell("fail")

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=PATIENCE)
    assert ref.actor_stopped.wait(PATIENCE)


def test_a_strike_while_an_actor_ends_skips_no_step(
    runtime: Runtime, strike: Callable[..., None]
) -> None:
    stopped: list[str] = []

    class Stopping(Actor):
        def on_stop(self) -> None:
            stopped.append("on_stop")

    ref = runtime.start(Stopping)
    strike(_stats.Tally, "add", behind=True, only=runtime._ended)

    with pytest.raises(Struck):
        ref.stop()

    assert ref.actor_stopped.wait(PATIENCE)
    runtime.close()
    assert stopped == ["on_stop"]


def test_a_strike_in_on_start_brings_what_is_replayed_only_once(
    runtime: Runtime, strike: Callable[..., None]
) -> None:
    handled: list[Any] = []

    class Child(Actor):
        def on_receive(self, message: Any) -> None:
            handled.append(message)
            if len(handled) == 1:
                raise LookupError

    class Replaying(Actor):
        def give_birth(self) -> Any:
            return self.start_child(Child)

        def on_child_failed(self, failure: Any) -> None:
            self.restart_child(failure, replay=True)

    child = runtime.start(Replaying).proxy().give_birth().get()
    strike(Child, "on_start")

    with pytest.raises(Struck):
        child.tell("once")

    child.ask("behind it", timeout=PATIENCE)
    assert handled == ["once", "once", "behind it"]


def test_a_future_that_was_struck_while_it_was_computed_is_computed_by_the_next(
    strike: Callable[..., None],
) -> None:
    source: Future[int] = Future()
    source.set(1)
    doubled = source.map(lambda value: 2 * value)
    strike(Derived, "_evaluate")

    with pytest.raises(Struck):
        doubled.get()

    got: list[int] = []
    join_all([in_thread(lambda: got.append(doubled.get(timeout=PATIENCE)))])
    assert got == [2]


def test_a_future_that_is_set_by_a_struck_thread_still_wakes_who_waits(
    runtime: Runtime, strike: Callable[..., None]
) -> None:
    runtime.start(Recorder)  # so that there is a rescuer
    future: Future[int] = Future()
    got: list[int] = []
    waiting = in_thread(lambda: got.append(future.get(timeout=PATIENCE)))
    while not future._callbacks:
        threading.Event().wait(0.001)
    strike(Future, "_call_back", only=future)

    with pytest.raises(Struck):
        future.set(7)

    join_all([waiting])
    assert got == [7]


def test_a_runtime_whose_close_was_struck_can_be_closed_again(strike: Callable[..., None]) -> None:
    runtime = Runtime()
    ref = runtime.start(Recorder)
    strike(Runtime, "_mailboxes", only=runtime)

    with pytest.raises(Struck):
        runtime.close()
    runtime.close()

    assert not ref.is_alive()


def test_a_signal_handler_that_sends_and_raises_wedges_no_actor(runtime: Runtime) -> None:
    """1. a thread takes the baton  2. a signal handler sends to another actor, and raises."""
    one, other = runtime.start(Recorder), runtime.start(Recorder)

    class Baton(dict[str, object]):
        def setdefault(self, key: str, default: object = None) -> object:
            taken = super().setdefault(key, default)
            if armed:
                armed.clear()
                signal.raise_signal(signal.SIGUSR1)
            return taken

    def handle(_signum: int, _frame: object) -> None:
        other.tell("from the handler")
        raise Struck

    armed = [True]
    one.actor_inbox.baton = Baton()
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Struck):
            one.ask("first")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert one.ask("second", timeout=PATIENCE) == "second"


class Counter(Actor):
    """Can be put back, and takes its time over the first message."""

    can_restore = True

    def __init__(self, begun: threading.Event) -> None:
        super().__init__()
        self.begun = begun
        self.first = self.second = 0

    def save(self) -> tuple[int, int]:
        return self.first, self.second

    def restore(self, saved: tuple[int, int]) -> None:
        self.first, self.second = saved

    def on_receive(self, message: Any) -> Any:
        if message == "look":
            return self.first, self.second
        self.first += 1
        while not self.begun.is_set():
            self.begun.set()
            while threading.current_thread().name == "injected":
                pass
        self.second += 1
        return None


def test_an_ordinary_exception_that_is_injected_is_its_threads(runtime: Runtime) -> None:
    class Injected(Exception):
        pass

    begun, got = threading.Event(), list[BaseException]()
    ref = runtime.start(Counter, begun)

    def run() -> None:
        try:
            ref.tell("count")
        except Injected as error:
            got.append(error)

    thread = threading.Thread(target=run, name="injected")
    thread.start()
    assert begun.wait(PATIENCE)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Injected)
    )
    join_all([thread])

    assert len(got) == 1
    assert ref.ask("look", timeout=PATIENCE) == (1, 1)  # it was put back, and handled once more


def test_user_code_that_recurses_on_a_worker_fails_no_actor(runtime: Runtime) -> None:
    class Deep(Actor):
        def on_receive(self, message: Any) -> Any:
            return self.dive(80)

        def dive(self, depth: int) -> int:
            return depth and self.dive(depth - 1)

    ref = runtime.start(Deep)

    def at(depth: int) -> None:
        if depth:
            at(depth - 1)
        else:
            ref.tell("dive")

    def work() -> None:
        for depth in range(sys.getrecursionlimit() - 40, sys.getrecursionlimit() - 200, -1):
            try:
                at(depth)
            except RecursionError:
                pass

    runtime.submit(work).get(timeout=PATIENCE)
    assert ref.ask("dive", timeout=PATIENCE) == 0
    assert runtime.stats().failures == 0


# Threads and loops that cannot be had.


def test_a_rescuer_that_could_not_be_started_is_started_later(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            runtime.start(Recorder)

    runtime.start(Recorder)
    assert runtime.submit(lambda: 42).get(timeout=PATIENCE) == 42


def test_async_work_that_cannot_be_started_fails(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    async def work() -> None:
        pass

    runtime.start(Recorder)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many"):
        runtime.submit(work).get(timeout=PATIENCE)


def test_a_filter_that_raises_does_not_end_the_log(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(record.getMessage())

        def filter(self, record: logging.LogRecord) -> bool:
            if record.levelno >= logging.ERROR:
                raise LookupError("a bug in a filter")
            return True

    written: list[str] = []
    runtime.start(Recorder)
    logger, log, handler = logging.getLogger("greenroom"), get_log("greenroom.actors"), Handler()
    logger.addHandler(handler)
    try:
        for level in (logging.WARNING, logging.ERROR, logging.WARNING):
            log.log(level, "%s", level)
        flush_logs(PATIENCE)
    finally:
        logger.removeHandler(handler)

    assert written == ["30", "30"]
    assert "a bug in a filter" in capsys.readouterr().err


# What can be put back.


class OneSlot:
    __slots__ = ("items",)
    items: list[str]


class PrivateSlot:
    __slots__ = ("__count", "other")

    def __init__(self) -> None:
        self.__count = self.other = 0

    def count(self) -> int:
        self.__count += 1
        return self.__count


def test_what_is_taken_down_is_put_back_whatever_its_slots_are() -> None:
    one, private = OneSlot(), PrivateSlot()
    one.items = ["a"]
    saved = take_down([one, private])
    one.items = ["b"]
    private.count()

    put_back(saved)

    assert one.items == ["a"]
    assert private.count() == 1
    with pytest.raises(TypeError, match="__slots__"):
        take_down([object()])


def test_a_runtime_that_becomes_garbage_under_a_full_stack_ends_its_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K4: no finaliser can be called there. (Threads that stay fail the test.)"""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    gc.disable()
    try:
        for left in range(1, 40):
            runtime: Any = Runtime()
            runtime.rescuer.start()
            runtime.log.start()
            runtime.me = runtime
            del runtime
            with contextlib.suppress(RecursionError):
                with_frames_left(left, gc.collect)
            gc.collect()
    finally:
        gc.enable()
