"""The pen: many threads put down what is to be written, and one of them writes it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.actors import ManualClock, Runtime, WorkTimedOut
from greenroom.actors.runtime._errors import RuntimeClosed
from greenroom.actors.runtime._pen import GENEROUS, Hand, Pen
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.room.agents import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STUCK = 10.0


class Book:
    """A scribe that notes what is written, by whom, and what everybody was told."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.threads: list[str] = []
        self.told: list[str] = []
        self.failed: list[tuple[str, BaseException]] = []
        self.back: list[str] = []
        self.hanging: list[str] = []
        self.gives_up: Callable[[], object] = int
        """What is called when a write is given up, before that is noted."""
        self.put_down_again: list[list[str]] = []
        self.interrupts = 0
        self.writing = 0
        self.crowds = 0
        """How often two wrote at once."""
        self.at: dict[int, Callable[[], object]] = {}
        """What is called inside the write of this number, from 1."""
        self.at_once = 100

    def choose(self, hand: Hand[str], waiting: int) -> int:
        return min(waiting, self.at_once)

    def put_back(self, hand: Hand[str]) -> None:
        self.put_down_again.append(list(hand.entries))

    def wants(self) -> bool:
        return False

    def write(self, hand: Hand[str]) -> list[str]:
        self.writing += 1
        self.crowds += self.writing > 1
        self.written.append(list(hand.entries))
        self.threads.append(threading.current_thread().name)
        try:
            self.at.get(len(self.written), int)()
            return [f"{entry}!" for entry in hand.entries]
        finally:
            self.writing -= 1

    def tell(self, hand: Hand[str]) -> bool:
        self.told += hand.results
        return True

    def end(self, hand: Hand[str]) -> None:
        if hand.error is None:
            self.told += hand.results or ()
        else:
            self.failed += [(entry, hand.error) for entry in hand.entries]
        if hand.given_up:
            self.gives_up()
            self.hanging += hand.entries

    def came_back(self, hand: Hand[str]) -> None:
        self.back += hand.entries
        self.hanging = [entry for entry in self.hanging if entry not in hand.entries]

    def interrupt(self) -> None:
        self.interrupts += 1


