"""Whatever agents a factory makes, the room does with them what it would do unwatched."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from greenroom import AgentHooks, BuildContext, BuildFailed, Generation, Greenroom, Policy
from greenroom.stress._observations import Kind, Log
from greenroom.stress._watched import Roster, WatchedHooks, is_async, watched_build
from greenroom.testing import RecordingBuild, evict_now


class Watched:
    """A room whose agents are watched."""

    def __init__(self, factory: Any) -> None:
        self.log = Log()
        self.roster = Roster(self.log)
        build, hooks = watched_build(factory, self.roster), WatchedHooks(roster=self.roster)
        self.room = Greenroom(build, hooks=hooks, policy=Policy(cap=4))

    def seen(self) -> list[str]:
        return [seen.kind.name for seen in self.log.take()]


BUILT = ["BUILDING", "BUILT"]
TOLD = ["COMMIT", "COMMITTED", "TEARDOWN", "TORN"]


def a_turn_and_a_release(watched: Watched) -> list[str]:
    with watched.room:
        with watched.room.turn("a"):
            pass
        evict_now(watched.room, "a")
        return watched.seen()


def test_hooks_are_called_as_without_a_witness_and_each_is_seen() -> None:
    build = RecordingBuild()
    assert a_turn_and_a_release(Watched(build)) == BUILT + TOLD
    assert build.agents[0].calls == ["commit_memory_session", "release_clients"]


def test_a_close_calls_both_hooks_and_is_one_teardown() -> None:
    build = RecordingBuild()
    watched = Watched(build)
    with watched.room, watched.room.turn("a"):
        pass
    assert build.agents[0].calls == ["commit_memory_session", "shutdown_memory_provider", "close"]
    assert watched.seen() == BUILT + TOLD


def test_an_agent_that_is_not_torn_down_with_what_it_has_is_not_seen_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Invariant 6. Shutting its memory provider is no teardown, either."""

    class Agent:
        def shutdown_memory_provider(self) -> None:
            pass

        def release_clients(self) -> None:
            pass

    def only_the_memory(self: AgentHooks, agent: Any, **_: Any) -> Any:
        return [self.find(agent, "shutdown_memory")]

    monkeypatch.setattr(AgentHooks, "farewell", only_the_memory)
    assert a_turn_and_a_release(Watched(lambda _: Agent())) == [*BUILT, "COMMIT", "COMMITTED"]


