"""A performance: a turn for one request, and every way in which it can end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom import BuildFailed, Overloaded, RoomClosed, SessionBusy, TurnTimeout
from greenroom.gateway import ChatRequest, Config, Stage
from greenroom.gateway._admission import Ticket, TooManySessions
from greenroom.gateway._naming import Caller
from greenroom.gateway._performance import Interrupted, Performance, TookTooLong
from tests.actors.actors import PATIENCE

ANNA = Caller("anna")


class Gate:
    """Where something stops until the test lets it go on. On one event loop."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.opened.wait()


class World:
    """A stage, and what happens on it. Agents say "one", pass the gate, and say "two"."""

    def __init__(self, **config: Any) -> None:
        self.gate = Gate()
        self.gate.opened.set()
        self.error: Exception | None = None
        self.make: Callable[[], Any] = lambda: Agent(self)
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.outcomes: list[BaseException | None] = []
        self.stage = Stage(Config(**config), lambda _, **__: self.make())
        self.stage.watchers.append(self)

    def began(self, performance: Performance) -> None:
        assert performance.began is not None

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        assert performance.caller is ANNA
        self.outcomes.append(error)

    def shut_gate(self) -> Gate:
        self.gate = Gate()
        return self.gate

    def perform(self, text: str, *, session: str, once: bool = False, **kwargs: Any) -> Performance:
        request = ChatRequest(messages=({"role": "user", "content": text},), ephemeral=once)
        return self.stage.performance(ANNA, session, request, **kwargs)

    async def say(self, text: str = "hello", *, session: str = "a", **kwargs: Any) -> str:
        async with self.perform(text, session=session, **kwargs) as performance:
            return "".join([str(piece) async for piece in performance])

    def say_soon(self, text: str = "hello", **kwargs: Any) -> asyncio.Task[str]:
        return asyncio.create_task(self.say(text, **kwargs))

    async def generation(self) -> int:
        return int((await self.stage.room.session("anna/a").describe()).generation)

    async def wait_for(self, waiting: int) -> None:
        while (await self.stage.admission.figures())[1] != waiting:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0)


class Agent:
    """Answers on the loop, and can be interrupted where it waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.interrupted = asyncio.Event()

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        text = str(request.messages[-1]["content"])
        self.world.asked.append(text)
        try:
            yield "one"
            await self.world.gate()
            if self.world.error is not None:
                raise self.world.error
            yield "two"
        finally:
            self.world.closed.append(text)


class Polite(Agent):
    """Ends its answer when it is interrupted."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        self.interrupted.clear()
        yield "one"
        gate = asyncio.ensure_future(self.world.gate())
        asked = asyncio.ensure_future(self.interrupted.wait())
        await asyncio.wait([gate, asked], return_when=asyncio.FIRST_COMPLETED)
        for future in (gate, asked):
            future.cancel()
        yield " and no more" if self.interrupted.is_set() else "two"

    def interrupt(self) -> None:
        self.interrupted.set()


class Deaf(Agent):
    """Has an interrupt() that does nothing."""

    async def interrupt(self) -> None:
        pass


class Untidy(Agent):
    """Fails, and then fails to clean up."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        try:
            yield "one"
            await self.world.gate()
            yield "two"
        finally:
            raise OSError("cannot clean up")


class Stubborn(Agent):
    """Does not want to end: its cleaning up takes for ever."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        try:
            yield "one"
            await self.world.gate()
            yield "two"
        finally:
            if not self.world.gate.opened.is_set():
                await asyncio.Event().wait()


