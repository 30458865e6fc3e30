"""Actors of a room that fail again and again: whoever waits is answered.

A session does its *effects* one after the other, and may fail at each. Who fails there is restarted and
tries again; four times at the same effect, and it is left out; four times within five seconds at
whatever, and the session takes no turn until it is ended.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import math
import random
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom import Greenroom, GreenroomError, Policy, SessionFailed, messages
from greenroom.actors.session import Session
from greenroom.actors.simulation import InjectedFault, Simulation
from greenroom.messages import (
    CloseSession,
    CommitSession,
    EndTurn,
    EvictAgent,
    Reason,
    SettleRoom,
    SweepRoom,
    UseSettings,
)
from greenroom.supervisor.recovery import Recovery
from greenroom.testing import RecordingAgent, RecordingBuild
from tests.simulation.shelf import Row, Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PASSES, FAILS = False, True


class Stumbling(Simulation):
    """A simulation in which effects fail by a plan: one entry for every time that one is tried."""

    def __init__(self, *, pause: float = 0.0) -> None:
        super().__init__(haste=0.0, work_time=(0.0, 0.1), most_steps=20_000)
        self.plan: Iterator[bool] = iter(())
        self.fails_on: list[str] = []
        """The messages that the next actors to get such fail on, once each."""
        self.pause = pause
        """How long every failure takes: on a machine that is out of breath, seconds."""

    def fault_point(self, name: str) -> None:
        if name == "effect" and next(self.plan, PASSES):
            self._time.advance(self.pause)
            raise InjectedFault(name)
        message = self._trace[-1].rpartition(" ")[2]
        if name == "handler" and message in self.fails_on:
            self.fails_on.remove(message)
            raise InjectedFault(name)


def open_room(sim: Simulation, build: Any = None, *, store: bool = False) -> Greenroom:
    shelf = None
    if store:
        shelf = Shelf(random.Random(1))
        shelf.clock = sim.clock
    policy = Policy(sweep_every=None, idle_ttl=1.0, session_ttl=30.0, lease_ttl=1000.0, retry_first=1.0)
    return Greenroom(build or RecordingBuild(), policy=policy, runtime=sim, store=shelf)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "greenroom")  # so much goes wrong here


def test_a_session_that_fails_before_it_has_said_that_it_failed_too_often_says_so_later() -> None:
    """Invariant 5.

    1. The actor fails at the build, and is restarted. 2. It fails at the grant three times: that makes
    four failures in a short time, so the session takes no turn any more. 3. The incarnation that is
    started to say so does what is left over first, and fails at the grant once more: the grant is left
    out. 4. The next incarnation must still know of 2: the turn has the agent, and its caller waits.
    """
    with Stumbling() as sim:
        room = open_room(sim)
        sim.plan = iter([FAILS, PASSES, PASSES, FAILS, FAILS, FAILS, FAILS])
        with pytest.raises(SessionFailed), room.turn("a"):
            pass
        assert room.stats().in_turn == 0
        assert next(sim.plan, None) is None

        room.end("a")
        with room.turn("a"):
            pass


def test_what_a_session_fails_at_slowly_is_not_left_out_without_a_word() -> None:
    """Invariant 5: four failures at the grant, and never four of them in a short time."""
    with Stumbling(pause=4.0) as sim:
        room = open_room(sim)
        sim.plan = iter([PASSES, PASSES, FAILS, FAILS, FAILS, FAILS])
        with pytest.raises(SessionFailed), room.turn("a"):
            pass
        assert room.stats().in_turn == 0


def test_a_message_is_not_lost_when_a_session_fails_at_saying_that_it_failed_too_often() -> None:
    """Invariant 5.

    1. The actor fails at the build three times. 2. It fails on the outcome of the build: once too often.
    3. The next incarnation fails at the refusal of the turn that waits. 4. The one after that must still
    be given the outcome of the build: else the session is building for ever, and cannot be ended.
    """

    async def turn() -> None:
        async with room.turn("a"):
            pass

    with Stumbling() as sim:
        room = open_room(sim)
        sim.plan = iter([FAILS, FAILS, FAILS, PASSES, PASSES, FAILS])
        sim.fails_on = ["BuildEnded", "BuildEnded"]  # it is asked first, and then told
        turns = [sim.task(turn()), sim.task(turn())]
        sim.run()
        for answer in turns:
            with pytest.raises(SessionFailed):
                answer.get()
        assert (next(sim.plan, None), sim.fails_on) == (None, [])

        room.end("a")
        with room.turn("a"):
            pass


def answer_of(room: Greenroom, plan: Iterable[bool]) -> str:
    room._context.runtime.plan = iter(plan)  # type: ignore[attr-defined]  # a simulation that stumbles
    try:
        with room.turn("a"):
            pass
    except (GreenroomError, InjectedFault) as error:
        return type(error).__name__
    return "granted"


@pytest.mark.parametrize("store", [False, True])
def test_whichever_effects_of_a_turn_fail_and_how_often_its_caller_is_answered(store: bool) -> None:
    """Invariant 5: every plan there is, of eight, from the beginning of the turn and from its end. Who
    is not answered raises `Deadlock` or `NotIdle`."""
    answers: dict[str, Any] = {}
    for late, rest in itertools.product([0, 8], itertools.product([PASSES, FAILS], repeat=8)):
        plan = [PASSES] * late + [*rest]
        with Stumbling() as sim:
            room = open_room(sim, store=store)
            answers.setdefault(answer_of(room, plan), plan)
            sim.run(10.0)
            assert room.stats().in_turn == 0, plan
    expected = {"granted", "SessionFailed"} | ({"NotRecorded"} if store else set())
    assert set(answers) == expected


# Messages and effects that fail whenever they are tried.

OF_A_VISIT = """
    Answer BeginTurn Build BuildEnded CloseResources CloseSession Commit CommitEnded
    CommitGaveUp CommitSession EndSession EndTurn EvictAgent Grant Insert
    SessionOver Pause Refuse ReleaseAgent Retain StartCommit TearDown
    TeardownEnded TurnOver UseSettings WithdrawTurn _expire_turn _retry_commit
