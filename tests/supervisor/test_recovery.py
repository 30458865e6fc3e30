"""Recovery: turns that another room completed and never committed, taken up several at a time."""

from __future__ import annotations

import dataclasses
import logging
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks, Generation, Greenroom, Policy
from greenroom.actors import ManualClock
from greenroom.actors.simulation import InjectedFault, Simulation
from greenroom.messages import OpenSession, RecoveryFailure, SessionRecovered
from greenroom.supervisor import CacheSupervisor
from tests.actors.actors import PATIENCE, in_thread, join_all
from tests.room.agents import Agent, Cast, take_turn, touch, until
from tests.simulation.shelf import Away, Row, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom import BuildContext, DrainReport
    from greenroom.actors import Runtime

DEAD, ALIVE = "dead:1:ab", "alive:2:cd"
"""Two other rooms."""


class Books(Shelf):
    """A shelf that can be away, and remembers why recovering failed."""

    take_all = None  # type: ignore[assignment]  # so that asking once is one call

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.away = False
        self.asked = 0
        self.found: list[str] = []
        self.problems_told: list[str] = []
        self.refused: set[str] = set()
        """Session ids that another room seems to have when they are taken."""
        self.refusals: list[str] = []

    def take(self, session_id: str, *, key: str, owner: str) -> Row:
        if session_id in self.refused:
            self.refusals.append(session_id)
            return dataclasses.replace(self.rows[session_id], held=False)
        return super().take(session_id, key=key, owner=owner)

    def orphans(self, *, owner: str, limit: int) -> list[Row]:
        self.asked += 1
        if self.away:
            raise Away("no route")
        return [row for row in super().orphans(owner=owner, limit=limit) if row.owner != owner]

    def fail(
        self, session_id: str, *, owner: str, epoch: int, problem: str, pause: float, most: int
    ) -> bool:
        self.problems_told.append(problem)
        return super().fail(
            session_id, owner=owner, epoch=epoch, problem=problem, pause=pause, most=most
        )


def leave_behind(store: Shelf, session_id: str, key: str | None = None, **columns: Any) -> Row:
    """Leave two uncommitted turns, as a room that was killed does."""
    columns = {"generation": 2, "committed": 0, "owner": DEAD, "epoch": 1, **columns}
    store.rows[session_id] = row = Row(session_id, key or session_id, **columns)
    return row


# With real threads.


