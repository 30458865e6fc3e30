"""The admission actor: who is let in, who waits, who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from greenroom import Overloaded, RoomClosed, Runtime, SessionBusy
from greenroom.gateway._admission import Admission, Door, Ticket, TooManySessions


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime() as runtime:
        yield runtime


def admission(runtime: Runtime, **limits: int) -> Any:
    figures = {"running": 2, "waiting": 3, "waiting_each": 2, "sessions_each": 4} | limits
    return runtime.start(Admission, **figures).proxy()


def ticket(session: str, *, busy: str = "queue", tenant: str = "t", interrupted: Any = None) -> Ticket:
    calls: list[str] = [] if interrupted is None else interrupted
    return Ticket(tenant, f"{tenant}/{session}", busy, lambda: calls.append(session))


def is_in(answer: Any) -> bool:
    return bool(answer.done())


def test_whoever_may_begin_is_answered_at_once_and_the_others_when_they_may(runtime: Runtime) -> None:
    hall = admission(runtime)
    first, second = ticket("a"), ticket("a")
    assert hall.enter(first).get() is None
    waiting = hall.enter(second)
    assert not is_in(waiting)
    assert hall.figures().get() == (1, 1)

    hall.leave(first).get()

    assert waiting.get(timeout=5) is None
    assert hall.figures().get() == (1, 0)


def test_a_busy_session_can_be_rejected(runtime: Runtime) -> None:
    hall = admission(runtime)
    hall.enter(ticket("a")).get()

    with pytest.raises(SessionBusy):
        hall.enter(ticket("a", busy="reject")).get()
    hall.enter(ticket("b", busy="reject")).get()

    assert hall.figures().get() == (2, 0)


def test_one_that_interrupts_interrupts_what_runs_and_goes_before_the_others(runtime: Runtime) -> None:
    hall = admission(runtime)
    interrupted: list[str] = []
    running = ticket("a", interrupted=interrupted)
    hall.enter(running).get()
    patient, urgent = hall.enter(ticket("a")), hall.enter(ticket("a", busy="interrupt"))
    assert interrupted == ["a"]

    hall.leave(running).get()

    assert is_in(urgent)
    assert not is_in(patient)


def test_more_than_may_wait_are_refused(runtime: Runtime) -> None:
    hall = admission(runtime, running=1, waiting=3, waiting_each=2)
    for _ in range(3):
        hall.enter(ticket("a"))
    with pytest.raises(Overloaded, match="'t/a' has 2 turns waiting"):
        hall.enter(ticket("a")).get()

    hall.enter(ticket("b"))

    with pytest.raises(Overloaded, match="3 turns are waiting"):
        hall.enter(ticket("c")).get()


def test_a_tenant_has_only_so_many_sessions_until_some_have_ended(runtime: Runtime) -> None:
    hall = admission(runtime, sessions_each=1)
    a = ticket("a")
    hall.enter(a).get()
    with pytest.raises(TooManySessions):
        hall.enter(ticket("b")).get()
    hall.enter(ticket("b", tenant="u")).get()

    hall.leave(a).get()
    hall.ended("t/a").get()

    hall.enter(ticket("b")).get()


def test_a_session_that_is_in_a_turn_again_counts_although_one_of_its_name_has_ended(
    runtime: Runtime,
) -> None:
    """The room tells of an end later than the next turn of that name may begin."""
    hall = admission(runtime, sessions_each=1)
    hall.enter(ticket("a")).get()

    hall.ended("t/a").get()

    with pytest.raises(TooManySessions):
        hall.enter(ticket("b")).get()


def test_when_it_is_shut_those_who_wait_and_those_who_come_are_told_so(runtime: Runtime) -> None:
    hall = admission(runtime, running=1)
    running = ticket("a")
    hall.enter(running).get()
    waiting = hall.enter(ticket("b"))

    hall.shut().get()

    for answer in (waiting, hall.enter(ticket("c"))):
        with pytest.raises(RoomClosed):
            answer.get(timeout=5)
    hall.leave(running).get()
    assert hall.figures().get() == (0, 0)


def test_other_limits_hold_at_once(runtime: Runtime) -> None:
    hall = admission(runtime, running=1)
    hall.enter(ticket("a")).get()
    waiting = hall.enter(ticket("b"))

    hall.allow(running=2, waiting=0, waiting_each=0, sessions_each=9).get()

    waiting.get(timeout=5)
    with pytest.raises(Overloaded):
        hall.enter(ticket("c")).get()


def test_what_runs_can_be_interrupted_by_its_key(runtime: Runtime) -> None:
    hall = admission(runtime)
    interrupted: list[str] = []
    hall.enter(ticket("a", interrupted=interrupted)).get()

    assert hall.interrupt("t/a").get() is True
    assert hall.interrupt("t/b").get() is False
    assert interrupted == ["a"]


# The door: in and out without a message, if nobody is in the way.


class Hall:
    """An admission, and the door to it."""

    def __init__(self, runtime: Runtime, **limits: int) -> None:
        figures = {"running": 2, "waiting": 3, "waiting_each": 2, "sessions_each": 4} | limits
        reference = runtime.start(Admission, **figures)
        self.door = Door(reference)
        self.admission: Any = reference.proxy()

    def figures(self) -> Any:
        return self.admission.figures().get()


def test_a_turn_that_nobody_stands_before_comes_and_goes_at_once(runtime: Runtime) -> None:
    hall, turn = Hall(runtime), ticket("a")

    assert hall.door.enter_now(turn)
    assert hall.figures() == (1, 0)
    hall.door.leave(turn)
    hall.door.leave(turn)  # twice does no harm

    assert hall.figures() == (0, 0)


def test_its_session_counts(runtime: Runtime) -> None:
    hall, turn = Hall(runtime, sessions_each=1), ticket("a")
    assert hall.door.enter_now(turn)
    hall.door.leave(turn)

    assert not hall.door.enter_now(ticket("b"))
    with pytest.raises(TooManySessions):
        hall.admission.enter(ticket("b")).get()
    assert hall.door.enter_now(ticket("a"))
    assert hall.door.enter_now(ticket("b", tenant="other"))


@pytest.mark.parametrize("way", ["its session is in a turn", "all places are taken", "it is shut"])
def test_one_that_may_not_begin_at_once_changes_nothing(runtime: Runtime, way: str) -> None:
    hall = Hall(runtime, running=2)
    assert hall.door.enter_now(ticket("a"))
    if way == "all places are taken":
        assert hall.door.enter_now(ticket("b"))
    elif way == "it is shut":
        hall.admission.shut().get()
    before = hall.figures()

    assert not hall.door.enter_now(ticket("a" if way == "its session is in a turn" else "c"))

    assert hall.figures() == before


def test_whoever_waits_for_one_that_leaves_begins(runtime: Runtime) -> None:
    hall, first = Hall(runtime), ticket("a")
    assert hall.door.enter_now(first)
    waiting = hall.admission.enter(ticket("a"))
    assert not is_in(waiting)

    hall.door.leave(first)

    assert waiting.get(timeout=5) is None
    assert hall.figures() == (1, 0)


def test_one_that_comes_at_once_does_not_go_before_one_that_waits(runtime: Runtime) -> None:
    hall, first = Hall(runtime, running=1), ticket("a")
    assert hall.door.enter_now(first)
    waiting = hall.admission.enter(ticket("b"))
    hall.admission.allow(running=1, waiting=3, waiting_each=2, sessions_each=4).get()

    assert not hall.door.enter_now(ticket("c"))
    hall.door.leave(first)
    assert is_in(waiting)
    assert not hall.door.enter_now(ticket("c"))


def test_one_that_gives_up_waiting_leaves_the_queue(runtime: Runtime) -> None:
    hall, patient = Hall(runtime), ticket("a")
    assert hall.door.enter_now(ticket("a"))
    hall.admission.enter(patient)
    assert hall.figures() == (1, 1)

    hall.door.leave(patient)

    assert hall.figures() == (1, 0)
