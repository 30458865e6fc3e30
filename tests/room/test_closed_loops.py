"""An async agent whose event loop is closed is not given to a turn on another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest

from greenroom import AgentHooks, Greenroom, Reason, SessionBusy
from greenroom._turn import NOTES_LOOP
from greenroom.actors import ManualClock
from greenroom.actors.ledger.bookkeeping import Bookkeeping
from greenroom.messages import RecordTurn
from tests.actors.actors import PATIENCE, Gate
from tests.room.agents import Agent, AsyncAgent, Cast, let_pass, take_turn, touch, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from greenroom import BuildContext, Turn


def on_a_loop(room: Greenroom, key: str = "a", **kwargs: Any) -> Turn:
    """Take a turn on an event loop of its own, which is closed then."""

    async def main() -> Turn:
        async with room.turn(key, **kwargs) as turn:
            pass
        return turn

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.fixture
def async_cast() -> Iterator[Cast]:
    cast = Cast(AsyncAgent)
    yield cast
    cast.finish()


class AsyncMethod(Agent):
    async def arun(self, text: str) -> str:
        return self.run(text)


class AsyncAnswer(Agent):
    @staticmethod
    async def answer(text: str) -> AsyncIterator[str]:
        yield text


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize(
    ("kind", "async_build"),
    [(Agent, True), (AsyncAgent, False), (AsyncAgent, True), (AsyncMethod, False), (AsyncAnswer, False)],
)
def test_the_agent_of_a_closed_loop_is_replaced_with_a_reason_and_let_go_once(
    tmp_path: Path, kind: type[Agent], async_build: bool, with_store: bool
) -> None:
    """T2, S1, G5: its turns are committed by itself, on a loop that runs."""
    cast = Cast(kind)

    async def build(context: BuildContext) -> Agent:
        return cast.build(context)

    store = f"sqlite:///{tmp_path}/greenroom.db" if with_store else None
    room = cast.room(build=build if async_build else cast.build, store=store)
    try:
        first, second, third = on_a_loop(room), on_a_loop(room), on_a_loop(room)
        room.settle()
        assert first.rebuild_reason is None
        assert (second.reused, second.rebuild_reason) == (False, Reason.LOOP_CLOSED)
        assert third.rebuild_reason == "loop-closed"
        assert cast.done_to("a/1") == ["build", "commit", "release"]
        assert cast.done_to("a/2") == ["build", "commit", "release"]
        assert room.stats().reasons["loop-closed"] == 2
        room.close()
        assert cast.farewells() == {"a/1": 1, "a/2": 1, "a/3": 1}
    finally:
        cast.finish()


@pytest.mark.parametrize("before", [0, 1], ids=["cold", "warm"])
@pytest.mark.parametrize("on_busy", ["wait", "reject"])
def test_a_turn_on_a_closed_loop_is_ended_for_the_next_that_needs_its_session(
    cast: Cast, before: int, on_busy: Literal["wait", "reject"], caplog: pytest.LogCaptureFixture
) -> None:
    """K1: nobody else can end it."""
    if before and not NOTES_LOOP:
        pytest.skip("on Python 3.11 a warm turn does not note its loop")
    room, loop = cast.room(), asyncio.new_event_loop()
    touch(room, *["a"] * before)
    held = loop.run_until_complete(room.turn("a").__aenter__())
    with pytest.raises(SessionBusy):
        take_turn(room, "a", on_busy="reject")  # while its loop is there
    loop.close()
    with room.turn("a", on_busy=on_busy, timeout=PATIENCE) as turn:
        assert turn.reused
        assert turn.agent is held.agent
    assert "the event loop of its turn is closed" in caplog.text
    assert turn.generation == before + 1  # the turn that was ended does not count


def test_a_loop_that_is_closed_later_is_noticed_after_a_long_wait(cast: Cast) -> None:
    """K1, K3"""
    clock, loop = ManualClock(), asyncio.new_event_loop()
    room = cast.room(clock=clock)
    held = loop.run_until_complete(room.turn("a").__aenter__())
    first, second = cast.queue(room, "a"), cast.queue(room, "a")
    loop.close()
    let_pass(room, clock, 30.0)
    first.end()
    second.end()
    assert held.agent is cast.agents[0]
    assert room.stats().builds == 1


def test_a_turn_whose_loop_is_closed_while_it_is_recorded_counts_and_is_over(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, G1: nobody else tells its session."""
    room, loop = cast.room(store=f"sqlite:///{tmp_path}/greenroom.db"), asyncio.new_event_loop()
    books, gate = room._context.books, Gate()
    assert books is not None
    touch(room, "a", "a")
    write = Bookkeeping.write

    def slowly(of: Bookkeeping, requests: Any) -> list[Any]:
        if any(isinstance(request, RecordTurn) for request in requests):
            gate.wait()
        return write(of, requests)

    async def turn() -> None:
        async with room.turn("a"):
            pass

    async def leave() -> asyncio.Task[None]:
        task: Any = asyncio.ensure_future(turn())
        task._log_destroy_pending = False
        await asyncio.to_thread(gate.wait_reached)
        return task  # type: ignore[no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(Bookkeeping, "write", slowly)
        task = loop.run_until_complete(leave())
        loop.close()
        gate.open()
        until(lambda: books.store.session("a").generation == 3, "the record")
    with room.turn("a", timeout=PATIENCE) as next_turn:
        assert next_turn.reused
    assert next_turn.generation == 4
    assert not task.done()


