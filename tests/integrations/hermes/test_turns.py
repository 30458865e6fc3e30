"""Turns that really run, against an endpoint on loopback."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tools.interrupt import is_interrupted, set_interrupt

from greenroom import Reason
from greenroom.integrations.hermes import conclude, converse, converse_soon

KEY = "telegram:12345"


def test_a_turn_talks_to_the_model_and_the_next_one_goes_on(
    open_room: Any, spec: Any, endpoint: Any, database: Any
) -> None:
    """T1, I4"""
    room = open_room(session_db=database)
    with room.turn(KEY, spec(url=endpoint.url), session_id="s1") as turn:
        result = converse(turn, "hello")
    assert result["final_response"] == "test-model heard hello"
    with room.turn(KEY, spec(url=endpoint.url), session_id="s1") as turn:
        turn.agent.reasoning_config = {"enabled": True, "effort": "high"}
        result = converse(turn, "and again", conversation_history=result["messages"])
        assert turn.reused
    assert result["final_response"] == "test-model heard and again"
    assert turn.generation == 2

    first, second = endpoint.requests
    assert second["messages"][: len(first["messages"])] == first["messages"], "the prompt cache is lost"
    said = [message["content"] for message in database.get_messages_as_conversation("s1")]
    assert said == ["hello", "test-model heard hello", "and again", "test-model heard and again"]


def test_an_interrupt_ends_a_turn_that_waits_for_the_model(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T7"""
    room = open_room()
    endpoint.hold()
    results: list[Any] = []

    def run() -> None:
        with room.turn(KEY, spec(url=endpoint.url)) as turn:
            results.append(converse(turn, "hello"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    endpoint.wait_asked()
    assert room.end(KEY, interrupt=True)
    thread.join(60.0)
    assert not thread.is_alive()
    assert results[0]["interrupted"]
    assert "interrupt_message" not in results[0]
    endpoint.let_go()
    room.settle(60.0)
    assert KEY not in room


def test_an_interrupt_that_the_last_turn_left_behind_does_not_end_the_next(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T1"""
    room = open_room()
    with room.turn(KEY, spec(url=endpoint.url)) as turn:
        converse(turn, "hello")
        agent = turn.agent
    agent.interrupt("too late for the turn it was meant for")
    with room.turn(KEY, spec(url=endpoint.url)) as turn:
        assert turn.agent is agent
        assert not agent.is_interrupted
        result = converse(turn, "and again")
    assert result["final_response"] == "test-model heard and again"
    assert not result.get("interrupted")


def test_clearing_it_takes_away_nobody_elses(open_room: Any, spec: Any) -> None:
    room = open_room()
    with room.turn(KEY, spec()) as turn:
        agent = turn.agent
    here = threading.get_ident()
    agent._execution_thread_id = here  # it ran in this thread, which somebody else's agent has now
    set_interrupt(True, here)
    try:
        with room.turn(KEY, spec()):
            assert is_interrupted()
    finally:
        set_interrupt(False, here)


def test_what_counts_a_turn_begins_anew(open_room: Any, spec: Any) -> None:
    room = open_room()
    with room.turn(KEY, spec()) as turn:
        agent = turn.agent
    agent._last_activity_ts = 0.0
    agent._api_call_count = 7
    agent._last_flushed_db_idx = 42
    with room.turn(KEY, spec()):
        summary = agent.get_activity_summary()
        assert summary["seconds_since_activity"] < 10_000.0
        assert summary["api_call_count"] == 0
        assert agent._last_flushed_db_idx == 0


def test_an_agent_that_a_compression_took_elsewhere_is_left_as_it_is(open_room: Any, spec: Any) -> None:
    """T1: the gateway follows it, and calls the conversation what the agent calls it by now."""
    room = open_room()
    said = [{"role": "user", "content": "in short"}]
    with room.turn(KEY, spec(), session_id="s1") as turn:
        agent = turn.agent
        agent.session_id = "s1-continued"
        agent._session_messages = said
        agent._cached_system_prompt = "You are Hermes."
    with room.turn(KEY, spec(), session_id="s1-continued") as turn:
        assert turn.agent is agent
        assert agent._session_messages is said
        assert agent._cached_system_prompt == "You are Hermes."


def test_an_agent_that_goes_to_another_conversation_takes_nothing_there(
    open_room: Any, spec: Any
) -> None:
    """H3"""
    room = open_room()
    with room.turn(KEY, spec(), session_id="s1") as turn:
        agent = turn.agent
        agent._session_messages = [{"role": "user", "content": "hello"}]
        agent._cached_system_prompt = "This is conversation s1."
        agent._todo_store.write([{"id": "1", "content": "of s1", "status": "pending"}])
        agent.session_total_tokens = 1000
        agent._session_db_created = True
    with room.turn(KEY, spec(), session_id="s2") as turn:
        assert turn.agent is agent
        assert agent.session_id == "s2"
        assert agent._session_messages == []
        assert agent._cached_system_prompt is None
        assert agent._todo_store.read() == []
        assert agent.session_total_tokens == 0
        assert not agent._session_db_created


def test_an_own_prepare_comes_after(open_room: Any, spec: Any) -> None:
    """I4"""
    seen: list[Any] = []

    def prepare(agent: Any, turn: Any) -> None:
        seen.append(agent.is_interrupted)
        agent.status_callback = turn.session_id

    room = open_room(prepare=prepare)
    with room.turn(KEY, spec()) as turn:
        agent = turn.agent
    agent.interrupt()
    with room.turn(KEY, spec(), session_id="s2"):
        assert agent.status_callback == "s2"
    assert seen == [False, False]


def fallback_to(endpoint: Any) -> dict[str, str]:
    return {"provider": "custom", "model": "backup", "base_url": endpoint.url, "api_key": "test"}


def test_after_a_fallback_the_next_turn_tries_the_agents_own_model_again(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T6"""
    room = open_room()
    endpoint.fail("test-model", 403)
    its = spec(url=endpoint.url, fallback_model=fallback_to(endpoint))
    with room.turn(KEY, its) as turn:
        result = converse(turn, "hello")
    assert result["final_response"] == "backup heard hello"
    room.settle(60.0)
    assert KEY not in room

    endpoint.fail("test-model", 200)
    with room.turn(KEY, its) as turn:
        result = converse(turn, "hello")
        assert turn.rebuild_reason is Reason.DISCARD
    assert result["final_response"] == "test-model heard hello"
    assert KEY in room


def test_a_turn_that_failed_is_not_counted(open_room: Any, spec: Any, endpoint: Any) -> None:
    """T4"""
    room = open_room()
    endpoint.fail("test-model", 403)
    with room.turn(KEY, spec(url=endpoint.url)) as turn:
        result = converse(turn, "hello")
    assert result["failed"]
    assert not turn.completed
    assert not room.has_uncommitted(KEY)


def test_an_agent_whose_fallback_has_failed_too_is_kept_and_tries_its_own_model_first(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T4: another agent would fail in the same way, message after message."""
    room = open_room()
    endpoint.fail("test-model", 403)
    endpoint.fail("backup", 403)
    its = spec(url=endpoint.url, fallback_model=fallback_to(endpoint))
    with room.turn(KEY, its) as turn:
        assert converse(turn, "hello")["failed"]
        agent = turn.agent
    assert {request["model"] for request in endpoint.requests} == {"test-model", "backup"}
    room.settle(60.0)
    assert KEY in room

    endpoint.fail("test-model", 200)
    agent._rate_limited_until = 0.0  # for a minute, Hermes would not ask a model that has just refused
    with room.turn(KEY, its) as turn:
        assert turn.agent is agent
        assert converse(turn, "and again")["final_response"] == "test-model heard and again"
    room.settle(60.0)
    assert KEY in room


@pytest.mark.parametrize("failed", [False, True])
def test_whoever_runs_the_agent_otherwise_concludes_the_turn(
    open_room: Any, spec: Any, failed: bool
) -> None:
    """T4, T6"""
    room = open_room()
    with room.turn(KEY, spec()) as turn:
        turn.agent._fallback_activated = True
        conclude(turn, {"failed": failed})
    room.settle(60.0)
    assert turn.completed is not failed
    assert (KEY in room) is failed


def test_on_an_event_loop_a_turn_blocks_nobody(open_room: Any, spec: Any, endpoint: Any) -> None:
    async def main() -> tuple[Any, int]:
        ticks = 0
        async with room.turn(KEY, spec(url=endpoint.url)) as turn:
            endpoint.hold()
            work = asyncio.ensure_future(converse_soon(turn, "hello"))
            while not endpoint.asked.is_set():
                await asyncio.sleep(0)
                ticks += 1
            endpoint.let_go()
            return await work, ticks

    room = open_room()
    result, ticks = asyncio.run(main())
    assert result["final_response"] == "test-model heard hello"
    assert ticks > 0


def test_a_task_that_is_cancelled_keeps_the_agent_until_it_has_noticed(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T4, C4"""

    async def main() -> Any:
        begun: list[Any] = []

        async def turn_of_it() -> None:
            async with room.turn(KEY, spec(url=endpoint.url)) as turn:
                begun.extend((turn, turn.agent))
                await converse_soon(turn, "hello")

        endpoint.hold()
        task = asyncio.ensure_future(turn_of_it())
        await asyncio.to_thread(endpoint.wait_asked)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return begun

    room = open_room()
    turn, agent = asyncio.run(main())
    assert not turn.completed
    assert agent._inflight_turn_id is None, "the conversation was still running"
    endpoint.let_go()
    with room.turn(KEY, spec(url=endpoint.url)) as turn:
        assert turn.reused
        assert converse(turn, "and again")["final_response"] == "test-model heard and again"


def test_a_task_that_is_cancelled_before_a_thread_is_free_asks_the_model_nothing(
    open_room: Any, spec: Any, endpoint: Any
) -> None:
    """T4"""
    go = threading.Event()

    async def main() -> Any:
        begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def turn_of_it() -> None:
            async with room.turn(KEY, spec(url=endpoint.url)) as turn:
                begun.set_result(turn)
                await converse_soon(turn, "hello")

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        occupied = loop.run_in_executor(None, go.wait, 60.0)
        task = asyncio.ensure_future(turn_of_it())
        await begun
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not occupied.done(), "it was waited for"
        go.set()
        await loop.run_in_executor(None, bool)
        return begun.result()

    room = open_room()
    try:
        turn = asyncio.run(main())
    finally:
        go.set()
    assert not turn.completed
    assert not endpoint.requests
    with room.turn(KEY, spec(url=endpoint.url)) as turn:
        assert converse(turn, "and again")["final_response"] == "test-model heard and again"
