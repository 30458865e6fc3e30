"""Slow work: workers, event loops, timeouts, what is written off."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pykka
import pytest

from greenroom.actors import Actor, Future, ManualClock, Runtime, RuntimeClosed, WorkTimedOut
from greenroom.actors.runtime._crew import Crew
from greenroom.actors.runtime._workers import Work, Workers
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.room.agents import until

name_of_user: contextvars.ContextVar[str] = contextvars.ContextVar("name_of_user")


def test_work_runs_on_a_daemon_worker_named_after_it(runtime: Runtime) -> None:
    def look() -> tuple[str, bool]:
        thread = threading.current_thread()
        return thread.name, thread.daemon

    name, daemon = runtime.submit(look, name="build telegram:1").get(timeout=PATIENCE)

    assert name.startswith(runtime.name)
    assert name.endswith(": build telegram:1")
    assert daemon


def test_the_outcome_comes_as_a_message(runtime: Runtime) -> None:
    class Builder(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.results: list[Any] = []

        def build(self, call: Any) -> Any:
            reply = self.defer_reply()
            work = self.runtime.submit(call)
            self.pipe_to_self(work, lambda v: ("built", v, reply), lambda e: ("failed", e, reply))

        def on_receive(self, message: Any) -> None:
            what, value, reply = message
            reply.set((what, value))

    builder = runtime.start(Builder).proxy()

    assert builder.build(lambda: 42).get(timeout=PATIENCE) == ("built", 42)
    what, error = builder.build(lambda: 1 / 0).get(timeout=PATIENCE)
    assert what == "failed"
    assert isinstance(error, ZeroDivisionError)


def test_context_variables_of_the_caller_go_along(runtime: Runtime) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return name_of_user.get()

    token = name_of_user.set("ada")
    try:
        work = [
            runtime.submit(name_of_user.get),
            runtime.submit(later),
            runtime.submit(lambda: later()),
        ]
    finally:
        name_of_user.reset(token)

    assert [future.get(timeout=PATIENCE) for future in work] == ["ada"] * 3


def test_no_more_than_so_many_work_at_once_and_the_rest_wait() -> None:
    # On a clock that stands still: work that has waited for a second gets more workers.
    with Runtime(workers=3, clock=ManualClock()) as runtime:
        gates = [Gate() for _ in range(5)]
        work = [runtime.submit(gate.wait) for gate in gates]
        for gate in gates[:3]:
            gate.wait_reached()

        stats = runtime.stats()
        assert (stats.workers, stats.workers_busy, stats.work_queued) == (3, 3, 2)

        for gate in gates:
            gate.open()
        pykka.get_all(work, timeout=PATIENCE)


def test_a_stuck_worker_is_written_off_named_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with Runtime(workers=1, clock=clock) as runtime:
        wedged = Gate()
        stuck = runtime.submit(wedged.wait, timeout=60.0, name="commit slack:7")
        wedged.wait_reached()
        behind = runtime.submit(lambda: "done all the same")

        clock.advance(59.0)
        assert not stuck.done()
        clock.advance(1.0)

        with pytest.raises(WorkTimedOut, match="commit slack:7"):
            stuck.get(timeout=PATIENCE)
        assert behind.get(timeout=PATIENCE) == "done all the same"
        stats = runtime.stats()
        assert stats.workers_lost == 1
        assert stats.stuck == ("commit slack:7",)
        assert "commit slack:7 is stuck" in caplog.text
        wedged.open()


def test_any_number_of_wedged_calls_cannot_starve_the_rest() -> None:
    clock = ManualClock()
    with Runtime(workers=2, clock=clock) as runtime:
        gates = [Gate() for _ in range(20)]
        stuck = [runtime.submit(gate.wait, timeout=1.0) for gate in gates]
        honest = runtime.submit(lambda: "done")
        for n in range(0, 20, 2):
            gates[n].wait_reached()
            gates[n + 1].wait_reached()
            clock.advance(1.0)

        assert honest.get(timeout=PATIENCE) == "done"
        assert runtime.stats().workers_lost == 20
        assert all(isinstance(_error_of(future), WorkTimedOut) for future in stuck)
        for gate in gates:
            gate.open()


def _error_of(future: pykka.Future[Any]) -> BaseException | None:
    try:
        future.get(timeout=PATIENCE)
    except BaseException as error:
        return error
    return None


def test_work_that_ends_in_time_is_not_written_off(runtime: Runtime) -> None:
    assert runtime.submit(lambda: 1, timeout=60.0).get(timeout=PATIENCE) == 1

    # Another timer may look for a second whether work waits: for a moment it did.
    until(lambda: runtime.stats().timers == 0, "the end of its timer")
    assert runtime.stats().workers_lost == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_work_that_raises_a_base_exception_ends_itself_only(
    runtime: Runtime, error: BaseException
) -> None:
    def raise_it() -> None:
        raise error

    assert _error_of(runtime.submit(raise_it)) is error
    assert runtime.submit(lambda: "next").get(timeout=PATIENCE) == "next"


def test_async_work_runs_on_a_loop_of_ours(runtime: Runtime) -> None:
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    class Callable_:
        async def __call__(self) -> str:
            return await where()

    for call in (where, functools.partial(where), Callable_(), lambda: where()):
        assert "loop" in runtime.submit(call).get(timeout=PATIENCE)


def test_async_work_runs_on_the_loop_it_was_given(runtime: Runtime) -> None:
    async def main() -> tuple[int, int]:
        async def where() -> int:
            await asyncio.sleep(0)
            return threading.get_ident()

        return threading.get_ident(), await runtime.submit(where, loop=asyncio.get_running_loop())

    mine, where = asyncio.run(main())
    assert mine == where


def test_async_work_for_a_loop_that_was_closed_fails_at_once(runtime: Runtime) -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def never() -> None:
        raise AssertionError

    with pytest.raises(RuntimeClosed, match="not begun"):
        runtime.submit(never, loop=loop).get(timeout=PATIENCE)


def test_async_work_is_cancelled_at_its_timeout() -> None:
    clock = ManualClock()
    begun, cancelled = threading.Event(), threading.Event()

    async def endless() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Runtime(clock=clock) as runtime:
        work = runtime.submit(endless, timeout=10.0)
        assert begun.wait(PATIENCE)
        clock.advance(10.0)
        with pytest.raises(WorkTimedOut):
            work.get(timeout=PATIENCE)
        assert cancelled.wait(PATIENCE)


def test_a_loop_that_is_blocked_is_replaced() -> None:
    clock = ManualClock()
    with Runtime(clock=clock) as runtime:
        gate = Gate()

        async def blocks_the_loop() -> None:
            gate.wait()

        async def quick() -> str:
            return "done"

        stuck = runtime.submit(blocks_the_loop, timeout=10.0, name="bad citizen")
        gate.wait_reached()
        clock.advance(10.0)
        with pytest.raises(WorkTimedOut):
            stuck.get(timeout=PATIENCE)
        clock.advance(1.0)

        assert runtime.stats().stuck == ("bad citizen",)
        assert runtime.submit(quick).get(timeout=PATIENCE) == "done"
        gate.open()


def test_closing_refuses_work_that_has_not_begun() -> None:
    runtime = Runtime(workers=1)
    gate = Gate()
    first = runtime.submit(gate.wait)
    gate.wait_reached()
    second = runtime.submit(lambda: 1)
    closing = in_thread(runtime.close)

    with pytest.raises(RuntimeClosed, match="not begun"):
        second.get(timeout=PATIENCE)
    gate.open()
    first.get(timeout=PATIENCE)
    join_all([closing])
    with pytest.raises(RuntimeClosed, match="closed"):
        runtime.submit(print)


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_timeout_that_makes_no_sense_is_refused(runtime: Runtime, timeout: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        runtime.submit(print, timeout=timeout)


@pytest.mark.long
def test_wedged_work_does_not_keep_the_process_alive() -> None:
    script = (
        "import threading\n"
        "from greenroom.actors import default_runtime\n"
        "started = threading.Event()\n"
        "async def stuck_too(): threading.Event().wait()\n"
        "default_runtime().submit(lambda: (started.set(), threading.Event().wait()))\n"
        "default_runtime().submit(stuck_too)\n"
        "default_runtime().call_every(0.01, int)\n"
        "started.wait()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=False)
    assert ended.returncode == 0


def test_work_never_waits_behind_other_work_while_there_may_be_another_worker() -> None:
    """A worker that has just taken a job is not one that waits for the next."""
    with Runtime(workers=8) as runtime:
        for _ in range(30):
            gates = [Gate() for _ in range(8)]
            work = [runtime.submit(gate.wait) for gate in gates]
            for gate in gates:
                gate.wait_reached()
            for gate in gates:
                gate.open()
            pykka.get_all(work, timeout=PATIENCE)


def test_a_worker_with_a_job_in_hand_is_not_counted_on_for_the_next() -> None:
    """1. it takes the last job  2. another is put, and a waiting worker seen  3. it says it is busy."""
    gates = {"first": Gate(), "second": Gate(), "warm": Gate()}
    gates["warm"].open()

    def do(job: str, _: threading.Thread) -> bool:
        gates[job].wait()
        return True

    crew: Crew[str] = Crew("greenroom-test", 2, PATIENCE, do)
    crew.put("warm")
    gates["warm"].wait_reached()
    deadline = time.monotonic() + PATIENCE
    while crew.busy():
        assert time.monotonic() < deadline, "the worker never came back"
    with crew._lock:  # so that it cannot say that it is busy
        crew.put("first")
        while crew.queued():
            assert time.monotonic() < deadline, "the worker never took it"
        crew.put("second")

    gates["first"].wait_reached()
    gates["second"].wait_reached()
    gates["first"].open()
    gates["second"].open()
    assert crew.close() + crew.join(PATIENCE) == []


def test_a_job_that_comes_after_the_end_keeps_no_thread() -> None:
    """1. the end wakes a thread  2. a job is put  3. the thread does it, and waits for the next."""
    gates = {"warm": Gate(), "long": Gate(), "late": Gate()}
    gates["late"].open()

    def do(job: str, _: threading.Thread) -> bool:
        gates[job].wait()
        return True

    crew: Crew[str] = Crew("greenroom-test", 2, 3600.0, do)
    crew.put("warm")
    crew.put("long")
    gates["warm"].wait_reached()
    gates["long"].wait_reached()
    gates["warm"].open()
    until(lambda: crew.busy() == 1, "a thread that waits")
    with crew._lock:  # so that the one that is woken cannot look what there is
        assert crew.close() == []
        until(lambda: crew.queued() == 0, "a thread that was woken")
        crew.put("late")
    gates["late"].wait_reached()
    gates["long"].open()

    assert crew.join(PATIENCE) == []
    assert crew.alive() == 0


def test_work_that_came_back_just_in_time_is_not_written_off(runtime: Runtime) -> None:
    work = Work(print, Future(), "commit", 1.0)
    assert work.claim()

    runtime._lane("worker")._write_off(work, threading.current_thread())

    assert runtime.stats().workers_lost == 0
    assert runtime.stats().stuck == ()


def test_work_that_comes_as_the_last_look_finds_none_is_looked_after_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Callable[[], object]] = []

    def look_later(_: float, look: Callable[[], object]) -> Any:
        looks.append(look)

    workers, gates = Workers("greenroom-test", 1, look_later), [Gate(), Gate()]

    def submit(call: Callable[[], object]) -> Future[Any]:
        work = Work(call, Future(), "work", None)
        workers.submit(work)
        return work.future

    first, second = submit(gates[0].wait), submit(int)
    gates[0].open()
    for future in (first, second):
        future.get(timeout=PATIENCE)
    assert len(looks) == 1
    progress, late = workers.crew.progress, list[Future[Any]]()

    def progress_and_then() -> tuple[int, int]:
        monkeypatch.undo()
        found = progress()
        late.extend([submit(gates[1].wait), submit(int)])
        return found

    monkeypatch.setattr(workers.crew, "progress", progress_and_then)
    looks[0]()

    assert len(looks) == 2
    gates[1].open()
    for future in late:
        future.get(timeout=PATIENCE)
    workers.close(PATIENCE)
