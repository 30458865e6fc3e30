"""Far more sessions than the cap, turns that take a while, some of them long: what gets lost?

Who is evicted, when and by whom is the contender's business. The agents write down what is done to
them, and the journal is read when the room has been closed.
"""

from __future__ import annotations

import random
import threading
from dataclasses import asdict, dataclass

from benchmarks.latency import Figures
from benchmarks.peers.agents import Recipe
from benchmarks.peers.journal import Journal, judge
from benchmarks.peers.peer import Peer

THREADS = 8
SHORT, LONG = 0.002, 0.06
"""Seconds of a turn."""

LONG_SHARE = 0.1
COMMIT, TEARDOWN = 0.002, 0.002


@dataclass(frozen=True)
class Plan:
    cap: int
    sessions: int
    turns: int
    """Of each thread."""


def plan_for(peer_class: type[Peer], turns: int) -> Plan:
    """A cap of 8 for 64 sessions. Who has a process for each has fewer: they take long to start."""
    if peer_class.ceiling >= 100:
        return Plan(cap=8, sessions=64, turns=turns)
    return Plan(cap=2, sessions=6, turns=max(2, turns // 40))


def churning(peer_class: type[Peer], turns: int, seed: int) -> Figures:
    plan = plan_for(peer_class, turns)
    with Journal() as journal:
        recipe = Recipe(journal=journal.path, commit_seconds=COMMIT, release_seconds=TEARDOWN)
        failures: list[BaseException] = []
        with peer_class(recipe, cap=plan.cap, idle_ttl=3600.0) as room:
            threads = [
                threading.Thread(target=visit, args=(room, plan, seed * THREADS + number, failures))
                for number in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            room.settle()
            kept = len(room)
        if failures:
            raise failures[0]
        verdict = judge(journal.lines())
    planned = THREADS * plan.turns
    assert verdict.turns == planned, f"{verdict.turns} of {planned} turns"
    found = {
        "agents": verdict.agents,
        "turns": verdict.turns,
        "torn": verdict.torn,
        "lost": verdict.lost,
        "left": verdict.left,
        "overlaps": verdict.overlaps,
        "over_cap": max(0, kept - plan.cap),
    }
    return {name: float(count) for name, count in found.items()} | {
        f"plan_{name}": float(value) for name, value in asdict(plan).items()
    }


def visit(room: Peer, plan: Plan, seed: int, failures: list[BaseException]) -> None:
    """Turns of this session and that, a few of them long."""
    dice = random.Random(seed)
    try:
        for _ in range(plan.turns):
            key = f"chat:{dice.randrange(plan.sessions)}"
            room.turn(key, LONG if dice.random() < LONG_SHARE else SHORT)
    except BaseException as error:  # told by who waits for us
        failures.append(error)
