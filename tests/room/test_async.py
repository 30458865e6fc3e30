"""The room on an event loop: the same turns, awaited; cancellation; several loops."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import BuildFailed, Overloaded, Reason, RoomClosed, SessionBusy, TurnTimeout
from greenroom.actors import ManualClock
from greenroom.actors.session.holding import held_here
from tests.actors.actors import PATIENCE, in_thread, join_all
from tests.room.agents import OTHER, SPEC, Agent, AsyncAgent, Cast, row_of, touch, waiting_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from greenroom import BuildContext, DrainReport, Greenroom, Turn

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def run(main: Coroutine[Any, Any, Any]) -> None:
    """Run a test's coroutine, which must come to an end."""
    asyncio.run(asyncio.wait_for(main, 2 * PATIENCE))


async def until(condition: Callable[[], object], what: str = "what was waited for") -> None:
    """Wait until something is so, while the loop goes on."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"it never came to {what}"
        await asyncio.sleep(0.001)


async def take_turn(room: Greenroom, key: str, spec: Any = None, **kwargs: Any) -> Turn:
    """Take a turn and complete it."""
    async with room.turn(key, spec, **kwargs) as turn:
        turn.agent.run("hello")
    return turn


async def hold(room: Greenroom, key: str, held: asyncio.Event, **kwargs: Any) -> Turn:
    """Take a turn and have it until the event is set."""
    async with room.turn(key, **kwargs) as turn:
        await held.wait()
    return turn


async def at_rest(cast: Cast, room: Greenroom) -> None:
    """See that no turn is held, no waiter queued and, once the room is closed, no agent leaked."""
    await room.supervisor.settle()
    await until(lambda: room.stats().in_turn == 0, "no turn")
    await until(lambda: room.stats().waiting == 0, "no waiter")
    for key in {row.key for row in room.snapshot()}:
        async with asyncio.timeout(PATIENCE), room.turn(key, on_busy="reject", ephemeral=True):
            pass
    await room.supervisor.drain()
    assert set(cast.farewells().values()) <= {1}


# The same turns.


def test_the_same_turn_is_a_context_manager_for_coroutines(cast: Cast) -> None:
    """T1, T2, T4"""
    room = cast.room()

    async def main() -> None:
        first = await take_turn(room, "a", SPEC)
        second = await take_turn(room, "a", SPEC)
        assert (first.reused, second.reused) == (False, True)
        assert second.generation == 2
        with pytest.raises(ZeroDivisionError):
            async with room.turn("a", SPEC):
                raise ZeroDivisionError
        third = await take_turn(room, "a", OTHER)
        assert third.rebuild_reason is Reason.SPEC
        assert third.generation == 3
        await room.supervisor.settle()

    run(main())

    assert cast.done_to("a/1") == ["build", "commit", "release"]


def test_threads_and_coroutines_share_a_session(cast: Cast) -> None:
    """T1, T3"""
    room = cast.room()
    touch(room, "a")

    async def main() -> None:
        assert (await take_turn(room, "a")).generation == 2

    run(main())
    touch(room, "a")

    assert cast.did("build") == ["a/1"]
    assert row_of(room, "a").generation == 3


def test_tasks_take_turns_first_come_first_served(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    served: list[int] = []

    async def one(number: int) -> None:
        async with room.turn("a"):
            served.append(number)
            await asyncio.sleep(0)
            assert served[-1] == number

    async def main() -> None:
        await asyncio.gather(*(one(n) for n in range(12)))

    run(main())

    assert served == list(range(12))


def test_a_busy_session_answers_coroutines_as_it_does_threads(cast: Cast) -> None:
    """T3"""
    clock = ManualClock()
    room = cast.room(max_waiting=1, clock=clock)

    async def main() -> None:
        end = asyncio.Event()
        holding = asyncio.create_task(hold(room, "a", end))
        await until(lambda: room.stats().in_turn == 1)
        with pytest.raises(SessionBusy, match="'a'"):
            await take_turn(room, "a", on_busy="reject")
        waiting = asyncio.create_task(take_turn(room, "a", timeout=5.0))
        await until(lambda: waiting_for(room, "a") == 1)
        with pytest.raises(Overloaded):
            await take_turn(room, "a")
        clock.advance(5.0)
        with pytest.raises(TurnTimeout):
            await waiting
        end.set()
        assert (await holding).generation == 1

    run(main())


def test_a_task_that_would_wait_for_itself_is_refused(cast: Cast) -> None:
    """T3"""
    room = cast.room()

    async def main() -> None:
        async with room.turn("a"):
            with pytest.raises(SessionBusy):
                await take_turn(room, "a")

    run(main())


def test_a_child_of_a_task_waits_for_the_turn_of_its_parent_unless_it_would_block_their_loop(
    cast: Cast,
) -> None:
    """K3"""
    room = cast.room()

    async def block() -> None:
        with room.turn("a"):
            raise AssertionError("the loop waits for itself, and nobody ends the turn")

    async def main() -> None:
        async with room.turn("a"):
            child = asyncio.create_task(take_turn(room, "a"))
            await until(lambda: waiting_for(room, "a") == 1)
            with pytest.raises(SessionBusy):
                await asyncio.create_task(block())
        assert (await child).reused

    run(main())


def test_a_turn_that_ended_before_an_outer_one_holds_nobody_up(cast: Cast) -> None:
    """K3: neither the turns that ended nor the ones around them are taken for turns of this task."""
    room = cast.room()

    async def main() -> None:
        outer, inner = room.turn("a"), room.turn("b")
        await outer.__aenter__()
        await inner.__aenter__()
        await outer.__aexit__(None, None, None)
        await take_turn(room, "a")
        with pytest.raises(SessionBusy):
            await take_turn(room, "b")
        await inner.__aexit__(None, None, None)
        assert (await take_turn(room, "b")).generation == 2
        assert not held_here()

    run(main())


def test_a_failing_build_raises_in_the_task_that_waits_for_it(cast: Cast) -> None:
    """T5"""
    room = cast.room()
    cause = cast.at["build a/1"] = ConnectionError("no provider")

    async def main() -> None:
        with pytest.raises(BuildFailed) as raised:
            await take_turn(room, "a")
        assert raised.value.__cause__ is cause
        assert (await take_turn(room, "a")).generation == 1

    run(main())


def test_giving_an_async_turn_back_twice_changes_nothing_and_is_logged(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """T8"""
    room = cast.room()

    async def main() -> None:
        turn = await take_turn(room, "telegram:12345")
        await turn.__aexit__(None, None, None)

    run(main())

    assert row_of(room, "telegram:12345").generation == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "telegram:12345" in caplog.text


def test_prepare_may_be_async(cast: Cast) -> None:
    """T1"""
    prepared: list[bool] = []

    async def prepare(_: Any, turn: Turn) -> None:
        await asyncio.sleep(0)
        prepared.append(turn.reused)

    room = cast.room(prepare=prepare)

    async def main() -> None:
        await take_turn(room, "a")
        await take_turn(room, "a")

    run(main())
    touch(room, "a")

    assert prepared == [False, True, True]


# Twins of what blocks.


def test_a_commit_can_be_awaited(cast: Cast) -> None:
    """G2, G4, G8"""
    room = cast.room()

    async def main() -> None:
        await take_turn(room, "a")
        session = room.session("a")
        assert await session.has_uncommitted()
        cast.at["commit"] = ConnectionError("memory is down")
        assert not await session.commit()
        committing = cast.at["commit"] = cast.gate()
        commit = asyncio.create_task(_awaited(session.commit()))
        await until(lambda: len(cast.did("commit")) == 2)
        assert not await session.commit(wait=False), "the loop goes on meanwhile"
        committing.open()
        assert (await commit).committed == 1
        assert not await session.commit()
        assert (await session.describe()).committed == 1

    run(main())

    assert cast.did("commit") == ["a/1", "a/1"]


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def test_evicting_and_ending_can_be_awaited(cast: Cast) -> None:
    """T7, S1, S2"""
    room = cast.room()

    async def main() -> None:
        await take_turn(room, "a")
        assert await room.session("a").evict()
        await room.supervisor.settle()
        assert not await room.session("a").evict()
        await take_turn(room, "a")
        assert await room.session("a").end()
        await room.supervisor.settle()

    run(main())

    assert cast.done_to("a/1") == ["build", "commit", "release"]
    assert cast.done_to("a/2") == ["build", "commit", "shutdown", "close"]


def test_the_supervisor_can_be_awaited(cast: Cast) -> None:
    """C1, C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, sweep_every=None)

    async def main() -> None:
        await take_turn(room, "a")
        await take_turn(room, "b")
        supervisor = room.supervisor
        assert await supervisor.keys() == ("a", "b")
        assert (await supervisor.stats()).cached == 2
        assert (await supervisor.configure(cap=1)).cap == 1
        await supervisor.settle()
        clock.advance(4000.0)
        assert await supervisor.sweep() == 1
        await supervisor.settle()
        assert await supervisor.keys() == ()

    run(main())