class Desk:
    """A pen, its scribe and a clock of the test's own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.runtime = Runtime(clock=self.clock)
        self.runtime.rescuer.start()
        self.book = Book()
        self.pen: Pen[str] = Pen(self.runtime, self.book, "desk")
        self.gates: list[Gate] = []

    def write_here(self, *entries: str) -> None:
        self.pen.line += entries
        self.pen.write_here()

    def have_written(self, *entries: str) -> None:
        self.pen.line += entries
        self.pen.have_written()

    def gate(self, number: int) -> Gate:
        """Hold the write of this number."""
        gate = Gate()
        self.gates.append(gate)
        self.book.at[number] = gate.wait
        return gate

    def wait_told(self, count: int) -> None:
        until(lambda: len(self.book.told) >= count, f"{count} answers")

    def wait_for_rescuer(self) -> None:
        """Wait until it has done what it was given so far."""
        done = threading.Event()
        self.runtime.rescuer.put((done.set,))
        assert done.wait(PATIENCE)

    def strike_behind_submit(self, monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]) -> None:
        """Have the next thread that submits a write struck when it has, and has waited for this."""
        submit = self.runtime.submit

        def struck(*args: Any, **options: Any) -> Any:
            monkeypatch.undo()
            submit(*args, **options)
            wait()
            raise KeyboardInterrupt

        monkeypatch.setattr(self.runtime, "submit", struck)

    def close(self) -> None:
        for gate in self.gates:
            gate.open()
        self.runtime.close(timeout=2.0)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


def here() -> str:
    return threading.current_thread().name


# Who writes.


def test_a_thread_that_waits_for_its_entry_writes_it(desk: Desk) -> None:
    desk.write_here("a")
    assert desk.book.told == ["a!"]
    assert desk.book.threads == [here()]
    assert desk.runtime.stats().workers == 0


def test_what_others_put_down_meanwhile_goes_together_and_the_same_thread_goes_on(desk: Desk) -> None:
    gate = desk.gate(1)
    writer = in_thread(lambda: desk.write_here("a"))
    gate.wait_reached()

    desk.write_here("b")
    desk.have_written("c")
    assert desk.book.written == [["a"]]
    gate.open()
    join_all([writer])

    assert desk.book.written == [["a"], ["b", "c"]]
    assert desk.book.threads == [writer.name, writer.name]
    assert desk.book.told == ["a!", "b!", "c!"]


def test_who_has_written_for_others_for_a_moment_has_a_worker_go_on(desk: Desk) -> None:
    """One unlucky caller does not write for everybody."""
    desk.book.at_once = 1
    desk.book.at[2] = lambda: desk.clock.advance(GENEROUS * 2)

    desk.write_here("a", "b", "c", "d")
    desk.wait_told(4)

    assert desk.book.written == [["a"], ["b"], ["c"], ["d"]]
    assert desk.book.threads[:2] == [here(), here()]
    assert here() not in desk.book.threads[2:]


def test_a_worker_writes_for_who_cannot(desk: Desk) -> None:
    desk.book.at_once = 1
    desk.have_written("a", "b")
    desk.wait_told(2)
    assert here() not in desk.book.threads


def test_each_of_many_threads_is_written_once_and_never_two_at_a_time(desk: Desk) -> None:
    """Invariant 5"""
    start = threading.Barrier(8)

    def put_down(number: int) -> None:
        start.wait(PATIENCE)
        for turn in range(200):
            put = desk.write_here if turn % 3 else desk.have_written
            put(f"{number}.{turn}")

    join_all([in_thread(lambda number=number: put_down(number)) for number in range(8)])  # type: ignore[misc]
    desk.wait_told(1_600)

    assert desk.book.crowds == 0
    assert sorted(desk.book.told) == sorted(f"{n}.{turn}!" for n in range(8) for turn in range(200))


# What goes wrong.


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("way", ["write_here", "have_written"])
def test_everybody_is_told_of_a_failure_and_the_next_is_written(desk: Desk, way: str) -> None:
    trouble = OSError("no")
    desk.book.at[1] = failing(trouble)
    put: Any = getattr(desk, way)

    put("a", "b")
    until(lambda: len(desk.book.failed) == 2, "the failures")
    put("c")
    desk.wait_told(1)

    assert desk.book.failed == [("a", trouble), ("b", trouble)]
    assert desk.book.told == ["c!"]


@pytest.mark.parametrize("strike", [KeyboardInterrupt(), RecursionError(), MemoryError()])
def test_what_a_strike_ends_is_written_again_by_a_worker(desk: Desk, strike: BaseException) -> None:
    desk.book.at[1] = failing(strike)

    with pytest.raises(type(strike)):
        desk.write_here("a", "b")
    desk.wait_told(2)

    assert desk.book.put_down_again == [["a", "b"]]
    assert desk.book.written == [["a", "b"], ["a", "b"]]
    assert here() not in desk.book.threads[1:]
    desk.write_here("c")
    assert desk.book.told == ["a!", "b!", "c!"]


def test_what_a_worker_writes_is_not_put_back_when_who_gave_it_to_the_worker_is_struck(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two would write it at once."""
    gate = desk.gate(1)
    desk.strike_behind_submit(monkeypatch, gate.wait_reached)
    with pytest.raises(KeyboardInterrupt):
        desk.have_written("a")
    desk.wait_for_rescuer()
    desk.have_written("b")

    assert desk.book.written == [["a"]]
    gate.open()
    desk.wait_told(2)
    assert desk.book.written == [["a"], ["b"]]


