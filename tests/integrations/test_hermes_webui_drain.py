"""The drain of the drop-in, and its background threads."""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pykka import ActorDeadError

import greenroom.integrations.hermes_webui as lifecycle
from greenroom.integrations.hermes_webui import _drain
from greenroom.integrations.hermes_webui._desk import desk
from greenroom.integrations.hermes_webui._messages import Flush
from greenroom.integrations.hermes_webui._session import Session
from tests.actors.actors import PATIENCE, Gate
from tests.integrations.hermes_webui_agents import Agent, Called, lines, waiting_for
from tests.room.agents import until

if TYPE_CHECKING:
    from collections.abc import Iterator

SID = "20261115-a1"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    lifecycle._reset_for_tests()
    yield
    lifecycle._reset_for_tests()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is opened when the test is over, at the latest."""
    gate = Gate()
    yield gate
    gate.open()


def drain() -> None:
    lifecycle.drain_all_on_shutdown(deadline=PATIENCE)


# Commits


def test_nothing_to_drain_is_fine_and_so_is_a_second_drain() -> None:
    """D4"""
    drain()
    drain()


def test_a_drain_flushes_all_segments_oldest_first() -> None:
    """D1"""
    order: list[str] = []
    for name in ("first", "second", "third"):
        lifecycle.mark_turn_completed(SID, agent=Agent(lambda name=name: order.append(name)))
    drain()
    assert order == ["first", "second", "third"]
    assert lifecycle.has_uncommitted_work(SID) is False


def test_a_drain_waits_for_a_commit_in_flight_and_then_flushes_what_is_newer(gate: Gate) -> None:
    """D1"""
    agent = Agent(gate)
    lifecycle.mark_turn_completed(SID, agent=agent)
    commit = Called(lifecycle.commit_session_memory, SID)
    gate.wait_reached()
    lifecycle.mark_turn_completed(SID)
    draining = Called(drain)
    until(lambda: waiting_for(SID) == 1)
    assert agent.calls == 1
    gate.open()
    assert commit.answer() is True
    draining.answer()
    assert agent.calls == 2
    assert lifecycle.has_uncommitted_work(SID) is False


def test_a_hundred_sessions_are_drained_at_once() -> None:
    """D1"""
    together = threading.Barrier(100, timeout=PATIENCE)  # nobody's commit ends before all have begun
    agents = [Agent(together.wait) for _ in range(100)]
    for number, agent in enumerate(agents):
        lifecycle.mark_turn_completed(f"s{number}", agent=agent)
    drain()
    assert [agent.calls for agent in agents] == [1] * 100
    assert not any(lifecycle.has_uncommitted_work(f"s{number}") for number in range(100))


def test_a_provider_that_hangs_first_stops_no_other_session(gate: Gate) -> None:
    """D2"""
    lifecycle.mark_turn_completed("wedged", agent=Agent(gate))
    others = [f"s{number}" for number in range(20)]
    for session_id in others:
        lifecycle.mark_turn_completed(session_id, agent=Agent())
        lifecycle.mark_turn_completed(session_id, agent=Agent())
    draining = Called(drain)
    gate.wait_reached()
    until(lambda: not any(map(lifecycle.has_uncommitted_work, others)))
    assert draining.thread.is_alive()
    gate.open()
    draining.answer()
    assert lifecycle.has_uncommitted_work("wedged") is False


def test_a_drain_ends_at_its_deadline_and_names_what_hangs_which_counts_when_it_comes_back(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """D2"""
    agent = Agent(gate)
    lifecycle.mark_turn_completed("wedged", agent=agent)
    commit = Called(lifecycle.commit_session_memory, "wedged")
    gate.wait_reached()
    lifecycle.mark_turn_completed("wedged")
    with caplog.at_level(logging.WARNING, "greenroom.integrations"):
        lifecycle.drain_all_on_shutdown(deadline=0.05)
    assert [record.getMessage() for record in lines(caplog)] == [
        "Drained, but these sessions stay uncommitted: 'wedged'"
    ]
    gate.open()
    assert commit.answer() is True
    until(lambda: waiting_for("wedged") == 0)
    assert agent.calls == 1, "a drain whose time is over begins no commit"
    assert lifecycle.commit_session_memory("wedged", wait=True) is True
    assert lifecycle.has_uncommitted_work("wedged") is False


def test_a_drain_ends_at_its_deadline_if_the_hook_that_hangs_is_its_own(gate: Gate) -> None:
    """D2"""
    lifecycle.mark_turn_completed(SID, agent=Agent(gate))
    lifecycle.drain_all_on_shutdown(deadline=0.2)
    gate.open()
    lifecycle.commit_session_memory(SID, wait=True)
    assert lifecycle.has_uncommitted_work(SID) is False


def test_a_drain_without_time_begins_nothing() -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    lifecycle.drain_all_on_shutdown(deadline=0.0)
    assert agent.calls == 0
    assert lifecycle.has_uncommitted_work(SID) is True


def test_a_session_whose_commit_fails_stops_there_and_is_named_and_tried_by_the_next_drain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D2"""
    old, new, other = Agent(SystemExit(1)), Agent(), Agent()
    lifecycle.mark_turn_completed(SID, agent=old)
    lifecycle.mark_turn_completed(SID, agent=new)
    lifecycle.mark_turn_completed("other", agent=other)
    with caplog.at_level(logging.WARNING, "greenroom.integrations"):
        drain()
    assert (old.calls, new.calls, other.calls) == (1, 0, 1)
    assert SID in lines(caplog)[-1].getMessage()
    assert "other" not in lines(caplog)[-1].getMessage()
    drain()
    assert (old.calls, new.calls, other.calls) == (2, 1, 1)
    assert lifecycle.has_uncommitted_work(SID) is False


