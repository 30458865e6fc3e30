"""A world for a room: clients that come, cancel and leave, hooks that are slow, fail and hang, actors
that crash, a clock that races, and a drain at the end. One seed, one history.

`World.run()` takes one step at a time and checks the invariants of the design after each; their numbers
are in the texts of the violations.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from typing import Any

import pykka

from greenroom import AgentSpec, Greenroom, GreenroomError, Policy, Turn
from greenroom._line import Line
from greenroom.actors.runtime._life import OPEN
from greenroom.actors.session import Session
from greenroom.actors.session.machine import CommitState
from greenroom.actors.simulation import InjectedFault, Simulation
from greenroom.actors.simulation._faults import Faults
from greenroom.actors.simulation._waiting import SimulatedFuture
from greenroom.messages import (
    BeginTurn,
    BuildEnded,
    BuildHere,
    CloseSession,
    CommitSession,
    Configure,
    EvictAgent,
    Reason,
    RenewSession,
    SweepRoom,
    UseSettings,
)
from greenroom.supervisor import CacheSupervisor
from greenroom.supervisor.requests import Requests
from tests.simulation.shelf import Shelf

KEYS = ("a", "b", "c", "d", "e")
SPECS = (AgentSpec("small"), AgentSpec("large"), None)
DEADLINE = 20.0
LONGEST_BODY = 3.0
BUILD_TIMEOUT = 8.0


class Violation(AssertionError):
    """An invariant does not hold."""


class SimulatedAgent:
    """An agent that knows what may not happen to it. Its hooks take virtual time, fail and hang."""

    def __init__(self, world: World, key: str, number: int) -> None:
        self.world = world
        self.key = key
        self.number = number
        self.in_turn = False
        self.completed = 0
        self.committed = 0
        self.farewells = 0
        if number % 3 == 0:
            vars(self)["close"] = None  # then it is released in the place of closed, as many are

    async def commit_memory_session(self) -> None:
        world, upto = self.world, self.completed
        world.committing[self.key] += 1
        if world.committing[self.key] > 1:
            world.violated(3, f"two commits of {self.key} in flight")
        if self.farewells and not world.over:
            world.violated(4, f"agent {self.number} of {self.key} was committed after it was let go")
        try:
            await world.slow_hook()
        finally:
            world.committing[self.key] -= 1
        self.committed = upto

    async def release_clients(self) -> None:
        await self._farewell("released")

    async def close(self) -> None:
        await self._farewell("closed")

    async def _farewell(self, how: str) -> None:
        world = self.world
        self.farewells += 1
        if self.farewells > 1:
            world.violated(6, f"agent {self.number} of {self.key} was {how}, and let go before")
        if self.in_turn and not world.over:
            world.violated(1, f"agent {self.number} of {self.key} was {how} in the middle of a turn")
        if self.completed > self.committed and not world.draining:
            world.violated(4, f"agent {self.number} of {self.key} was {how} with uncommitted turns")
        await world.slow_hook()


class Seen:
    """What was last seen of a session, and in which step of the history."""

    def __init__(self) -> None:
        self.turn: Any = None
        self.agent = 0
        self.cached = False
        self.used = self.asked_at = 0
        self.place: float | None = None
        """Where the supervisor had it in its order of use when its agent left. One that was held goes
        back to that place, and nobody looks at its card."""

    def see(self, machine: Any, place: float | None) -> None:
        cached = machine.agent != 0 and machine.leaving is None
        if self.cached and not cached:
            self.place = place
        self.turn, self.agent, self.cached = machine.turn, machine.agent, cached


class TurnThatBuilds(Turn):
    """One whose caller waits on a thread of its own, as far as the session knows."""

    __slots__ = ()

    def _request(self, loop: Any, here: bool = True) -> BeginTurn:
        return super()._request(loop, here=here)


class World:
    """A room, its clients, and what they know."""

    faults = Faults

    def __init__(self, seed: int, *, clients: int = 4, rounds: int = 6) -> None:
        self.seed = seed
        self.sim = Simulation(seed, work_time=(0.0, 0.5), haste=0.2, most_steps=60_000)
        self.random = self.sim.random
        self.fault_rate = self.random.choice([0.0, 0.0, 0.01, 0.03])
        self.hook_failures = self.random.choice([0.0, 0.1, 0.4])
        self.hangs = self.random.choice([0.0, 0.0, 0.05])
        self.agents: list[SimulatedAgent] = []
        self.committing: Counter[str] = Counter()
        self.violations: list[str] = []
        self.generations: dict[Any, tuple[int, int]] = {}
        self.started: set[str] = set()
        self.turns: dict[str, Any] = {}
        self.order: dict[str, Seen] = {}
        self.unstuck: SimulatedFuture[None] = SimulatedFuture(self.sim, "a hook", "the end")
        self.draining = False
        self.over = False
        """The deadline of the drain has passed: what is still in a turn is closed by force."""
        self.shelf: Shelf | None = None
        if self.random.random() < 0.5:
            self.shelf = Shelf(self.random, self.random.choice([0.0, 0.0, 0.05, 0.3]))
            self.shelf.clock = self.sim.clock
        weighed = self.random.choice([True, False, False])  # then no turn is warm
        self.letters: list[str] = []
        self.sim._on_dead_letter = self._dead_letter
        self.room = Greenroom(
            self._build,
            policy=Policy(
                cap=self.random.choice([1, 2, 3]),
                idle_ttl=self.random.choice([None, 2.0, 10.0]),
                sweep_every=self.random.choice([None, 1.5]),
                session_ttl=self.random.choice([None, 6.0]),
                max_waiting=self.random.choice([0, 2, 16]),
                commit_timeout=4.0,
                build_timeout=BUILD_TIMEOUT,
                teardown_timeout=4.0 if self.hangs else None,
                retry_first=0.5,
                retry_most=4.0,
                memory_budget=self.random.choice([None, 250]) if weighed else None,
                memory_batch=2,
                lease_ttl=self.random.choice([1.0, 15.0]),
                store_timeout=self.random.choice([0.4, 10.0]),
                weigh=(lambda _: 100) if weighed else None,
            ),
            runtime=self.sim,
            store=self.shelf,
        )
        self.room._line.begin_async = self._begin_and_build  # type: ignore[method-assign]
        supervisor = self.room._line.supervisor.actor_inbox.actor
        assert isinstance(supervisor, CacheSupervisor)
        requests = supervisor._requests
        requests.release = functools.partial(self._release, requests)  # type: ignore[method-assign]
        rates = {"handler": self.fault_rate, "effect": self.fault_rate}
        self.sim._faults = self.faults(rates, self.random)
        self.clients = [
            self.sim.task(self._client(rounds), f"client {number}") for number in range(clients)
        ]
        self.report: Any = None

    def violated(self, invariant: int, what: str) -> None:
        """Note a violation where raising would only be taken for a failing hook."""
        self.violations.append(f"invariant {invariant}: {what}")

    # What the room calls.

    async def _build(self, context: Any) -> SimulatedAgent:
        await self.sim.sleep(self.random.uniform(0.0, 1.0))
        if self.random.random() < self.hangs * 2:
            try:
                await self.sim.sleep(self.random.uniform(5.0, 15.0))
            except asyncio.CancelledError:
                await self.sim.sleep(1.0)  # given up, it builds all the same: a late agent
        if self.random.random() < self.hook_failures / 2:
            raise OSError("the build failed")
        agent = SimulatedAgent(self, context.key, len(self.agents) + 1)
        self.agents.append(agent)
        return agent

    async def slow_hook(self) -> None:
        """Take some time, and fail or hang as often as this world wants."""
        if self.random.random() < self.hangs:
            await self.unstuck
        await self.sim.sleep(self.random.uniform(0.0, 1.5))
        if self.random.random() < self.hook_failures:
            raise self.random.choice([OSError, SystemExit, asyncio.CancelledError])("the hook failed")

    def _dead_letter(self, who: Any, message: Any) -> None:
        self.letters.append(type(message).__name__)

    # Clients.

    async def _client(self, rounds: int) -> None:
        for _ in range(rounds):
            await self.sim.sleep(self.random.uniform(0.0, 2.0))
            action = self.random.random()
            try:
                if action < 0.7:
                    await self._turn()
                elif action < 0.9:
                    await self._tell_session(self.random.choice(KEYS))
                else:
                    await self._tell_supervisor()
            except (GreenroomError, InjectedFault, pykka.ActorDeadError):
                pass  # an answer, if not a nice one

    async def _turn(self) -> None:
        key = self.random.choice(KEYS)
        task = self.sim.task(self._take_turn(key), f"turn of {key}")
        if self.random.random() < 0.2:
            await self.sim.sleep(self.random.uniform(0.0, 2.0))
            task.cancel()
        try:
            await task
            task.get()
        except asyncio.CancelledError:
            task._seen = True

    async def _take_turn(self, key: str) -> None:
        random = self.random
        turn = self.room.turn(
            key,
            random.choice(SPECS),
            on_busy=random.choice(["wait", "wait", "reject"]),
            timeout=random.choice([None, None, 1.0, 4.0]),
            ephemeral=random.random() < 0.1,
        )
        if turn._timeout is None and random.random() < 0.5:
            turn.__class__ = TurnThatBuilds
        asked, drained = self.sim.clock(), self.room._context.draining
        try:
            async with turn:
                if drained:
                    self.violated(7, f"a turn of {key} began although the room was being drained")
                self._check_wait(key, self.sim.clock() - asked)
                agent = turn.agent
                self._check_entry(key, agent)
                agent.in_turn = True
                try:
                    completes = await self._body(turn)
                finally:
                    agent.in_turn = False
                if completes and turn._counts and not self.over:
                    agent.completed += 1  # nothing can come between this and the end of the turn
        except ZeroDivisionError:
            pass
        except (GreenroomError, InjectedFault, pykka.ActorDeadError):
            pass

    async def _begin_and_build(self, key: str, request: BeginTurn) -> Any:
        """What a caller does that builds where it waits, step by step: others run in between."""
        answer = await Line.begin_async(self.room._line, key, request)
        if not isinstance(answer, BuildHere):
            return answer
        session = self.room._line.find(key)
        if session is None:
            raise pykka.ActorDeadError
        strikes = self.random.random()
        agent, error = None, None
        try:
            agent = await self._build(answer.context)
        except OSError as raised:
            error = raised
        if strikes < 0.1:
            if agent is not None:
                agent.farewells += 1  # the caller has it in hand, and closes it
            raise asyncio.CancelledError  # it was struck
        ended = BuildEnded(
            incarnation=answer.incarnation,
            agent=agent,
            error=error,
            weight=100,
            seconds=0.0,
            returned=True,
            turn=request,
        )
        try:
            return await session.ask(ended, block=False)
        except (GreenroomError, pykka.ActorDeadError) as refusal:
            if agent is not None and isinstance(refusal, pykka.ActorDeadError):
                agent.farewells += 1  # the caller closes it
            raise
        except BaseException:
            # The session failed on it, or this caller was struck: as a notice, it is not lost.
            try:
                session.tell(ended)
            except pykka.ActorDeadError:
                if agent is not None:
                    agent.farewells += 1
            raise

    async def _body(self, turn: Any) -> bool:
        """Do something with the agent. False if the turn will not be completed."""
        ends = self.random.random()
        await self.sim.sleep(self.random.uniform(0.0, LONGEST_BODY))
        if ends < 0.1:
            turn.cancel()
            return False
        if ends < 0.2:
            raise ZeroDivisionError
        if ends < 0.3:
            turn.discard("says the client")
        return True

    async def _tell_session(self, key: str) -> None:
        session = self.room._line.find(key)
        if session is None:
            return
        messages: list[Any] = [
            CommitSession(wait=self.random.random() < 0.5, timeout=self.random.choice([None, 1.0])),
            EvictAgent(),
            CloseSession(interrupt=self.random.random() < 0.5, reason=Reason.EXPLICIT),
            RenewSession(),
            UseSettings(method="__setitem__", args=("model", "x")),
        ]
        await session.ask(self.random.choice(messages), block=False)

    async def _tell_supervisor(self) -> None:
        messages: list[Any] = [
            SweepRoom(),
            Configure(changes={"cap": self.random.choice([1, 2, 4])}),
        ]
        await self.room._line.supervisor.ask(self.random.choice(messages), block=False)

    # The run.

    def run(self) -> None:
        """Let everything happen, drain, and check."""
        with self.sim:
            while not all(client.done() for client in self.clients):
                self._step()
            self.draining = True
            # With haste, time leaps while messages wait, and says nothing about how long a drain takes.
            self.sim._haste = self.random.choice([0.0, 0.2])
            drain = self.sim.task(self._drain(), "drain")
            late = self.sim.task(self._client(2), "late client")
            while not (drain.done() and late.done()):
                self._step()
            self.sim._faults = Faults(None, self.random)
            drain.get()
            late.get()
            for client in self.clients:
                client.get()
            self._let_the_rest_end()
            self._check_the_end()

    async def _drain(self) -> None:
        began = self.sim.clock()
        deadline = self.random.choice([0.0, 1.0, DEADLINE])
        self.sim.call_later(deadline, self._deadline_passes)
        while self.report is None:
            try:
                self.report = await self.room._line.supervisor.ask(_drain_message(deadline), block=False)
            except InjectedFault:
                pass  # the message was not handled: asked again
        if not self.sim._haste and self.sim.clock() - began > deadline + 1.0:
            self.violated(7, f"the drain took {self.sim.clock() - began} s, of {deadline}")

    def _deadline_passes(self) -> None:
        self.over = True

    def _step(self) -> None:
        if not self.sim.step():
            raise Violation(f"invariant 5: somebody waits for ever\n{self.sim.waiting()}")
        self._check()

    def _let_the_rest_end(self) -> None:
        """Hooks that hang end some day, and late agents are let go then."""
        self.over = True
        self.unstuck.set()
        self.sim.run(100.0)

    # Checks.

    def _check(self) -> None:
        if not self.fault_rate:
            self._check_order()  # an actor that crashes may stamp its card later than the turn has ended
        if self.violations:
            raise Violation("; ".join(self.violations))
        if self.shelf is not None and self.shelf.problems:
            raise Violation(f"invariant 3, in the store: {self.shelf.problems}")
        for key, card in self.room._context.cards.items():
            session = card.ref.actor_inbox.actor
            if isinstance(session, Session):
                self._check_session(key, session)
                self._check_card(key, session)
        if not self.draining:
            self._check_cap()

    def _check_session(self, key: str, session: Session) -> None:
        machine = session._state.machine
        generations = machine.generations
        started = machine.commit is CommitState.STARTED
        began = generations.in_flight if started and key not in self.started else None
        turn, self.turns[key] = self.turns.get(key), machine.turn
        in_turn = machine.turn is not None and machine.turn is turn  # since the last look, at least
        if began is not None and began.owner == machine.agent and in_turn:
            raise Violation(f"invariant 1: a commit of {key} began in the middle of its turn")
        (self.started.add if started else self.started.discard)(key)
        now = (generations.generation, generations.committed)
        before = self.generations.get(session.actor_ref, (0, 0))
        if now < before or now[1] < before[1] or now[1] > now[0]:
            raise Violation(f"invariant 3: {key} went from {before} to {now}")
        self.generations[session.actor_ref] = now

    def _check_card(self, key: str, session: Session) -> None:
        """Whenever a session has nothing in hand, its card says how it is."""
        card, machine, mailbox = session._state.card, session._state.machine, session.actor_inbox
        if mailbox.state != OPEN or mailbox.outbox is not None:
            return
        cached = machine.agent != 0 and machine.leaving is None
        found = (card.in_turn, card.cached, card.dirty, card.busy)
        if found != (machine.in_use, cached, machine.generations.dirty > 0, machine.busy):
            raise Violation(f"the card of {key} says {found}, and the session is {machine.state}")

    def _check_order(self) -> None:
        """Keep the order of use, by the steps in which turns are seen to begin and end. Who goes for the
        cap was not used since it was asked. Whether it was rightly asked is judged when that is decided:
        the order may change before the session has the request."""
        step, order = len(self.sim._trace), self.order
        supervisor = self.room._line.supervisor.actor_inbox.actor
        if not isinstance(supervisor, CacheSupervisor):
            return
        for key, card in self.room._context.cards.items():
            session = card.ref.actor_inbox.actor
            if not isinstance(session, Session):
                continue
            machine, seen = session._state.machine, order.setdefault(key, Seen())
            used = seen.used
            if (machine.turn, machine.agent) != (seen.turn, seen.agent) and machine.agent:
                seen.used = step
            reasons = {d.reason for d in machine.departures if d.incarnation == seen.agent}
            leaves = Reason.CAPACITY in (machine.leaving, *reasons)
            went = leaves and seen.cached and not (machine.agent and machine.leaving is None)
            if went and used > seen.asked_at:
                self.violated(2, f"{key} went, and was used since it was asked to")
            residents = supervisor._bounds.residents
            seen.see(machine, residents._order.get(key, residents._held.get(key)))

    def _release(self, requests: Requests, candidates: Any, reason: Reason, **options: Any) -> None:
        """Judge who is asked to go for the cap, with what the supervisor knows, and pass it on."""
        if reason is Reason.CAPACITY and not self.fault_rate:
            self._check_order()  # several actors may run in one step of a simulation with warm turns
            for key, _ in candidates:
                self._check_asked(key)
        Requests.release(requests, candidates, reason, **options)

    def _check_asked(self, key: str) -> None:
        """C3, C5: only the first (size - cap) in the order of use are asked, and none before an older
        one, which may be held by its turn."""
        supervisor = self.room._line.supervisor.actor_inbox.actor
        assert isinstance(supervisor, CacheSupervisor)
        residents, order = supervisor._bounds.residents, self.order
        order[key].asked_at = len(self.sim._trace)
        # The notice that an agent is gone may be on its way. But a session that has another place in the
        # order since then had its card read, which says so: it does not count any more.
        counted = {
            other
            for other, seen in order.items()
            if other in residents and (seen.cached or seen.place == residents._order.get(other))
        }
        older = {
            other for other in counted if order[other].cached and order[other].used < order[key].used
        }
        beyond = len(counted) - (self.room.policy.cap or 0)
        if len(older) >= beyond:
            self.violated(2, f"{key} was asked to go: {beyond} are beyond the cap, {older} are older")
        passed_over = older - {*residents._asked, *residents._held}
        if passed_over:
            self.violated(2, f"{key} was asked to go, and {passed_over} were used longer ago")

    def _check_cap(self) -> None:
        """Whenever no message is on its way, everything beyond the cap is in a turn."""
        supervisor = self.room._line.supervisor.actor_inbox.actor
        if any(not mailbox.empty() or mailbox.state != OPEN for mailbox in self.sim._mailboxes()):
            return
        if not isinstance(supervisor, CacheSupervisor):
            return
        cap, cached = self.room.policy.cap or 0, self.room.keys()
        for key in cached[: max(0, len(cached) - cap)]:
            session = self.room._context.cards[key].ref.actor_inbox.actor
            if isinstance(session, Session) and not session._state.machine.in_use:
                raise Violation(f"invariant 2: {key} is beyond the cap of {cap} and not in a turn")
        counted = {key for key in KEYS if key in supervisor._bounds.residents}
        if counted != set(cached):
            raise Violation(f"invariant 2: {counted} are counted, and {cached} have an agent")

    def _check_entry(self, key: str, agent: SimulatedAgent) -> None:
        if self.over:
            return  # it may have been granted before, and taken back by force since
        if agent.in_turn:
            self.violated(1, f"two turns on agent {agent.number} of {key}")
        if agent.farewells:
            self.violated(1, f"a turn got agent {agent.number} of {key}, which was let go")
        others = [a for a in self.agents if a.key == key and a.in_turn and a is not agent]
        if others:
            self.violated(1, f"two agents of {key} are in a turn at once")

    def _check_wait(self, key: str, waited: float) -> None:
        most = 17 * (LONGEST_BODY + BUILD_TIMEOUT + 1.0)
        if waited > most:
            self.violated(7, f"a turn of {key} waited {waited} s")

    def _may_be_kept(self, hook_failures: int) -> int:
        """Where hooks hang, one may be given up before the simulation lets it begin."""
        return hook_failures if self.hangs else 0

    def _check_the_end(self) -> None:
        if self.violations:
            raise Violation("; ".join(self.violations))
        failures = self.sim.stats().failures
        if failures and not self.fault_rate:
            raise Violation(f"invariant 5: {failures} actors failed, and nobody made them")
        kept = [f"{agent.number} of {agent.key}" for agent in self.agents if not agent.farewells]
        supervisor = self.room._line.supervisor.actor_inbox.actor
        assert isinstance(supervisor, CacheSupervisor)
        if len(kept) > self._may_be_kept(supervisor._counters.counts["hook_failures"]):
            raise Violation(f"invariant 6: the agents {kept} were never let go")
        blamed = {*self.report.failed, *self.report.abandoned}
        for agent in self.agents:
            if agent.completed > agent.committed and agent.key not in blamed:
                raise Violation(
                    f"invariant 4: {agent.completed - agent.committed} turns of agent {agent.number} of "
                    f"{agent.key} are neither committed nor reported: {self.report}"
                )
        waiting = [task.name for task in self.sim._tasks if not task.done()]
        if waiting:
            raise Violation(f"invariant 5: nobody answered {waiting}\n{self.sim.waiting()}")


def _drain_message(deadline: float) -> Any:
    from greenroom.messages import DrainRoom

    return DrainRoom(deadline=deadline)


def run(seed: int, kind: type[World] = World) -> World:
    """Run one world. Raises with its seed if an invariant does not hold."""
    log = logging.getLogger("greenroom")
    level = log.level
    log.setLevel(logging.CRITICAL)  # so much goes wrong there
    try:
        world = kind(seed)
        world.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        log.setLevel(level)
    return world
