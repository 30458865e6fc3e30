"""The tool strikes where CPython delivers signals, on this version of Python, and nowhere else."""

from __future__ import annotations

import functools
import queue
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

from tests.strikes.points import Place, Striker, nudge
from tests.strikes.trials import Struck

PATIENCE = 40.0


def inner(value: Any) -> Any:
    first = value
    second = first
    first = None
    return second


class Made:
    def __init__(self) -> None:
        self.made = True

    @property
    def got(self) -> int:
        return 5

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.made = False


def generated() -> Any:
    yield 1
    yield 2


def subject() -> Any:
    """Something of everything that has a point, and of what has none."""
    items: list[Any] = []
    items.append(3)
    one = inner(1)
    made = Made()
    two = made.got
    for item in (one, two):
        three = item
        four = three
    for item in generated():
        four = item
    with made:
        four = 5
    items = [inner(item) for item in items]
    items = list(map(inner, items))
    four = inner(*items)
    four = functools.partial(inner)(four)
    while four:
        four -= 1
    try:
        return len(items)
    except Struck:
        CAUGHT.append("where it returns")
        raise


def begin() -> None:
    subject()


CAUGHT: list[str] = []

LOOKS = ("RESUME", "CALL", "PRECALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")

ENTERED = {
    "subject",
    "inner",
    "Made.__init__",
    "Made.got",
    "Made.__enter__",
    "Made.__exit__",
    "generated",
}


@pytest.fixture(scope="module")
def tool() -> Striker:
    striker = Striker(wanted=lambda file: file == __file__)
    for _ in range(2):
        striker.call(begin, 0, Struck())
    return striker


@functools.cache
def struck_everywhere(tool: Striker) -> list[Place]:
    """Strike at each point of `subject`. Returns the places, but for what comes behind its end."""
    places: list[Place] = []
    n = 0
    while True:
        n += 1
        error, caught = Struck(n), None
        try:
            tool.call(begin, n, error)
        except Struck as raised:
            caught = raised
        assert caught in (None, error)
        if not tool.tripped.is_set():
            return places
        assert tool.place is not None
        if tool.place.file == __file__:
            places.append(tool.place)


def test_a_strike_comes_on_entry_after_a_call_and_at_a_backward_jump(tool: Striker) -> None:
    places = struck_everywhere(tool)
    assert {place.function for place in places if place.instruction == "RESUME"} >= ENTERED
    instructions = {place.instruction for place in places}
    assert any(name.startswith("CALL") for name in instructions)
    assert any("JUMP_BACKWARD" in name for name in instructions)


def test_a_strike_comes_nowhere_else(tool: Striker) -> None:
    other = [str(place) for place in struck_everywhere(tool) if not place.instruction.startswith(LOOKS)]
    assert other == []


def test_each_call_of_a_function_in_c_has_a_point_behind_it(tool: Striker) -> None:
    lines = {place.line for place in struck_everywhere(tool) if "CALL" in place.instruction}
    source = dict(enumerate(Path(__file__).read_text("utf-8").splitlines(), 1))
    struck = {source[line].strip() for line in lines}
    assert {"items.append(3)", "made = Made()", "return len(items)"} <= struck


def test_the_try_around_a_call_sees_a_strike_behind_it(tool: Striker) -> None:
    CAUGHT.clear()
    struck_everywhere.__wrapped__(tool)
    assert ["where it returns"] * len(CAUGHT) == CAUGHT
    assert CAUGHT


def test_signals_from_outside_arrive_at_places_that_the_tool_knows(tool: Striker) -> None:
    known = {(place.function, place.instruction) for place in struck_everywhere(tool)}
    seen: set[tuple[str, str]] = set()

    def note(_signum: int, frame: FrameType | None) -> None:
        assert frame is not None
        if frame.f_code.co_filename == __file__:
            place = Place.of(frame)
            seen.add((place.function, place.instruction))

    before = signal.signal(signal.SIGVTALRM, note)
    try:
        for _ in range(100):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005)
            for _ in range(100):
                subject()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    here = "test_signals_from_outside_arrive_at_places_that_the_tool_knows"
    assert {place for place in seen if not place[0].startswith(here)} <= known


def test_a_thread_that_waits_is_struck_where_it_waits() -> None:
    waiting: queue.SimpleQueue[None] = queue.SimpleQueue()
    striker = Striker(wanted=lambda file: file == __file__)
    main, error = threading.get_ident(), Struck()

    def wait() -> None:
        waiting.get(timeout=PATIENCE)

    for _ in range(2):
        waiting.put(None)
        striker.call(wait, 0, error)

    def nudge_it() -> None:
        assert striker.tripped.wait(PATIENCE)
        while striker.place is None:
            nudge(striker, main, 0.01)

    thread = threading.Thread(target=nudge_it)
    thread.start()
    with pytest.raises(Struck) as raised:
        striker.call(wait, striker.count - 1, error)  # behind that it only returns
    thread.join()
    assert raised.value is error
    assert striker.place is not None
    assert striker.place.function.endswith("wait")


def test_another_thread_is_struck_by_what_is_injected_into_it(tool: Striker) -> None:
    ends: list[BaseException] = []

    def run() -> None:
        for n in range(1, 10):
            try:
                tool.call(begin, n, Struck(), by="async")
            except Struck as error:
                ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    assert len(ends) == 9