class Scene:
    """A cast, a clock and a shelf."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.clock = ManualClock(100.0)
        self.store = Books()
        self.store.clock = self.clock
        self.tokens: list[tuple[str | None, int]] = []

    def open(self, **policy: Any) -> Greenroom:
        hooks = AgentHooks(commit=self._commit)
        return self.cast.room(store=self.store, clock=self.clock, hooks=hooks, **policy)

    def _commit(self, agent: Agent, generation: Generation) -> Any:
        self.tokens.append((generation.session_id, int(generation)))
        return self.cast.act("commit", agent)

    def dirty(self) -> list[str]:
        """The session ids that the ledger still has uncommitted turns of."""
        rows = list(self.store.rows.values())
        return [row.session_id for row in rows if row.generation > row.committed]

    def wait_clean(self) -> None:
        until(lambda: not self.dirty(), "the last commit")


@pytest.fixture
def scene() -> Iterator[Scene]:
    cast = Cast()
    yield Scene(cast)
    cast.finish()


def test_what_a_dead_room_left_is_built_committed_and_released(scene: Scene) -> None:
    """Invariant 4: the agent is built for its key and session id, and for no spec."""
    leave_behind(scene.store, "s1", "telegram:1")
    contexts: list[BuildContext] = []

    def build(context: BuildContext) -> Agent:
        contexts.append(context)
        return scene.cast.build(context)

    room = scene.open(build=build)
    scene.wait_clean()
    until(lambda: scene.cast.did("release"), "its release")
    room.settle()

    assert [(c.key, c.session_id, c.spec) for c in contexts] == [("telegram:1", "s1", None)]
    assert scene.cast.log == ["build telegram:1/1", "commit telegram:1/1", "release telegram:1/1"]
    assert scene.tokens == [("s1", 2)]
    until(lambda: room.stats().known == 0, "the end of its actor")
    assert scene.store.rows["s1"].free_at is not None


def test_an_agent_without_a_commit_hook_recovers_as_well(scene: Scene) -> None:
    leave_behind(scene.store, "s1")
    room = scene.cast.room(build=lambda _: object(), store=scene.store, clock=scene.clock)
    scene.wait_clean()
    until(lambda: room.stats().recovered == 1, "its recovery")


def test_at_most_so_many_are_recovered_at_once_and_the_next_begins_when_one_has_ended(
    scene: Scene,
) -> None:
    for number in range(1, 6):
        leave_behind(scene.store, f"s{number}")
    gates = [scene.cast.gate() for _ in range(5)]
    for number, gate in enumerate(gates, 1):
        scene.cast.at[f"build s{number}"] = gate
    room = scene.open(recover_at_once=2, lease_ttl=20.0)
    for gate in gates[:2]:
        gate.wait_reached()

    asked = scene.store.asked
    scene.clock.advance(10.0)  # it is time to look again, and no hand is free
    touch(room, "other")
    assert sorted(scene.cast.did("build")) == ["other/1", "s1/1", "s2/1"]
    assert scene.store.asked == asked

    gates[1].open()
    gates[2].wait_reached()
    assert sorted(scene.cast.did("build")) == ["other/1", "s1/1", "s2/1", "s3/1"]
    assert scene.dirty() == ["s1", "s3", "s4", "s5", "other"]

    for gate in gates:
        gate.open()
    until(lambda: scene.dirty() == ["other"], "all recoveries")
    until(lambda: room.stats().recovered == 5, "all recoveries")
    assert sorted(scene.cast.did("release")) == ["s1/1", "s2/1", "s3/1", "s4/1", "s5/1"]


@pytest.mark.parametrize("slow", ["build", "commit", "release"])
def test_slow_hooks_of_recoveries_leave_turns_their_workers(scene: Scene, slow: str) -> None:
    """C7: they are more than the workers that turns have."""
    count = 40
    gates = [scene.cast.gate() for _ in range(count)]
    for number, gate in enumerate(gates):
        leave_behind(scene.store, f"s{number}")
        scene.cast.at[f"{slow} s{number}"] = gate
    room = scene.open(recover_at_once=count)
    for gate in gates:
        gate.wait_reached()

    take_turn(room, "mine", timeout=PATIENCE)  # with a timeout, a worker builds
    assert room.commit("mine")
    assert room.evict("mine")
    until(lambda: scene.cast.done_to("mine/1") == ["build", "commit", "release"], "its release")

    for gate in gates:
        gate.open()
    until(lambda: room.stats().recovered == count, "all recoveries")


def test_those_built_for_recovery_do_not_count_and_evict_nobody(scene: Scene) -> None:
    """C3: one agent may be cached, and stays; three recover beside it."""
    for session_id in ("s1", "s2", "s3"):
        leave_behind(scene.store, session_id)
    committing = {s: scene.cast.gate() for s in ("s1", "s2", "s3")}
    scene.cast.at |= {f"commit {session_id}": gate for session_id, gate in committing.items()}
    room = scene.open(cap=1)
    touch(room, "mine")
    for gate in committing.values():
        gate.wait_reached()

    assert room.keys() == ("mine",)
    assert len(room) == 1
    assert "s1" not in room
    stats = room.stats()
    assert (stats.cached, stats.over_cap, stats.releases) == (1, 0, 0)

    for gate in committing.values():
        gate.open()
    until(lambda: room.stats().recovered == 3, "all recoveries")
    assert room.keys() == ("mine",)
    assert scene.cast.done_to("mine/1") == ["build"]


def test_the_next_turn_of_the_session_works_beside_its_recovery(scene: Scene) -> None:
    """G5: the turns of before go to the one that was built for them, the new one to its own agent."""
    leave_behind(scene.store, "a")
    committing = scene.cast.at["commit a/1"] = scene.cast.gate()
    room = scene.open()
    committing.wait_reached()

    with room.turn("a") as turn:
        assert turn.agent.name == "a/2"
    assert turn.generation == 3
    assert room.keys() == ("a",)
    assert scene.store.rows["a"].committed == 0
    assert scene.store.rows["a"].generation == 3

    committing.open()
    until(lambda: scene.store.rows["a"].committed == 2, "its recovery")
    until(lambda: room.stats().recovered == 1, "its recovery")
    assert room.commit("a")
    assert scene.tokens == [("a", 2), ("a", 3)]
    assert scene.cast.done_to("a/1") == ["build", "commit", "release"]
    assert scene.cast.done_to("a/2") == ["build", "commit"]


def test_a_turn_beside_a_build_for_recovery_gets_an_agent_of_its_own(scene: Scene) -> None:
    """T1"""
    leave_behind(scene.store, "a")
    building = scene.cast.at["build a/1"] = scene.cast.gate()
    room = scene.open()
    building.wait_reached()

    agent = take_turn(room, "a")
    assert agent.name == "a/2"

    building.open()
    until(lambda: "a/1" in scene.cast.did("release"), "the release of the other one")
    assert take_turn(room, "a") is agent
    room.commit("a")
    assert not scene.dirty()
    assert scene.tokens == [("a", 4)]
    assert room.keys() == ("a",)


def test_what_was_intended_by_a_room_that_died_is_committed_first_and_then_the_rest(
    scene: Scene,
) -> None:
    """G4: the same token on the next try, in the next process too."""
    leave_behind(scene.store, "a", generation=5, committed=1, intended=3)
    room = scene.open()
    scene.wait_clean()
    until(lambda: room.stats().recovered == 1, "its recovery")
    assert scene.tokens == [("a", 3), ("a", 5)]
    assert scene.cast.log == ["build a/1", "commit a/1", "commit a/1", "release a/1"]
    assert scene.store.rows["a"].intended == 0


def test_each_session_id_of_a_key_is_recovered_under_its_own_token(scene: Scene) -> None:
    leave_behind(scene.store, "s1", "a", generation=7, committed=4)
    leave_behind(scene.store, "s2", "a", generation=3)
    room = scene.open()
    scene.wait_clean()
    until(lambda: room.stats().recovered == 2, "both recoveries")
    assert sorted(scene.tokens) == [("s1", 7), ("s2", 3)]
    assert sorted(scene.cast.did("release")) == ["a/1", "a/2"]


def test_recoveries_are_counted_and_told(scene: Scene) -> None:
    leave_behind(scene.store, "s1", "good")
    leave_behind(scene.store, "s2", "bad")
    building = scene.cast.at["build"] = scene.cast.gate()
    scene.cast.at["commit bad"] = OSError("the provider is away")
    room = scene.open()
    heard: list[Any] = []
    room.events(heard.append)
    building.open()

    until(lambda: room.stats().recovered == 1 and room.stats().recovery_failures == 1, "both ends")
    until(lambda: len([e for e in heard if e.kind == "recover"]) == 1, "the event")
    until(lambda: any(isinstance(e, RecoveryFailure) for e in heard), "the event")

    [good] = [event for event in heard if isinstance(event, SessionRecovered)]
    assert (good.key, good.session_id) == ("good", "s1")
    [bad] = [event for event in heard if isinstance(event, RecoveryFailure)]
    assert (bad.key, bad.session_id, bad.kind) == ("bad", "s2", "failure")
    assert "the provider is away" in bad.problem
    assert (room.stats().commits, room.stats().commit_failures) == (1, 1)
    assert room.stats().retained == 0
    until(lambda: scene.store.rows["s2"].tries == 1, "its place in the ledger")
    assert "the provider is away" in scene.store.problems_told[0]


def test_a_build_that_fails_is_a_failed_recovery(scene: Scene) -> None:
    """T5"""
    leave_behind(scene.store, "a")
    scene.cast.at["build"] = OSError("no key")
    room = scene.open()
    until(lambda: scene.store.rows["a"].tries == 1, "its place in the ledger")
    until(lambda: room.stats().known == 0, "the end of its actor")

    assert room.stats().recovery_failures == 1
    assert room.stats().build_failures == 1
    assert "no key" in scene.store.problems_told[0]
    row = scene.store.rows["a"]
    assert (row.owner, row.generation, row.committed) == (None, 2, 0)

    # A turn is not kept from it by that, and brings the rest along.
    del scene.cast.at["build"]
    touch(room, "a")
    assert room.commit("a")
    assert scene.tokens == [("a", 3)]
    assert not scene.dirty()


# Drain.


def drain_in_thread(room: Greenroom, deadline: float) -> Callable[[], DrainReport]:
    reports: list[DrainReport] = []
    thread = in_thread(lambda: reports.append(room.drain(deadline)))
    until(lambda: room.stats().draining, "a drain")

    def report() -> DrainReport:
        join_all([thread])
        return reports[0]

    return report


def test_a_drain_lets_recoveries_end_and_leaves_the_rest_in_the_ledger(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """D1, D3"""
    caplog.set_level(logging.INFO, "greenroom.supervisor")
    for session_id in ("s1", "s2", "s3"):
        leave_behind(scene.store, session_id)
    committing = scene.cast.at["commit"] = scene.cast.gate()
    room = scene.open(recover_at_once=1)
    committing.wait_reached()

    report = drain_in_thread(room, 30.0)
    committing.open()

    assert report().committed == ("s1",)
    assert report()
    assert scene.dirty() == ["s2", "s3"]
    assert scene.cast.did("build") == ["s1/1"]
    assert caplog.text.count("they are recovered") == 1
    assert scene.store.rows["s1"].owner is None
    assert [scene.store.rows[s].owner for s in ("s2", "s3")] == [DEAD, DEAD]


def test_a_recovery_that_hangs_in_a_drain_is_reported_and_stays_in_the_ledger(scene: Scene) -> None:
    """D2, D3"""
    for session_id in ("s1", "s2"):
        leave_behind(scene.store, session_id)
    committing = scene.cast.at["commit"] = scene.cast.gate()
    room = scene.open(recover_at_once=1)
    committing.wait_reached()

    report = drain_in_thread(room, 30.0)
    scene.clock.advance(31.0)

    assert report().abandoned == ("s1",)
    assert "s1" in report().problems
    assert scene.dirty() == ["s1", "s2"]
    until(lambda: scene.store.rows["s1"].owner is None, "the handing over")
    assert scene.store.rows["s1"].intended == 2


def test_a_build_for_recovery_that_hangs_in_a_drain_stays_in_the_ledger(scene: Scene) -> None:
    """D2, D3"""
    leave_behind(scene.store, "s1")
    building = scene.cast.at["build"] = scene.cast.gate()
    room = scene.open()
    building.wait_reached()

    report = drain_in_thread(room, 30.0)
    scene.clock.advance(31.0)

    assert report().abandoned == ("s1",)
    assert scene.dirty() == ["s1"]
    until(lambda: scene.store.rows["s1"].owner is None, "the handing over")
    building.open()
    until(lambda: "close s1/1" in scene.cast.log, "the end of the late agent")
    assert scene.cast.farewells() == {"s1/1": 1}


# In virtual time.


class Memory:
    """An agent in a simulation: it commits, or fails to."""

    def __init__(self, world: World, context: BuildContext) -> None:
        self.world = world
        self.session_id = context.session_id

    def commit_memory_session(self, generation: Generation) -> None:
        self.world.tries.append((self.world.sim.clock(), self.session_id))
        if self.session_id in self.world.bad:
            raise OSError("the provider is away")
        self.world.committed.append((self.session_id, int(generation)))


class World:
    """Rooms on one shelf, in one simulation."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.store = Books()
        self.store.clock = sim.clock
        self.bad: set[str] = set()
        self.tries: list[tuple[float, str]] = []
        self.committed: list[tuple[str, int]] = []

    def open(self, **policy: Any) -> Greenroom:
        runtime: Runtime = self.sim
        return Greenroom(
            lambda context: Memory(self, context),
            policy=Policy(**policy),
            store=self.store,
            runtime=runtime,
        )


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(5, haste=0.0, work_time=(0.0, 0.1)) as sim:
        yield World(sim)


