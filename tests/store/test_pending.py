"""The async twins."""

import asyncio
import threading

import pytest

from greenroom.store import Pending, Store, StoreClosed, UnknownSession, open_store
from greenroom.store._pending import Threads


def test_each_call_has_a_twin_that_can_be_awaited(store: Store) -> None:
    async def use() -> None:
        assert (await store.create_session_soon("s", key="k")).session_id == "s"
        message = await store.append_soon("s", role="user", content="x")
        assert await store.messages_soon("s", limit=3) == [message]
        assert (await store.end_session_soon("s")).ended is not None
        row = await store.session_soon("s")
        assert await store.sessions_soon(ended=True) == [row]

    asyncio.run(use())


def test_a_twin_answers_threads_as_well(store: Store) -> None:
    pending = store.create_session_soon("s", key="k")
    assert pending.get(timeout=20.0) == store.session("s")
    assert pending.done
    assert pending.get() is pending.get()


def test_what_the_call_raises_comes_out_of_both(store: Store) -> None:
    pending = store.session_soon("unknown")
    with pytest.raises(UnknownSession):
        pending.get(timeout=20.0)

    async def use() -> None:
        with pytest.raises(UnknownSession):
            await pending
        with pytest.raises(UnknownSession):
            await store.append_soon("unknown", role="user", content="x")

    asyncio.run(use())


def test_awaiting_does_not_block_the_loop() -> None:
    gate = threading.Event()
    threads = Threads()
    seen: list[str] = []

    async def use() -> None:
        waiting = asyncio.create_task(wait(threads.call(gate.wait, 20.0)))
        await asyncio.sleep(0)
        seen.append("the loop goes on")
        gate.set()
        assert await waiting

    async def wait(pending: Pending[bool]) -> bool:
        result = await pending
        seen.append("answered")
        return result

    asyncio.run(use())
    threads.close()
    assert seen == ["the loop goes on", "answered"]


def test_cancelling_the_await_does_not_undo_the_call() -> None:
    gates = [threading.Event() for _ in range(4)]
    done = threading.Event()
    threads = Threads()
    for gate in gates:
        threads.call(gate.wait, 20.0)  # all threads are busy: the next call has not begun

    async def use() -> None:
        async def wait() -> None:
            await threads.call(done.set)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(use())  # its loop is closed when the call ends
    for gate in gates:
        gate.set()
    threads.close()
    assert done.is_set()


def test_a_call_can_be_given_up_after_a_time() -> None:
    gate = threading.Event()
    threads = Threads()
    pending = threads.call(gate.wait, 20.0)
    with pytest.raises(TimeoutError):
        pending.get(timeout=0.0)
    gate.set()
    assert pending.get(timeout=20.0)
    threads.close()


def test_closing_does_what_was_asked_for(store_url: str) -> None:
    store = open_store(store_url)
    store.create_session("s", key="k")
    pending = [store.append_soon("s", role="user", content=number) for number in range(20)]
    store.close()
    assert sorted(one.get(timeout=0.0).position for one in pending) == list(range(1, 21))
    with pytest.raises(StoreClosed):
        store.append_soon("s", role="user", content="x")


def test_no_thread_is_started_before_it_is_needed(store: Store) -> None:
    def ours() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("greenroom-store")]

    assert ours() == []
    store.sessions_soon().get(timeout=20.0)
    assert len(ours()) == 1
