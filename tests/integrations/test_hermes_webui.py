"""The drop-in for the Hermes web UI's session lifecycle, one session at a time: its conventions."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import greenroom.integrations.hermes_webui as lifecycle
from greenroom.integrations.hermes_webui._desk import desk
from greenroom.integrations.hermes_webui._session import Session
from tests.actors.actors import Gate
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


def in_flight(gate: Gate) -> tuple[Agent, Called]:
    """A session with one turn whose commit has come to the gate."""
    agent = Agent(gate)
    lifecycle.mark_turn_completed(SID, agent=agent)
    commit = Called(lifecycle.commit_session_memory, SID)
    gate.wait_reached()
    return agent, commit


# Ids


@pytest.mark.parametrize("nothing", ["", None])
def test_a_falsy_session_id_is_no_session(nothing: str | None) -> None:
    agent = Agent()
    lifecycle.register_agent(nothing, agent)
    lifecycle.unregister_agent(nothing)
    assert lifecycle.mark_turn_completed(nothing, agent=agent) == 0
    assert lifecycle.has_uncommitted_work(nothing) is False
    assert lifecycle.commit_session_memory(nothing, agent, wait=True) is False
    assert lifecycle.discard_session(nothing) is False
    assert desk().refs == {}


def test_asking_about_a_session_that_is_not_there_makes_none() -> None:
    assert lifecycle.has_uncommitted_work(SID) is False
    assert lifecycle.commit_session_memory(SID, Agent()) is False
    assert lifecycle.discard_session(SID) is True
    lifecycle.unregister_agent(SID)
    assert desk().refs == {}


# Turns


def test_completed_turns_are_counted_and_committed_by_one_call() -> None:
    """G1, G2"""
    agent = Agent()
    lifecycle.register_agent(SID, agent)
    assert [lifecycle.mark_turn_completed(SID) for _ in range(3)] == [1, 2, 3]
    assert lifecycle.has_uncommitted_work(SID) is True
    assert agent.calls == 0
    assert lifecycle.commit_session_memory(SID) is True
    assert lifecycle.has_uncommitted_work(SID) is False
    assert lifecycle.commit_session_memory(SID) is False
    assert agent.calls == 1


def test_a_session_without_a_completed_turn_is_never_committed() -> None:
    """G7"""
    agent = Agent()
    lifecycle.register_agent(SID, agent)
    assert lifecycle.commit_session_memory(SID, agent, wait=True) is False
    assert agent.calls == 0


def test_a_turn_that_completes_during_a_commit_is_marked_at_once_and_not_covered(gate: Gate) -> None:
    """G3"""
    agent, commit = in_flight(gate)
    assert lifecycle.mark_turn_completed(SID) == 2
    gate.open()
    assert commit.answer() is True
    assert lifecycle.has_uncommitted_work(SID) is True
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 2
    assert lifecycle.has_uncommitted_work(SID) is False


def test_turns_that_complete_during_a_commit_share_the_next_one(gate: Gate) -> None:
    agent, commit = in_flight(gate)
    assert [lifecycle.mark_turn_completed(SID) for _ in range(5)] == [2, 3, 4, 5, 6]
    gate.open()
    assert commit.answer() is True
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 2
    assert lifecycle.has_uncommitted_work(SID) is False


# Owners


def test_a_failed_commit_is_tried_again_with_its_owner_whoever_is_registered_by_then() -> None:
    """G4, G5"""
    old, new = Agent(OSError("provider away")), Agent()
    lifecycle.mark_turn_completed(SID, agent=old)
    assert lifecycle.commit_session_memory(SID) is False
    assert lifecycle.has_uncommitted_work(SID) is True
    lifecycle.register_agent(SID, new)
    assert lifecycle.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (2, 0)
    lifecycle.mark_turn_completed(SID)
    assert lifecycle.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (2, 1)


def test_one_call_commits_the_oldest_segment_by_its_owner_even_if_another_agent_is_passed() -> None:
    """G5"""
    old, new = Agent(), Agent()
    lifecycle.mark_turn_completed(SID, agent=old)
    lifecycle.mark_turn_completed(SID, agent=new)
    assert lifecycle.commit_session_memory(SID, new) is True
    assert (old.calls, new.calls) == (1, 0)
    assert lifecycle.has_uncommitted_work(SID) is True
    assert lifecycle.commit_session_memory(SID, old) is True
    assert (old.calls, new.calls) == (1, 1)
    assert lifecycle.has_uncommitted_work(SID) is False


def test_an_agent_that_is_passed_for_a_segment_without_an_owner_is_kept_for_the_retry() -> None:
    """G6"""
    passed, registered = Agent(OSError()), Agent()
    lifecycle.mark_turn_completed(SID)
    lifecycle.register_agent(SID, registered)
    assert lifecycle.commit_session_memory(SID, passed) is False
    assert lifecycle.commit_session_memory(SID) is True
    assert (passed.calls, registered.calls) == (2, 0)


def test_a_segment_without_an_owner_falls_to_the_agent_that_is_registered() -> None:
    """G6"""
    agent = Agent()
    lifecycle.mark_turn_completed(SID)
    assert lifecycle.commit_session_memory(SID, wait=True) is False
    lifecycle.register_agent(SID, agent)
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 1


def test_a_segment_without_an_owner_holds_up_what_comes_after_it() -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID)
    lifecycle.mark_turn_completed(SID, agent=agent)
    lifecycle.unregister_agent(SID)
    assert lifecycle.commit_session_memory(SID) is False
    assert lifecycle.has_uncommitted_work(SID) is True
    assert agent.calls == 0


def test_unregistering_forgets_the_agent_for_turns_to_come_and_keeps_it_as_an_owner() -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    lifecycle.unregister_agent(SID)
    assert lifecycle.mark_turn_completed(SID) == 2
    assert lifecycle.commit_session_memory(SID) is True
    assert lifecycle.commit_session_memory(SID) is False
    assert lifecycle.has_uncommitted_work(SID) is True
    assert agent.calls == 1


# Commits in flight


def test_while_a_commit_is_in_flight_one_that_does_not_wait_is_answered_at_once(gate: Gate) -> None:
    """G8"""
    agent, commit = in_flight(gate)
    lifecycle.mark_turn_completed(SID)
    assert lifecycle.commit_session_memory(SID) is False
    assert lifecycle.commit_session_memory(SID, wait=True, timeout=0) is False
    assert lifecycle.commit_session_memory(SID, wait=True, timeout=-1.0) is False
    gate.open()
    assert commit.answer() is True
    assert agent.calls == 1


def test_one_that_waits_commits_what_is_left_when_its_turn_has_come(gate: Gate) -> None:
    agent, commit = in_flight(gate)
    lifecycle.mark_turn_completed(SID)
    patient = Called(lifecycle.commit_session_memory, SID, wait=True)
    until(lambda: waiting_for(SID) == 1)
    gate.open()
    assert commit.answer() is True
    assert patient.answer() is True
    assert agent.calls == 2
    assert lifecycle.has_uncommitted_work(SID) is False


def test_one_that_waits_no_longer_leaves_the_line(gate: Gate) -> None:
    agent, commit = in_flight(gate)
    lifecycle.mark_turn_completed(SID)
    assert lifecycle.commit_session_memory(SID, wait=True, timeout=0.01) is False
    assert waiting_for(SID) == 0
    gate.open()
    assert commit.answer() is True
    assert agent.calls == 1
    assert lifecycle.has_uncommitted_work(SID) is True


def test_the_timeout_bounds_the_wait_for_others_and_not_ones_own_commit(gate: Gate) -> None:
    agent = Agent(gate)
    lifecycle.mark_turn_completed(SID, agent=agent)
    commit = Called(lifecycle.commit_session_memory, SID, wait=True, timeout=0.001)
    gate.wait_reached()
    gate.open()
    assert commit.answer() is True


def test_a_timeout_longer_than_any_wait_is_for_ever(gate: Gate) -> None:
    _, commit = in_flight(gate)
    lifecycle.mark_turn_completed(SID)
    patient = Called(lifecycle.commit_session_memory, SID, wait=True, timeout=float("inf"))
    until(lambda: waiting_for(SID) == 1)
    gate.open()
    assert (commit.answer(), patient.answer()) == (True, True)


# Discarding


def test_a_dirty_session_and_one_in_flight_are_not_discarded(gate: Gate) -> None:
    _, commit = in_flight(gate)
    assert lifecycle.discard_session(SID) is False
    gate.open()
    assert commit.answer() is True
    lifecycle.mark_turn_completed(SID)
    assert lifecycle.discard_session(SID) is False
    assert lifecycle.has_uncommitted_work(SID) is True


def test_a_discarded_session_leaves_nothing_and_may_begin_again() -> None:
    agent = Agent()
    for _ in range(3):
        assert lifecycle.mark_turn_completed(SID, agent=agent) == 1
        assert lifecycle.commit_session_memory(SID) is True
        assert lifecycle.discard_session(SID) is True
        # The worker that has committed may have discarded it for us, and be about to say so.
        until(lambda: not desk().refs and desk().runtime.stats().actors == 2)
        assert lifecycle.discard_session(SID) is True
    lifecycle.register_agent(SID, agent)
    assert lifecycle.discard_session(SID) is True
    assert lifecycle.mark_turn_completed(SID) == 1
    assert lifecycle.commit_session_memory(SID) is False


# Hooks


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a"),
        SystemExit(1),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseException(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_hook_raises_the_session_stays_committable(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(error)
    lifecycle.mark_turn_completed(SID, agent=agent)
    with caplog.at_level(logging.WARNING, "greenroom.integrations"):
        assert lifecycle.commit_session_memory(SID) is False
    (record,) = lines(caplog)
    assert SID in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert lifecycle.has_uncommitted_work(SID) is True
    assert lifecycle.commit_session_memory(SID, wait=True) is True
    assert agent.calls == 2


def test_an_agent_without_the_hook_has_failed() -> None:
    lifecycle.mark_turn_completed(SID, agent=object())
    assert lifecycle.commit_session_memory(SID) is False
    assert lifecycle.has_uncommitted_work(SID) is True


def test_an_async_hook_is_awaited() -> None:
    done: list[str] = []

    async def extract() -> None:
        await asyncio.sleep(0)
        done.append("extracted")

    lifecycle.mark_turn_completed(SID, agent=Agent(extract))
    assert lifecycle.commit_session_memory(SID) is True
    assert done == ["extracted"]


def test_a_hook_may_ask_about_its_own_session_and_mark_it() -> None:
    answers: list[Any] = []

    def extract() -> None:
        answers.append(lifecycle.has_uncommitted_work(SID))
        answers.append(lifecycle.commit_session_memory(SID))
        answers.append(lifecycle.mark_turn_completed(SID))

    lifecycle.mark_turn_completed(SID, agent=Agent(extract))
    assert lifecycle.commit_session_memory(SID) is True
    assert answers == [True, False, 2]
    assert lifecycle.has_uncommitted_work(SID) is True


def test_a_hook_sees_the_context_variables_of_whoever_wants_its_commit(gate: Gate) -> None:
    profile = contextvars.ContextVar("profile", default="nobody's")
    seen: list[str] = []

    def commit_as(name: str) -> bool:
        profile.set(name)
        return lifecycle.commit_session_memory(SID, wait=True)

    def extract() -> None:
        gate.wait()
        seen.append(profile.get())

    agent = Agent(extract, lambda: seen.append(profile.get()))
    lifecycle.mark_turn_completed(SID, agent=agent)
    first = Called(commit_as, "first")
    gate.wait_reached()
    lifecycle.mark_turn_completed(SID)
    second = Called(commit_as, "second")
    until(lambda: waiting_for(SID) == 1)
    gate.open()
    assert (first.answer(), second.answer()) == (True, True)
    assert seen == ["first", "second"]


# What ends in between


def test_a_ctrl_c_in_a_handler_loses_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_number", _interrupted(Session._number))
        with pytest.raises(KeyboardInterrupt):
            lifecycle.mark_turn_completed(SID)
    assert lifecycle.has_uncommitted_work(SID) is True
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 1


def test_a_ctrl_c_just_before_the_hook_leaves_the_session_committable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    with monkeypatch.context() as patch:
        patch.setattr(desk().runtime, "submit", _interrupted(desk().runtime.submit))
        with pytest.raises(KeyboardInterrupt):
            lifecycle.commit_session_memory(SID)
    lifecycle.commit_session_memory(SID)  # unless the one that was interrupted goes on
    until(lambda: not lifecycle.has_uncommitted_work(SID))
    assert agent.calls == 1


def _interrupted(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a Ctrl-C come here: on the main thread, and on no other."""

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return call(*args, **kwargs)

    return interrupted


