"""Session actors that fail while they do what was decided, again and again: whoever waits is answered.

A session does its *effects* one after the other, and may fail at each. Who fails there is restarted and
tries again; four times at the same effect, and it is left out; four times within five seconds at
whatever, and the session takes no turn until it is ended.
"""

from __future__ import annotations

import itertools
import logging
import random
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, GreenroomError, Policy, SessionFailed
from greenroom.actors.simulation import InjectedFault, Simulation
from greenroom.testing import RecordingBuild
from tests.simulation.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PASSES, FAILS = False, True


class Stumbling(Simulation):
    """A simulation in which effects fail by a plan: one entry for every time that one is tried."""

    def __init__(self, *, pause: float = 0.0) -> None:
        super().__init__(haste=0.0, work_time=(0.0, 0.1), most_steps=5_000)
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


def open_room(sim: Simulation, *, store: bool = False) -> Greenroom:
    shelf = None
    if store:
        shelf = Shelf(random.Random(1))
        shelf.clock = sim.clock
    policy = Policy(sweep_every=None, idle_ttl=None, lease_ttl=1000.0)
    return Greenroom(RecordingBuild(), policy=policy, runtime=sim, store=shelf)


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
    room._board.runtime.plan = iter(plan)  # type: ignore[attr-defined]  # a simulation that stumbles
    try:
        with room.turn("a"):
            pass
    except (GreenroomError, InjectedFault) as error:
        return type(error).__name__
    return "granted"


@pytest.mark.parametrize("store", [False, True])
def test_whichever_effects_of_a_turn_fail_and_how_often_its_caller_is_answered(store: bool) -> None:
    """Invariant 5: every plan there is, of eight. Who is not answered raises `Deadlock` or `NotIdle`."""
    answers: dict[str, Any] = {}
    for plan in itertools.product([PASSES, FAILS], repeat=8):
        with Stumbling() as sim:
            room = open_room(sim, store=store)
            answers.setdefault(answer_of(room, plan), plan)
            sim.run(10.0)
            assert room.stats().in_turn == 0, plan
    expected = {"granted", "SessionFailed"} | ({"NotRecorded"} if store else set())
    assert set(answers) == expected
