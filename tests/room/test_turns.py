"""Turns: T1 to T8."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentSpec, BuildFailed, Overloaded, Reason, RoomClosed, SessionBusy, TurnTimeout
from greenroom.actors import ManualClock, WorkTimedOut
from tests.actors.actors import PATIENCE, all_at_once
from tests.room.agents import (
    OTHER,
    SPEC,
    Agent,
    Cast,
    look_at,
    row_of,
    take_turn,
    touch,
    until,
    waiting_for,
)
from tests.room.test_drain import drain_in_thread

if TYPE_CHECKING:
    from greenroom import BuildContext, Greenroom, RoomStats, Turn


class Stoppable:
    """An agent on an event loop, which only waits to be interrupted."""

    def __init__(self, _: BuildContext) -> None:
        self.stopped = asyncio.Event()

    async def interrupt(self) -> None:
        self.stopped.set()


caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


# T1


def test_the_first_turn_builds_and_the_next_gets_the_very_same_agent(cast: Cast) -> None:
    """T1"""
    room = cast.room()

    with room.turn("a", SPEC) as first:
        agent = first.agent
    with room.turn("a", SPEC) as second:
        assert second.agent is agent

    assert (first.reused, second.reused) == (False, True)
    assert (first.rebuild_reason, second.rebuild_reason) == (None, None)
    assert cast.log == ["build a/1"]
    assert (room.stats().builds, room.stats().hits) == (1, 1)


def test_it_is_the_signature_that_counts_and_not_the_object(cast: Cast) -> None:
    """T1"""
    room = cast.room()

    first = take_turn(room, "a", AgentSpec(model="m", toolsets=("x", "y")))
    second = take_turn(room, "a", AgentSpec(model="m", toolsets=("y", "x")))

    assert second is first


def test_a_mapping_serves_as_a_spec(cast: Cast) -> None:
    """T1, T2"""
    room = cast.room()

    first = take_turn(room, "a", {"model": "m", "api_key": "1"})

    assert first.spec == {"model": "m", "api_key": "1"}
    assert take_turn(room, "a", {"api_key": "1", "model": "m"}) is first
    assert take_turn(room, "a", {"model": "m", "api_key": "2"}) is not first


def test_a_turn_without_a_spec_takes_the_agent_that_is_there(cast: Cast) -> None:
    """T1"""
    room = cast.room()
    agent = take_turn(room, "a", SPEC)

    assert take_turn(room, "a") is agent


def test_each_session_has_an_agent_of_its_own(cast: Cast) -> None:
    """T1"""
    room = cast.room()

    assert take_turn(room, "a", SPEC) is not take_turn(room, "b", SPEC)
    assert room.keys() == ("a", "b")


def test_another_session_id_under_the_same_key_gets_the_same_agent(cast: Cast) -> None:
    """T1"""
    room = cast.room()

    with room.turn("a", session_id="monday") as turn:
        agent = turn.agent
        assert turn.session_id == "monday"
    with room.turn("a", session_id="tuesday") as turn:
        assert turn.agent is agent
        assert turn.session_id == "tuesday"


class Shelf:
    """As little of a store as will do: it knows no session."""

    def session(self, session_id: str) -> None:
        raise LookupError(session_id)


def test_build_is_told_for_whom_it_builds(cast: Cast) -> None:
    """T1"""
    contexts: list[BuildContext] = []

    def build(context: BuildContext) -> Agent:
        contexts.append(context)
        return cast.build(context)

    store = Shelf()
    room = cast.room(build=build, store=store)
    room.settings("a")["model"] = "override"

    take_turn(room, "a", SPEC, session_id="20261115-a1")

    (context,) = contexts
    assert (context.key, context.session_id, context.store) == ("a", "20261115-a1", store)
    assert context.spec is SPEC
    assert context.settings["model"] == "override"
    assert context.given is None


def test_what_a_turn_is_given_reaches_build_and_makes_no_other_agent(cast: Cast) -> None:
    """T1: it is no part of the signature, and nothing that is printed has it."""
    contexts: list[BuildContext] = []

    def build(context: BuildContext) -> Agent:
        contexts.append(context)
        return cast.build(context)

    room = cast.room(build=build)

    for given in ("hello", "another"):
        with room.turn("a", SPEC, given=[given]):
            pass

    (context,) = contexts
    assert context.given == ["hello"]
    assert "hello" not in repr(context)


def test_the_session_id_is_the_key_by_default(cast: Cast) -> None:
    """T1"""
    room = cast.room()

    with room.turn("a") as turn:
        assert turn.session_id == "a"
        assert turn.agent.session_id == "a"


def test_prepare_is_called_before_every_turn_reused_agent_or_not(cast: Cast) -> None:
    """T1, I4"""
    prepared: list[tuple[str, bool]] = []

    def prepare(agent: Any, turn: Turn) -> None:
        prepared.append((agent.name, turn.reused))

    room = cast.room(prepare=prepare)

    touch(room, "a", "a", "b")

    assert prepared == [("a/1", False), ("a/1", True), ("b/1", False)]


def test_an_interrupt_flag_left_on_a_cached_agent_does_not_kill_the_next_turn(cast: Cast) -> None:
    """T1, T4, T7. An interrupt that comes too late sets a flag that nobody looks at any more."""

    def prepare(agent: Any, _: Turn) -> None:
        agent.interrupted = False

    room = cast.room(prepare=prepare)
    agent = take_turn(room, "a")
    agent.interrupt()

    assert take_turn(room, "a") is agent


def test_a_turn_whose_preparation_fails_is_given_back_and_not_completed(cast: Cast) -> None:
    """T4"""
    failing = [True]

    def prepare(_: Any, __: Turn) -> None:
        if failing:
            raise LookupError(failing.pop())

    room = cast.room(prepare=prepare)

    with pytest.raises(LookupError), room.turn("a"):
        pytest.fail("it began")

    assert room.stats().in_turn == 0
    assert not room.has_uncommitted("a")
    with room.turn("a", on_busy="reject") as turn:
        assert turn.reused


# T2


def test_another_signature_releases_the_old_agent_commit_first_and_builds_another(cast: Cast) -> None:
    """T2"""
    room = cast.room()
    old = take_turn(room, "a", SPEC)

    with room.turn("a", OTHER) as turn:
        assert turn.agent is not old
        assert not turn.reused
        assert turn.rebuild_reason is Reason.SPEC
        assert turn.agent.spec is OTHER
    room.settle()

    assert cast.done_to("a/1") == ["build", "commit", "release"]
    assert cast.done_to("a/2") == ["build"]
    assert room.keys() == ("a",)
    assert (room.stats().builds, room.stats().rebuilds, room.stats().releases) == (2, 1, 1)
    assert room.stats().reasons == {"spec": 1}


def test_an_old_agent_with_nothing_to_commit_is_only_released(cast: Cast) -> None:
    """T2"""
    room = cast.room()
    take_turn(room, "a", SPEC, ephemeral=True)

    take_turn(room, "a", OTHER)
    room.settle()

    assert cast.done_to("a/1") == ["build", "release"]


def test_the_old_agent_is_not_released_before_its_commit_is_through(cast: Cast) -> None:
    """T2"""
    room = cast.room()
    committing = cast.at["commit"] = cast.gate()
    take_turn(room, "a", SPEC)

    change = cast.start(room, "a", OTHER, during=lambda _: None)
    committing.wait_reached()
    assert cast.did("release") == []
    committing.open()
    assert change.outcome() is None
    room.settle()

    assert cast.did("release") == ["a/1"]


def test_switching_back_builds_once_more(cast: Cast) -> None:
    """T2"""
    room = cast.room()

    names = [take_turn(room, "a", spec).name for spec in (SPEC, OTHER, SPEC)]

    assert names == ["a/1", "a/2", "a/3"]


def test_two_agents_of_a_session_are_never_in_a_turn_at_once(cast: Cast) -> None:
    """T2, T3"""
    room = cast.room(max_waiting=8)
    inside: list[str] = []
    most: list[int] = []

    def alternate(number: int) -> None:
        for n in range(12):
            with room.turn("a", (SPEC, OTHER)[(n + number) % 2]) as turn:
                inside.append(turn.agent.name)
                most.append(len(inside))
                inside.remove(turn.agent.name)

    all_at_once(functools.partial(alternate, n) for n in range(4))
    room.settle(PATIENCE)

    assert max(most) == 1
    assert room.session("a").describe().get().generation == 48
    gone = cast.farewells()
    assert sorted(gone.values()) == [0] + [1] * (len(gone) - 1), "one agent is left"


# T3


def test_waiting_turns_are_served_first_come_first_served(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    served: list[int] = []
    first = cast.hold(room, "a")

    waiting = [cast.queue(room, "a", during=lambda _, n=n: served.append(n)) for n in range(6)]
    assert served == []
    first.end()

    assert [held.outcome() for held in waiting] == [None] * 6
    assert served == list(range(6))


def test_a_waiting_turn_is_served_in_its_turn_whatever_its_spec_is(cast: Cast) -> None:
    """T3, T2"""
    room = cast.room()
    served: list[str] = []
    first = cast.hold(room, "a", SPEC)
    waiting = [
        cast.queue(room, "a", spec, during=lambda turn: served.append(turn.agent.name))
        for spec in (OTHER, SPEC, SPEC)
    ]

    first.end()

    assert [held.outcome() for held in waiting] == [None] * 3
    assert served == ["a/2", "a/3", "a/3"]


def test_one_turn_at_a_time_for_each_session_and_any_number_beside_it(cast: Cast) -> None:
    """T3"""
    room = cast.room()

    held = [cast.hold(room, key) for key in "abcd"]
    assert room.stats().in_turn == 4
    for one in held:
        one.end()

    assert room.stats().in_turn == 0


def test_many_threads_on_one_session_have_its_turn_one_after_another(cast: Cast) -> None:
    """T3"""
    room = cast.room(max_waiting=8)
    inside = [0]

    def turns() -> None:
        for _ in range(30):
            with room.turn("a"):
                inside[0] += 1
                assert inside[0] == 1
                inside[0] -= 1

    all_at_once([turns] * 8)

    assert cast.did("build") == ["a/1"]
    assert room.session("a").describe().get().generation == 240


def test_a_busy_session_rejects_who_would_not_wait(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    cast.hold(room, "telegram:12345")

    with pytest.raises(SessionBusy, match="telegram:12345") as raised:
        take_turn(room, "telegram:12345", on_busy="reject")

    assert raised.value.key == "telegram:12345"
    assert room.stats().waiting == 0


def test_a_session_that_is_being_built_rejects_who_would_not_wait(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()
    first = cast.start(room, "a")
    building.wait_reached()

    with pytest.raises(SessionBusy):
        take_turn(room, "a", on_busy="reject")

    building.open()
    first.wait_begun()


def test_a_session_that_is_free_rejects_nobody(cast: Cast) -> None:
    """T3"""
    room = cast.room()

    take_turn(room, "a", on_busy="reject")
    take_turn(room, "a", on_busy="reject")


def test_a_turn_that_would_wait_for_itself_is_refused(cast: Cast) -> None:
    """T3. Waiting would never end."""
    room = cast.room()

    with room.turn("a"), pytest.raises(SessionBusy, match="'a'"), room.turn("a"):
        pytest.fail("it began")


def test_a_wait_past_its_timeout_is_given_up(cast: Cast) -> None:
    """T3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    held = cast.hold(room, "telegram:12345")
    waiting = cast.queue(room, "telegram:12345", timeout=10.0)

    clock.advance(9.0)
    assert not waiting.begun
    clock.advance(1.0)

    error = waiting.outcome()
    assert isinstance(error, TurnTimeout)
    assert isinstance(error, TimeoutError)
    assert error.key == "telegram:12345"
    assert "telegram:12345" in str(error)
    assert room.stats().waiting == 0
    held.end()
    assert held.turn.generation == 1


