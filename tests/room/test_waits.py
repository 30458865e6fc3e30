"""Callers that wait for themselves, or for long."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import BuildFailed, SessionBusy, TurnTimeout
from greenroom.actors import ManualClock
from tests.actors.actors import PATIENCE
from tests.room.agents import let_pass, take_turn, touch, until, waiting_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom import BuildContext, Greenroom
    from tests.room.agents import Agent, Cast


def take_turn_on_a_loop(room: Greenroom, key: str) -> None:
    """Take a turn in a task."""

    async def take() -> None:
        async with room.turn(key):
            pass

    asyncio.run(take())


def take_turn_with_a_timeout(room: Greenroom, key: str) -> None:
    """Take a turn whose agent is built on a worker."""
    take_turn(room, key, timeout=PATIENCE)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of turns that have waited for long."""
    return [text for record in caplog.records if "has waited for" in (text := record.getMessage())]


def test_a_turn_that_has_waited_for_long_is_named_once(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: with whom it waits for."""
    clock = ManualClock()
    room = cast.room(clock=clock)
    first = cast.hold(room, "a")
    waiting = cast.queue(room, "a")
    let_pass(room, clock, 29.0)
    assert told(caplog) == []
    let_pass(room, clock, 1.0)
    [line] = told(caplog)
    assert line.startswith("session 'a': a turn that thread ")
    assert "has waited for 30 s, for a turn of thread " in line
    assert caplog.records[-1].levelname == "WARNING"
    let_pass(room, clock, 100.0)
    assert len(told(caplog)) == 1
    assert "1 turns wait for it, the first for 130 s." in str(room.explain("a"))
    first.end()
    waiting.end()


def test_a_turn_that_is_named_in_the_log_still_has_its_timeout(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """K3, T3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    first = cast.hold(room, "a")
    patient, hasty = cast.queue(room, "a", timeout=40.0), cast.queue(room, "a", timeout=20.0)
    let_pass(room, clock, 39.0)
    assert isinstance(hasty.outcome(), TurnTimeout)
    assert len(told(caplog)) == 1
    let_pass(room, clock, 1.0)
    assert isinstance(patient.outcome(), TurnTimeout)
    first.end()


def test_a_turn_whose_agent_is_built_meanwhile_is_not_named_and_leaves_no_timer(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: it waits for nobody any more."""
    clock = ManualClock()
    room = cast.room(clock=clock)
    first = cast.hold(room, "a")
    timers = room.runtime.stats().timers
    waiting = cast.queue(room, "a")
    cast.at["build a/2"] = gate = cast.gate()
    first.turn.discard()
    first.end()
    gate.wait_reached()
    let_pass(room, clock, 31.0)
    gate.open()
    waiting.end()
    assert told(caplog) == []
    room.settle()
    let_pass(room, clock, 1.0)  # with it goes the timer of workers, if work ever had to wait for one
    # A worker that has told how its work ended may be about to cancel its timer.
    until(lambda: room.runtime.stats().timers == timers, "the end of all other timers")


def test_who_waits_for_a_turn_knows_how_long_that_has_lasted(cast: Cast) -> None:
    """K3"""
    room = cast.room()
    first = cast.hold(room, "a")
    waiting = cast.queue(room, "a")
    assert "The running turn began 0 s ago." in str(room.explain("a"))
    first.end()
    waiting.end()
    assert "began" not in str(room.explain("a"))


@pytest.mark.parametrize("on_a_thread", [False, True], ids=["gather", "to_thread"])
def test_a_turn_that_its_own_child_wants_is_told_in_the_log(
    cast: Cast, on_a_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: the turn may wait for the child, or not; nobody can know."""
    clock = ManualClock()
    room = cast.room(clock=clock)

    async def child() -> None:
        async with room.turn("a"):
            pass

    async def parent() -> None:
        async with room.turn("a"):
            wanted = asyncio.to_thread(touch, room, "a") if on_a_thread else child()
            children = asyncio.gather(wanted)
            await asyncio.to_thread(until, lambda: waiting_for(room, "a") == 1)
            let_pass(room, clock, 30.0)
            [line] = told(caplog)
            assert "wanted inside that very turn" in line
        await children  # it did not wait in vain: the turn has ended without it

    for _ in range(2):  # the first turn of the session builds, the second is warm
        asyncio.run(parent())
        caplog.clear()


@pytest.mark.parametrize(
    ("refused", "wanted"),
    [(TurnTimeout, {"timeout": 0.01}), (SessionBusy, {"on_busy": "reject"})],
    ids=["timeout", "reject"],
)
def test_a_child_of_a_turn_that_is_refused_is_told_that_it_is_one(
    cast: Cast, refused: type[Exception], wanted: dict[str, Any]
) -> None:
    """K3"""
    room = cast.room()

    async def child() -> None:
        async with room.turn("a", **wanted):
            pass

    async def parent() -> None:
        async with room.turn("a"):
            with pytest.raises(refused, match="wanted inside that very turn"):
                await asyncio.create_task(child())
            with pytest.raises(refused, match="wanted inside that very turn"):
                await asyncio.to_thread(take_turn, room, "a", **wanted)

    asyncio.run(parent())
    elsewhere = cast.hold(room, "a")
    with pytest.raises(refused) as plain:
        take_turn(room, "a", **wanted)
    assert "inside" not in str(plain.value)
    elsewhere.end()


# A build that wants a turn.


def opens_a_turn(cast: Cast, key: str, rooms: list[Greenroom]) -> Callable[[BuildContext], Agent]:
    """A build that begins by a turn of this key."""

    def build(context: BuildContext) -> Agent:
        if context.key == "a":
            with rooms[0].turn(key):
                pass
        return cast.build(context)

    return build


def opens_a_turn_async(
    cast: Cast, key: str, rooms: list[Greenroom]
) -> Callable[[BuildContext], Awaitable[Agent]]:
    async def build(context: BuildContext) -> Agent:
        if context.key == "a":
            async with rooms[0].turn(key):
                pass
        return cast.build(context)

    return build


def returns_a_coroutine(
    cast: Cast, key: str, rooms: list[Greenroom]
) -> Callable[[BuildContext], Awaitable[Agent]]:
    build = opens_a_turn_async(cast, key, rooms)
    return lambda context: build(context)


BUILDS = [opens_a_turn, opens_a_turn_async, returns_a_coroutine]


@pytest.mark.parametrize("ask", [take_turn, take_turn_on_a_loop, take_turn_with_a_timeout])
@pytest.mark.parametrize("kind", BUILDS)
def test_a_build_that_wants_a_turn_of_its_own_session_is_told_so(
    cast: Cast, kind: Callable[..., Any], ask: Callable[[Greenroom, str], object]
) -> None:
    """K3: it would wait for itself, and for its `build_timeout`."""
    rooms: list[Greenroom] = []
    rooms.append(cast.room(build=kind(cast, "a", rooms)))
    with pytest.raises(BuildFailed) as failed:
        ask(rooms[0], "a")
    assert isinstance(failed.value.__cause__, SessionBusy)
    assert "would wait for itself" in str(failed.value.__cause__)


@pytest.mark.parametrize("ask", [take_turn, take_turn_on_a_loop, take_turn_with_a_timeout])
@pytest.mark.parametrize("kind", BUILDS)
def test_a_build_may_take_a_turn_of_another_session(
    cast: Cast, kind: Callable[..., Any], ask: Callable[[Greenroom, str], object]
) -> None:
    rooms: list[Greenroom] = []
    rooms.append(cast.room(build=kind(cast, "b", rooms)))
    ask(rooms[0], "a")
    assert cast.did("build") == ["b/1", "a/1"]


def test_a_task_that_a_build_leaves_behind_may_wait_for_its_session(cast: Cast) -> None:
    """It is not the build, which goes on without it."""
    tasks: list[asyncio.Task[None]] = []

    async def greet() -> None:
        async with room.turn("a") as turn:
            turn.agent.run("hello")

    async def build(context: BuildContext) -> Agent:
        tasks.append(asyncio.create_task(greet()))
        await asyncio.sleep(0)
        assert waiting_for(room, "a") == 2  # the turn that this is built for, and the task's
        return cast.build(context)

    room = cast.room(build=build)

    async def main() -> None:
        async with room.turn("a"):
            pass
        await tasks[0]

    asyncio.run(main())
    assert cast.agents[0].transcript == ["hello"]


# A drain inside a turn.


async def close_by_a_thread(room: Greenroom) -> None:
    await asyncio.to_thread(room.close)


async def drain_by_a_thread(room: Greenroom) -> None:
    await asyncio.to_thread(room.drain)


async def leave(room: Greenroom) -> None:
    async with room:
        pass


@pytest.mark.parametrize("end", [close_by_a_thread, drain_by_a_thread, leave])
def test_a_drain_that_its_own_turn_waits_for_is_refused_at_once(
    cast: Cast, end: Callable[[Greenroom], Awaitable[None]]
) -> None:
    """K3, D1: and the room goes on."""
    room = cast.room()

    async def main() -> None:
        async with room.turn("a"):
            with pytest.raises(SessionBusy, match="turn of 'a'"):
                await end(room)
            async with room.turn("b"):
                pass
        await end(room)  # where no turn waits for it

    asyncio.run(main())
    assert room.drain().committed == ("a", "b")


def test_a_task_of_a_turn_may_close_the_room_when_that_is_over(cast: Cast) -> None:
    """K3"""
    room = cast.room()

    async def main() -> None:
        over = asyncio.Event()

        async def close_later() -> None:
            await over.wait()
            await asyncio.to_thread(room.close)

        async with room.turn("a"):
            closing = asyncio.create_task(close_later())
        over.set()
        await closing

    asyncio.run(main())
    assert room.drain().committed == ("a",)


# Event loops that are gone.


@pytest.mark.parametrize("before", [0, 1], ids=["cold", "warm"])
def test_a_drain_ends_turns_whose_event_loop_is_closed(
    cast: Cast, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    """K3, D1: nobody else can."""
    room = cast.room()
    touch(room, *["a"] * before)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # asyncio's own complaint about the task
    begun = asyncio.Event()

    async def hold() -> None:
        async with room.turn("a"):
            begun.set()
            await asyncio.Event().wait()

    task = loop.create_task(hold(), name="left-behind")
    loop.run_until_complete(begun.wait())
    loop.close()
    assert room.drain(deadline=PATIENCE).abandoned == ()
    assert cast.did("close") == ["a/1"]
    assert cast.did("commit") == ["a/1"] * before  # the turn that was left does not count
    assert any("'left-behind'" in record.getMessage() for record in caplog.records)
    with contextlib.suppress(RuntimeError):
        task.get_coro().close()


def test_a_drain_ends_a_turn_whose_task_was_ended_by_a_strike(cast: Cast) -> None:
    """K1, D1: the task is done, and its traceback keeps the turn."""
    room = cast.room()
    touch(room, "a")
    tasks: list[asyncio.Task[Any]] = []

    async def main() -> None:
        tasks.extend(asyncio.all_tasks())
        turn = room.turn("a")
        await turn.__aenter__()
        raise SystemExit  # as on entry to `__aexit__`

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert room.drain(deadline=PATIENCE).abandoned == ()
    assert tasks[0].done()
    assert (cast.did("commit"), cast.did("close")) == (["a/1"], ["a/1"])


def test_a_drain_leaves_turns_of_living_event_loops_alone(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    touch(room, "a")

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with room.turn("a"):
                begun.set()
                await may_end.wait()

        held = asyncio.create_task(hold())
        await begun.wait()
        draining = asyncio.create_task(asyncio.to_thread(room.drain))
        await asyncio.to_thread(until, lambda: "being drained" in str(room.explain("a")))
        may_end.set()
        await asyncio.gather(held, draining)

    asyncio.run(main())
    assert room.drain().committed == ("a",)