def test_what_failed_waits_for_its_time_and_is_dead_after_so_many_tries(world: World) -> None:
    """G9"""
    row = leave_behind(world.store, "a")
    world.bad.add("a")
    room = world.open(lease_ttl=20.0, retry_first=100.0, retry_most=300.0, recover_tries=4)

    pauses = (100.0, 200.0, 300.0)
    world.sim.run(5.0)
    for tries, pause in enumerate(pauses, 1):
        assert len(world.tries) == tries
        row = world.store.rows["a"]
        assert (row.tries, row.dead, row.owner) == (tries, False, None)
        assert row.next_try - world.tries[-1][0] == pytest.approx(pause, abs=1.0)
        world.sim.run(world.tries[-1][0] + pause - world.sim.clock())
        assert len(world.tries) == tries
        world.sim.run(12.0)  # it looks every 10 s

    row = world.store.rows["a"]
    assert (row.tries, row.dead) == (4, True)
    world.sim.run(10_000.0)
    assert len(world.tries) == 4
    assert room.stats().recovery_failures == 4
    assert room.stats().recovered == 0


def test_one_that_fails_keeps_no_other_from_being_recovered(world: World) -> None:
    """C7, with one hand only."""
    for session_id in ("a", "b", "c"):
        leave_behind(world.store, session_id)
    world.bad.add("a")
    world.open(recover_at_once=1, retry_first=1_000.0, retry_most=1_000.0)
    world.sim.run(60.0)
    assert world.committed == [("b", 2), ("c", 2)]
    assert [session_id for _, session_id in world.tries] == ["a", "b", "c"]


