"""Rooms that come and go on one store: some are killed in the middle of whatever they do, some run side
by side. What was acknowledged is committed in the end, under the same token on every try. A turn that
names no conversation is one of a conversation that was current since it was asked for.

A killed room is a simulation of which no further step is taken. Its successor is another simulation,
with a later clock, on the same shelf.
"""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pykka

from greenroom import Generation, Greenroom, GreenroomError, Policy, RoomClosed
from greenroom.actors.simulation import InjectedFault, Simulation
from greenroom.actors.simulation._faults import Faults
from tests.simulation.shelf import Shelf
from tests.simulation.world import Violation

SESSIONS = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
"""Two of the conversations alternate under one key."""


class Provider:
    """Memories, outside of all rooms. It knows what may not happen to it."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        """The token of each session that was begun and not ended."""
        self.ended: dict[str, list[int]] = {}

    def begin(self, generation: Generation) -> None:
        session_id = str(generation.session_id)
        unfinished = self.begun.get(session_id)
        if (
            unfinished is not None
            and unfinished != generation
            and unfinished not in self._done(session_id)
        ):
            raise Violation(f"{session_id}: {generation} was begun, and {unfinished} before never ended")
        last = max(self._done(session_id), default=0)
        if generation < last:
            raise Violation(f"{session_id}: {generation} was begun after {last} had ended")
        self.begun[session_id] = int(generation)

    def end(self, generation: Generation) -> None:
        self.ended.setdefault(str(generation.session_id), []).append(int(generation))

    def _done(self, session_id: str) -> list[int]:
        return self.ended.get(session_id, [])


class Agent:
    """Commits to the provider, slowly."""

    def __init__(self, room: Room) -> None:
        self.room = room

    async def commit_memory_session(self, generation: Generation) -> None:
        room = self.room
        try:
            room.history.provider.begin(generation)
        except Violation as violation:
            room.history.violations.append(str(violation))
        await room.sim.sleep(room.random.uniform(0.0, 1.0))
        if room.random.random() < room.history.hook_failures:
            raise OSError("the provider failed")
        room.history.provider.end(generation)

    async def release_clients(self) -> None:
        await self.room.sim.sleep(self.room.random.uniform(0.0, 0.3))


class Room:
    """One room, with clients."""

    def __init__(self, history: History, sim: Simulation, *, clients: int) -> None:
        self.history = history
        self.sim = sim
        self.random = sim.random
        self.room = Greenroom(
            self._build,
            policy=Policy(
                cap=2,
                idle_ttl=3.0,
                sweep_every=1.0,
                lease_ttl=history.lease_ttl,
                commit_timeout=5.0,
                retry_first=0.2,
                retry_most=1.0,
                recover_at_once=2,
                recover_tries=1_000,
            ),
            runtime=sim,
            store=history.shelf,
        )
        for number in range(clients):
            sim.task(self._client(), f"client {number}")

    async def _build(self, _: Any) -> Agent:
        await self.sim.sleep(self.random.uniform(0.0, 0.5))
        if self.random.random() < self.history.hook_failures / 2:
            raise OSError("the build failed")
        return Agent(self)

    async def _client(self) -> None:
        while not self.history.quiet:
            await self.sim.sleep(self.random.uniform(0.0, 2.0))
            try:
                await self._act(self.random.choice(list(SESSIONS)))
            except RoomClosed:
                return
            except (GreenroomError, InjectedFault, pykka.ActorDeadError, ZeroDivisionError):
                pass

    async def _act(self, session_id: str) -> None:
        key, choice = SESSIONS[session_id], self.random.random()
        session = self.room._line.find(key)
        if choice < 0.7:
            await self._take_turn(key, self.random.choice([session_id, session_id, None]))
        elif session is not None:
            proxy: Any = session.proxy()
            what = "commit" if choice < 0.82 else "evict" if choice < 0.95 else "renew"
            await getattr(proxy, what)()

    async def _take_turn(self, key: str, asked: str | None) -> None:
        history = self.history
        turn = self.room.turn(key, session_id=asked, timeout=self.random.choice([None, 2.0]))
        before = history.shelf.conversation(key)
        async with turn:
            session_id = turn.session_id
            since = history.shelf.conversations.get(key, [key])
            if asked is None and history.strict and session_id not in since[since.index(before) :]:
                history.violations.append(f"a turn of {session_id}, which was not current: {since}")
            self._look_who_has(session_id)
            await self.sim.sleep(self.random.uniform(0.0, 3.0))
            self._look_who_has(session_id)
            if self.random.random() < 0.15:
                raise ZeroDivisionError
        if turn.generation in history.acknowledged.setdefault(session_id, set()):
            history.violations.append(f"{turn.generation} of {session_id} was acknowledged twice")
        if turn.generation > history.shelf.rows[session_id].generation:
            history.violations.append(f"{turn.generation} of {session_id} is not in the ledger")
        history.acknowledged[session_id].add(turn.generation)

    def _look_who_has(self, session_id: str) -> None:
        assert self.room._context.books is not None
        me, row = self.room._context.books.owner, self.history.shelf.rows[session_id]
        if self.history.strict and row.owner != me:
            self.history.violations.append(f"{me} is in a turn of {session_id}, which {row.owner} has")


class History:
    """What happened to one store."""

    def __init__(self, seed: int, *, lives: int = 4) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.lives = lives
        self.hook_failures = self.random.choice([0.0, 0.2])
        self.lease_ttl = self.random.choice([0.5, 5.0])
        self.shelf = Shelf(self.random, self.random.choice([0.0, 0.0, 0.1]))
        self.provider = Provider()
        self.acknowledged: dict[str, set[int]] = {}
        self.violations: list[str] = []
        self.strict = False
        """No two rooms may be in turns of one session: nothing is so late that one is taken for dead."""
        self.quiet = False
        """Nobody begins a turn any more, and nothing fails."""
        self.now = 0.0

    def run(self) -> None:
        """Live and die, again and again; then let what is left come to rest."""
        for _ in range(self.lives):
            self._live(last=False)
        self._live(last=True)
        self._check_the_end()

    def _live(self, *, last: bool) -> None:
        haste, rate = self.random.choice([0.0, 0.1]), self.random.choice([0.0, 0.0, 0.01])
        in_time = not haste and not rate and not self.shelf.failures
        self.strict = in_time and self.lease_ttl > 1.0
        sim = Simulation(self.random.getrandbits(32), work_time=(0.0, 0.2), haste=haste)
        start = self.now
        self.shelf.clock = lambda: start + sim.clock()
        with sim:
            rooms = [Room(self, sim, clients=3) for _ in range(self.random.choice([1, 1, 2]))]
            sim._faults = Faults({"handler": rate, "effect": rate}, sim.random)
            for _ in range(self.random.randint(50, 1_500)):
                self._step(sim)
            if last:
                self._come_to_rest(sim, rooms)
        self.now = self.shelf.clock() + self.random.choice([0.0, 10.0])

    def _come_to_rest(self, sim: Simulation, rooms: list[Room]) -> None:
        """With nobody there, agents are let go for being idle, and everything is committed."""
        self.quiet = True
        self.shelf.failures = self.hook_failures = 0.0
        sim._faults = Faults(None, sim.random)
        until = sim.clock() + 300.0
        while self._unsettled(rooms):
            if sim.clock() > until:
                raise Violation(f"invariant 4: not settled: {self._unsettled(rooms)}, {self.shelf.rows}")
            self._step(sim)

    def _unsettled(self, rooms: list[Room]) -> list[str]:
        found = [row.session_id for row in self.shelf.rows.values() if row.generation > row.committed]
        for room in rooms:
            for key, card in room.room._context.cards.items():
                if card.dirty or card.unrecorded or card.cached or card.busy:
                    found.append(key)
        return found

    def _step(self, sim: Simulation) -> None:
        sim.step()
        if self.violations or self.shelf.problems:
            raise Violation("; ".join([*self.violations, *self.shelf.problems]))

    def _check_the_end(self) -> None:
        for session_id, turns in self.acknowledged.items():
            row = self.shelf.rows[session_id]
            if turns and max(turns) > row.committed:
                raise Violation(f"invariant 4: {max(turns)} of {session_id} was acknowledged: {row}")
            if row.committed not in self.provider.ended.get(session_id, [row.committed or 0]):
                raise Violation(f"invariant 4: nobody remembers {row.committed} of {session_id}")


def run(seed: int) -> History:
    """Run one history. Raises with its seed if something was forgotten."""
    log = logging.getLogger("greenroom")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        history = History(seed)
        history.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        log.setLevel(level)
    return history
