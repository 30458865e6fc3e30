"""One plain test for each bug that a review of the room found."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom import (
    AgentSpec,
    BuildFailed,
    DrainReport,
    Greenroom,
    Policy,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    Turn,
)
from greenroom.actors import ManualClock, Runtime
from greenroom.actors.runtime._mailbox import Mailbox
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session import Session
from greenroom.actors.session.holding import HELD, TOKEN, held_here
from greenroom.actors.session.resources import Resources
from greenroom.actors.session.slow_work import HOOKS
from greenroom.actors.simulation import InjectedFault
from greenroom.messages import AgentReleased, BeginTurn, Call, Reason, ReleaseAgent, UseSettings
from greenroom.supervisor.announcer import Announcer
from greenroom.testing import FaultyRuntime, RecordingAgent, RecordingBuild, evict_now
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.room.agents import wait_dead

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from greenroom import BuildContext, Event


@pytest.fixture
def build() -> RecordingBuild:
    return RecordingBuild()


@pytest.fixture
def room(build: RecordingBuild) -> Iterator[Greenroom]:
    with Greenroom(build) as room:
        yield room


def touch(room: Greenroom, *keys: str) -> None:
    for key in keys:
        with room.turn(key):
            pass


# Threads that cannot be had, and Ctrl-C.


def test_a_system_without_threads_does_no_work_twice(
    room: Greenroom, build: RecordingBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, [2]

    def start_or_not(thread: threading.Thread) -> None:
        if refused[0] and ("-build-" in thread.name or "-hooks-" in thread.name):
            refused[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    monkeypatch.setattr("greenroom.actors.runtime._workers.RELIEF", 0.01)
    touch(room, "a")
    evict_now(room, "a", PATIENCE)

    assert [agent.calls for agent in build.agents] == [["commit_memory_session", "release_clients"]]


def test_a_ctrl_c_while_a_turn_is_given_back_leaves_it_to_others(
    room: Greenroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    for step in (True, False):
        turn = room.turn("a")
        turn.__enter__()
        with monkeypatch.context() as patch:
            patch.setattr(room._context, "warm", step)
            patch.setattr(room._line, "end", interrupted)
            patch.setattr(Mailbox, "step", interrupted if step else lambda *_: None)
            with pytest.raises(KeyboardInterrupt):
                turn.__exit__(None, None, None)

    with room.turn("a", timeout=PATIENCE) as after:
        assert after.reused


ENTERING = {"__enter__", "__aenter__", "begin_now", "step", "_request", "_granted"}
"""Where a strike while a turn is entered must leave nothing behind."""


def strike(number: int, enter: Callable[[], object]) -> bool:
    """Enter a turn, with a Ctrl-C at the so-manieth line of ours. False if there are not so many."""
    struck: list[str] = []
    left = [number]

    def trace(frame: Any, event: str, _: object) -> Any:
        if "greenroom" not in frame.f_code.co_filename or frame.f_code.co_name not in ENTERING:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                struck.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        enter()
    except KeyboardInterrupt:
        assert struck
    finally:
        sys.settrace(None)
    return bool(struck)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_ctrl_c_anywhere_while_a_turn_is_entered_does_not_leave_it_held(
    room: Greenroom, warm: bool, asynchronous: bool
) -> None:
    """K1. As it would be before the `with` block begins, which then never ends it."""

    async def enter_on_a_loop() -> None:
        async with room.turn("a"):
            sys.settrace(None)

    def enter() -> None:
        if asynchronous:
            asyncio.run(enter_on_a_loop())
        else:
            with room.turn("a"):
                sys.settrace(None)

    touch(room, "a")
    number = 1
    while True:
        if not warm:
            room.evict("a")
            room.settle(PATIENCE)
        if not strike(number, enter):
            break
        with room.turn("a", timeout=PATIENCE):
            pass
        number += 1
    assert number > 10
    assert not held_here()


# Callers that would wait for themselves.


def test_one_room_can_be_closed_in_a_turn_of_another(room: Greenroom, build: RecordingBuild) -> None:
    """D1"""
    other = Greenroom(build)
    touch(other, "b")
    with room.turn("a"):
        report = other.close()

    assert report.committed == ("b",)
    assert build.of("b")[0].calls[-1] == "close"


def test_a_room_is_not_drained_in_a_turn_of_its_own_which_is_named(room: Greenroom) -> None:
    """K3"""
    with room.turn("telegram:1"), pytest.raises(SessionBusy, match="telegram:1"):
        room.drain()


def test_a_turn_that_was_abandoned_in_a_generator_does_not_keep_a_room_from_its_end(
    build: RecordingBuild, caplog: pytest.LogCaptureFixture
) -> None:
    """D1"""
    room = Greenroom(build)

    def pieces() -> Generator[str, None, None]:
        with room.turn("telegram:1") as turn:
            yield turn.agent.key

    touch(room, "telegram:1")
    abandoned = pieces()
    next(abandoned)
    report = room.close()

    assert report.committed == ("telegram:1",)
    assert "telegram:1" in caplog.text
    abandoned.close()


def test_a_generator_that_knows_a_turn_and_is_not_in_it_does_not_end_it(room: Greenroom) -> None:
    """K3"""

    def looks_on(turn: Turn) -> Generator[str, None, None]:
        with room.turn("telegram:2"):
            yield turn.key

    with room.turn("telegram:1") as turn:
        looking = looks_on(turn)
        next(looking)
        with pytest.raises(SessionBusy, match="telegram:1"):
            room.drain()
        looking.close()


def test_a_commit_through_the_proxy_in_ones_own_turn_is_put_off(room: Greenroom) -> None:
    touch(room, "a")
    with room.turn("a"):
        assert not room.session("a").commit().get(timeout=PATIENCE)
    room.settle()

    assert not room.has_uncommitted("a")


def test_an_awaited_commit_in_ones_own_turn_is_put_off(room: Greenroom) -> None:
    async def main() -> None:
        for _ in range(2):
            async with room.turn("a"):
                outcome = await asyncio.wait_for(room.session("a").commit(), PATIENCE)
                assert not outcome

    asyncio.run(main())
    room.settle()

    assert not room.has_uncommitted("a")


def test_a_room_settles_behind_a_commit_that_a_turn_has_put_off(build: RecordingBuild) -> None:
    """1. a release sends its commit to a worker  2. a turn calls the release off  3. the worker asks
    whether it may commit, and may not  4. the turn ends, without a message."""
    with Runtime(workers=1, clock=ManualClock()) as runtime, Greenroom(build, runtime=runtime) as room:
        touch(room, "a")
        gate = Gate()
        runtime.submit(gate.wait, lane=HOOKS)
        gate.wait_reached()
        room.evict("a")
        with room.turn("a") as turn:
            gate.open()
            runtime.submit(gate.wait, lane=HOOKS).get(timeout=PATIENCE)  # behind the commit
        room.settle()

        assert turn.reused
        assert room.has_uncommitted("a")


def test_a_commit_in_ones_own_turn_behind_an_older_agent_is_put_off(
    room: Greenroom, build: RecordingBuild
) -> None:
    build.fails["commit_memory_session"] = OSError("down")
    touch(room, "a")
    evict_now(room, "a")
    touch(room, "a")
    with room.turn("a"):
        assert not room.commit("a")


def test_a_turn_inside_ones_own_is_refused_whether_sync_or_async(room: Greenroom) -> None:
    async def main() -> None:
        async with room.turn("a"):
            with pytest.raises(SessionBusy):
                room.turn("a").__enter__()
        with room.turn("b"), pytest.raises(SessionBusy):
            await room.turn("b").__aenter__()

    asyncio.run(main())


def test_a_task_that_was_begun_inside_a_turn_waits_for_the_next(room: Greenroom) -> None:
    async def follow_up() -> bool:
        async with room.turn("a", timeout=PATIENCE) as turn:
            return turn.reused

    async def main() -> bool:
        async with room.turn("a"):
            task = asyncio.create_task(follow_up())
            await asyncio.sleep(0)
        return await task

    assert asyncio.run(main())


def test_a_drain_inside_ones_own_turn_is_refused(room: Greenroom) -> None:
    with room.turn("a"), pytest.raises(SessionBusy):
        room.drain()
    touch(room, "a")


# Event loops that do not run.


class AsyncAgent:
    def __init__(self, _: BuildContext) -> None:
        self.calls: list[str] = []

    async def commit_memory_session(self) -> None:
        self.calls.append("commit")

    def shutdown_memory_provider(self) -> None:
        self.calls.append("shutdown")

    async def close(self) -> None:
        self.calls.append("close")


def test_a_commit_that_a_blocked_loop_never_began_is_tried_again() -> None:
    """G9"""
    clock, blocking, committed = ManualClock(), Gate(), asyncio.Event()
    agents: list[AsyncAgent] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def build(context: BuildContext) -> AsyncAgent:
        agents.append(AsyncAgent(context))
        return agents[-1]

    async def main(room: Greenroom) -> None:
        async with room.turn("a"):
            pass
        loops.append(asyncio.get_running_loop())
        asyncio.get_running_loop().call_soon(blocking.wait)
        await asyncio.sleep(0)
        await committed.wait()

    runtime = Runtime(clock=clock)
    room = Greenroom(build, policy=Policy(commit_timeout=5.0, retry_first=1.0), runtime=runtime)
    looping = in_thread(lambda: asyncio.run(main(room)))
    blocking.wait_reached()
    committing = in_thread(lambda: room.commit("a"))
    until(lambda: room.stats().busy == 1)
    room.snapshot()  # behind that: the timer is set when the handler has ended
    clock.advance(5.0)
    until(lambda: room.stats().commit_failures == 1)
    blocking.open()
    until(lambda: bool(room.commit("a")))

    assert agents[0].calls == ["commit"]
    loops[0].call_soon_threadsafe(committed.set)
    looping.join(PATIENCE)
    committing.join(PATIENCE)
    room.close(0.0)
    runtime.close()


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_hooks_of_both_kinds_are_called_when_the_agents_loop_is_gone() -> None:
    agents: list[AsyncAgent] = []

    def build(context: BuildContext) -> AsyncAgent:
        agents.append(AsyncAgent(context))
        return agents[-1]

    room = Greenroom(build)

    async def main() -> None:
        async with room.turn("a"):
            pass

    asyncio.run(main())
    assert room.close()

    assert agents[0].calls == ["commit", "shutdown", "close"]


# Agents that are not as simple as one would like.


def test_a_property_that_raises_is_a_hook_that_failed() -> None:
    """S5"""

    class Lazy:
        @property
        def release_clients(self) -> Any:
            raise OSError("no connection")

    with Greenroom(lambda _: Lazy()) as room:
        touch(room, "a")
        assert evict_now(room, "a")

        assert room.stats().hook_failures == 1
        assert room.stats().restarts == 0
        touch(room, "a")


def test_a_proxy_without_release_gets_close() -> None:
    """S1"""
    closed: list[str] = []

    class Proxy:
        def __getattr__(self, name: str) -> Any:
            if name == "close":
                return lambda: closed.append(name)
            raise AttributeError(name)

    with Greenroom(lambda _: Proxy()) as room:
        touch(room, "a")
        evict_now(room, "a")

        assert closed == ["close"]


def test_a_build_that_returns_nothing_has_failed() -> None:
    """T5"""
    with Greenroom(lambda _: None) as room, pytest.raises(BuildFailed, match="None"):
        touch(room, "a")


def test_an_agent_that_is_adopted_again_is_only_given_another_signature(room: Greenroom) -> None:
    agent = object()
    one, other = AgentSpec("one"), AgentSpec("other")
    room.adopt("a", agent, one)
    room.adopt("a", agent, other)

    with room.turn("a", other) as turn:
        assert turn.agent is agent
    assert room.stats().releases == 0


def test_a_prepare_that_returns_an_awaitable_is_awaited_in_a_thread_too() -> None:
    """I4"""
    prepared: list[str] = []

    async def prepare_later(turn: Turn) -> None:
        prepared.append(turn.key)

    with Greenroom(RecordingAgent, prepare=lambda _, turn: prepare_later(turn)) as room:
        touch(room, "a")

    assert prepared == ["a"]


# Time.


def test_a_session_that_is_used_again_does_not_expire() -> None:
    """S6, C4"""
    clock = ManualClock()
    runtime = Runtime(clock=clock)
    room = Greenroom(RecordingAgent, policy=Policy(session_ttl=60.0), runtime=runtime)
    touch(room, "a")
    clock.advance(100.0)
    with room.turn("a"):
        room.settings("a")["model"] = "large"
        room._context.cards["a"].ref.tell(ReleaseAgent(number=1, reason=Reason.SESSION_EXPIRED))

    room.settle()
    assert room.settings("a")["model"] == "large"
    room.close(0.0)
    runtime.close()


@pytest.mark.parametrize("timeout", ["5", float("inf"), float("nan"), -1.0, True])
def test_a_timeout_that_is_no_time_is_refused_and_harms_nobody(room: Greenroom, timeout: Any) -> None:
    touch(room, "a")
    with pytest.raises(ValueError, match="timeout"):
        room.commit("a", timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        room.turn("a", timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        room.session("a").commit(timeout=timeout).get()
    with pytest.raises(ValueError, match="deadline"):
        room.drain(timeout)

    assert room.commit("a")
    assert room.stats().restarts == 0


# Drain and close.


def test_wedged_commits_leave_workers_for_the_others_in_a_drain() -> None:
    """D2"""
    wedged = threading.Event()

    class Agent(RecordingAgent):
        def commit_memory_session(self) -> None:
            if self.key.startswith("wedged"):
                wedged.wait(PATIENCE)
            super().commit_memory_session()

    clock = ManualClock()
    runtime = Runtime(workers=2, clock=clock)
    room = Greenroom(Agent, runtime=runtime)
    touch(room, *(f"wedged:{n}" for n in range(20)), *(f"good:{n}" for n in range(5)))
    reports: list[DrainReport] = []
    draining = in_thread(lambda: reports.append(room.drain(30.0)))
    until(lambda: room.stats().known == 20)
    clock.advance(31.0)
    draining.join(PATIENCE)
    wedged.set()

    (report,) = reports
    assert report.committed == tuple(f"good:{n}" for n in range(5))
    assert len(report.abandoned) == 20
    room.close()
    runtime.close()


def test_an_agent_whose_build_outlasts_the_room_is_closed() -> None:
    building, built = Gate(), RecordingBuild()

    def build(context: BuildContext) -> RecordingAgent:
        building.wait()
        return built(context)

    room = Greenroom(build)
    waiting = in_thread(lambda: touch_and_be_refused(room))
    building.wait_reached()
    room.close(0.0)
    building.open()
    waiting.join(PATIENCE)

    until(lambda: built.agents and built.agents[0].calls == ["shutdown_memory_provider", "close"])


def touch_and_be_refused(room: Greenroom) -> None:
    with pytest.raises(RoomClosed):
        touch(room, "a")


def test_listeners_hear_of_the_end() -> None:
    events: list[Event] = []
    with Greenroom(RecordingAgent) as room:
        room.events(events.append)
        touch(room, *"abcde")

    kinds = [event.kind for event in events]
    assert [kinds.count(kind) for kind in ("build", "commit", "close", "end")] == [5, 5, 5, 5]


def test_a_resource_that_is_made_after_its_session_ended_is_closed() -> None:
    """S2"""
    clock, making, closed = ManualClock(), Gate(), list[str]()

    def make() -> str:
        making.wait()
        return "sandbox"

    def build(context: BuildContext) -> RecordingAgent:
        context.resources.get("sandbox", make, close=closed.append)
        return RecordingAgent(context)

    runtime = Runtime(clock=clock)
    room = Greenroom(build, policy=Policy(build_timeout=5.0), runtime=runtime)
    waiting = in_thread(lambda: expect(BuildFailed, lambda: touch(room, "a")))
    making.wait_reached()
    clock.advance(5.0)
    until(lambda: room.stats().build_failures == 1)
    room.end("a")
    making.open()
    waiting.join(PATIENCE)

    until(lambda: closed == ["sandbox"])
    room.close(0.0)
    runtime.close()


def expect(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call()


# Actors that fail.


@pytest.mark.parametrize("failures", range(1, 13))
@pytest.mark.parametrize("failed_before", [0, 1, 2])
def test_a_session_that_fails_while_it_says_that_it_failed_too_often_still_answers(
    build: RecordingBuild, monkeypatch: pytest.MonkeyPatch, failed_before: int, failures: int
) -> None:
    """Invariant 5: it forgot, and left out what it had failed on: the answer of a turn, say."""
    planted = [None] * failed_before

    def _retry_commit(*_: Any) -> None:
        if planted:
            planted.pop()
            raise OSError("planted")

    monkeypatch.setattr(Session, "_retry_commit", _retry_commit)
    runtime, outcomes = FaultyRuntime(), list[str]()
    room = Greenroom(build, runtime=runtime)
    touch(room, "a")
    room.evict("a")
    room.settle(PATIENCE)
    room.session("a").actor_ref.tell(Call(Session._retry_commit))  # type: ignore[call-arg]  # of whichever session gets it
    runtime.fail_next("effect", failures)

    def take_turn() -> None:
        try:
            touch(room, "a")
        except (SessionFailed, InjectedFault) as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("turn")

    join_all([in_thread(take_turn)])
    assert len(outcomes) == 1
    assert planted == []
    runtime.fail_next("effect", 0)
    room.end("a", interrupt=True)
    room.settle(PATIENCE)
    touch(room, "a")
    room.close()
    runtime.close()


class FailsOn(Runtime):
    """A runtime on which the next effects of these kinds fail, in this order, so many seconds apart."""

    def __init__(self, *kinds: str, apart: float = 0.0) -> None:
        self.time = ManualClock()
        super().__init__(clock=self.time)
        self.kinds = list(kinds)
        self.apart = apart

    def fault_point(self, name: str) -> None:
        mailbox = LOCAL.state.running
        assert mailbox is not None
        assert mailbox.outbox
        if self.kinds and type(mailbox.outbox[0]).__name__ == self.kinds[0]:
            self.time.advance(self.apart)
            raise InjectedFault(self.kinds.pop(0))


def try_turn(room: Greenroom) -> list[str]:
    outcomes: list[str] = []

    async def take_turn() -> None:
        try:
            async with room.turn("a"):
                outcomes.append("turn")
        except SessionFailed:
            outcomes.append("failed")

    join_all([in_thread(lambda: asyncio.run(take_turn()))])
    return outcomes


@pytest.mark.parametrize("apart", [0.0, 3.0], ids=["at once", "in a long time"])
@pytest.mark.parametrize("failures", [1, 3, 4, 5])
@pytest.mark.parametrize("kind", ["Answer", "Build", "Grant", "Insert", "Tell"])
def test_whatever_a_session_fails_on_for_good_whoever_waits_is_answered(
    build: RecordingBuild, kind: str, failures: int, apart: float
) -> None:
    """Invariant 5"""
    runtime = FailsOn(*[kind] * failures, apart=apart)
    room = Greenroom(build, runtime=runtime)

    assert try_turn(room) == ["failed" if failures > 3 else "turn"]
    runtime.kinds.clear()
    assert room.stats().failed == (failures > 3)
    room.end("a", interrupt=True)
    room.settle(PATIENCE)
    touch(room, "a")
    assert room.close(PATIENCE).abandoned == ()
    runtime.close()


def test_a_session_that_fails_on_this_and_that_fails_too_often_as_well(build: RecordingBuild) -> None:
    runtime = FailsOn("Build", "Tell", "Insert", "Grant")
    room = Greenroom(build, runtime=runtime)

    assert try_turn(room) == ["failed"]
    assert runtime.kinds == []
    assert room.stats().failed == 1
    room.close(PATIENCE)
    runtime.close()


# What is kept, and what is shown.


def test_a_crash_keeps_no_agent_alive(build: RecordingBuild, caplog: pytest.LogCaptureFixture) -> None:
    """C8"""
    # What is logged is kept, and with the exception the frames of whoever brought the message.
    caplog.set_level(logging.CRITICAL + 1, "greenroom.actors")
    runtime = FaultyRuntime()
    room = Greenroom(build, runtime=runtime)
    runtime.fail_next("effect")
    with room.turn("a") as turn:
        agent = weakref.ref(turn.agent)
    evict_now(room, "a")
    build.agents.clear()

    wait_dead(agent)
    room.close()
    runtime.close()


def test_an_agent_whose_release_raised_is_let_go_without_a_collection() -> None:
    """C8"""
    alive: list[weakref.ref[Any]] = []

    class Agent:
        def release_clients(self) -> None:
            raise OSError("no")

    def build(_: BuildContext) -> Agent:
        agent = Agent()
        alive.append(weakref.ref(agent))
        return agent

    with Greenroom(build) as room:
        gc.disable()
        try:
            touch(room, "a")
            evict_now(room, "a")
            until(lambda: alive[0]() is None)
        finally:
            gc.enable()


def test_a_policy_that_is_changed_through_the_proxy_holds_at_once(room: Greenroom) -> None:
    """C5"""
    held = [room.turn(key) for key in "abcd"]
    for turn in held:
        turn.__enter__()
    room.supervisor.configure(cap=1).get()
    for turn in held:
        turn.__exit__(None, None, None)
    room.settle()

    assert len(room) == 1


def test_no_message_shows_a_secret() -> None:
    """I3"""
    begin = BeginTurn(
        spec={"api_key": "sk-secret"},
        signature=None,
        session_id="s",
        reject=False,
        timeout=None,
        held=(),
        loop=None,
    )

    assert "sk-secret" not in repr(begin)
    assert "sk-secret" not in repr(UseSettings(method="__setitem__", args=("key", "sk-secret")))


def test_a_listener_must_be_a_plain_function(room: Greenroom) -> None:
    async def listener(event: Event) -> None: ...

    with pytest.raises(TypeError, match="plain function"):
        room.events(listener)


def test_an_async_factory_of_a_resource_is_refused() -> None:
    async def make() -> str:
        return "sandbox"

    def build(context: BuildContext) -> RecordingAgent:
        context.resources.get("sandbox", make).close()
        return RecordingAgent(context)

    with Greenroom(build) as room, pytest.raises(BuildFailed, match="async"):
        touch(room, "a")


def test_a_listeners_actor_that_fails_goes_on_with_the_next_event(
    room: Greenroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce, failures = Announcer._announce, [1]

    def fail_once(announcer: Announcer) -> None:
        if failures:
            failures.pop()
            raise OSError("planted")
        announce(announcer)

    events: list[Event] = []
    room.events(events.append)
    monkeypatch.setattr(Announcer, "_announce", fail_once)
    touch(room, "a", "b")

    until(lambda: [event.key for event in events if event.kind == "build"] == ["a", "b"])


# Threads that meet in the wrong moment.


def test_a_resource_that_is_asked_for_as_the_session_ends_is_refused() -> None:
    """S2: else it would be made, and closed by nobody."""
    resources = Resources("a")

    class Ending(dict[str, Any]):
        def setdefault(self, name: str, mine: Any = None) -> Any:
            assert resources.take_all() == []
            return super().setdefault(name, mine)

    resources._made = Ending()

    with pytest.raises(RoomClosed, match="has ended"):
        resources.get("sandbox", lambda: "made", close=print)
    assert len(resources) == 0


def test_a_resource_that_the_end_of_its_session_took_before_it_was_made_is_not_made() -> None:
    resources, made = Resources("a"), list[str]()
    closers: list[Any] = []

    class Ending(dict[str, Any]):
        def setdefault(self, name: str, mine: Any = None) -> Any:
            there = super().setdefault(name, mine)
            closers.extend(resources.take_all())
            return there

    resources._made = Ending()

    with pytest.raises(RoomClosed, match="has ended"):
        resources.get("sandbox", lambda: "made", close=made.append)
    for _, close in closers:
        close()
    assert (len(closers), made) == (1, [])


def test_a_factory_that_fails_after_its_session_has_ended_lets_nobody_wait() -> None:
    resources, making = Resources("a"), Gate()
    heard: list[BaseException] = []

    def make() -> str:
        making.wait()
        raise OSError("no sandbox")

    def ask() -> None:
        try:
            resources.get("sandbox", make)
        except OSError as error:
            heard.append(error)

    threads = [in_thread(ask)]
    making.wait_reached()
    future = resources._made["sandbox"][0]
    threads.append(in_thread(ask))
    until(lambda: future._callbacks)
    resources.take_all()
    making.open()
    join_all(threads)

    assert [str(error) for error in heard] == ["no sandbox"] * 2


def test_a_drain_that_finds_the_room_closed_by_another_thread_has_its_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D4"""
    room, late = Greenroom(RecordingAgent), Gate()
    touch(room, "a")
    reports: list[DrainReport] = []

    def held_around(_: object) -> tuple[()]:
        if threading.current_thread().name == "late":
            late.wait()
        return ()

    monkeypatch.setattr("greenroom._ending.held_around", held_around)
    thread = threading.Thread(target=lambda: reports.append(room.drain()), name="late")
    thread.start()
    late.wait_reached()
    report = room.close()
    late.open()
    thread.join(PATIENCE)

    assert reports == [report]


