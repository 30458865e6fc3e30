"""A session that two servers share: how long a turn waits for the other one. In virtual time, in which a
room that asks again after 80 ms needs just that."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom
from greenroom.actors.simulation import Simulation
from tests.simulation.shelf import Row, Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK = 0.01
"""How long the store takes at most, for whatever it is asked."""

PAUSE = 0.125
"""How long a room that waits for another's session pauses at most before it asks again."""

LONGEST_WAIT = PAUSE + 6 * WORK
"""How long it waits when the session is free: the pause, and what both ask the store."""


class Agent:
    """One without hooks."""


class Store(Shelf):
    """A shelf that counts how often a session is taken."""

    take_all = None  # type: ignore[assignment]  # so that asking once is one call

    def __init__(self, *, can_peek: bool) -> None:
        super().__init__(Random(0))
        self.can_peek = can_peek
        self.asked = 0

    def peek(self, session_id: str, expected: int) -> tuple[int, bool] | None:
        row = self.rows.get(session_id)
        return None if row is None else (row.version, row.ended)

    def take(self, session_id: str, *, key: str, owner: str) -> Row:
        self.asked += 1
        return super().take(session_id, key=key, owner=owner)


class Servers:
    """Two rooms on one store."""

    def __init__(self, sim: Simulation, store: Store) -> None:
        self.sim = sim
        self.store = store
        store.clock = sim.clock
        self.rooms = [Greenroom(lambda _: Agent(), store=store, runtime=sim) for _ in range(2)]

    async def turn(self, room: int, seconds: float = 0.0) -> float:
        """Take a turn that lasts so long. Returns when it began."""
        async with self.rooms[room].turn("a"):
            began = self.sim.clock()
            await self.sim.sleep(seconds)
        return began

    def play(self, scene: Any) -> None:
        """Have this happen."""
        task = self.sim.task(scene, "scene")
        self.sim.run(120.0)
        task.get()


@pytest.fixture(params=[True, False], ids=["a store that peeks", "a store that cannot peek"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with Simulation(7, haste=0.0, work_time=(0.0, WORK)) as sim:
        yield Servers(sim, Store(can_peek=request.param))


def test_a_session_that_changes_servers_with_every_turn_waits_for_nothing(servers: Servers) -> None:
    """M1: each turn asks once, and has it."""

    async def scene() -> None:
        for number in range(20):
            asked = servers.sim.clock()
            began = await servers.turn(number % 2)
            assert began - asked <= 3 * WORK  # it is taken, and an agent built

    servers.play(scene())
    assert servers.store.asked == 20
    assert servers.store.rows["a"].generation == 20


@pytest.mark.parametrize("lasts", [0.2, 3.0, 40.0])
def test_whoever_waits_for_a_turn_elsewhere_begins_soon_after_it(servers: Servers, lasts: float) -> None:
    """M1: however long it has waited."""

    async def scene() -> None:
        await servers.turn(0)
        running = servers.sim.task(servers.turn(0, lasts), "the turn elsewhere")
        await servers.sim.sleep(lasts / 4)
        waiting = servers.sim.task(servers.turn(1), "the turn that waits")
        ended = await running + lasts
        assert ended <= await waiting <= ended + LONGEST_WAIT

    servers.play(scene())


def test_whoever_waits_for_a_session_that_stays_for_another_turn_waits_for_a_moment() -> None:
    """M1: it is given back when no such turn comes."""
    with Simulation(7, haste=0.0, work_time=(0.0, WORK)) as sim:
        servers = Servers(sim, Store(can_peek=True))

        async def scene() -> None:
            for _ in range(10):
                await servers.turn(0)
            assert servers.store.asked == 2  # for the first two turns
            free_at = servers.store.rows["a"].free_at
            assert free_at is not None
            assert free_at > sim.clock() + 1.0
            asked = sim.clock()
            began = await servers.turn(1)
            assert began - asked <= 0.1 + LONGEST_WAIT

        servers.play(scene())


def test_whoever_waits_asks_often_enough_and_not_all_the_time(servers: Servers) -> None:
    """M1: a room that waits a minute asks no more than fifteen times a second."""

    async def scene() -> None:
        running = servers.sim.task(servers.turn(0, 60.0), "the turn elsewhere")
        await servers.sim.sleep(1.0)
        before = servers.store.asked
        waiting = servers.sim.task(servers.turn(1), "the turn that waits")
        await running
        await waiting
        assert 59.0 / PAUSE <= servers.store.asked - before <= 59.0 * 15

    servers.play(scene())


def test_whoever_waits_leaves_a_slow_store_time_for_others() -> None:
    """It is asked for no more than a fifth of the time, however many wait."""
    with Simulation(7, haste=0.0, work_time=(0.2, 0.2)) as sim:
        servers = Servers(sim, Store(can_peek=False))

        async def scene() -> None:
            running = sim.task(servers.turn(0, 60.0), "the turn elsewhere")
            await sim.sleep(1.0)
            before = servers.store.asked
            waiting = sim.task(servers.turn(1), "the turn that waits")
            await running
            await waiting
            assert 60.0 / 1.6 <= servers.store.asked - before <= 60.0 / 0.8

        servers.play(scene())