def test_an_interpreter_that_has_no_thread_any_more_commits_nothing_and_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    lifecycle.mark_turn_completed(SID, agent=agent)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "main_thread", threading.Thread)  # one that is not alive
        patch.setattr(threading.Thread, "start", _refused)
        assert lifecycle.commit_session_memory(SID) is False
        lifecycle.drain_all_on_shutdown()
    assert agent.calls == 0
    assert lifecycle.commit_session_memory(SID) is True


def test_an_interpreter_that_is_ending_commits_as_long_as_it_has_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lifecycle.mark_turn_completed(SID, agent=Agent())
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    assert lifecycle.commit_session_memory(SID) is True


def _refused(_: threading.Thread) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_a_reset_answers_whoever_waits_and_ignores_how_the_hook_ends(gate: Gate) -> None:
    agent, commit = in_flight(gate)
    patient = Called(lifecycle.commit_session_memory, SID, wait=True)
    until(lambda: waiting_for(SID) == 1)
    lifecycle._reset_for_tests()
    assert (commit.answer(), patient.answer()) == (False, False)
    assert lifecycle.mark_turn_completed(SID, agent=agent) == 1
    gate.open()
    assert lifecycle.has_uncommitted_work(SID) is True
    assert lifecycle.commit_session_memory(SID) is True
    assert agent.calls == 2


def test_a_reset_without_anything_to_forget_is_fine() -> None:
    lifecycle._reset_for_tests()
    lifecycle._reset_for_tests()


# As a module


def test_a_reload_changes_nothing() -> None:
    agent = Agent()
    threads = lifecycle._background_commit_threads
    lifecycle.mark_turn_completed(SID, agent=agent)
    again = importlib.reload(lifecycle)
    assert again.has_uncommitted_work(SID) is True
    assert again._background_commit_threads is threads


def test_one_line_of_import_brings_every_name() -> None:
    names: dict[str, Any] = {}
    exec("from greenroom.integrations.hermes_webui import *", names)
    assert set(lifecycle.__all__) <= set(names)
