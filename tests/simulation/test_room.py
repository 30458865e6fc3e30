"""The whole room, a thousand histories: sessions, supervisor, hooks that are slow, fail and hang, actors
that crash, clients that come, cancel and leave, and a drain. Invariants are checked after every step.

`make histories` does the same with a hundred thousand.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from greenroom.actors.session.machine import SessionMachine
from tests.leftovers import SWITCH_INTERVAL
from tests.simulation import bursts
from tests.simulation.world import run

SEEDS, CHUNK = 1000, 25


def chunks(seeds: int, chunk: int) -> list[Any]:
    """The first seed of each chunk. All but the first two chunks are a long range."""
    return [
        pytest.param(first, marks=pytest.mark.long if first >= 2 * chunk else ())
        for first in range(0, seeds, chunk)
    ]


ONE_THREAD = "it is all in one thread: the switch interval changes nothing"


@pytest.mark.skipif(SWITCH_INTERVAL in os.environ, reason=ONE_THREAD)
@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_the_invariants_hold_in_every_history(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(seed)


@pytest.mark.skipif(SWITCH_INTERVAL in os.environ, reason=ONE_THREAD)
@pytest.mark.parametrize("first", chunks(400, 100))
def test_the_invariants_hold_where_faults_come_in_bursts(first: int) -> None:
    for seed in range(first, first + 100):
        bursts.run(seed)


def test_one_seed_is_one_history() -> None:
    traces = [run(7).sim.trace for _ in range(2)]

    assert traces[0] == traces[1]


def test_the_worlds_are_worth_living_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories in which nothing happens would hold every invariant."""
    inputs = Counter[str]()

    def count(name: str) -> None:
        of_the_machine = getattr(SessionMachine, name)

        def counted(machine: SessionMachine) -> Any:
            inputs[name] += 1
            return of_the_machine(machine)

        monkeypatch.setattr(SessionMachine, name, counted)

    rare = ("force", "abandon", "commit_stuck")
    for name in rare:
        count(name)
    worlds = [run(seed) for seed in range(40)]

    def seen(what: str) -> int:
        return sum(f"handles {what}" in world.sim.trace for world in worlds)

    for message in ("ReleaseAgent", "CommitFailure", "AgentRetained", "BuildFailure", "WithdrawTurn"):
        assert seen(message) > 5, message
    for message in ("ChildFailed", "_expire_turn()"):
        assert seen(message) > 1, message
    for name in rare:
        assert inputs[name] > 1, name
    assert sum(bool(world.report.abandoned) for world in worlds) > 3
    assert sum(bool(world.report.committed) for world in worlds) > 3
