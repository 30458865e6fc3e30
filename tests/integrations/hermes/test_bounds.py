"""How many real agents a room keeps, and which of them go."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from contextlib import ExitStack
from typing import Any

import pytest


def test_a_full_room_lets_the_oldest_go_for_one_more(open_room: Any, spec: Any) -> None:
    """C3"""
    room = open_room(cap=8)
    agents: list[Any] = []
    for number in range(8):
        with room.turn(f"s{number}", spec()) as turn:
            agents.append(turn.agent)
    room.settle()
    assert len(room) == 8

    with room.turn("new", spec()) as turn:
        assert turn.agent.client is not None
    room.settle(60.0)
    assert room.keys() == (*(f"s{number}" for number in range(1, 8)), "new")
    assert agents[0].client is None
    assert all(agent.client is not None for agent in agents[1:])


def test_the_next_turn_gets_the_very_same_agent(open_room: Any, spec: Any) -> None:
    """T1, C2"""
    room = open_room(cap=2)
    with room.turn("a", spec()) as turn:
        agent = turn.agent
    with room.turn("b", spec()):
        pass
    with room.turn("a", spec(reasoning_config={"effort": "high"}, max_iterations=7)) as turn:
        assert turn.agent is agent
        assert turn.reused
    with room.turn("c", spec()):
        pass
    room.settle(60.0)
    assert room.keys() == ("a", "c")


def test_where_all_are_in_a_turn_and_one_more_comes_nobody_is_torn_down(
    open_room: Any, spec: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C4, C5"""
    room = open_room(cap=4)
    with ExitStack() as stack, caplog.at_level(logging.WARNING, logger="greenroom"):
        turns = [stack.enter_context(room.turn(f"s{number}", spec())) for number in range(4)]
        turns.append(stack.enter_context(room.turn("new", spec())))
        room.settle(60.0)
        assert len(room) == 5
        assert room.stats().over_cap == 1
        assert all(turn.agent.client is not None for turn in turns)
    assert any("are in a turn and stay" in record.getMessage() for record in caplog.records)

    room.settle(60.0)
    assert len(room) == 4


@pytest.mark.timeout(900)
def test_eight_threads_that_insert_160_sessions_end_at_exactly_the_cap(
    open_room: Any, spec: Any, until: Any
) -> None:
    """C3, C8"""
    room = open_room(cap=16)
    begin = threading.Barrier(8)
    failures: list[BaseException] = []
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def insert(thread: int) -> None:
        try:
            begin.wait()
            for number in range(20):
                with room.turn(f"t{thread}-{number}", spec()) as turn:
                    assert turn.agent.client is not None
                    alive.add(turn.agent)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=insert, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(800.0)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    room.settle(60.0)

    stats = room.stats()
    assert (len(room), stats.builds, stats.releases) == (16, 160, 144)

    def all_others_are_gone() -> bool:
        gc.collect()  # and the threads that let them go may still be on their way home
        return len(alive) == 16

    until(all_others_are_gone, "16 agents alive")
    assert all(agent.client is not None for agent in alive)


def test_nothing_refers_to_an_agent_that_was_released(
    open_room: Any, spec: Any, endpoint: Any, until: Any, notebook: Any
) -> None:
    """C8"""
    from greenroom.integrations.hermes import converse

    room = open_room(memory=True)
    with room.turn("a", spec(url=endpoint.url)) as turn:
        converse(turn, "hello")
        released = weakref.ref(turn.agent)
    assert room.evict("a")
    room.settle(60.0)
    assert notebook.told[0][0] == "end"

    def is_gone() -> bool:
        gc.collect()
        return released() is None

    until(is_gone, "a dead weak reference")


def test_an_idle_agent_is_released_and_one_in_a_turn_is_not(
    open_room: Any, spec: Any, greenroom_clock: Any
) -> None:
    """C4, C6"""
    room = open_room(clock=greenroom_clock, idle_ttl=3600.0, sweep_every=None)
    with room.turn("idle", spec()) as turn:
        idle = turn.agent
    with room.turn("busy", spec()) as turn:
        greenroom_clock.advance(3601.0)
        assert room.sweep() == 1
        room.settle(60.0)
        assert turn.agent.client is not None
    assert room.keys() == ("busy",)
    assert idle.client is None


def test_an_adopted_agent_of_which_no_turn_is_known_is_left_alone(
    open_room: Any, spec: Any, greenroom_clock: Any
) -> None:
    """C6"""
    from run_agent import AIAgent

    room = open_room(clock=greenroom_clock, idle_ttl=3600.0, sweep_every=None)
    agent = AIAgent(
        base_url="https://model.invalid/v1",
        api_key="test",
        model="test-model",
        session_id="built-elsewhere",
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
    )
    agent._last_activity_ts = 0.0
    room.adopt("a", agent, spec(), session_id="built-elsewhere")
    greenroom_clock.advance(7200.0)
    assert room.sweep() == 0

    with room.turn("a", spec(), session_id="built-elsewhere") as turn:
        assert turn.agent is agent
    greenroom_clock.advance(3601.0)
    assert room.sweep() == 1
    room.settle(60.0)
    assert agent.client is None
