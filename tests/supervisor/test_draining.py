"""The drain of a room: what is told to whom, and who is answered when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from greenroom.messages import DrainSession, SessionDrained
from greenroom.supervisor.drain import ABANDON, ANSWER, FORCE, REPORT, STAGES
from greenroom.supervisor.draining import Draining


class Room:
    """Sessions that are told something, and a clock."""

    def __init__(self, keys: str) -> None:
        self.now = 0.0
        self.told: list[tuple[str, DrainSession]] = []
        cards = {key: SimpleNamespace(ref=self._ref(key)) for key in keys}
        context: Any = SimpleNamespace(cards=cards, runtime=SimpleNamespace(clock=lambda: self.now))
        self.draining = Draining(context)
        self.answers: list[Any] = []
        reply: Any = SimpleNamespace(set=self.answers.append)
        self.draining.wait(reply)

    def _ref(self, key: str) -> Any:
        def deliver(message: DrainSession) -> None:
            self.told.append((key, message))

        return SimpleNamespace(actor_inbox=SimpleNamespace(deliver=deliver))


@pytest.fixture
def room() -> Room:
    room = Room("ab")
    room.draining.begin(10.0)
    return room


def drained(key: str) -> SessionDrained:
    return SessionDrained(key=key, committed=True, left=0, abandoned=False, problem=None)


def test_a_room_that_is_not_drained_has_no_stages_and_nothing_to_sum_up() -> None:
    draining = Room("a").draining
    draining.drained(drained("a"))
    draining.gone("a")
    draining.reach(FORCE)
    draining.answer()
    assert (draining.stages_left(), draining.sum_up(late=True), draining.answered) == ({}, False, False)


def test_whoever_is_still_to_be_heard_of_is_told_at_each_stage(room: Room) -> None:
    """D1"""
    room.draining.gone("a")
    for stage in STAGES:
        room.draining.reach(stage)
    assert room.told == [
        ("a", DrainSession(deadline=10.0)),
        ("b", DrainSession(deadline=10.0)),
        ("b", DrainSession(deadline=10.0, force=True)),
        ("b", DrainSession(deadline=10.0, abandon=True)),
    ]
    assert room.answers == []


def test_the_report_is_written_once_when_everybody_was_heard_of(room: Room) -> None:
    """D3, D4"""
    room.draining.drained(drained("a"))
    assert not room.draining.sum_up()
    room.draining.drained(drained("b"))
    assert room.draining.sum_up()
    assert not room.draining.sum_up(late=True)
    room.draining.reach(ABANDON)
    assert len(room.told) == 2, "nobody is told anything behind the report"
    room.draining.answer()
    assert room.answers == [room.draining.report]


def test_at_the_stage_of_the_report_the_others_are_abandoned(room: Room) -> None:
    """D2"""
    assert room.draining.sum_up(late=True)
    assert room.draining.report is not None
    assert room.draining.report.abandoned == ("a", "b")


def test_a_supervisor_that_is_restarted_still_answers_in_time(room: Room) -> None:
    """D2. The report is there, and the store does not say that it has handed everything over: the timer
    of the answer is set again."""
    room.now = 4.0
    room.draining.sum_up(late=True)
    assert room.draining.stages_left() == {FORCE: 6.0, ABANDON: 6.5, REPORT: 6.8, ANSWER: 6.9}
    room.draining.reach(ANSWER)
    assert (room.answers, room.draining.stages_left()) == ([room.draining.report], {})
