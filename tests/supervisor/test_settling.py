"""When a room has settled: beside sessions that begin something and tell when it is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from greenroom.actors.session.card import Card
from greenroom.supervisor.settling import Settling


class Room:
    """A room with one session, somebody who waits, and a supervisor that does as it is told."""

    def __init__(self) -> None:
        self.card = Card()
        context: Any = SimpleNamespace(cards={"a": self.card}, settling=False)
        self.context = context
        self.answers: list[bool] = []
        self.settling = Settling(context, [])

    def wait(self) -> None:
        reply: Any = SimpleNamespace(set=self.answers.append)
        self.settling.wait(reply)

    def look(self, *, under_way: bool = False) -> None:
        assert self.settling.wants_a_look(), "it waits for word of somebody"
        self.settling.look(under_way=under_way)


@pytest.fixture
def room() -> Room:
    room = Room()
    room.wait()
    return room


def test_a_quiet_room_has_settled_at_the_second_look(room: Room) -> None:
    assert room.context.settling
    room.look()
    assert room.answers == [], "notices may be on their way"
    room.look()
    assert (room.answers, room.context.settling) == ([True], False)


def test_everybody_who_waits_is_answered_at_once(room: Room) -> None:
    room.look()
    room.wait()
    room.look()
    assert room.answers == [True, True]


def test_one_look_is_on_its_way_at_most(room: Room) -> None:
    assert room.settling.wants_a_look()
    assert not room.settling.wants_a_look()


def test_a_look_that_nobody_waits_for_tells_the_next_one_nothing(room: Room) -> None:
    """After a crash of the supervisor there may be one more look on its way than anybody waits for."""
    room.look()
    room.look()
    room.settling.look(under_way=False)
    room.card.busy = True
    room.wait()
    room.look()
    assert room.answers == [True]


def test_a_busy_session_is_waited_for_without_another_look(room: Room) -> None:
    room.card.busy = True
    room.look()
    assert not room.settling.wants_a_look()
    room.card.busy = False
    room.settling.heard_of(room.card)
    room.look()
    room.look()
    assert room.answers == [True]


def test_a_session_that_is_gone_is_not_waited_for(room: Room) -> None:
    room.card.busy = True
    room.look()
    room.settling.gone(room.context.cards.pop("a"))
    room.look()
    room.look()
    assert room.answers == [True]


def test_a_notice_behind_the_look_that_led_to_something_puts_the_answer_off(room: Room) -> None:
    """1. nothing is under way  2. word comes of an agent that was built before, and another session is
    asked to let go  3. it does so, and has something under way when it answers."""
    room.look()
    room.card.busy = True
    room.settling.heard_of(room.card)
    assert not room.settling.wants_a_look()
    room.card.busy = False
    room.settling.heard_of(room.card)
    room.look()
    assert room.answers == []
    room.look()
    assert room.answers == [True]


def test_what_the_supervisor_has_under_way_puts_the_answer_off(room: Room) -> None:
    room.look()
    room.look(under_way=True)
    room.look()
    assert room.answers == []
    room.look()
    assert room.answers == [True]


def test_a_session_that_was_restarted_is_looked_at_again(room: Room) -> None:
    room.look()
    room.settling.disturbed()
    room.card.busy = True
    room.look()
    assert room.answers == []
    assert not room.settling.wants_a_look()
