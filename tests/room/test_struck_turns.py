"""Plain tests of past bugs: turns, builds and commits that signals and closed loops cut short."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import SessionBusy, TurnTimeout
from greenroom.actors.session.slow_work import SlowWork
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.room.agents import AsyncAgent, Cast, take_turn, touch
from tests.room.agents import until as until_so
from tests.room.test_async import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

    from greenroom import Turn


class Struck(BaseException):
    pass


def test_a_turn_whose_helper_raises_goes_on_while_that_is_handled(cast: Cast) -> None:
    """T3: another caller waits, and does not get the session meanwhile."""
    room = cast.room()
    gate, order = Gate(), list[str]()

    def help_with(_: Turn) -> None:
        raise LookupError

    def first() -> None:
        with room.turn("a") as turn:
            try:
                help_with(turn)
            except LookupError:
                gate.wait()
            order.append("the first ends")

    def second() -> None:
        with room.turn("a"):
            order.append("the second begins")

    one = in_thread(first)
    gate.wait_reached()
    other = in_thread(second)
    while room.stats().waiting == 0:
        threading.Event().wait(0.001)
    gate.open()
    join_all([one, other])
    assert order == ["the first ends", "the second begins"]


@pytest.mark.parametrize("with_store", [False, True])
def test_a_turn_that_was_left_is_noticed_behind_one_that_others_gave_up_waiting_for(
    cast: Cast, tmp_path: Path, with_store: bool
) -> None:
    """K1: what is watched is the turn that runs, and not one before it."""
    room = cast.room(store=f"sqlite:///{tmp_path}/greenroom.db" if with_store else None)
    touch(room, "a", "a", "a")

    def wait_in_vain() -> None:
        with pytest.raises(TurnTimeout):
            take_turn(room, "a", timeout=0.01)

    with room.turn("a"):
        join_all([in_thread(wait_in_vain)])
    left: list[Turn] = []
    join_all([in_thread(lambda: left.append(room.turn("a").__enter__()))])
    waiting = in_thread(lambda: take_turn(room, "a"))
    until_so(lambda: room.stats().waiting, "a turn that waits")
    left.clear()
    gc.collect()
    join_all([waiting])


def test_a_nested_turn_is_refused_whatever_else_refers_to_the_outer_one(cast: Cast) -> None:
    """K3"""
    room = cast.room()

    @contextlib.contextmanager
    def wrapped() -> Iterator[Turn]:
        with room.turn("b") as inner:
            yield inner
            with pytest.raises(SessionBusy):
                take_turn(room, "b")

    with room.turn("a") as turn:
        with contextlib.nullcontext(turn) as same:
            pass
        with pytest.raises(SessionBusy):
            take_turn(room, "a")
        assert same is turn
    with wrapped():
        pass


def test_a_drain_waits_for_a_turn_that_a_generator_took_in_a_task_that_has_ended(cast: Cast) -> None:
    """D1: each step of a stream may be a task of its own."""
    room = cast.room()

    async def main() -> None:
        async def stream() -> AsyncGenerator[int]:
            async with room.turn("a"):
                yield 1
                yield 2

        pieces = stream()
        step: asyncio.Task[int] = asyncio.create_task(pieces.__anext__())
        await step
        drain = asyncio.create_task(asyncio.to_thread(room.drain, PATIENCE))
        await until(lambda: room._context.draining)
        await asyncio.sleep(0.05)
        assert cast.did("close") == []
        assert [piece async for piece in pieces] == [2]
        assert (await drain).committed == ("a",)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_task_is_woken_though_who_ends_its_predecessors_turn_is_struck(cast: Cast) -> None:
    """K1: inside the event loop's own function that schedules the wake-up."""
    room = cast.room()

    def handle(_signum: int, _frame: object) -> None:
        raise Struck

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        real = loop.call_soon

        def struck(callback: Any, *args: Any, context: Any = None) -> Any:
            loop.call_soon = real
            signal.raise_signal(signal.SIGUSR1)
            return real(callback, *args, context=context)

        async def wait() -> None:
            async with room.turn("a"):
                pass

        waiting: list[asyncio.Task[None]] = []

        async def end_a_turn() -> None:
            async with room.turn("a"):
                waiting.append(asyncio.create_task(wait()))
                await until(lambda: room.stats().waiting)
                loop.call_soon = struck

        with pytest.raises(Struck):
            await end_a_turn()
        await asyncio.wait_for(waiting[0], PATIENCE)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_caller_that_is_struck_before_it_builds_in_a_drain_leaves_nothing_under_way(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, D1: the drain has refused its turn meanwhile."""
    room, drains = cast.room(), list[threading.Thread]()

    def struck(*_: object) -> None:
        drains.append(in_thread(lambda: room.drain(PATIENCE)))
        while not room._context.draining:
            threading.Event().wait(0.001)
        room.explain("a")  # behind what the drain has told the session
        raise Struck

    monkeypatch.setattr(SlowWork, "build_here", struck)
    with pytest.raises(Struck):
        take_turn(room, "a")
    join_all(drains)
    assert room.drain().abandoned == ()


def test_a_turn_that_becomes_garbage_after_its_session_ended_is_no_error(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    room = cast.room()
    turn = room.turn("a")
    with turn, pytest.raises(SessionBusy), room.turn("a"):
        pytest.fail("it began")
    room.close()
    del turn
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# Event loops that end.


def test_a_commit_that_begins_on_a_loop_that_ends_is_made_elsewhere() -> None:
    """G9, D1"""
    cast = Cast(AsyncAgent)
    try:
        room = cast.room()

        async def chat() -> None:
            async with room.turn("a"):
                pass
            async with room.turn("a"):
                room.evict("a")  # takes effect when this is cancelled, with its loop
                await asyncio.Event().wait()

        async def main() -> None:
            task = asyncio.create_task(chat())
            await until(lambda: room.stats().in_turn and room.has_uncommitted("a"))
            assert not task.done()

        asyncio.run(main())
        report = room.close(PATIENCE)
        assert report.abandoned == ()
        assert cast.did("commit")
        assert sum(cast.farewells().values()) == len(cast.did("build"))
    finally:
        cast.finish()


SWALLOWING = """
import asyncio, os, signal, sys
from greenroom import Greenroom

def strike(where):
    if where == sys.argv[1]:
        sys.argv[1] = ""
        os.kill(os.getpid(), signal.SIGTERM)

class Agent:
    async def commit_memory_session(self): strike("commit")
    async def aclose(self): strike("close")

async def build(context):
    strike("build")
    return Agent()

async def main():
    async with Greenroom(build) as room:
        async with room.turn("a"):
            pass
        await room.session("a").commit()
        room.end("a")
        await asyncio.sleep(60)

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
asyncio.run(main())
"""


@pytest.mark.parametrize("where", ["build", "commit", "close"])
def test_a_signal_in_an_async_hook_ends_the_loop_that_it_came_to(where: str) -> None:
    """K1"""
    ran = subprocess.run(
        [sys.executable, "-c", SWALLOWING, where],
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 7, ran.stderr.decode()


def test_a_room_closes_on_a_loop_whose_threads_are_all_taken(cast: Cast) -> None:
    """D2"""
    gate, room = Gate(), cast.room()

    async def main() -> None:
        most = min(32, (os.cpu_count() or 1) + 4)
        taken = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(most)]
        await asyncio.sleep(0)
        await asyncio.wait_for(room.aclose(), PATIENCE)
        gate.open()
        await asyncio.gather(*taken)

    asyncio.run(main())