class Threaded:
    """Answers on a thread, and waits there for a gate."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def answer(self, _: ChatRequest) -> Iterator[str]:
        yield "one"
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        yield "two"


class Obliging(Threaded):
    """Can be interrupted there."""

    def interrupt(self) -> None:
        self.opened.set()


def play(scene: Callable[[World], Awaitable[None]], **config: Any) -> None:
    """Play a scene, and see that nobody runs or waits afterwards, and that no turn is held."""

    async def run() -> None:
        world = World(**config)
        try:
            async with asyncio.timeout(PATIENCE):
                await scene(world)
                await world.stage.wait_chores()
            assert await world.stage.admission.figures() == (0, 0)
            assert (await world.stage.room.supervisor.stats()).in_turn == 0
        finally:
            await asyncio.to_thread(world.stage.close)

    asyncio.run(run())


def test_a_turn_is_answered_and_counts() -> None:
    async def scene(world: World) -> None:
        assert await world.say() == "onetwo"
        assert await world.say() == "onetwo"
        assert await world.generation() == 2
        assert world.outcomes == [None, None]

    play(scene)


def test_a_turn_whose_agent_fails_does_not_count_and_says_why() -> None:
    async def scene(world: World) -> None:
        world.error = OSError("no more")
        with pytest.raises(OSError, match="no more"):
            await world.say()
        world.error = None
        await world.say()
        assert await world.generation() == 1
        assert [type(outcome) for outcome in world.outcomes] == [OSError, type(None)]

    play(scene)


def test_a_build_that_fails_keeps_its_cause_and_the_next_one_may_try() -> None:
    async def scene(world: World) -> None:
        def fail() -> Any:
            raise KeyError("no such model")

        make, world.make = world.make, fail
        with pytest.raises(BuildFailed) as caught:
            await world.say()
        assert isinstance(caught.value.__cause__, KeyError)
        world.make = make
        assert await world.say() == "onetwo"

    play(scene)


def test_the_second_of_a_session_waits_for_the_first() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        first = world.say_soon("first")
        await gate.reached.wait()
        second = world.say_soon("second")
        await world.wait_for(1)
        assert world.asked == ["first"]
        gate.opened.set()
        await asyncio.gather(first, second)
        assert world.asked == ["first", "second"]

    play(scene)


def test_the_second_of_a_session_can_be_rejected() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        first = world.say_soon()
        await gate.reached.wait()
        with pytest.raises(SessionBusy):
            await world.say(busy="reject")
        gate.opened.set()
        await first

    play(scene)


def test_an_agent_that_can_be_interrupted_ends_its_answer_itself_and_the_turn_counts() -> None:
    async def scene(world: World) -> None:
        world.make = lambda: Polite(world)
        gate = world.shut_gate()
        first = world.say_soon()
        await gate.reached.wait()
        second = world.say_soon(busy="interrupt")
        assert await first == "one and no more"
        gate.opened.set()
        assert await second == "onetwo"
        assert await world.generation() == 2

    play(scene)


@pytest.mark.parametrize("kind", [Agent, Deaf])
def test_an_agent_that_cannot_is_cancelled_and_the_turn_does_not_count(kind: type[Agent]) -> None:
    async def scene(world: World) -> None:
        world.make = lambda: kind(world)
        gate = world.shut_gate()
        first = world.say_soon("first")
        await gate.reached.wait()
        world.gate = Gate()
        world.gate.opened.set()
        second = world.say_soon("second", busy="interrupt")
        with pytest.raises(Interrupted):
            await first
        assert await second == "onetwo"
        assert world.closed == ["first", "second"]
        assert await world.generation() == 1

    play(scene, interrupt_grace=0.01)


def test_whatever_stops_it_the_task_is_not_left_cancelled() -> None:
    async def scene(world: World) -> None:
        world.shut_gate()
        performance = world.perform("x", session="a")

        async def until_stopped() -> None:
            async with performance:
                async for _ in performance:
                    asyncio.get_running_loop().call_soon(performance.stop, Interrupted("enough"))

        async def run() -> int:
            with pytest.raises(Interrupted, match="enough"):
                await until_stopped()
            await asyncio.sleep(0)
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        assert await asyncio.create_task(run()) == 0

    play(scene)


def test_a_cancellation_from_outside_stays_one() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        task = world.say_soon()
        await gate.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.closed == ["hello"]
        assert [type(outcome) for outcome in world.outcomes] == [asyncio.CancelledError]

    play(scene)


def test_one_that_waits_for_too_long_is_told_so_and_leaves_the_queue() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        first = world.say_soon("first")
        await gate.reached.wait()
        # Not before: the first one's agent has to be built, and may take its time.
        world.stage.reconfigure(Config(wait_timeout=0.05))
        with pytest.raises(TurnTimeout):
            await world.say("second")
        gate.opened.set()
        await first
        assert world.asked == ["first"]

    play(scene)


def test_one_that_runs_for_too_long_is_stopped() -> None:
    async def scene(world: World) -> None:
        world.shut_gate()
        with pytest.raises(TookTooLong):
            await world.say()
        assert world.closed == ["hello"]

    play(scene, turn_timeout=0.05)


def test_one_whose_client_goes_while_it_is_built_leaves_the_agent_to_the_next() -> None:
    async def scene(world: World) -> None:
        begun, gate = threading.Event(), threading.Event()

        def slowly() -> Any:
            begun.set()
            assert gate.wait(PATIENCE)
            return Agent(world)

        world.make = slowly
        performance = world.perform("x", session="a")

        async def run() -> None:
            async with performance:
                pass

        task = asyncio.create_task(run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        performance.stop(Interrupted("gone"))
        with pytest.raises(Interrupted):
            await task
        gate.set()
        assert await world.say() == "onetwo"

    play(scene)


def test_an_agent_on_a_thread_is_waited_for_before_the_next_turn_gets_it() -> None:
    async def scene(world: World) -> None:
        agent = Obliging()
        world.make = lambda: agent
        task = world.say_soon()
        await asyncio.to_thread(agent.reached.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await world.stage.room.supervisor.stats()).cached == 1

    play(scene)


def test_an_agent_on_a_thread_that_does_not_come_back_is_let_go() -> None:
    """No two threads may use one agent."""

    async def scene(world: World) -> None:
        stuck = Threaded()
        agents: list[Any] = []

        def make() -> Any:
            agents.append(stuck if not agents else Agent(world))
            return agents[-1]

        world.make = make
        task = world.say_soon()
        await asyncio.to_thread(stuck.reached.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await world.say() == "onetwo"
        stuck.opened.set()

    play(scene, interrupt_grace=0.01)


def test_a_session_for_one_request_is_gone_after_it_and_is_never_committed() -> None:
    async def scene(world: World) -> None:
        assert await world.say(once=True) == "onetwo"
        await world.stage.wait_chores()
        assert await world.stage.room.supervisor.settle()
        stats = await world.stage.room.supervisor.stats()
        assert (stats.known, stats.commits) == (0, 0)

    play(scene)


def test_no_more_than_may_run_do_and_no_more_than_may_wait_do() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        first = world.say_soon(session="a")
        await gate.reached.wait()
        second = world.say_soon(session="b")
        await world.wait_for(1)
        with pytest.raises(Overloaded):
            await world.say(session="c")
        gate.opened.set()
        await asyncio.gather(first, second)

    play(scene, max_running=1, max_waiting_total=1)


def test_a_drain_refuses_those_who_wait_and_lets_those_who_run_end() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        first = world.say_soon()
        await gate.reached.wait()
        second = world.say_soon()
        await world.wait_for(1)
        draining = asyncio.create_task(world.stage.drain(PATIENCE))
        with pytest.raises(RoomClosed):
            await second
        with pytest.raises(RoomClosed):
            await world.say(session="b")
        gate.opened.set()
        assert await first == "onetwo"
        assert (await draining).committed == ("anna/a",)

    play(scene)


def test_other_settings_hold_for_the_next_turn() -> None:
    async def scene(world: World) -> None:
        await world.say()
        config = Config(agent_options={"mood": "better"}, max_running=3)
        world.make = lambda: Agent(world)
        await asyncio.to_thread(world.stage.reconfigure, config)
        await world.say()
        assert (await world.stage.room.supervisor.stats()).rebuilds == 1

    play(scene)


def test_an_answer_that_cannot_clean_up_does_not_keep_its_session() -> None:
    async def scene(world: World) -> None:
        world.make = lambda: Untidy(world)
        gate = world.shut_gate()
        task = world.say_soon()
        await gate.reached.wait()
        task.cancel()
        with pytest.raises((OSError, asyncio.CancelledError)):
            await task
        gate.opened.set()
        with pytest.raises(OSError, match="cannot clean up"):
            await world.say()

    play(scene)


def test_an_answer_that_does_not_end_is_cancelled_again_and_its_agent_let_go() -> None:
    async def scene(world: World) -> None:
        world.make = lambda: Stubborn(world)
        gate = world.shut_gate()
        first = world.say_soon()
        await gate.reached.wait()
        second = world.say_soon(busy="interrupt")
        with pytest.raises(Interrupted):
            await first
        world.gate.opened.set()
        assert await second == "onetwo"
        assert (await world.stage.room.supervisor.stats()).builds == 2

    play(scene, interrupt_grace=0.05)


def test_an_interrupt_hook_that_blocks_holds_up_nobody() -> None:
    async def scene(world: World) -> None:
        blocked, release = threading.Event(), threading.Event()

        class Slow(Agent):
            def interrupt(self) -> None:
                blocked.set()
                assert release.wait(PATIENCE)

        world.make = lambda: Slow(world)
        gate = world.shut_gate()
        first = world.say_soon(session="a")
        await gate.reached.wait()
        assert await world.stage.interrupt("anna/a")
        await asyncio.to_thread(blocked.wait, PATIENCE)
        gate.opened.set()
        assert await world.say(session="b") == "onetwo"
        release.set()
        assert await first == "onetwo"

    play(scene, interrupt_grace=PATIENCE)


def test_sessions_whose_agent_could_not_be_built_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.gateway._stage.RECOUNT_EVERY", 0.0)

    async def scene(world: World) -> None:
        def fail() -> Any:
            raise KeyError("no such model")

        make, world.make = world.make, fail
        for session in "abc":
            with pytest.raises(BuildFailed):
                await world.say(session=session)
        world.make = make
        for session in "de":
            assert await world.say(session=session) == "onetwo"
        with pytest.raises(TooManySessions):
            await world.say(session="f")

    play(scene, max_sessions_per_token=2)


def test_a_turn_that_was_ended_by_force_is_not_said_to_be_well() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        task = world.say_soon()
        await gate.reached.wait()
        await world.stage.drain(0.05)
        gate.opened.set()
        with pytest.raises(RoomClosed):
            await task

    play(scene)


def test_an_interrupt_that_comes_late_never_reaches_the_next_turn() -> None:
    """The turn may have ended by itself meanwhile: its agent is not given back with the hook at it."""

    async def scene(world: World) -> None:
        called, release = threading.Event(), threading.Event()

        class Slow(Agent):
            def interrupt(self) -> None:
                called.set()
                assert release.wait(PATIENCE)

        world.make = lambda: Slow(world)
        gate = world.shut_gate()
        first = world.say_soon("first")
        await gate.reached.wait()
        second = world.say_soon("second", busy="interrupt")
        await asyncio.to_thread(called.wait, PATIENCE)
        gate.opened.set()
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert world.asked == ["first"]
        release.set()
        assert [await first, await second] == ["onetwo", "onetwo"]
        assert (await world.stage.room.supervisor.stats()).builds == 1

    play(scene, interrupt_grace=PATIENCE)


def test_an_agent_whose_interrupt_hook_does_not_return_is_let_go() -> None:
    async def scene(world: World) -> None:
        called, release = threading.Event(), threading.Event()

        class Slow(Agent):
            def interrupt(self) -> None:
                called.set()
                assert release.wait(PATIENCE)

        world.make = lambda: Slow(world)
        gate = world.shut_gate()
        first = world.say_soon("first")
        await gate.reached.wait()
        assert await world.stage.interrupt("anna/a")
        await asyncio.to_thread(called.wait, PATIENCE)
        gate.opened.set()
        # Not before: the turn itself is to end, however long its hook took to be called.
        world.stage.reconfigure(Config(interrupt_grace=0.05))
        assert await first == "onetwo"
        assert await world.say("second") == "onetwo"
        assert (await world.stage.room.supervisor.stats()).builds == 2
        release.set()

    play(scene, interrupt_grace=PATIENCE)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration()])
def test_an_interrupt_hook_may_raise_what_it_likes(error: BaseException) -> None:
    async def scene(world: World) -> None:
        class Rude(Agent):
            def interrupt(self) -> None:
                raise error

        world.make = lambda: Rude(world)
        world.shut_gate()
        first = world.say_soon("first")
        await world.gate.reached.wait()
        assert await world.stage.interrupt("anna/a")
        with pytest.raises(Interrupted):
            await first

    play(scene, interrupt_grace=0.05)


def test_what_an_agent_makes_of_being_stopped_is_not_what_is_told() -> None:
    async def scene(world: World) -> None:
        class Wrapping(Agent):
            async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
                try:
                    await self.world.gate()
                except asyncio.CancelledError:
                    raise OSError("the connection was closed") from None
                yield "never"

        world.make = lambda: Wrapping(world)
        world.shut_gate()
        with pytest.raises(TookTooLong):
            await world.say()

    play(scene, turn_timeout=0.05)


def test_a_cancellation_from_outside_weighs_more_than_what_stopped_it() -> None:
    async def scene(world: World) -> None:
        gate = world.shut_gate()
        performance = world.perform("x", session="a")

        async def run() -> None:
            async with performance:
                async for _ in performance:
                    pass

        task = asyncio.create_task(run())
        await gate.reached.wait()
        performance.stop(Interrupted("enough"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(scene)


@pytest.mark.parametrize("threaded", [False, True])
def test_an_agent_that_wants_to_exit_does_not_end_the_server(threaded: bool) -> None:
    async def scene(world: World) -> None:
        class Leaving(Agent):
            async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
                yield "one"
                raise SystemExit(3)

        class LeavingThread:
            def answer(self, _: ChatRequest) -> Iterator[str]:
                yield "one"
                raise SystemExit(3)

        world.make = LeavingThread if threaded else lambda: Leaving(world)
        with pytest.raises(RuntimeError, match="SystemExit"):
            await world.say()

    play(scene)


def test_an_agent_on_a_thread_is_let_go_if_nobody_waits_for_its_end() -> None:
    async def scene(world: World) -> None:
        stuck = Threaded()
        agents: list[Any] = []

        def make() -> Any:
            agents.append(stuck if not agents else Agent(world))
            return agents[-1]

        world.make = make
        task = world.say_soon()
        await asyncio.to_thread(stuck.reached.wait, PATIENCE)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await world.say() == "onetwo"
        stuck.opened.set()

    play(scene, interrupt_grace=PATIENCE)


def test_a_session_for_one_request_that_never_began_does_not_count() -> None:
    async def scene(world: World) -> None:
        await world.stage.recount()  # so that nobody counts again for a while
        gate = world.shut_gate()
        first = world.say_soon(session="a")
        await gate.reached.wait()
        for number in range(3):
            performance = world.perform("x", session=f"once-{number}", once=True)

            async def run(performance: Performance = performance) -> None:
                async with performance:
                    pass

            task = asyncio.create_task(run())
            await world.wait_for(1)
            performance.stop(Interrupted("gone"))
            with pytest.raises(Interrupted):
                await task
        gate.opened.set()
        await first
        assert await world.say(session="b") == "onetwo"

    play(scene, max_sessions_per_token=2, max_running=1)


def test_a_session_for_one_request_that_could_not_be_built_does_not_count() -> None:
    async def scene(world: World) -> None:
        await world.stage.recount()  # so that nobody counts again for a while

        def fail() -> Any:
            raise KeyError("no such model")

        make, world.make = world.make, fail
        for number in range(3):
            with pytest.raises(BuildFailed):
                await world.say(session=f"once-{number}", once=True)
            await world.stage.wait_chores()
        world.make = make
        assert await world.say() == "onetwo"

    play(scene, max_sessions_per_token=1)


def test_all_who_come_while_sessions_are_counted_wait_for_that() -> None:
    async def scene(world: World) -> None:
        for session in "ab":
            await world.say(session=session)
        for session in "ab":
            await asyncio.to_thread(world.stage.room.end, f"anna/{session}")
        snapshot, gate, counting = world.stage.room.snapshot, threading.Event(), threading.Event()
        await asyncio.to_thread(world.stage.room.settle)
        await asyncio.to_thread(world.stage.room._ending.flush_events, PATIENCE)
        for session in "ab":  # as if their end had not been heard of
            await world.stage.admission.enter(ticket := Ticket("anna", f"anna/{session}", "queue", int))
            await world.stage.admission.leave(ticket)

        def slowly() -> Any:
            counting.set()
            assert gate.wait(PATIENCE)
            return snapshot()

        world.stage.room.snapshot = slowly  # type: ignore[method-assign]
        first = world.say_soon(session="c")
        await asyncio.to_thread(counting.wait, PATIENCE)
        second = world.say_soon(session="d")
        for _ in range(20):
            await asyncio.sleep(0.001)
        gate.set()
        assert [await first, await second] == ["onetwo", "onetwo"]

    play(scene, max_sessions_per_token=2)


def test_a_session_that_cannot_be_dropped_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        def fail(key: str) -> bool:
            raise OSError(f"no end of {key}")

        world.stage.room.end = fail  # type: ignore[method-assign,assignment]
        assert await world.say(once=True) == "onetwo"
        await world.stage.wait_chores()
        await asyncio.sleep(0)
        assert not world.stage.endings._expected

    play(scene)
    assert "A chore failed: no end of anna/a" in caplog.text


def test_a_configuration_that_is_refused_changes_nothing() -> None:
    async def scene(world: World) -> None:
        config = Config(agent_options={"what": object()}, max_running=1)
        with pytest.raises(TypeError, match="of the spec"):
            world.stage.reconfigure(config)
        gate = world.shut_gate()
        tasks = [world.say_soon(session=session) for session in "ab"]
        while len(world.asked) < 2:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.001)
        gate.opened.set()
        await asyncio.gather(*tasks)

    play(scene)


def test_a_session_for_one_request_is_dropped_again_if_the_room_has_not_let_go_of_it_yet(
    tmp_path: Path,
) -> None:
    async def scene(world: World) -> None:
        store = world.stage.room.store
        assert store is not None
        delete, tries = store.delete_session_soon, list[str]()

        async def refuse() -> bool:
            raise InUse

        def first_refuse(key: str) -> Any:
            tries.append(key)
            return refuse() if len(tries) == 1 else delete(key)

        store.delete_session_soon = first_refuse
        assert await world.say(once=True) == "onetwo"
        await world.stage.wait_chores()
        assert tries == ["anna/a", "anna/a"]
        assert await store.sessions_soon() == []

    play(scene, store=f"sqlite:///{tmp_path / 'x.db'}")


class InUse(Exception):
    """How a store says that somebody still needs a session."""

    in_use = True