def test_a_drain_can_be_awaited_while_the_loop_goes_on(cast: Cast) -> None:
    """D1, D4"""
    room = cast.room()

    async def main() -> None:
        end = asyncio.Event()
        holding = asyncio.create_task(hold(room, "a", end))
        await until(lambda: room.stats().in_turn == 1)
        drains = [asyncio.create_task(_awaited(room.supervisor.drain(30.0))) for _ in range(2)]
        await until(lambda: room.stats().draining)
        with pytest.raises(RoomClosed):
            await take_turn(room, "b")
        end.set()
        assert (await holding).generation == 1
        first, second = await asyncio.gather(*drains)
        assert first is second
        assert first.committed == ("a",)

    run(main())


def test_a_room_can_be_closed_on_an_event_loop_which_goes_on_meanwhile(cast: Cast) -> None:
    """D1"""
    room, gate = cast.room(), cast.gate()
    cast.at["close"] = gate

    async def close() -> DrainReport:
        async with room.turn("a"):
            pass
        closing = asyncio.create_task(room.aclose(deadline=PATIENCE))
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_reached)
        assert not closing.done()
        gate.open()
        return await closing

    assert asyncio.run(close()).committed == ("a",)
    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]
    with pytest.raises(RoomClosed):
        room.turn("a")


