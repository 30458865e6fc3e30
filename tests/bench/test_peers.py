"""Side by side: a contender's faults are seen, and one that fails stops no other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast

import pytest

from benchmarks.peers import NAMES, NOTES, TITLES
from benchmarks.peers.agents import Agent, Recipe
from benchmarks.peers.campaign import Campaign, runs_of
from benchmarks.peers.churn import churning
from benchmarks.peers.of_rooms import Locked, Ours
from benchmarks.peers.peer import Peer
from benchmarks.peers.rows import ROWS, advantage
from benchmarks.peers.scenarios import QUICK, SCENARIOS
from benchmarks.results import Results
from benchmarks.suites import chosen
from benchmarks.workers import Worker, WorkerFailed
from tests.bench import samples
from tests.house import ROOT

# What is lost


class Careless(Peer):
    """Keeps one agent, and tears it down under whoever uses it."""

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        self._recipe = recipe
        self._kept: tuple[str, Agent] | None = None
        self._lock = threading.Lock()

    def begin_end(self, key: str) -> None:
        self.turn(key, 0.0)

    def turn(self, key: str, seconds: float) -> None:
        with self._lock:
            kept = self._kept
            if kept is None or kept[0] != key:
                if kept is not None:
                    kept[1].release_clients()
                kept = self._kept = (key, self._recipe.build(key))
        kept[1].answer(seconds)

    def sweep(self) -> int:
        return 0

    def drain(self, deadline: float = 30.0) -> None: ...

    def close(self) -> None: ...

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("peer", [Ours, Locked])
def test_a_room_loses_nothing_while_sessions_come_and_go(peer: type[Peer]) -> None:
    found = churning(peer, turns=8, seed=1)
    assert found["turns"] == 64
    assert found["agents"] > 8
    assert [found[name] for name in ("torn", "lost", "left", "overlaps", "over_cap")] == [0] * 5


def test_a_contender_that_forgets_is_found_out() -> None:
    found = churning(Careless, turns=8, seed=1)
    assert found["lost"] == found["turns"] == 64
    assert found["torn"] > 0
    assert found["left"] == 1


# The campaign


class FakeWorker:
    def __init__(self, name: str, answer: Callable[[], Any]) -> None:
        self.name = name
        self._answer = answer

    def ask(self, *_: object) -> Any:
        return self._answer()


def raising() -> Any:
    raise WorkerFailed("it died")


def campaign(results: Results, *workers: FakeWorker) -> Campaign:
    return Campaign(
        results, QUICK, lambda _: None, ExitStack(), [cast("Worker", worker) for worker in workers], []
    )


@pytest.mark.parametrize("answer", [raising, lambda: "ValueError: no"])
def test_who_fails_has_that_in_the_place_of_its_figures_and_of_earlier_ones(
    answer: Callable[[], Any],
) -> None:
    results = samples.results()
    worker = FakeWorker("lock", answer)
    scenario = next(s for s in SCENARIOS if s.name == "warm")
    assert not campaign(results, worker)._measure(cast("Worker", worker), scenario, QUICK)
    assert "lock" not in results.measurements["warm"]
    assert "greenroom" in results.measurements["warm"]
    assert results.not_offered["lock"]["warm"].startswith("failed in this run (")


def test_a_failure_of_greenroom_ends_the_run() -> None:
    worker = FakeWorker("greenroom", raising)
    with pytest.raises(WorkerFailed, match="greenroom, warm turn, 1 thread: it died"):
        campaign(samples.results(), worker)._measure(cast("Worker", worker), SCENARIOS[0], QUICK)


def test_a_process_ends_after_a_scenario_that_leaves_it_in_a_bad_state() -> None:
    runs = runs_of(SCENARIOS)
    assert [scenario for run in runs for scenario in run] == list(SCENARIOS)
    assert all(scenario.breaks is (scenario is run[-1]) for run in runs for scenario in run)


# What is compared


def row(scenario: str, figure: str) -> Any:
    return next(row for row in ROWS if (row.scenario, row.figure) == (scenario, figure))


def test_an_advantage_is_above_one_where_greenroom_is_better_whatever_is_counted() -> None:
    results = samples.results()
    more = advantage(results, row("warm", "rate"), "lock")
    less = advantage(results, row("sweep", "milliseconds"), "lock")
    assert more is not None
    assert less is not None
    assert (more.low, more.middle, more.high) == (0.25, 0.375, 0.5)
    assert less.middle == pytest.approx(20.0)


def test_what_is_too_little_to_measure_is_compared_with_nothing() -> None:
    results = samples.results()
    for name in ("greenroom", "lock"):
        results.add("idle", name, {"bytes_each": 0.0, "threads_each": 0, "processes_each": 0})
    assert advantage(results, row("idle", "bytes_each"), "lock") is None


def test_every_contender_has_a_title_and_says_how_it_is_used() -> None:
    assert set(TITLES) == set(NAMES)
    assert set(NOTES) == set(NAMES) - {"greenroom"}


def test_side_by_side_is_run_by_its_name_only() -> None:
    assert "peers" not in [suite.name for suite, _ in chosen([])]
    assert [suite.name for suite, _ in chosen(["peers"])] == ["peers"]


def test_nothing_of_the_peers_is_imported_before_its_turn() -> None:
    heavy = "('ray', 'cachetools', 'thespian', 'xoscar', 'matplotlib')"
    look = f"import sys, benchmarks.document;print([name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    assert ended.stdout.strip() == "[]"