def test_what_a_worker_writes_is_given_up_also_if_who_gave_it_to_the_worker_was_struck(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = desk.gate(1)
    desk.pen.timeout = STUCK
    desk.strike_behind_submit(monkeypatch, gate.wait_reached)
    with pytest.raises(KeyboardInterrupt):
        desk.have_written("a")
    desk.clock.advance(STUCK + 0.1)
    assert [entry for entry, _ in desk.book.failed] == ["a"]


def test_what_no_worker_has_begun_is_put_back_and_written_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Gate()
    desk.gates.append(busy)
    desk.runtime.submit(busy.wait, lane="desk", most=1)
    busy.wait_reached()
    desk.strike_behind_submit(monkeypatch, int)
    with pytest.raises(KeyboardInterrupt):
        desk.have_written("a")
    desk.wait_for_rescuer()
    assert desk.book.put_down_again == [["a"]]
    busy.open()
    desk.wait_told(1)
    desk.have_written("b")
    desk.wait_told(2)
    assert desk.book.written == [["a"], ["b"]]


def test_who_writes_here_is_interrupted_after_half_the_time_and_given_up_after_all_of_it(
    desk: Desk,
) -> None:
    gate = desk.gate(1)
    desk.pen.timeout = STUCK
    writer = in_thread(lambda: desk.write_here("a"))
    gate.wait_reached()
    desk.have_written("b")

    desk.clock.advance(STUCK / 2 - 0.1)
    assert desk.book.interrupts == 0
    desk.clock.advance(0.2)
    assert desk.book.interrupts == 1
    assert desk.book.failed == []
    desk.clock.advance(STUCK / 2)

    [(entry, error)] = desk.book.failed
    assert (entry, type(error)) == ("a", WorkTimedOut)
    desk.wait_told(1)  # others are not held up
    assert desk.book.told == ["b!"]
    assert desk.book.back == []
    gate.open()
    join_all([writer])
    until(lambda: desk.book.back == ["a"], "the return")
    assert desk.book.hanging == []
    assert desk.book.told == ["b!"]


def test_what_comes_back_while_it_is_given_up_does_not_hang(desk: Desk) -> None:
    gate = desk.gate(1)
    desk.pen.timeout = STUCK
    writer = in_thread(lambda: desk.write_here("a"))
    gate.wait_reached()

    def come_back() -> None:
        gate.open()
        until(lambda: desk.book.back == ["a"], "the return")

    desk.book.gives_up = come_back
    desk.clock.advance(STUCK + 0.1)
    join_all([writer])

    assert [entry for entry, _ in desk.book.failed] == ["a"]
    assert desk.book.hanging == []


def test_a_writer_is_watched_from_when_it_took_what_it_writes(desk: Desk) -> None:
    """The timer was set for the one before."""
    desk.pen.timeout = STUCK
    desk.write_here("a")
    desk.clock.advance(STUCK / 2 - 1.0)
    gate = desk.gate(2)
    writer = in_thread(lambda: desk.write_here("b"))
    gate.wait_reached()

    desk.clock.advance(STUCK / 2 - 0.1)
    assert desk.book.interrupts == 0
    desk.clock.advance(0.2)
    assert desk.book.interrupts == 1
    desk.clock.advance(STUCK / 2)
    assert [entry for entry, _ in desk.book.failed] == ["b"]
    gate.open()
    join_all([writer])


def test_who_has_only_just_taken_the_pen_is_not_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. it takes the baton  2. the timer of the one before looks  3. it takes what is on the line"""
    desk.pen.timeout = STUCK
    desk.clock.advance(2 * STUCK)
    monkeypatch.setattr(desk.runtime, "let_others_run", desk.pen.look_at_writer)

    desk.write_here("a")

    assert (desk.book.told, desk.book.failed, desk.book.back) == (["a!"], [], [])


def test_a_worker_that_is_stuck_is_given_up_and_others_are_written(desk: Desk) -> None:
    gate = desk.gate(1)
    desk.pen.timeout = STUCK
    desk.have_written("a")
    gate.wait_reached()
    desk.have_written("b")

    desk.clock.advance(STUCK + 0.1)
    desk.wait_told(1)

    assert [entry for entry, _ in desk.book.failed] == ["a"]
    assert desk.book.told == ["b!"]
    gate.open()
    until(lambda: desk.book.back == ["a"], "the return")


def test_without_a_timeout_nobody_is_given_up(desk: Desk) -> None:
    gate = desk.gate(1)
    writer = in_thread(lambda: desk.write_here("a"))
    gate.wait_reached()
    desk.clock.advance(3_600.0)
    assert (desk.book.interrupts, desk.book.failed) == (0, [])
    gate.open()
    join_all([writer])
    assert desk.book.told == ["a!"]


def test_what_no_worker_takes_any_more_fails_however_much_it_is(desk: Desk) -> None:
    desk.runtime.close(timeout=2.0)
    desk.book.at_once = 1
    entries = [str(number) for number in range(2_000)]
    desk.have_written(*entries)
    assert [entry for entry, _ in desk.book.failed] == entries
    assert {type(error) for _, error in desk.book.failed} == {RuntimeClosed}
