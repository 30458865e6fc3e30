"""Awaiting futures on real event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pykka
import pytest

from greenroom.actors import Actor, Future, Reply, Runtime
from tests.actors.actors import PATIENCE, Gate, Recorder, all_at_once, in_thread, join_all


def test_awaiting_an_idle_actor_needs_no_turn_of_the_loop(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    async def main() -> list[str]:
        log: list[str] = []
        asyncio.get_running_loop().call_soon(log.append, "the loop went on")
        log.append(await ref.ask("answer", block=False))
        return list(log)

    assert asyncio.run(main()) == ["answer"]


def test_awaiting_a_busy_actor_never_blocks_the_loop(runtime: Runtime) -> None:
    ref, gate = runtime.start(Recorder), Gate()
    runner = in_thread(lambda: ref.tell(gate))
    gate.wait_reached()

    async def main() -> tuple[str, int]:
        asked = asyncio.ensure_future(_await(ref.ask("answer", block=False)))
        turns = 0
        while turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not asked.done()
        gate.open()
        return await asyncio.wait_for(asked, PATIENCE), turns

    assert asyncio.run(main()) == ("answer", 100)
    join_all([runner])


async def _await(future: Any) -> Any:
    return await future


def test_the_right_loop_is_woken_when_several_wait() -> None:
    future: Future[int] = Future()
    awaiting = threading.Barrier(3)
    woken: list[tuple[int, int]] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, awaiting.wait, PATIENCE)
        value = await future
        woken.append((value, threading.get_ident()))

    def set_it() -> None:
        awaiting.wait(PATIENCE)
        future.set(5)

    threads = [in_thread(lambda: asyncio.run(wait())) for _ in range(2)]
    set_it()
    join_all(threads)

    assert sorted(woken) == sorted((5, thread.ident) for thread in threads)


def test_a_task_that_is_cancelled_leaves_no_callback_behind() -> None:
    future: Future[int] = Future()

    async def main() -> None:
        task = asyncio.ensure_future(_await(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert not future._callbacks
    future.set(1)


def test_an_answer_that_races_a_cancellation_harms_nobody() -> None:
    async def main() -> None:
        for _ in range(300):
            future: Future[int] = Future()
            task = asyncio.ensure_future(_await(future))
            await asyncio.sleep(0)
            setter = in_thread(lambda future=future: future.set(1))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            task.cancel()
            try:
                assert await task == 1
            except asyncio.CancelledError:
                pass
            setter.join(PATIENCE)

    asyncio.run(main())


def test_an_answer_that_a_cancellation_overtakes_on_the_loop_is_ignored() -> None:
    """1. another thread has the loop wake the task  2. the task is cancelled  3. the loop does 1."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        future: Future[int] = Future()
        task = asyncio.ensure_future(_await(future))
        await asyncio.sleep(0)
        join_all([in_thread(lambda: future.set(1))])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert complaints == []


def test_an_answer_after_the_loop_was_closed_is_ignored() -> None:
    future: Future[int] = Future()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_await(future))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()

    future.set(1)

    assert future.get() == 1


def test_exceptions_are_raised_where_they_are_awaited(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    async def main() -> None:
        with pytest.raises(KeyError, match="no"):
            await ref.ask(KeyError("no"), block=False)
        await _await(runtime.start(Recorder).stop(block=False))
        ref.stop()
        with pytest.raises(pykka.ActorDeadError):
            await ref.ask("dead", block=False)

    asyncio.run(main())


def test_derived_futures_can_be_awaited_before_their_sources_are_set() -> None:
    async def main() -> list[Any]:
        a: Future[int] = Future()
        theirs: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
        derived = [a.map(lambda n: n + 1), a.join(theirs), a.join(a).reduce(lambda x, y: x + y)]
        tasks = [asyncio.ensure_future(_await(future)) for future in derived]
        await asyncio.sleep(0)
        in_thread(lambda: a.set(1))
        in_thread(lambda: theirs.set(2))
        return [await asyncio.wait_for(task, PATIENCE) for task in tasks]

    assert asyncio.run(main()) == [2, [1, 2], 2]


def test_a_get_hook_runs_beside_the_loop() -> None:
    future: Future[int] = Future()
    future.set_get_hook(lambda _: threading.get_ident())

    async def main() -> tuple[int, int]:
        return threading.get_ident(), await future

    loop_thread, hook_thread = asyncio.run(main())
    assert loop_thread != hook_thread


def test_1000_tasks_on_one_actor_each_get_their_own_answer(runtime: Runtime) -> None:
    class Later(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.replies: list[tuple[int, Reply]] = []

        def on_receive(self, message: int) -> None:
            self.replies.append((message, self.defer_reply()))
            if len(self.replies) == 1000:
                for n, reply in self.replies:
                    reply.set(n)

    ref = runtime.start(Later)

    async def main() -> list[int]:
        return list(await asyncio.gather(*(_await(ref.ask(n, block=False)) for n in range(1000))))

    assert asyncio.run(main()) == list(range(1000))


def test_two_loops_in_two_threads_share_an_actor(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    async def client(n: int) -> None:
        for i in range(300):
            assert await ref.ask((n, i), block=False) == (n, i)

    all_at_once([lambda n=n: asyncio.run(client(n)) for n in range(2)])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

    assert len(ref.proxy().received.get()) == 600
