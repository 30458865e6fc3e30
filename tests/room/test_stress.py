"""The room under many threads. `make stress` runs it for a minute; here it is a few seconds."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from greenroom import AgentSpec, BuildContext, Greenroom, GreenroomError, Policy
from greenroom.actors import ActorRegistry, ManualClock, Runtime
from greenroom.supervisor import resident

SECONDS = float(os.environ.get("GREENROOM_STRESS_SECONDS", "4"))
THREADS, SESSIONS, CAP = 64, 10_000, 128
SPECS = (AgentSpec("small"), AgentSpec("large"))


class Stage:
    """What all agents share: whether things fail now, and what went wrong."""

    def __init__(self) -> None:
        self.failing = True
        self.agents: list[StressedAgent] = []
        self.violations: list[str] = []
        self.committing: Counter[str] = Counter()

    def build(self, context: BuildContext) -> StressedAgent:
        self.maybe_fail(0.01)
        agent = StressedAgent(self, context.key)
        self.agents.append(agent)
        return agent

    def maybe_fail(self, share: float) -> None:
        if self.failing and random.random() < share:
            raise random.choice([OSError, SystemExit, KeyboardInterrupt])("planted")


class StressedAgent:
    """Knows what may not happen to it. Its counters are its own: the room sees to it that nobody else
    is at them at the same time, and if not, that is what we want to know."""

    def __init__(self, stage: Stage, key: str) -> None:
        self.stage = stage
        self.key = key
        self.in_turn = 0
        self.completed = 0
        self.committed = 0
        self.farewells = 0

    def turn(self) -> None:
        self.in_turn += 1
        if self.in_turn != 1:
            self.stage.violations.append(f"two turns on one agent of {self.key}")
        if self.farewells:
            self.stage.violations.append(f"a turn on an agent of {self.key} that was let go")

    def commit_memory_session(self) -> None:
        upto = self.completed
        self.stage.committing[self.key] += 1
        if self.stage.committing[self.key] != 1:
            self.stage.violations.append(f"two commits of {self.key} at once")
        try:
            self.stage.maybe_fail(0.05)
            self.committed = upto
        finally:
            self.stage.committing[self.key] -= 1

    def release_clients(self) -> None:
        self._farewell()

    def close(self) -> None:
        self._farewell()

    def _farewell(self) -> None:
        self.farewells += 1
        if self.farewells != 1:
            self.stage.violations.append(f"an agent of {self.key} was let go twice")
        if self.in_turn:
            self.stage.violations.append(f"an agent of {self.key} was let go in a turn")
        if self.completed > self.committed:
            self.stage.violations.append(f"an agent of {self.key} was let go uncommitted")
        self.stage.maybe_fail(0.02)


def a_gateway_thread(room: Greenroom, number: int, until: float, errors: list[BaseException]) -> None:
    choose = random.Random(number)
    try:
        while time.monotonic() < until:
            # A few sessions are popular: there the threads meet.
            popular = choose.random() < 0.3
            key = f"chat:{choose.randrange(20 if popular else SESSIONS)}"
            try:
                act(room, choose, key)
            except (GreenroomError, ZeroDivisionError):
                pass
    except BaseException as error:
        errors.append(error)


def act(room: Greenroom, choose: random.Random, key: str) -> None:
    action = choose.random()
    if action < 0.85:
        with room.turn(key, choose.choice(SPECS), timeout=5.0) as turn:
            agent = turn.agent
            agent.turn()
            try:
                if choose.random() < 0.05:
                    raise ZeroDivisionError
                if choose.random() < 0.05:
                    turn.discard("planted")
                agent.completed += 1
            finally:
                agent.in_turn -= 1
    elif action < 0.90:
        room.commit(key, wait=choose.random() < 0.5, timeout=5.0)
    elif action < 0.94:
        room.evict(key)
    elif action < 0.98:
        room.end(key)
    elif action < 0.99:
        room.sweep()
    else:
        room.configure(cap=choose.choice([CAP, CAP // 2]), idle_ttl=choose.choice([0.05, 3600.0]))


@pytest.mark.long
@pytest.mark.timeout(120 + 3 * SECONDS)
def test_sixty_four_threads_break_no_invariant_and_leave_nothing() -> None:
    """C3 C4 C8 C9 S1 S2 G4 G8 D1"""
    stage = Stage()
    errors: list[BaseException] = []
    room = Greenroom(
        stage.build, policy=Policy(cap=CAP, retry_first=0.05, retry_most=0.2, max_waiting=THREADS)
    )
    until = time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=a_gateway_thread, args=(room, number, until, errors))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    stage.failing = False
    room.configure(cap=CAP, idle_ttl=None)
    room.settle(60.0)
    assert len(room) <= CAP
    report = room.close(deadline=60.0)

    assert stage.violations == []
    assert report.abandoned == ()
    assert report.failed == ()
    assert Counter(agent.farewells for agent in stage.agents) == {1: len(stage.agents)}
    assert [agent for agent in stage.agents if agent.completed > agent.committed] == []
    assert room.stats().cached == 0


class Plain:
    """An agent without hooks."""


def come_and_go(room: Greenroom, first: int, count: int) -> None:
    for number in range(first, first + count):
        key = f"chat:{number}"
        with room.turn(key):
            pass
        room.end(key)


def things() -> Any:
    gc.collect()
    return len(gc.get_objects())


def test_sessions_that_came_and_went_leave_nothing_behind() -> None:
    """C9: what `make leaks` shows with a million, in objects and not in bytes."""
    before = len(ActorRegistry.get_all())
    # As few threads as can be, and a clock on which nobody calls for more: each thread has objects too.
    with (
        Runtime(workers=1, clock=ManualClock()) as runtime,
        Greenroom(lambda _: Plain(), policy=Policy(session_ttl=3600.0), runtime=runtime) as room,
    ):
        come_and_go(room, 0, 500)
        room.settle(30.0)
        early = things()
        come_and_go(room, 500, 3000)
        room.settle(30.0)
        late = things()

        assert room.stats().known == 0
        assert len(ActorRegistry.get_all()) == before + 2  # the root supervisor and the supervisor
        assert late - early < 1000, f"{late - early} objects more after 3,000 sessions more"


def main() -> None:
    """Let a million sessions come and go, and show the resident memory on the way."""
    marks: dict[int, int] = {}
    with Greenroom(lambda _: Plain(), policy=Policy(session_ttl=3600.0)) as room:
        for step in range(10):
            come_and_go(room, step * 100_000, 100_000)
            room.settle(60.0)
            gc.collect()
            marks[(step + 1) * 100_000] = resident()
            print(f"{(step + 1) * 100_000:>9,} sessions: {resident() / 2**20:.1f} MB", flush=True)  # noqa: T201
    grown = marks[1_000_000] / marks[100_000] - 1
    print(f"{grown:+.1%} from 100,000 to 1,000,000")  # noqa: T201
    raise SystemExit(grown > 0.1)


if __name__ == "__main__":
    main()