def test_the_ledger_is_asked_for_several_at_a_time(world: World) -> None:
    for number in range(100):
        leave_behind(world.store, f"s{number:03}")
    world.open(recover_at_once=5, lease_ttl=1_000.0)
    world.sim.run(100.0)
    assert sorted(world.committed) == [(f"s{number:03}", 2) for number in range(100)]
    assert world.store.asked <= 100 / (2 * 5) + 1


@pytest.mark.parametrize("at_once", [1, 4])
def test_what_comes_to_nothing_is_tried_once_whenever_it_is_time_to_look(
    world: World, at_once: int
) -> None:
    """C7: others have it, whatever the ledger said, and it keeps nobody from being recovered."""
    refused = {f"r{number}" for number in range(10)}
    for session_id in sorted(refused):
        leave_behind(world.store, session_id)
    for number in range(30):
        leave_behind(world.store, f"s{number:03}")
    world.store.refused = refused
    world.open(recover_at_once=at_once, lease_ttl=60.0)
    world.sim.run(29.0)
    assert sorted(world.committed) == [(f"s{number:03}", 2) for number in range(30)]
    assert sorted(world.store.refusals) == sorted(refused)

    world.sim.run(30.0)
    assert sorted(world.store.refusals) == sorted([*refused, *refused])
    world.store.refused = set()
    world.sim.run(30.0)
    assert len(world.committed) == 40