def test_a_session_that_nobody_can_commit_does_not_keep_the_drain() -> None:
    lifecycle.mark_turn_completed(SID)
    drain()
    assert lifecycle.has_uncommitted_work(SID) is True


def test_what_is_marked_while_the_drain_is_under_way_is_committed_too() -> None:
    committed: list[int] = []

    def extract(number: int) -> None:
        committed.append(number)
        if number < 5:
            agent = Agent(functools.partial(extract, number + 1))
            lifecycle.mark_turn_completed(f"s{number + 1}", agent=agent)

    lifecycle.mark_turn_completed("s0", agent=Agent(functools.partial(extract, 0)))
    drain()
    assert committed == [0, 1, 2, 3, 4, 5]
    assert not any(lifecycle.has_uncommitted_work(f"s{number}") for number in range(6))


def test_what_is_marked_while_a_provider_hangs_is_committed_too(gate: Gate) -> None:
    """D2"""
    lifecycle.mark_turn_completed("wedged", agent=Agent(gate))
    draining = Called(drain)
    gate.wait_reached()
    lifecycle.mark_turn_completed("late", agent=Agent())
    until(lambda: not lifecycle.has_uncommitted_work("late"))
    lifecycle.mark_turn_completed("late")
    until(lambda: not lifecycle.has_uncommitted_work("late"))
    assert draining.thread.is_alive()
    gate.open()
    draining.answer()