def test_an_agent_that_is_released_and_closed_is_torn_down_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Invariant 6"""

    def both(self: AgentHooks, agent: Any, **_: Any) -> Any:
        return [self.find(agent, "release"), self.find(agent, "close")]

    monkeypatch.setattr(AgentHooks, "farewell", both)
    seen = a_turn_and_a_release(Watched(RecordingBuild()))
    assert seen.count("TEARDOWN") == 2


def test_a_hook_that_raises_is_seen_to_end_too() -> None:
    build = RecordingBuild()
    build.fails = {"release_clients": OSError("no"), "commit_memory_session": OSError("not yet")}
    watched = Watched(build)
    with watched.room:
        with watched.room.turn("a"):
            pass
        assert not watched.room.commit("a")
        (_, _, _, ended) = watched.log.take()
        assert (ended.kind, ended.what) == (Kind.COMMITTED, False)
        del build.fails["commit_memory_session"]
        evict_now(watched.room, "a")
        assert watched.seen() == TOLD


def test_an_async_hook_or_factory_that_cannot_be_called_is_seen_to_end_too() -> None:
    class Odd:
        async def commit_memory_session(self, one: Any, two: Any) -> None:
            """Nobody calls it with two."""

    async def build(_: BuildContext) -> Odd:
        return Odd()

    async def build_without_a_context() -> Odd:
        return Odd()

    watched = Watched(build)
    with watched.room:
        with watched.room.turn("a"):
            pass
        assert not watched.room.commit("a")
        assert watched.seen() == [*BUILT, "COMMIT", "COMMITTED"]
    watched = Watched(build_without_a_context)
    with watched.room, pytest.raises(BuildFailed), watched.room.turn("a"):
        pass
    assert watched.seen() == ["BUILDING", "UNBUILT"]


def test_async_hooks_run_on_the_loop_of_the_turn() -> None:
    loops: list[Any] = []

    class AsyncAgent:
        async def commit_memory_session(self) -> None:
            loops.append(asyncio.get_running_loop())

        async def release_clients(self) -> None:
            loops.append(asyncio.get_running_loop())

    async def build(_: BuildContext) -> AsyncAgent:
        loops.append(asyncio.get_running_loop())
        return AsyncAgent()

    async def main() -> list[str]:
        watched = Watched(build)
        async with watched.room as room:
            async with room.turn("a"):
                pass
            await room.session("a").evict()
            await room.supervisor.settle()
            assert loops == [asyncio.get_running_loop()] * 3
            return watched.seen()

    assert asyncio.run(main()) == BUILT + TOLD


def test_a_plain_function_that_returns_a_coroutine_is_awaited_before_it_counts_as_done() -> None:
    steps: list[str] = []
    during: list[str] = []

    class Agent:
        def commit_memory_session(self) -> Any:
            async def later() -> None:
                steps.append("committing")
                during.extend(watched.seen())

            return later()

    def build(_: BuildContext) -> Any:
        async def later() -> Agent:
            steps.append("built")
            return Agent()

        return later()

    watched = Watched(build)
    assert a_turn_and_a_release(watched) == ["COMMITTED", "TEARDOWN", "TORN"]
    assert during == [*BUILT, "COMMIT"]
    assert steps == ["built", "committing"]


def test_a_commit_hook_gets_the_generation_if_it_takes_one() -> None:
    tokens: list[int] = []

    class Agent:
        def commit_memory_session(self, generation: int) -> None:
            tokens.append(generation)

    watched = Watched(lambda _: Agent())
    with watched.room:
        for _ in range(3):
            with watched.room.turn("a"):
                pass
        watched.room.commit("a")
        seen = [one.what for one in watched.log.take() if one.kind is Kind.COMMIT]
    assert tokens == seen == [3]


def test_an_agent_without_hooks_is_seen_all_the_same() -> None:
    class Bare:
        __slots__ = ()

    assert a_turn_and_a_release(Watched(lambda _: Bare())) == BUILT + TOLD


def test_a_build_that_fails_or_returns_nothing_leaves_no_agent() -> None:
    def fails(_: BuildContext) -> Any:
        raise OSError("no")

    async def fails_later(_: BuildContext) -> Any:
        raise OSError("no")

    for factory in (fails, fails_later, lambda _: None):
        watched = Watched(factory)
        with watched.room, pytest.raises(BuildFailed), watched.room.turn("a"):
            pass
        assert watched.seen() == ["BUILDING", "UNBUILT"]


def test_an_agent_that_two_sessions_would_share_is_refused_with_a_reason() -> None:
    shared = object()
    watched = Watched(lambda _: shared)
    with watched.room:
        with watched.room.turn("a"):
            pass
        refused = pytest.raises(BuildFailed, match="returned for 'b' the agent that 'a' has")
        with refused, watched.room.turn("b"):
            pass


def test_the_witness_keeps_no_agent_alive() -> None:
    """C8"""
    gone: list[Any] = []

    class Agent:
        def release_clients(self) -> None:
            pass

    def build(_: BuildContext) -> Agent:
        agent = Agent()
        gone.append(weakref.ref(agent))
        return agent

    watched = Watched(build)
    a_turn_and_a_release(watched)
    gc.collect()
    assert gone[0]() is None
    assert watched.roster._there == {}


def test_an_async_hook_stays_async_and_a_plain_one_plain() -> None:
    """What is async takes no worker of the room."""

    class Mixed:
        async def commit_memory_session(self) -> None:
            pass

        def release_clients(self) -> None:
            pass

        async def shutdown_memory_provider(self) -> None:
            pass

        async def close(self) -> None:
            pass

    hooks, agent = WatchedHooks(roster=Roster(Log())), Mixed()
    commit = hooks.find_commit(agent, Generation(1, None))
    assert commit is not None
    assert is_async(commit)
    assert [is_async(hook) for _, hook in hooks.farewell(agent, close=False)] == [False]
    assert [is_async(hook) for _, hook in hooks.farewell(agent, close=True)] == [True, True]


def test_an_object_with_an_async_call_is_async() -> None:
    class Factory:
        async def __call__(self, context: BuildContext) -> object:
            return object()

    assert is_async(Factory())
    assert not is_async(object)
