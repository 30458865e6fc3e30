"""Timers, on a clock that the test owns; one test on the real one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.actors import Actor, ManualClock, Runtime
from greenroom.actors.runtime._timers import Timer, TimerQueue
from tests.actors.actors import PATIENCE, Recorder
from tests.room.agents import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def slow_time(clock: ManualClock) -> Iterator[Runtime]:
    with Runtime(clock=clock) as runtime:
        yield runtime


def test_a_timer_calls_when_it_is_due_and_once(slow_time: Runtime, clock: ManualClock) -> None:
    calls: list[float] = []
    slow_time.call_later(10.0, lambda: calls.append(clock()))

    clock.advance(9.9)
    assert calls == []
    clock.advance(0.2)
    clock.advance(100.0)

    assert calls == [10.0]


def test_timers_call_in_order_and_those_due_together_as_they_were_set(
    slow_time: Runtime, clock: ManualClock
) -> None:
    calls: list[str] = []
    for delay, name in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b")):
        slow_time.call_later(delay, calls.append, name)

    clock.advance(5.0)

    assert calls == ["a", "b", "c", "d"]


def test_a_cancelled_timer_does_not_call_and_keeps_nothing(
    slow_time: Runtime, clock: ManualClock
) -> None:
    calls: list[int] = []
    timer = slow_time.call_later(1.0, calls.append, 1)
    assert slow_time.stats().timers == 1

    timer.cancel()
    clock.advance(2.0)

    assert timer.cancelled
    assert calls == []
    assert slow_time.stats().timers == 0


def test_a_repeating_timer_calls_until_cancelled(slow_time: Runtime, clock: ManualClock) -> None:
    calls: list[float] = []
    timer = slow_time.call_every(10.0, lambda: calls.append(clock()))

    clock.advance(35.0)
    timer.cancel()
    clock.advance(35.0)

    assert calls == [10.0, 20.0, 30.0]


def test_an_actor_is_told_later_and_again_and_again(slow_time: Runtime, clock: ManualClock) -> None:
    class Alarmed(Recorder):
        def set_alarms(self) -> None:
            self.call_later(1.0, "once")
            self.call_every(2.0, "again")

    ref = slow_time.start(Alarmed)
    ref.proxy().set_alarms().get()

    clock.advance(4.5)

    assert ref.proxy().received.get() == ["once", "again", "again"]


def test_timers_of_an_actor_that_stopped_end(slow_time: Runtime, clock: ManualClock) -> None:
    class Alarmed(Actor):
        def on_start(self) -> None:
            self.call_every(1.0, "tick")

    ref = slow_time.start(Alarmed)
    ref.stop()

    clock.advance(5.0)

    assert slow_time.stats().timers == 0


def test_a_timer_call_that_raises_is_logged_and_stops_no_other(
    slow_time: Runtime, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []
    slow_time.call_later(1.0, lambda: 1 / 0)
    slow_time.call_later(2.0, calls.append, 1)

    clock.advance(3.0)

    assert calls == [1]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("delay", [-1.0, float("nan")])
def test_a_delay_that_makes_no_sense_is_refused(slow_time: Runtime, delay: float) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        slow_time.call_later(delay, print)
    with pytest.raises(ValueError, match="more than 0"):
        slow_time.call_every(0.0, print)


def test_time_does_not_run_backwards(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1.0)


class Fleeting(Timer):
    """Is cancelled, as if by another thread, when it has been looked at so often."""

    looks = 0

    @property
    def cancelled(self) -> bool:
        self.looks -= 1
        if self.looks == 0:
            self.cancel()
        return super().cancelled


@pytest.mark.parametrize("looks", [1, 2, 3, 4])
def test_a_timer_may_be_cancelled_while_time_passes(clock: ManualClock, looks: int) -> None:
    calls: list[str] = []
    fleeting = Fleeting(1.0, None, calls.append, ("fleeting",))
    fleeting.looks = looks
    clock.add(fleeting)
    clock.add(Timer(2.0, None, calls.append, ("lasting",)))

    clock.advance(3.0)

    assert calls[-1:] == ["lasting"]
    assert clock() == 3.0


def test_beats_that_were_missed_are_left_out() -> None:
    queue = TimerQueue()
    timer = Timer(10.0, 10.0, print, ())

    queue.again(timer, now=57.0)

    assert queue.next_due() == 57.0
    assert queue.pop_due(57.0) is timer


def test_on_real_time_one_thread_calls_all_and_actors_run_elsewhere(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)
    threads: dict[str, str] = {}

    def note(who: str) -> None:
        threads[who] = threading.current_thread().name

    runtime.call_later(0.02, ref.tell, lambda: note("the actor"))
    runtime.call_later(0.01, note, "one")
    runtime.call_later(0.0, note, "another")

    until(lambda: len(threads) == 3, "all three")  # in any order, if this thread is held up in between
    assert threads["one"] == threads["another"]
    assert "timers" in threads["one"]
    assert "helper" in threads["the actor"]


def test_a_nearer_timer_wakes_the_thread_that_waits_for_a_farther_one(runtime: Runtime) -> None:
    done = threading.Event()
    runtime.call_later(3600.0, print, "never")

    runtime.call_later(0.0, done.set)

    assert done.wait(PATIENCE)


def test_closing_lets_timers_go(clock: ManualClock) -> None:
    calls: list[Any] = []
    with Runtime(clock=clock) as runtime:
        runtime.call_later(1.0, calls.append, 1)

    clock.advance(2.0)

    assert calls == []


def test_a_timer_that_finds_no_thread_waits_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system may have no thread for us when the first timer is set, and have one a moment later."""
    first, second = threading.Event(), threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Runtime() as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            runtime.call_later(0.0, first.set)
        assert not first.is_set()
        runtime.call_later(0.0, second.set)

        assert first.wait(PATIENCE)
        assert second.wait(PATIENCE)
    assert any("can't start new thread" in text for text in caplog.messages)