def test_leaving_the_room_with_async_with_drains_it(cast: Cast) -> None:
    """D1"""

    async def main() -> None:
        async with cast.room() as room:
            await take_turn(room, "a")
        with pytest.raises(RoomClosed):
            await take_turn(room, "a")

    run(main())

    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]


def test_leaving_the_room_waits_for_the_turns_of_its_own_loop(cast: Cast) -> None:
    """D1. A drain that blocked the loop would keep them from ending."""

    async def main() -> None:
        end = asyncio.Event()
        async with cast.room() as room:
            holding = asyncio.create_task(hold(room, "a", end))
            await until(lambda: room.stats().in_turn == 1)
            asyncio.get_running_loop().call_soon(end.set)
        assert (await holding).generation == 1

    run(main())

    assert cast.did("commit") == ["a/1"]


# Async builds and hooks.


def test_async_builds_and_hooks_run_on_the_loop_of_the_turn() -> None:
    """C7, S1, S2"""
    cast = Cast(AsyncAgent)
    where: list[tuple[str, int]] = []
    for what in ("commit", "release", "shutdown", "close"):
        cast.at[what] = lambda what=what: where.append((what, threading.get_ident()))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

    async def build(context: BuildContext) -> Agent:
        await asyncio.sleep(0)
        where.append(("build", threading.get_ident()))
        return cast.build(context)

    room = cast.room(build=build)

    async def main() -> None:
        await take_turn(room, "a")
        assert await room.session("a").commit()
        await room.session("a").evict()
        await room.supervisor.settle()
        await take_turn(room, "b", ephemeral=True)
        await room.session("b").end()
        await room.supervisor.settle()

    try:
        run(main())
        mine = threading.get_ident()
        hooks = ["build", "commit", "release", "build", "shutdown", "close"]
        assert where == [(what, mine) for what in hooks]
    finally:
        cast.finish()


