"""The drop-in under many threads, and what it lets go of."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import greenroom.integrations.hermes_webui as lifecycle
from greenroom.actors import ActorRegistry
from greenroom.integrations.hermes_webui import _desk
from greenroom.integrations.hermes_webui._desk import Desk, close_desk, desk
from greenroom.integrations.hermes_webui._directory import Directory
from greenroom.integrations.hermes_webui._messages import ForgetSession, HasUncommitted
from greenroom.integrations.hermes_webui._session import Session
from tests.actors.actors import PATIENCE, Gate, all_at_once
from tests.integrations.hermes_webui_agents import Agent, Called, actor_of, waiting_for
from tests.room.agents import until, wait_dead

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


def test_eight_threads_that_mark_one_session_get_a_generation_each() -> None:
    agent = Agent()
    generations: list[int] = []

    def mark() -> None:
        for _ in range(100):
            generations.append(lifecycle.mark_turn_completed(SID, agent=agent))

    all_at_once([mark] * 8)
    assert sorted(generations) == list(range(1, 801))
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 1


def test_commits_of_a_session_never_overlap_and_cover_everything() -> None:
    """G8"""
    inside = threading.Semaphore(1)

    def extract() -> None:
        assert inside.acquire(blocking=False), "two commits of one session at once"
        inside.release()

    agent = Agent(*[extract] * 400)

    def work() -> None:
        for _ in range(25):
            lifecycle.mark_turn_completed(SID, agent=agent)
            lifecycle.commit_session_memory(SID, wait=True)

    all_at_once([work] * 8)
    assert lifecycle.has_uncommitted_work(SID) is False
    assert agent.calls <= 200


def test_sixty_four_that_wait_are_all_answered(gate: Gate) -> None:
    agent = Agent(gate)
    lifecycle.mark_turn_completed(SID, agent=agent)
    commit = Called(lifecycle.commit_session_memory, SID)
    gate.wait_reached()
    lifecycle.mark_turn_completed(SID)
    waiting = [Called(lifecycle.commit_session_memory, SID, wait=True) for _ in range(64)]
    until(lambda: waiting_for(SID) == 64)
    gate.open()
    assert commit.answer() is True
    assert Counter(called.answer() for called in waiting) == {True: 1, False: 63}
    assert agent.calls == 2


def test_those_who_wait_for_one_session_hear_nothing_of_another(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.mark_turn_completed(SID, agent=Agent(gate))
    commit = Called(lifecycle.commit_session_memory, SID)
    gate.wait_reached()
    waiting = [Called(lifecycle.commit_session_memory, SID, wait=True) for _ in range(64)]
    until(lambda: waiting_for(SID) == 64)
    handled: Counter[Any] = Counter()
    on_receive = Session.on_receive

    def counted(self: Session, message: Any) -> Any:
        handled[self.session_id] += 1
        return on_receive(self, message)

    monkeypatch.setattr(Session, "on_receive", counted)
    other = Agent()
    for _ in range(100):
        lifecycle.mark_turn_completed("other", agent=other)
    assert lifecycle.commit_session_memory("other") is True
    assert handled == {"other": 102}
    gate.open()
    assert commit.answer() is True
    assert [called.answer() for called in waiting] == [False] * 64


def test_any_number_of_hooks_that_hang_keeps_no_other_session_from_being_committed(gate: Gate) -> None:
    """C7"""
    at_the_gate = threading.Barrier(81, timeout=PATIENCE)

    def hang() -> None:
        at_the_gate.wait()
        gate.wait()

    for number in range(80):
        lifecycle.mark_turn_completed(f"s{number}", agent=Agent(hang))
    hanging = [Called(lifecycle.commit_session_memory, f"s{number}") for number in range(80)]
    at_the_gate.wait()
    lifecycle.mark_turn_completed(SID, agent=Agent())
    assert lifecycle.commit_session_memory(SID) is True
    gate.open()
    assert [called.answer() for called in hanging] == [True] * 80


def test_a_turn_is_not_lost_to_a_session_that_is_discarded_at_that_moment() -> None:
    agent = Agent()
    over = threading.Event()

    def work() -> None:
        try:
            for _ in range(60):
                lifecycle.register_agent(SID, agent)
                lifecycle.mark_turn_completed(SID, agent=agent)
                assert lifecycle.has_uncommitted_work(SID) is True
                assert lifecycle.commit_session_memory(SID) is True
        finally:
            over.set()

    def discard() -> None:
        while not over.is_set():
            lifecycle.discard_session(SID)

    all_at_once([work, discard])
    assert agent.calls == 60
    assert lifecycle.discard_session(SID) is True
    until(lambda: not desk().refs)  # a worker may be about to say that the session has ended


def test_a_turn_that_waits_behind_the_end_of_its_session_goes_to_the_next(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.register_agent(SID, Agent())
    ref: Any = desk().refs[SID]
    on_receive, queue = Session.on_receive, ref.actor_inbox.queue

    def held_up(self: Session, message: Any) -> Any:
        if isinstance(message, HasUncommitted):
            gate.wait()
        return on_receive(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "on_receive", held_up)
        asked = Called(lifecycle.has_uncommitted_work, SID)
        gate.wait_reached()
        discarded = Called(lifecycle.discard_session, SID)
        until(lambda: len(queue) == 1)
        marked = Called(lifecycle.mark_turn_completed, SID)
        until(lambda: len(queue) == 2)
        gate.open()
        assert (asked.answer(), discarded.answer(), marked.answer()) == (False, True, 1)
    assert lifecycle.has_uncommitted_work(SID) is True


def test_a_session_whose_end_is_not_known_yet_is_replaced_and_then_left_alone() -> None:
    lifecycle.register_agent(SID, Agent())
    ended = desk().refs[SID]
    ended.stop()
    assert lifecycle.mark_turn_completed(SID) == 1
    desk().directory.ask(ForgetSession(session_id=SID, ref=ended))
    assert lifecycle.has_uncommitted_work(SID) is True


def test_a_desk_that_came_second_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def second() -> Desk:
        monkeypatch.undo()
        desk()  # somebody is faster
        return Desk()

    close_desk()
    monkeypatch.setattr(_desk, "Desk", second)
    found = desk()
    assert found is desk()
    assert ActorRegistry.get_by_class(Directory) == [found.directory]


def test_threads_that_are_first_at_once_find_one_desk() -> None:
    for _ in range(20):
        close_desk()
        agent = Agent()
        all_at_once([functools.partial(lifecycle.mark_turn_completed, SID, agent=agent)] * 4)
        assert lifecycle.mark_turn_completed(SID) == 5


# What is let go of


def test_an_agent_that_is_committed_and_unregistered_dies() -> None:
    """C8"""
    agent = Agent()
    lifecycle.register_agent(SID, agent)
    lifecycle.mark_turn_completed(SID)
    lifecycle.unregister_agent(SID)
    gone = weakref.ref(agent)
    del agent
    assert gone() is not None, "it owns what is uncommitted"
    assert lifecycle.commit_session_memory(SID) is True
    wait_dead(gone)


def test_an_agent_that_was_passed_and_not_used_dies() -> None:
    """C8"""
    lifecycle.mark_turn_completed(SID, agent=Agent())
    passed = Agent()
    gone = weakref.ref(passed)
    assert lifecycle.commit_session_memory(SID, passed) is True
    del passed
    wait_dead(gone)


def test_an_agent_that_was_replaced_dies_once_what_it_owns_is_committed() -> None:
    """C8"""
    lifecycle.mark_turn_completed(SID, agent=Agent())
    gone = weakref.ref(actor_of(SID)._agent)
    lifecycle.register_agent(SID, Agent())
    assert lifecycle.commit_session_memory(SID) is True
    wait_dead(gone)
    assert lifecycle.commit_session_memory(SID) is False


def test_a_session_that_is_discarded_lets_go_of_its_agent_and_its_actor() -> None:
    """C8, C9"""
    agent = Agent()
    lifecycle.register_agent(SID, agent)
    gone, actor = weakref.ref(agent), weakref.ref(actor_of(SID))
    del agent
    assert lifecycle.discard_session(SID) is True
    wait_dead(gone)
    wait_dead(actor)