def test_a_turn_that_began_in_time_is_not_given_up_later(cast: Cast) -> None:
    """T3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    held = cast.hold(room, "a", timeout=10.0)

    clock.advance(100.0)
    held.end()

    assert held.turn.generation == 1


def test_who_gives_up_waiting_leaves_the_others_in_their_order(cast: Cast) -> None:
    """T3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    served: list[int] = []
    first = cast.hold(room, "a")

    def note(number: int, _: Turn) -> None:
        served.append(number)

    waiting = [
        cast.queue(room, "a", during=functools.partial(note, n), timeout=5.0 if n == 1 else None)
        for n in range(3)
    ]
    clock.advance(5.0)
    assert isinstance(waiting[1].outcome(), TurnTimeout)
    first.end()

    assert waiting[0].outcome() is None
    assert waiting[2].outcome() is None
    assert served == [0, 2]


def test_the_timeout_counts_while_the_agent_is_built_and_loses_no_agent(cast: Cast) -> None:
    """T3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    building = cast.at["build"] = cast.gate()
    waiting = [cast.queue(room, "a", timeout=5.0) for _ in range(2)]
    building.wait_reached()

    clock.advance(5.0)
    for held in waiting:
        error = held.outcome()
        assert isinstance(error, TurnTimeout)
        assert "'a': its agent was still being built after 5.0 s" in str(error)
        assert "turn" not in str(error), "none has it"
    building.open()
    room.settle()
    take_turn(room, "a", on_busy="reject")
    room.close()

    assert set(cast.farewells().values()) == {1}


def test_a_timeout_of_nothing_does_not_wait(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    take_turn(room, "a")
    take_turn(room, "a", timeout=0)
    cast.hold(room, "a")

    with pytest.raises(TurnTimeout):
        take_turn(room, "a", timeout=0)


def test_more_than_may_wait_are_refused(cast: Cast) -> None:
    """T3"""
    room = cast.room(max_waiting=2)
    held = cast.hold(room, "telegram:12345")
    waiting = [cast.queue(room, "telegram:12345", during=lambda _: None) for _ in range(2)]

    with pytest.raises(Overloaded, match="telegram:12345") as raised:
        take_turn(room, "telegram:12345")
    assert raised.value.key == "telegram:12345"
    assert room.stats().waiting == 2
    take_turn(room, "another")
    held.end()

    assert [one.outcome() for one in waiting] == [None, None]


def test_sixteen_may_wait_by_default(cast: Cast) -> None:
    """T3"""
    room = cast.room()
    cast.hold(room, "a")
    for _ in range(16):
        cast.queue(room, "a")

    with pytest.raises(Overloaded):
        take_turn(room, "a")


def test_nobody_waits_if_nobody_may(cast: Cast) -> None:
    """T3"""
    room = cast.room(max_waiting=0)
    held = cast.hold(room, "a")

    with pytest.raises(Overloaded):
        take_turn(room, "a")

    held.end()
    take_turn(room, "a")


# T4


def test_a_turn_whose_body_raises_is_not_completed(cast: Cast) -> None:
    """T4"""
    room = cast.room()
    turn = room.turn("a")

    with pytest.raises(ZeroDivisionError), turn:
        raise ZeroDivisionError

    assert turn.generation == 0
    assert not room.has_uncommitted("a")
    with room.turn("a") as again:
        assert again.reused
        assert again.generation == 0


def test_a_cancelled_turn_is_not_completed(cast: Cast) -> None:
    """T4"""
    room = cast.room()

    with room.turn("a") as turn:
        turn.cancel()

    assert turn.generation == 0
    assert not room.has_uncommitted("a")
    assert "a" in room


def test_an_ephemeral_turn_is_not_completed(cast: Cast) -> None:
    """T4"""
    room = cast.room()

    with room.turn("a", ephemeral=True) as turn:
        pass

    assert turn.generation == 0
    assert not room.has_uncommitted("a")
    assert "a" in room


def test_turns_that_are_not_completed_leave_the_generation_of_those_that_are(cast: Cast) -> None:
    """T4, G1"""
    room = cast.room()
    generations: list[int] = []

    for ephemeral in (False, True, False, True, True, False):
        with room.turn("a", ephemeral=ephemeral) as turn:
            pass
        generations.append(turn.generation)

    assert generations == [1, 1, 2, 2, 2, 3]


# T5


def test_a_failing_build_raises_with_its_cause_and_caches_nothing(cast: Cast) -> None:
    """T5"""
    room = cast.room()
    cause = cast.at["build"] = ConnectionError("no provider")

    with pytest.raises(BuildFailed, match=r"telegram:12345.*no provider") as raised:
        take_turn(room, "telegram:12345")

    assert raised.value.__cause__ is cause
    assert raised.value.key == "telegram:12345"
    assert "telegram:12345" not in room
    assert len(room) == 0
    assert room.stats().build_failures == 1
    assert room.stats().builds == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_a_build_that_raises_whatever_it_likes_fails_and_no_more(
    cast: Cast, error: BaseException
) -> None:
    """T5"""
    room = cast.room()
    cast.at["build a"] = error

    with pytest.raises(BuildFailed) as raised:
        take_turn(room, "a", timeout=PATIENCE)  # so that it is built on a worker

    assert raised.value.__cause__ is error
    take_turn(room, "b")


# A caller that waits on a thread of its own builds there.


def test_who_waits_on_a_thread_of_its_own_builds_there(cast: Cast) -> None:
    """T5"""
    threads: list[threading.Thread] = []

    def build(context: BuildContext) -> str:
        threads.append(threading.current_thread())
        return context.key

    async def on_a_loop(room: Greenroom) -> None:
        with room.turn("c"):
            pass
        async with room.turn("d"):
            pass

    room = cast.room(build=build)
    touch(room, "a")
    with room.turn("b", timeout=PATIENCE):
        pass
    asyncio.run(on_a_loop(room))

    here = threading.current_thread()
    assert [thread is here for thread in threads] == [True, False, False, False]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_strikes_a_caller_in_its_build_reaches_it_as_it_is(
    cast: Cast, error: BaseException
) -> None:
    """T5, K1"""
    room = cast.room()
    cast.at["build a/1"] = error

    with pytest.raises(type(error)) as raised:
        take_turn(room, "a")

    assert raised.value is error
    room.settle()
    assert take_turn(room, "a").name == "a/2"
    assert room.stats().build_failures == 1


def test_a_caller_that_builds_for_too_long_frees_the_session_and_its_agent_is_released(
    cast: Cast,
) -> None:
    """T5, C8"""
    clock = ManualClock()
    room = cast.room(clock=clock, build_timeout=10.0)
    building = cast.at["build a/1"] = cast.gate()
    first = cast.start(room, "a")
    building.wait_reached()
    second = cast.queue(room, "a")

    clock.advance(10.0)
    assert second.wait_begun().turn.agent.name == "a/2"
    building.open()
    error = first.outcome()
    second.end()

    assert isinstance(error, BuildFailed)
    assert isinstance(error.__cause__, WorkTimedOut)
    until(lambda: cast.done_to("a/1") == ["build", "release"], "a release")
    assert take_turn(room, "a").name == "a/2"


def test_what_a_build_sets_is_not_seen_by_its_caller(cast: Cast) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def build(_: BuildContext) -> str:
        seen = variable.get()
        variable.set("by the build")
        return seen

    room = cast.room(build=build)
    variable.set("by the caller")
    with room.turn("a") as turn:
        assert turn.agent == "by the caller"
        assert variable.get() == "by the caller"


def test_after_a_failing_build_the_next_waiter_tries_afresh(cast: Cast) -> None:
    """T5"""
    room = cast.room()
    building = cast.gate()

    def fail() -> None:
        building.wait()
        raise ConnectionError

    cast.at["build a/1"] = fail
    first = cast.start(room, "a")
    building.wait_reached()
    second = cast.queue(room, "a")
    third = cast.queue(room, "a", during=lambda _: None)
    building.open()

    assert isinstance(first.outcome(), BuildFailed)
    assert second.wait_begun().turn.agent.name == "a/2"
    second.end()
    assert third.outcome() is None
    assert third.turn.reused


def test_every_waiter_of_a_build_that_always_fails_hears_of_its_own_try(cast: Cast) -> None:
    """T5"""
    room = cast.room()
    building = cast.gate()

    def fail() -> None:
        building.wait()
        raise ConnectionError

    cast.at["build"] = fail
    turns = [cast.start(room, "a")]
    building.wait_reached()
    turns += [cast.queue(room, "a") for _ in range(3)]
    building.open()

    assert [type(turn.outcome()) for turn in turns] == [BuildFailed] * 4
    assert cast.did("build") == ["a/1", "a/2", "a/3", "a/4"]


def test_a_failing_build_does_not_touch_the_warm_agent_of_another_session(cast: Cast) -> None:
    """T5"""
    room = cast.room(cap=1)
    warm = take_turn(room, "warm")
    cast.at["build cold"] = ConnectionError()

    for _ in range(3):
        with pytest.raises(BuildFailed):
            take_turn(room, "cold")
    room.settle()

    assert take_turn(room, "warm") is warm
    assert cast.done_to("warm/1") == ["build"]


def test_a_session_that_is_being_built_is_not_in_a_turn(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """T5, C5. It neither counts against the cap nor explains why somebody is over it."""
    room = cast.room(cap=1)
    touch(room, "warm")
    building = cast.at["build slow"] = cast.gate()
    slow = cast.start(room, "slow")
    building.wait_reached()
    assert (room.stats().in_turn, room.stats().cached) == (0, 1)

    touch(room, "next")
    until(lambda: cast.did("release") == ["warm/1"], "the release of the oldest")
    assert room.keys() == ("next",)
    building.open()
    slow.wait_begun().end()
    room.settle()

    assert room.keys() == ("slow",)
    assert cast.did("release") == ["warm/1", "next/1"]
    assert caplog.records == []


def test_a_build_that_fails_for_another_spec_leaves_the_session_able_to_go_on(cast: Cast) -> None:
    """T5, T2"""
    room = cast.room()
    take_turn(room, "a", SPEC)
    cast.at["build a/2"] = ConnectionError()

    with pytest.raises(BuildFailed):
        take_turn(room, "a", OTHER)
    room.settle()
    take_turn(room, "a", SPEC)

    assert cast.done_to("a/1") == ["build", "commit", "release"]
    assert room.session("a").describe().get().generation == 2


# T6


def test_a_discarded_agent_is_released_after_its_turn(cast: Cast) -> None:
    """T6"""
    room = cast.room()

    with room.turn("a", SPEC) as turn:
        turn.discard("the fallback model was activated")
        assert cast.log == ["build a/1"]
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "release a/1"]
    assert "a" not in room
    assert turn.generation == 1
    assert room.stats().reasons == {"discard": 1}
    with room.turn("a", SPEC) as turn:
        assert turn.agent.name == "a/2"
        assert turn.rebuild_reason is Reason.DISCARD


def test_a_turn_that_waits_does_not_get_the_discarded_agent(cast: Cast) -> None:
    """T6"""
    room = cast.room()
    first = cast.hold(room, "a", SPEC)
    waiting = cast.queue(room, "a", SPEC)

    first.turn.discard("fallback")
    first.end()

    assert waiting.wait_begun().turn.agent.name == "a/2"


def test_an_agent_discarded_in_a_turn_that_failed_is_released_without_a_commit(cast: Cast) -> None:
    """T6, T4"""
    room = cast.room()

    turn = room.turn("a")
    turn.discard("broken")
    with pytest.raises(ZeroDivisionError), turn:
        raise ZeroDivisionError
    room.settle()

    assert cast.log == ["build a/1", "release a/1"]


# T7


def test_evicting_a_session_in_a_turn_takes_effect_when_the_turn_ends(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")

    assert room.evict("a")
    room.settle()
    assert cast.log == ["build a/1"]
    held.end()
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "release a/1"]
    assert "a" not in room
    assert room.stats().reasons == {"explicit": 1}


def test_evicting_takes_effect_at_the_end_of_the_turn_even_if_the_next_one_waits(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")
    waiting = cast.queue(room, "a")

    room.evict("a")
    held.end()

    assert waiting.wait_begun().turn.agent.name == "a/2"
    assert waiting.turn.rebuild_reason is Reason.EXPLICIT


def test_ending_a_session_in_a_turn_takes_effect_when_the_turn_ends(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")

    assert room.end("a")
    room.settle()
    assert cast.log == ["build a/1"]
    held.end()
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]
    assert room.stats().known == 0


def test_ending_with_an_interrupt_tells_the_agent_while_it_is_in_its_turn(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")

    room.end("a", interrupt=True)
    until(lambda: "interrupt a/1" in cast.done, "an interrupt")
    assert cast.log == ["build a/1", "interrupt a/1"]
    held.end()
    room.settle()

    assert cast.log[2:] == ["commit a/1", "shutdown a/1", "close a/1"]


def test_ending_an_idle_session_interrupts_nobody(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    look_at(room, "a")

    room.end("a", interrupt=True)
    room.settle()

    assert cast.log == ["build a/1", "shutdown a/1", "close a/1"]


def test_a_running_turn_can_be_interrupted_by_its_key(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")

    assert room.interrupt("a")
    until(lambda: "interrupt a/1" in cast.done, "an interrupt")
    held.end()

    assert held.turn.completed
    assert not room.interrupt("a")
    assert not room.interrupt("nobody")
    assert cast.log == ["build a/1", "interrupt a/1"]


def test_a_turn_can_be_interrupted_on_an_event_loop(cast: Cast) -> None:
    """T7"""
    room = cast.room(build=Stoppable)

    async def stop() -> tuple[bool, bool]:
        async with room.turn("a") as turn:
            interrupted = await room.session("a").interrupt()
            async with asyncio.timeout(PATIENCE):
                await turn.agent.stopped.wait()
        return interrupted, await room.session("a").interrupt()

    assert asyncio.run(stop()) == (True, False)


def test_a_turn_whose_agent_is_being_built_has_nobody_to_interrupt(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    gate = cast.at["build"] = cast.gate()
    held = cast.start(room, "a")
    gate.wait_reached()

    assert not room.interrupt("a")
    gate.open()
    held.wait_begun().end()

    assert cast.log == ["build a/1"]


def test_a_turn_that_waits_when_its_session_is_ended_begins_the_next_session(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    room.settings("a")["model"] = "override"
    held = cast.hold(room, "a")
    waiting = cast.queue(room, "a")

    room.end("a")
    held.end()

    assert waiting.wait_begun().turn.agent.name == "a/2"
    assert dict(room.settings("a")) == {}
    waiting.end()
    room.settle()
    assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
    assert room.keys() == ("a",)


def test_ending_outdoes_evicting_whichever_comes_first(cast: Cast) -> None:
    """T7, S2"""
    room = cast.room()
    for key, first, second in (("a", room.evict, room.end), ("b", room.end, room.evict)):
        held = cast.hold(room, key, ephemeral=True)
        first(key)
        second(key)
        held.end()
    room.settle()

    assert sorted(cast.did("close")) == ["a/1", "b/1"]
    assert cast.did("release") == []


def test_evicting_a_session_that_is_being_built_lets_its_turn_have_the_agent_first(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()
    held = cast.start(room, "a")
    building.wait_reached()

    room.evict("a")
    building.open()
    held.wait_begun().end()
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "release a/1"]


# T8


def counted(room: Greenroom) -> RoomStats:
    """The counters without those of the workers, which may still be on their way home."""
    return dataclasses.replace(room.stats(), workers=0, workers_busy=0)


def test_giving_a_turn_back_twice_changes_nothing_and_is_logged(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """T8"""
    room = cast.room()
    turn = room.turn("telegram:12345")
    with turn:
        pass
    before = counted(room)
    assert caplog.records == []

    turn.__exit__(None, None, None)

    assert counted(room) == before
    assert row_of(room, "telegram:12345").generation == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "telegram:12345" in record.getMessage()


def test_a_turn_given_back_twice_does_not_end_the_one_that_came_after_it(cast: Cast) -> None:
    """T8"""
    room = cast.room()
    turn = room.turn("a")
    with turn:
        pass
    cast.hold(room, "a")

    turn.__exit__(None, None, None)

    assert room.stats().in_turn == 1
    with pytest.raises(SessionBusy):
        take_turn(room, "a", on_busy="reject")


def test_a_turn_given_back_after_its_session_was_closed_by_force_changes_nothing(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """T8, D1"""
    clock = ManualClock()  # which stands still: its agent is closed in time, however long that takes
    room = cast.room(clock=clock)
    held = cast.hold(room, "telegram:12345")
    report = drain_in_thread(room, deadline=0)
    clock.advance(0.0)
    assert report().abandoned == ("telegram:12345",)
    before = counted(room)
    caplog.clear()

    held.end()

    assert held.turn.generation == 0
    assert counted(room) == before
    assert cast.did("close") == ["telegram:12345/1"]
    assert cast.did("commit") == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "telegram:12345" in caplog.text


def test_a_turn_given_back_to_a_closed_room_changes_nothing(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """T8"""
    room = cast.room()
    held = cast.hold(room, "a")
    room.close(deadline=0)
    caplog.clear()

    held.end()

    assert held.turn.generation == 0
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    with pytest.raises(RoomClosed):
        take_turn(room, "a")


# What the caller brings along.


def test_context_variables_of_the_caller_reach_the_build(cast: Cast) -> None:
    """T1"""
    seen: list[str] = []
    cast.at["build"] = lambda: seen.append(caller.get())
    room = cast.room()

    def turn_of(name: str) -> None:
        caller.set(name)
        take_turn(room, name)

    contextvars.copy_context().run(turn_of, "ada")
    contextvars.copy_context().run(turn_of, "grace")

    assert seen == ["ada", "grace"]


def test_a_build_gets_the_context_of_who_waited_for_it_and_not_of_who_ended_before(cast: Cast) -> None:
    """T3"""
    seen: list[str] = []
    cast.at["build a/2"] = lambda: seen.append(caller.get())
    room = cast.room()
    first = cast.hold(room, "a", SPEC)

    def wait() -> None:
        caller.set("ada")
        with room.turn("a", OTHER):
            pass

    waiting = cast.start(room, "other", during=lambda _: contextvars.copy_context().run(wait))
    until(lambda: waiting_for(room, "a") == 1, "a turn that waits")
    first.end()

    assert waiting.outcome() is None
    assert seen == ["ada"]