def test_async_hooks_run_although_the_loop_of_the_turn_is_gone() -> None:
    """S1, G2"""
    cast = Cast(AsyncAgent)
    room = cast.room()
    try:
        run(_awaited(take_turn(room, "a")))

        assert room.commit("a")
        room.evict("a")
        room.settle()

        assert cast.log == ["build a/1", "commit a/1", "release a/1"]
    finally:
        cast.finish()


def test_an_async_hook_that_is_stuck_is_cancelled_and_written_off() -> None:
    """S5, G4"""
    cast = Cast(AsyncAgent)
    clock = ManualClock()
    room = cast.room(clock=clock, commit_timeout=60.0)
    cancelled: list[str] = []

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("commit")

    cast.at["commit"] = stuck

    async def main() -> None:
        await take_turn(room, "a")
        commit = asyncio.create_task(_awaited(room.session("a").commit()))
        await until(lambda: cast.did("commit") == ["a/1"])
        clock.advance(60.0)
        assert not await commit
        await until(lambda: cancelled == ["commit"])
        assert await room.session("a").has_uncommitted()
        del cast.at["commit"]
        await until(lambda: not room.session("a").describe().get().busy)
        await _until_committed(room, "a")

    try:
        run(main())
        assert cast.did("commit") == ["a/1", "a/1"]
    finally:
        cast.finish()


def test_an_async_commit_that_is_stuck_and_cancelled_has_failed_once() -> None:
    """S5, G4"""
    cast = Cast(AsyncAgent)
    clock = ManualClock()
    room = cast.room(clock=clock, commit_timeout=60.0)
    cancelled = asyncio.Event()

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    cast.at["commit"] = stuck

    async def main() -> None:
        await take_turn(room, "a")
        commit = asyncio.create_task(_awaited(room.session("a").commit()))
        await until(lambda: cast.did("commit") == ["a/1"])
        clock.advance(60.0)
        assert not await commit
        await cancelled.wait()
        del cast.at["commit"]
        await _until_committed(room, "a")

    try:
        run(main())
        assert cast.did("commit") == ["a/1", "a/1"]
        assert room.stats().commit_failures == 1
    finally:
        cast.finish()