def test_a_session_that_is_held_up_itself_does_not_keep_a_drain_past_its_deadline(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """D2"""
    lifecycle.register_agent(SID, Agent())
    on_receive = Session.on_receive

    def held_up(self: Session, message: Any) -> Any:
        gate.wait()
        return on_receive(self, message)

    monkeypatch.setattr(Session, "on_receive", held_up)
    monkeypatch.setattr(_drain, "ANSWER", 0.01)
    asked = Called(lifecycle.has_uncommitted_work, SID)
    gate.wait_reached()
    with caplog.at_level(logging.WARNING, "greenroom.integrations"):
        Called(lifecycle.drain_all_on_shutdown, deadline=0.05).answer()
    assert SID in lines(caplog)[-1].getMessage()
    gate.open()
    assert asked.answer() is False


def test_a_session_that_was_discarded_and_begins_again_during_a_drain_is_committed_too(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1"""
    old, new = Agent(), Agent()
    on_receive = Session.on_receive

    def discarded(self: Session, message: Any) -> Any:
        if self.session_id == SID and isinstance(message, Flush):
            monkeypatch.undo()
            self.stop_now()
            raise ActorDeadError
        return on_receive(self, message)

    monkeypatch.setattr(Session, "on_receive", discarded)
    lifecycle.mark_turn_completed(SID, agent=old)
    lifecycle.mark_turn_completed("slow", agent=Agent(gate))
    draining = Called(drain)
    gate.wait_reached()
    assert lifecycle.mark_turn_completed(SID, agent=new) == 1
    until(lambda: not lifecycle.has_uncommitted_work(SID))
    gate.open()
    draining.answer()
    assert (old.calls, new.calls) == (0, 1)


def test_a_reset_ends_a_drain(gate: Gate) -> None:
    lifecycle.mark_turn_completed(SID, agent=Agent(gate))
    draining = Called(drain)
    gate.wait_reached()
    lifecycle._reset_for_tests()
    draining.answer()
    assert lifecycle._register_background_commit_thread(threading.Thread()) is True


@pytest.mark.parametrize("deadline", [-1.0, 0, float("nan")])
def test_a_drain_without_time_refuses_threads_all_the_same(deadline: float) -> None:
    lifecycle.drain_all_on_shutdown(deadline)
    assert lifecycle._register_background_commit_thread(threading.Thread()) is False


def test_a_drain_may_have_all_the_time_there_is() -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    lifecycle.drain_all_on_shutdown(float("inf"))
    assert agent.calls == 1


def test_after_a_drain_turns_are_marked_and_committed_as_before() -> None:
    agent = Agent()
    drain()
    assert lifecycle.mark_turn_completed(SID, agent=agent) == 1
    assert lifecycle.commit_session_memory(SID) is True
    lifecycle.mark_turn_completed(SID)
    drain()
    assert agent.calls == 2


# Background threads


def test_a_thread_is_registered_until_it_is_unregistered() -> None:
    thread = threading.Thread()
    assert lifecycle._register_background_commit_thread(thread) is True
    assert lifecycle._background_commit_threads == {thread}
    lifecycle._unregister_background_commit_thread(thread)
    lifecycle._unregister_background_commit_thread(thread)
    assert lifecycle._background_commit_threads == set()


def test_once_a_drain_has_begun_no_thread_is_registered_until_a_reset() -> None:
    thread = threading.Thread()
    threads = lifecycle._background_commit_threads
    drain()
    assert lifecycle._register_background_commit_thread(thread) is False
    assert threads == set()
    lifecycle._reset_for_tests()
    assert lifecycle._register_background_commit_thread(thread) is True
    assert lifecycle._background_commit_threads is threads
    assert threads == {thread}
    lifecycle._reset_for_tests()
    assert threads == set()


def test_a_drain_joins_the_threads_and_commits_what_they_have_marked(gate: Gate) -> None:
    agent = Agent()

    def work() -> None:
        gate.wait()
        lifecycle.mark_turn_completed(SID, agent=agent)

    thread = threading.Thread(target=work)
    lifecycle._register_background_commit_thread(thread)
    thread.start()
    draining = Called(drain)
    until(lambda: not lifecycle._background_commit_threads)
    gate.open()
    draining.answer()
    assert not thread.is_alive()
    assert agent.calls == 1


def test_a_thread_that_hangs_does_not_keep_a_drain_past_its_deadline(gate: Gate) -> None:
    """D2"""
    thread = threading.Thread(target=gate.wait)
    lifecycle._register_background_commit_thread(thread)
    thread.start()
    lifecycle.drain_all_on_shutdown(deadline=0.05)
    assert thread.is_alive()
    gate.open()
    thread.join(PATIENCE)


def test_a_drain_does_not_wait_for_a_thread_that_was_never_started_nor_for_its_own() -> None:
    lifecycle._register_background_commit_thread(threading.Thread())
    called: list[bool] = []

    def work() -> None:
        drain()
        called.append(True)

    thread = threading.Thread(target=work)
    lifecycle._register_background_commit_thread(thread)
    thread.start()
    thread.join(PATIENCE)
    assert called == [True]


# The lock of their set


def kept() -> int:
    """How many wait for the end of a hold."""
    registry: Any = desk().registry._actor_weakref()
    return len(registry._kept)


def test_whoever_holds_the_lock_has_the_threads_to_itself() -> None:
    first, second = threading.Thread(), threading.Thread()
    lifecycle._register_background_commit_thread(first)
    with lifecycle._background_commit_threads_lock:
        registering = Called(lifecycle._register_background_commit_thread, second)
        until(lambda: kept() == 1)
        assert lifecycle._background_commit_threads == {first}
        lifecycle._background_commit_threads.clear()
    assert registering.answer() is True
    assert lifecycle._background_commit_threads == {second}


def test_the_lock_is_held_by_one_at_a_time_in_the_order_they_came(gate: Gate) -> None:
    order: list[int] = []

    def hold(number: int) -> None:
        with lifecycle._background_commit_threads_lock:
            order.append(number)
            gate.wait()

    holding: list[Called] = []
    with lifecycle._background_commit_threads_lock:
        for number in range(5):
            holding.append(Called(hold, number))
            until(lambda: kept() == len(holding))
        assert order == []
    gate.wait_reached()
    assert (order, kept()) == ([0], 4)
    gate.open()
    for held in holding:
        held.answer()
    assert order == [0, 1, 2, 3, 4]


def test_a_thread_that_would_wait_for_itself_is_told() -> None:
    lock, itself = lifecycle._background_commit_threads_lock, "would wait for itself"
    with lock:
        with pytest.raises(RuntimeError, match=itself):
            lifecycle._register_background_commit_thread(threading.Thread())
        with pytest.raises(RuntimeError, match=itself), lock:
            pass
    assert lifecycle._register_background_commit_thread(threading.Thread()) is True


def test_a_lock_that_is_never_given_back_does_not_keep_a_drain() -> None:
    with lifecycle._background_commit_threads_lock:
        lifecycle.drain_all_on_shutdown(deadline=0.05)


def test_sessions_are_drained_while_somebody_holds_the_lock() -> None:
    lifecycle.mark_turn_completed(SID, agent=Agent())
    with lifecycle._background_commit_threads_lock:
        draining = Called(drain)
        until(lambda: not lifecycle.has_uncommitted_work(SID))
    draining.answer()
    assert lifecycle._register_background_commit_thread(threading.Thread()) is False


def test_a_reset_ends_a_hold_and_its_holder_disturbs_nobody() -> None:
    with lifecycle._background_commit_threads_lock:
        lifecycle._reset_for_tests()
        registering = Called(lifecycle._register_background_commit_thread, threading.Thread())
        assert registering.answer() is True
    with lifecycle._background_commit_threads_lock:
        assert kept() == 0