"""
OF_A_STORE = """
    Enter look_at_ledger Record EnterStore RecordTurn TurnRecorded Answered(EnterStore)
    Answered(RecordTurn)
"""
OF_A_RECOVERY = """
    Build BuildEnded Commit CommitEnded RecoverSession StartCommit TearDown TeardownEnded EnterStore
    Answered(EnterStore) Answered(RecordTurn)
"""


def planted(names: str) -> list[Any]:
    """Effects, answers of the store, methods, and messages."""
    kinds: dict[str, Any] = {kind.__name__: (Session._performers, kind) for kind in Session._performers}
    kinds |= {f"Answered({kind.__name__})": (Session._answers, kind) for kind in Session._answers}
    kinds |= {name: (Session, name) for name in names.split() if name.islower()}
    kinds |= {name: (Session._methods, getattr(messages, name)) for name in {*names.split()} - {*kinds}}
    return [pytest.param(*kinds[name], id=name) for name in names.split()]


def plant(table: Any, kind: Any, monkeypatch: pytest.MonkeyPatch, times: float = math.inf) -> list[str]:
    """Have actors fail so many times at what is in a table, or at a method of their class. Returns how
    often they have, so far."""
    failures: list[str] = []
    handle = getattr(table, kind) if isinstance(kind, str) else table[kind]

    @functools.wraps(handle)
    def fail(actor: Any, *args: Any) -> Any:
        if len(failures) >= times:
            return handle(actor, *args)
        failures.append(str(args))
        raise ZeroDivisionError(args)

    if isinstance(kind, str):
        monkeypatch.setattr(table, kind, fail)
    else:
        monkeypatch.setitem(table, kind, fail)
    return failures


class Visit:
    """Callers of one session, who take any answer, and an agent that cannot always commit."""

    def __init__(self, sim: Simulation, *, store: bool) -> None:
        self.sim = sim
        self.fails: dict[str, Any] = {}
        self.room = open_room(sim, self.build, store=store)

    def build(self, context: Any) -> RecordingAgent:
        context.resources.get("pool", list, close=list.clear)
        return RecordingAgent(context, self.fails)

    def everything(self) -> None:
        self.wait_answered(self.turn())
        self.ask(CommitSession(wait=True))
        self.three_turns()
        self.ask(UseSettings(method="__setitem__", args=("model", "x")))
        self.fails["commit_memory_session"] = OSError("no")
        self.ask(CommitSession(wait=True))
        self.ask(EvictAgent())
        self.sim.run(5.0)
        self.fails.clear()
        self.wait_answered(self.turn())
        self.sweep(after=2.0)
        self.wait_answered(self.turn())
        self.sweep(after=40.0)
        self.wait_answered(self.turn())
        self.end()
        self.ask(CommitSession(wait=True))

    def turn(self, waits: float | None = None) -> Any:
        async def take() -> None:
            async with self.room.turn("a", timeout=waits):
                await self.sim.sleep(5.0)

        answer = self.sim.task(take())
        self.sim.run(0.5)
        return answer

    def three_turns(self) -> None:
        """One that is run, and two behind it: one does not wait long enough, and one is given up."""
        answers = [self.turn(), self.turn(waits=0.1), self.turn()]
        answers[2].cancel()
        for answer in answers:
            self.wait_answered(answer)

    def end(self) -> None:
        self.ask(CloseSession(interrupt=False, reason=Reason.EXPLICIT))
        self.sim.run(1.0)

    def sweep(self, after: float) -> None:
        """Its agent has been idle for long enough, or the whole session has."""
        self.sim.run(after)
        self.wait_answered(self.room._line.supervisor.ask(SweepRoom(), block=False))

    def ask(self, message: Any) -> None:
        session = self.room._line.find("a")
        if session is not None:
            self.wait_answered(session.ask(message, block=False))

    def wait_settled(self) -> None:
        self.wait_answered(self.room._line.supervisor.ask(SettleRoom(), block=False))

    def wait_answered(self, answer: Any) -> None:
        """In virtual time."""
        try:
            answer.get(timeout=100.0)
        except (GreenroomError, ZeroDivisionError, pykka.ActorDeadError, asyncio.CancelledError):
            pass


@pytest.mark.parametrize("store", [False, True], ids=["", "store"])
@pytest.mark.parametrize(("table", "kind"), planted(OF_A_VISIT))
def test_whatever_a_session_fails_at_its_callers_are_answered_and_the_next_session_works(
    table: Any, kind: Any, store: bool
) -> None:
    """Invariant 5: and nothing is under way for ever."""
    check_failures_at(table, kind, store=store)


@pytest.mark.parametrize(("table", "kind"), planted(OF_A_STORE))
def test_whatever_of_the_store_a_session_fails_at_its_callers_are_answered_and_the_next_session_works(
    table: Any, kind: Any
) -> None:
    """Invariant 5: and what it failed at is not tried all the time."""
    check_failures_at(table, kind, store=True)


def check_failures_at(table: Any, kind: Any, *, store: bool) -> None:
    with Stumbling() as sim:
        visit = Visit(sim, store=store)
        with pytest.MonkeyPatch.context() as patch:
            failures = plant(table, kind, patch)
            visit.everything()
            sim.run(20.0)
        assert 0 < len(failures) < 10 * sim.clock()  # at most a few a second

        visit.ask(CommitSession(wait=True))
        visit.end()
        visit.wait_settled()
        with visit.room.turn("a"):
            pass
        assert visit.room.commit("a").left == 0
        visit.wait_settled()


def test_a_turn_whose_end_a_session_fails_at_is_over_all_the_same() -> None:
    """Invariant 5: it is asked, and then told."""
    with Stumbling() as sim:
        visit = Visit(sim, store=False)
        with pytest.MonkeyPatch.context() as patch:
            failures = plant(Session._methods, EndTurn, patch)
            visit.wait_answered(visit.turn())
            sim.run(20.0)
        assert any("insists=True" in failure for failure in failures)
        visit.end()
        with visit.room.turn("a"):
            pass


@pytest.mark.parametrize(("table", "kind"), planted(OF_A_RECOVERY))
def test_whatever_a_session_fails_at_recoveries_go_on(table: Any, kind: Any) -> None:
    """C7: two at a time, and who fails must not keep its place for ever."""
    check_recoveries(table, kind)


def check_recoveries(table: Any, kind: Any, times: float = math.inf) -> None:
    with Stumbling() as sim:
        shelf = Shelf(random.Random(1))
        shelf.clock = sim.clock
        for name in ("s1", "s2", "s3", "s4", "s5"):
            shelf.rows[name] = Row(name, name, generation=1, owner="dead:1:ab", epoch=1)
        policy = Policy(recover_at_once=2, lease_ttl=4.0, sweep_every=None)
        with pytest.MonkeyPatch.context() as patch:
            failures = plant(table, kind, patch, times)
            Greenroom(RecordingBuild(), policy=policy, runtime=sim, store=shelf)
            sim.run(30.0)
        assert failures
        sim.run(600.0)
        assert [row.session_id for row in shelf.rows.values() if not row.committed] == []


# Those that a room has one of.


@pytest.mark.parametrize("times", [2, 3, 4, 100])
@pytest.mark.parametrize("method", ["look_now_and_again", "_orphans_found", "_opened", "_recovered"])
def test_however_often_the_recovery_fails_it_goes_on(method: str, times: int) -> None:
    """C7"""
    check_recoveries(Recovery, method, times)