async def _until_committed(room: Greenroom, key: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while await room.session(key).has_uncommitted():
        assert time.monotonic() < deadline
        await room.session(key).commit()
        await asyncio.sleep(0.001)


def test_context_variables_of_a_task_reach_build_and_hooks(cast: Cast) -> None:
    """C7"""
    seen: list[tuple[str, str]] = []
    for what in ("build", "commit", "release"):
        cast.at[what] = lambda what=what: seen.append((what, caller.get()))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    room = cast.room()

    async def turns(name: str) -> None:
        caller.set(name)
        await take_turn(room, name)
        await room.session(name).commit()
        await room.session(name).evict()

    async def main() -> None:
        for name in ("ada", "grace"):
            await asyncio.create_task(turns(name))
            await room.supervisor.settle()

    run(main())

    assert seen == [(w, n) for n in ("ada", "grace") for w in ("build", "commit", "release")]


# Cancellation.


def test_a_task_that_is_cancelled_while_it_waits_leaves_the_queue(cast: Cast) -> None:
    """T3"""
    room = cast.room()

    async def main() -> None:
        end = asyncio.Event()
        holding = asyncio.create_task(hold(room, "a", end))
        await until(lambda: room.stats().in_turn == 1)
        waiting = [asyncio.create_task(take_turn(room, "a")) for _ in range(3)]
        await until(lambda: waiting_for(room, "a") == 3)
        waiting[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[1]
        await until(lambda: waiting_for(room, "a") == 2)
        end.set()
        await asyncio.gather(holding, waiting[0], waiting[2])
        assert row_of(room, "a").generation == 3
        await at_rest(cast, room)

    run(main())


def test_a_task_that_is_cancelled_while_its_agent_is_built_loses_no_agent(cast: Cast) -> None:
    """T3, T5"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()

    async def main() -> None:
        waiting = asyncio.create_task(take_turn(room, "a"))
        await until(lambda: cast.did("build") == ["a/1"])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        building.open()
        await at_rest(cast, room)

    run(main())

    assert cast.did("commit") == []


def test_who_waits_behind_a_cancelled_build_gets_its_turn(cast: Cast) -> None:
    """T3, T5"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()

    async def main() -> None:
        first = asyncio.create_task(take_turn(room, "a", SPEC))
        await until(lambda: cast.did("build") == ["a/1"])
        others = [asyncio.create_task(take_turn(room, "a", spec)) for spec in (SPEC, OTHER)]
        await until(lambda: waiting_for(room, "a") == 3)
        first.cancel()
        building.open()
        turns = await asyncio.gather(*others)
        assert [turn.generation for turn in turns] == [1, 2]
        await at_rest(cast, room)

    run(main())


def test_a_task_that_is_cancelled_when_it_was_granted_the_turn_does_not_hold_it(cast: Cast) -> None:
    """T3. 1. the turn is granted  2. the task is cancelled  3. it would have run."""
    room = cast.room()

    async def main() -> None:
        async with room.turn("a"):
            waiting = asyncio.create_task(take_turn(room, "a"))
            await until(lambda: waiting_for(room, "a") == 1)
            # Nobody else runs its actor any more: what is granted is granted on this thread, and the
            # task to which it is cannot have gone on before we look.
            await until(lambda: room.stats().workers_busy == 0, "the return of the worker")
        row = row_of(room, "a")
        assert (row.waiting, row.state) == (0, "in turn"), "it is granted"
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert row_of(room, "a").generation == 1
        await at_rest(cast, room)

    run(main())


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_task_that_is_cancelled_at_any_step_leaves_nothing_behind(
    cast: Cast, steps: int, warm: bool
) -> None:
    """T3, T4"""
    room = cast.room()

    async def three_turns() -> None:
        for spec in (SPEC, OTHER, SPEC):
            async with room.turn("a", spec):
                await asyncio.sleep(0)

    async def main() -> None:
        if warm:
            await take_turn(room, "a", SPEC)
        end = asyncio.Event()
        tasks = [asyncio.create_task(three_turns()) for _ in range(3)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not tasks[2].cancelled()
        assert tasks[2].exception() is None
        await at_rest(cast, room)

    run(main())


def test_a_task_that_is_cancelled_in_its_turn_gives_it_back_uncompleted(cast: Cast) -> None:
    """T4"""
    room = cast.room()

    async def main() -> None:
        never = asyncio.Event()
        holding = asyncio.create_task(hold(room, "a", never))
        await until(lambda: room.stats().in_turn == 1)
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        assert not await room.session("a").has_uncommitted()
        await at_rest(cast, room)

    run(main())


def test_a_wait_that_is_timed_out_from_outside_leaves_the_queue(cast: Cast) -> None:
    """T3"""
    room = cast.room()

    async def main() -> None:
        end = asyncio.Event()
        holding = asyncio.create_task(hold(room, "a", end))
        await until(lambda: room.stats().in_turn == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await take_turn(room, "a")
        end.set()
        await holding
        await at_rest(cast, room)

    run(main())


def test_a_loop_that_ends_with_turns_waiting_leaves_no_waiter(cast: Cast) -> None:
    """T3. `asyncio.run` cancels what is left."""
    room = cast.room()
    held = cast.hold(room, "a")

    async def main() -> None:
        waiting = [asyncio.create_task(take_turn(room, "a")) for _ in range(3)]
        await until(lambda: waiting_for(room, "a") == len(waiting))

    run(main())

    assert waiting_for(room, "a") == 0
    held.end()
    touch(room, "a")


# Several loops, and many turns.


def test_two_event_loops_in_two_threads_share_a_room(cast: Cast) -> None:
    """T3, C7"""
    room = cast.room(max_waiting=64)
    inside: list[int] = []
    most: list[int] = []
    errors: list[BaseException] = []

    async def turns(loop: int) -> None:
        for n in range(20):
            async with room.turn("shared"):
                inside.append(loop)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.remove(loop)
            await take_turn(room, f"own {loop} {n % 3}")

    async def main(loop: int) -> None:
        await asyncio.gather(*(turns(loop) for _ in range(4)))
        await room.session("shared").commit()

    def one_loop(loop: int) -> None:
        try:
            run(main(loop))
        except BaseException as error:
            errors.append(error)

    join_all([in_thread(functools.partial(one_loop, loop)) for loop in range(2)])

    assert errors == []
    assert max(most) == 1
    assert row_of(room, "shared").generation == 160
    assert sum(row.generation for row in room.snapshot()) == 320
    assert len(cast.did("build")) == 7


def test_ten_thousand_turns_may_wait_and_the_loop_goes_on(cast: Cast) -> None:
    """T3, C7. A waiting turn costs no thread, and nobody blocks the loop."""
    sessions, each = 100, 100
    room = cast.room(max_waiting=each)

    async def main() -> None:
        end = asyncio.Event()
        holding = [asyncio.create_task(hold(room, f"s{n}", end)) for n in range(sessions)]
        await until(lambda: room.stats().in_turn == sessions)
        threads = threading.active_count()
        waiting = [
            asyncio.create_task(take_turn(room, f"s{n % sessions}")) for n in range(sessions * each)
        ]
        await until(lambda: room.stats().waiting == sessions * each, "all that wait")
        assert threading.active_count() <= threads + 8, "helpers, perhaps; none for those who wait"
        beats = 0
        for _ in range(100):
            await asyncio.sleep(0)
            beats += 1
        await take_turn(room, "somebody else")
        assert beats == 100
        assert room.stats().waiting == sessions * each
        assert not any(task.done() for task in waiting)
        end.set()
        await asyncio.gather(*holding, *waiting)
        assert room.stats().waiting == 0
        rows = {row.key: row.generation for row in room.snapshot()}
        assert rows == {f"s{n}": each + 1 for n in range(sessions)} | {"somebody else": 1}

    run(main())

    assert len(cast.did("build")) == sessions + 1


def test_awaiting_never_blocks_the_loop_while_hooks_are_slow(cast: Cast) -> None:
    """C7"""
    room = cast.room()
    gate = cast.gate()
    cast.at |= {"build slow": gate, "commit busy": gate}

    async def main() -> None:
        await take_turn(room, "busy")
        slow = [
            asyncio.create_task(take_turn(room, "slow")),
            asyncio.create_task(_awaited(room.session("busy").commit())),
        ]
        await until(lambda: {"build slow/1", "commit busy/1"} <= set(cast.log))
        await until(lambda: sum(row.busy for row in room.snapshot()) == len(slow))
        slow.append(asyncio.create_task(_awaited(room.supervisor.settle())))
        await take_turn(room, "other")
        await take_turn(room, "busy")
        assert not any(task.done() for task in slow)
        gate.open()
        await asyncio.gather(*slow)

    run(main())