def test_an_agent_that_has_nothing_async_can_be_used_anywhere(cast: Cast) -> None:
    """T1"""
    room = cast.room()
    assert [on_a_loop(room).reused for _ in range(3)] == [False, True, True]


def test_a_hook_that_is_given_and_async_binds_the_agent_to_its_loop(cast: Cast) -> None:
    """T2"""

    async def close(_: object) -> None:
        pass

    room = cast.room(hooks=AgentHooks(close=close))
    assert [on_a_loop(room).rebuild_reason for _ in range(2)] == [None, Reason.LOOP_CLOSED]


def test_an_agent_stays_while_its_loop_is_there_and_for_turns_without_one(async_cast: Cast) -> None:
    """T1"""
    cast, room = async_cast, async_cast.room()
    loop = asyncio.new_event_loop()

    async def main() -> bool:
        async with room.turn("a") as turn:
            return turn.reused

    try:
        assert [loop.run_until_complete(main()) for _ in range(2)] == [False, True]
        assert on_a_loop(room).reused, "its own is not closed"
    finally:
        loop.close()
    with room.turn("a") as turn:
        assert turn.reused, "a thread has no loop"
    take_turn(room, "b")
    assert on_a_loop(room, "b").reused, "it was built for a thread"
    assert cast.did("build") == ["a/1", "b/1"]


def test_an_agent_that_was_adopted_on_a_loop_goes_with_that(cast: Cast) -> None:
    """T2"""
    room = cast.room()
    adopted = AsyncAgent(cast, "a", "a/adopted")

    async def main() -> None:
        room.adopt("a", adopted)
        async with room.turn("a") as turn:
            assert turn.agent is adopted

    asyncio.run(main())
    assert on_a_loop(room).rebuild_reason is Reason.LOOP_CLOSED


def test_an_agent_of_a_closed_loop_that_is_in_a_turn_goes_when_that_ends(async_cast: Cast) -> None:
    """C4"""
    cast, room = async_cast, async_cast.room()
    on_a_loop(room)

    with room.turn("a") as turn:
        with pytest.raises(SessionBusy):
            on_a_loop(room, on_busy="reject")
        assert turn.reused
        assert cast.did("release") == []

    room.settle()
    assert cast.did("release") == ["a/1"]
    assert room.stats().reasons == {"loop-closed": 1}