def test_a_try_that_succeeds_in_the_end_counts_anew(world: World) -> None:
    leave_behind(world.store, "a", tries=8)
    world.open()
    world.sim.run(5.0)
    row = world.store.rows["a"]
    assert (row.tries, row.next_try, row.dead, row.committed) == (0, 0.0, False, 2)


def test_how_often_it_was_tried_before_counts(world: World) -> None:
    """G9: neither a restart nor another room begins to count anew."""
    leave_behind(world.store, "a", tries=9)
    world.bad.add("a")
    world.open(retry_first=1.0, retry_most=10_000.0, recover_tries=10)
    world.sim.run(5.0)
    assert world.store.rows["a"].dead
    assert world.store.rows["a"].next_try == pytest.approx(512.0, abs=5.0)


@pytest.mark.parametrize("free_at", [None, 0.0], ids=["in a turn", "idle"])
def test_what_a_living_room_has_is_left_alone_until_that_is_dead(
    world: World, free_at: float | None
) -> None:
    leave_behind(world.store, "a", owner=ALIVE, free_at=free_at)
    world.store.rooms[ALIVE] = 100.0
    world.open(lease_ttl=20.0)

    world.sim.run(99.0)
    assert world.tries == []
    assert world.store.rows["a"].owner == ALIVE
    world.sim.run(12.0)
    assert world.committed == [("a", 2)]


def test_what_is_clean_or_dead_is_left_alone(world: World) -> None:
    leave_behind(world.store, "clean", committed=2)
    leave_behind(world.store, "letter", dead=True)
    world.open()
    world.sim.run(100.0)
    assert world.tries == []
    assert {row.owner for row in world.store.rows.values()} == {DEAD}