def test_a_close_in_the_middle_of_a_close_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a signal handler it would wait for the very frame that it interrupted."""
    room = Greenroom(RecordingAgent)
    reports: list[DrainReport] = []
    monkeypatch.setattr(room._ending, "flush_events", lambda _: reports.append(room.close()))

    assert reports == [room.close()]
    assert room._line.closed


def test_a_close_that_was_interrupted_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """K1"""
    room, raised, gate = Greenroom(RecordingAgent), threading.Event(), threading.Event()

    def strike_once(*_: object) -> None:
        if not raised.is_set():
            raised.set()
            raise KeyboardInterrupt

    def interrupted(_: float) -> None:
        ident = threading.main_thread().ident  # which waits for this thread, now or soon
        assert ident is not None
        while not raised.wait(0.01):
            signal.pthread_kill(ident, signal.SIGUSR1)
        assert gate.wait(PATIENCE)

    monkeypatch.setattr(room._ending, "flush_events", interrupted)
    before = signal.signal(signal.SIGUSR1, strike_once)
    try:
        with pytest.raises(KeyboardInterrupt):
            room.close()
        assert not room._line.closed
        gate.set()
        room.close()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert room._line.closed


def test_stats_that_are_asked_for_while_the_room_closes_are_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Greenroom(RecordingAgent)
    touch(room, "a")
    ask = room._line.ask

    def ask_late(message: Any, default: Any) -> Any:
        monkeypatch.undo()
        room.close()
        return ask(message, default)

    monkeypatch.setattr(room._line, "ask", ask_late)

    assert room.stats().builds == 1


def test_a_listener_is_not_called_twice_at_once_when_its_actor_fails(
    room: Greenroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive, listening, heard, received = Announcer.on_receive, Gate(), list[str](), list[str]()

    def listen(event: Event) -> None:
        if event.kind == "build":
            heard.append(event.key)
            listening.wait()

    def fail_on_b(announcer: Announcer, message: Any) -> None:
        if getattr(message, "key", None) == "b":
            raise OSError("planted")
        receive(announcer, message)
        received.append(getattr(message, "key", ""))

    room.events(listen)
    touch(room, "a")
    listening.wait_reached()
    monkeypatch.setattr(Announcer, "on_receive", fail_on_b)
    touch(room, "b", "c")
    until(lambda: "c" in received)
    # What was given to a worker of that lane before this has begun by now.
    room.runtime.submit(int, lane="events").get(timeout=PATIENCE)

    assert heard == ["a"]
    listening.open()
    until(lambda: heard == ["a", "c"])


def test_a_listeners_actor_that_fails_on_the_news_of_a_call_goes_on(
    room: Greenroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, failed, heard = Announcer._go_on, list[str](), list[str]()

    def _go_on(announcer: Announcer) -> None:
        if announcer._called is not None and announcer._called.done() and not failed:
            failed.append("once")
            raise OSError("planted")
        go_on(announcer)

    monkeypatch.setattr(Announcer, "_go_on", _go_on)
    room.events(lambda event: heard.append(event.key))
    touch(room, "a")
    until(lambda: failed)
    touch(room, "b")

    until(lambda: "b" in heard)


def test_a_thread_that_was_begun_in_a_turn_which_is_over_is_in_none() -> None:
    """Though the system gives it the identity of the thread that was."""
    turn: Any = object()
    contexts: list[contextvars.Context] = []
    held: list[Any] = []

    def take_turn() -> None:
        entry = [turn, None, "a", LOCAL.state, None, None]
        entry[TOKEN] = HELD.set(entry)
        contexts.append(contextvars.copy_context())

    join_all([in_thread(take_turn)])
    for _ in range(20):
        join_all([in_thread(lambda: held.append(contexts[0].run(held_here)))])

    assert held == [()] * 20


@pytest.mark.long
@pytest.mark.skipif(sys.version_info < (3, 14), reason="threads inherit no context before Python 3.14")
def test_no_thread_of_ours_keeps_the_context_of_whoever_had_it_started() -> None:
    """As without a GIL, where they inherit one. It would be seen, and kept alive."""
    script = (
        "import contextvars, gc, threading, weakref\n"
        "from greenroom.actors import Runtime\n"
        "class Mine: pass\n"
        "var = contextvars.ContextVar('var', default=None)\n"
        "seen, ready = [], threading.Event()\n"
        "async def nothing(): pass\n"
        "def begin(runtime):\n"
        "    mine = Mine()\n"
        "    var.set(mine)\n"
        "    runtime.call_later(0.0, lambda: (seen.append(var.get()), ready.set()))\n"
        "    runtime.submit(int).get()\n"
        "    runtime.submit(nothing).get()\n"
        "    return weakref.ref(mine)\n"
        "with Runtime() as runtime:\n"
        "    kept = contextvars.copy_context().run(begin, runtime)\n"
        "    assert ready.wait(30)\n"
        "    gc.collect()\n"
        "    print(seen, kept(), threading.active_count())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-X", "thread_inherit_context=1", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (ended.stdout, ended.stderr) == ("[None] None 4\n", "")


def test_a_room_has_not_settled_while_what_has_ended_is_about_to_be_told() -> None:
    """1. a session's handler ends, and its card says that nothing is under way  2. settle() sees that
    3. the session tells the supervisor that an agent was released."""
    gate = Gate()

    class Notices(list[Any]):
        def append(self, item: Any) -> None:
            if isinstance(item[0], AgentReleased):
                gate.wait()
            super().append(item)

    with Greenroom(RecordingBuild()) as room:
        with room.turn("a"):
            pass
        room.settle()
        room._line.supervisor.actor_inbox.queue = Notices()
        evicting = in_thread(lambda: room.evict("a"))
        gate.wait_reached()
        settled = room.supervisor.settle()
        with pytest.raises(pykka.Timeout):
            settled.get(timeout=0.1)
        gate.open()
        assert settled.get(timeout=PATIENCE)
        assert room.stats().releases == 1
        join_all([evicting])


def test_a_drain_lets_other_threads_finish_their_tuples() -> None:
    """1. a thread builds a tuple from a generator  2. a drain lists all objects there are, and so refers
    to it  3. CPython resizes no tuple that has other references: the thread gets a `SystemError`."""
    enough, errors = threading.Event(), list[BaseException]()

    def build_tuples() -> None:
        try:
            while not enough.is_set():
                tuple(number for number in range(30))
        except BaseException as error:
            errors.append(error)

    async def main() -> None:
        builders = [in_thread(build_tuples) for _ in range(2)]
        try:
            for _ in range(15):
                room = Greenroom(RecordingBuild())
                async with room.turn("a"):
                    draining = in_thread(room.drain)
                    await asyncio.to_thread(until, lambda room=room: room.stats().draining)
                await asyncio.to_thread(draining.join, PATIENCE)
                await room.aclose()
        finally:
            enough.set()
            join_all(builders)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        asyncio.run(main())
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
