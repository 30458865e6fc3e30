"""Ending an answer from anywhere, without disturbing whoever listens to it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from greenroom.gateway.agents._interrupt import Interrupt, Interrupted
from tests.gateway.agents.plays import on_a_loop


@on_a_loop
async def test_what_is_waited_for_ends() -> None:
    interrupt = Interrupt()
    with interrupt.listening():
        thread = threading.Thread(target=interrupt)
        asyncio.get_running_loop().call_soon(thread.start)
        with pytest.raises(Interrupted):
            await interrupt.wait_for(asyncio.Future())
        thread.join()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@on_a_loop
async def test_while_nothing_is_waited_for_the_task_is_left_alone_and_the_next_wait_ends() -> None:
    interrupt = Interrupt()
    with interrupt.listening():
        interrupt()
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        with pytest.raises(Interrupted):
            await interrupt.wait_for(asyncio.sleep(3600.0))
        with pytest.raises(Interrupted):
            await interrupt.wait_for(asyncio.Future())


@on_a_loop
async def test_what_is_there_is_returned_and_what_is_raised_is_raised() -> None:
    interrupt = Interrupt()

    async def fail() -> None:
        raise LookupError("x")

    with interrupt.listening():
        assert await interrupt.wait_for(asyncio.sleep(0.0, "there")) == "there"
        with pytest.raises(LookupError):
            await interrupt.wait_for(fail())


@on_a_loop
async def test_a_cancellation_by_somebody_else_stays_one() -> None:
    interrupt = Interrupt()
    waits = asyncio.Event()

    async def answer(both: bool) -> None:
        with interrupt.listening():
            asyncio.get_running_loop().call_soon(waits.set)
            if both:
                interrupt()
            await interrupt.wait_for(asyncio.Future())

    for both in (False, True):
        waits.clear()
        task = asyncio.ensure_future(answer(both))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@on_a_loop
async def test_one_that_comes_too_late_or_too_early_reaches_nobody() -> None:
    interrupt = Interrupt()
    interrupt()
    with interrupt.listening():
        await interrupt.wait_for(asyncio.sleep(0.0))
    interrupt()
    with interrupt.listening():
        await interrupt.wait_for(asyncio.sleep(0.0))


@on_a_loop
async def test_the_next_answer_is_not_interrupted_by_the_last_ones_interrupt() -> None:
    interrupt = Interrupt()
    with interrupt.listening():
        interrupt()
        with pytest.raises(Interrupted):
            await interrupt.wait_for(asyncio.Future())
    with interrupt.listening():
        assert await interrupt.wait_for(asyncio.sleep(0.0, "there")) == "there"


@on_a_loop
async def test_an_awaitable_that_goes_on_all_the_same_has_its_result_used() -> None:
    interrupt = Interrupt()

    async def stubborn() -> str:
        try:
            await asyncio.Future[None]()
        except asyncio.CancelledError:
            return "done"
        return "never"

    with interrupt.listening():
        asyncio.get_running_loop().call_soon(interrupt)
        assert await interrupt.wait_for(stubborn()) == "done"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        with pytest.raises(Interrupted):
            await interrupt.wait_for(asyncio.sleep(0.0))


def test_the_loop_may_be_closed() -> None:
    interrupt = Interrupt()

    async def begin() -> None:
        interrupt.listening().__enter__()

    asyncio.run(begin())
    interrupt()
