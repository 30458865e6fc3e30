"""The web UI's benchmark: what takes part in it does what is asked of it, and what is lost is seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from benchmarks.latency import Figures
from benchmarks.results import Results
from benchmarks.webui import NAMES, load, locked
from benchmarks.webui.bars import judge
from benchmarks.webui.lifecycle import Agent
from benchmarks.webui.scenarios import QUICK, draining, make_dirty, marking, waiting
from benchmarks.webui.tables import report
from greenroom.integrations import hermes_webui
from tests.actors.actors import Gate
from tests.bench import samples


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    hermes_webui._reset_for_tests()
    locked._sessions.clear()


# Both do what is asked of them: the scenarios check that by themselves


@pytest.mark.parametrize("sessions", [1, 8])
@pytest.mark.parametrize("name", NAMES)
def test_what_many_threads_mark_is_committed_once(name: str, sessions: int) -> None:
    assert marking(load(name), sessions, 0.02)["samples"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_those_who_wait_for_a_commit_wait_until_it_has_ended(name: str) -> None:
    assert waiting(load(name), marks=1)["cpu"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_drain_commits_everything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.webui.scenarios.COMMIT", 0.0)
    assert draining(load(name))["seconds"] > 0


# The one that was written for this


def test_a_drain_of_one_lock_for_all_takes_one_session_after_another() -> None:
    calls: list[str] = []

    def hook() -> None:
        calls.append("begins")
        calls.append("ends")

    make_dirty(locked, [Agent(hook) for _ in range(20)])
    locked.drain_all_on_shutdown()
    assert calls == ["begins", "ends"] * 20


def test_a_drain_of_one_lock_for_all_returns_though_a_hook_hangs() -> None:
    wedge = Gate()
    agents = make_dirty(locked, [Agent(wedge.wait), Agent()])
    locked.drain_all_on_shutdown(deadline=0.01)
    assert locked.has_uncommitted_work(next(iter(agents)))
    wedge.open()
    locked.drain_all_on_shutdown()
    assert not any(map(locked.has_uncommitted_work, agents))
    assert [agent.commits for agent in agents.values()] == [1, 1]


def test_a_turn_that_is_marked_during_a_commit_is_not_covered_by_it() -> None:
    agent = Agent(lambda: agent.commits or locked.mark_turn_completed("a"))
    locked.mark_turn_completed("a", agent=agent)
    assert locked.commit_session_memory("a")
    assert locked.has_uncommitted_work("a")
    assert not locked.discard_session("a")
    assert locked.commit_session_memory("a")
    assert not locked.commit_session_memory("a")
    assert agent.commits == 2


def test_a_commit_that_fails_can_be_tried_again() -> None:
    failures = [ValueError("no")]
    agent = Agent(lambda: fail(failures.pop()) if failures else None)
    locked.mark_turn_completed("a", agent=agent)
    assert not locked.commit_session_memory("a")
    locked.drain_all_on_shutdown()
    assert agent.commits == 1


def fail(error: Exception) -> None:
    raise error


def test_whoever_may_not_wait_is_told_so() -> None:
    gate = Gate()
    locked.mark_turn_completed("a", agent=Agent(gate.wait))
    commit = threading.Thread(target=locked.commit_session_memory, args=("a",))
    commit.start()
    gate.wait_reached()
    assert not locked.commit_session_memory("a")
    assert not locked.commit_session_memory("a", wait=True, timeout=0.0)
    gate.open()
    commit.join()
    assert not locked.has_uncommitted_work("a")


# What is said of it


def results(*uncommitted: int) -> Results:
    found = Results(
        machine=dict(samples.MACHINE),
        versions={},
        settings={"repetitions": QUICK.repetitions},
        not_offered={name: {} for name in NAMES},
    )
    for left in uncommitted:
        add(found, ours={"cpu": 50.0, "quiet_cpu": 50.0}, theirs={"cpu": 99.0, "quiet_cpu": 25.0})
        found.add("wedged", "greenroom", {"uncommitted": left, "seconds": 1.0})
        found.add("wedged", "lock", {"uncommitted": 100, "seconds": 1.0})
    return found


def add(found: Results, *, ours: Figures, theirs: Figures) -> None:
    found.add("waiting", "greenroom", ours)
    found.add("waiting", "lock", theirs)


def test_one_session_too_many_in_one_repetition_is_too_many() -> None:
    assert [bar.met for bar in judge(results(1, 1, 1))] == [False, True]
    assert [bar.met for bar in judge(results(1, 2, 1))] == [False, False]


def test_the_report_has_both_figures_and_their_ratio() -> None:
    lines = report(results(1, 1), judge(results(1, 1))).splitlines()
    waited = next(line for line in lines if line.startswith("A mark while 64 threads wait"))
    assert waited.split()[-4:] == ["50", "99", "0.51×", "(0.51–0.51)"]