def test_it_looks_twice_for_every_lease(world: World) -> None:
    world.open(lease_ttl=20.0)
    world.sim.run(5.0)
    assert world.store.asked == 1
    world.sim.run(40.0)
    assert world.store.asked == 5
    leave_behind(world.store, "a")
    world.sim.run(6.0)
    assert world.committed == [("a", 2)]


def test_a_store_that_is_away_when_the_room_opens_is_asked_again(world: World) -> None:
    leave_behind(world.store, "a")
    world.store.away = True
    world.open(lease_ttl=20.0)
    world.sim.run(25.0)
    assert world.tries == []
    world.store.away = False
    world.sim.run(10.0)
    assert world.committed == [("a", 2)]


def test_of_two_rooms_that_find_the_same_one_has_it(world: World) -> None:
    for number in range(20):
        leave_behind(world.store, f"s{number}")
    rooms = [world.open(), world.open()]
    world.sim.run(30.0)

    assert sorted(world.committed) == sorted((f"s{number}", 2) for number in range(20))
    assert sum(room.stats().recovered for room in rooms) == 20
    assert world.store.problems == []


def test_without_a_ledger_nothing_is_recovered(world: World) -> None:
    leave_behind(world.store, "a")
    room = Greenroom(
        lambda context: Memory(world, context), store=world.store, runtime=world.sim, durability="off"
    )
    world.sim.run(60.0)
    assert (world.store.asked, world.tries) == (0, [])
    assert room.stats().recovered == 0


HANDLED = [
    "look_now_and_again()",
    "Answered(CallLedger)",
    "Answered(OpenSession)",
    "Answered(RecoverSession)",
]


class Clumsy(Simulation):
    """A simulation in which the one who recovers fails before it handles messages of one class."""

    fails_on = "nothing"
    failures = 0

    def fault_point(self, name: str) -> None:
        if name == "handler" and self.failures:
            who, _, what = self._trace[-1].partition(" handles ")
            if "Recovery#" in who and what == self.fails_on:
                self.failures -= 1
                raise InjectedFault(name)


@pytest.mark.parametrize("message", HANDLED)
def test_a_crash_of_the_one_who_recovers_forgets_nothing(message: str) -> None:
    """Invariant 5"""
    with Clumsy(5, haste=0.0, work_time=(0.0, 0.1)) as sim:
        world = World(sim)
        for number in range(6):
            leave_behind(world.store, f"s{number}")
        sim.fails_on, sim.failures = message, 2
        room = world.open(recover_at_once=2, lease_ttl=20.0)
        sim.run(60.0)
        assert sim.failures == 0
        assert sorted(world.committed) == [(f"s{number}", 2) for number in range(6)]
        assert room.stats().recovered == 6
        assert sim.stats().restarts == 2
        looks = sim.trace.count("handles look_now_and_again()")
        sim.run(60.0)
        # One timer, and not one more for each incarnation.
        assert sim.trace.count("handles look_now_and_again()") == looks + 6


@pytest.mark.parametrize("message", HANDLED)
def test_a_message_that_the_one_who_recovers_cannot_handle_holds_nothing_up(message: str) -> None:
    """Invariant 5"""
    with Clumsy(5, haste=0.0, work_time=(0.0, 0.1)) as sim:
        world = World(sim)
        for number in range(6):
            leave_behind(world.store, f"s{number}")
        sim.fails_on, sim.failures = message, 4
        world.open(recover_at_once=1, lease_ttl=20.0)
        sim.run(100.0)
        assert (sim.failures, sim.stats().dead_letters) == (0, 1)
        assert sorted(world.committed) == [(f"s{number}", 2) for number in range(6)]


def test_a_session_that_cannot_be_opened_lets_the_next_one_be_recovered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        leave_behind(world.store, f"s{number}")
    open_session = CacheSupervisor.on_open_session

    def open_some(supervisor: CacheSupervisor, message: Any) -> Any:
        return None if message.key == "s0" else open_session(supervisor, message)

    monkeypatch.setattr(CacheSupervisor, "on_open_session", open_some)
    monkeypatch.setitem(CacheSupervisor._methods, OpenSession, open_some)
    world.open(recover_at_once=1, lease_ttl=1_000.0)
    world.sim.run(60.0)
    assert sorted(world.committed) == [("s1", 2), ("s2", 2)]
