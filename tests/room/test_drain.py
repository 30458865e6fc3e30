"""Drain: D1 to D5."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import DrainReport, RoomClosed
from greenroom.actors import ManualClock
from tests.actors.actors import PATIENCE, all_at_once, in_thread, join_all
from tests.room.agents import OTHER, SPEC, Agent, Cast, Stopwatch, look_at, take_turn, touch, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Greenroom


def drain_in_thread(room: Greenroom, deadline: float = 30.0) -> Callable[[], DrainReport]:
    """Drain on a thread of its own; come back when that has begun. Returns a function that waits."""
    reports: list[DrainReport] = []
    thread = in_thread(lambda: reports.append(room.drain(deadline)))
    until(lambda: room.stats().draining, "a drain")

    def report() -> DrainReport:
        join_all([thread])
        return reports[0]

    return report


# D1


def test_from_its_first_moment_no_turn_begins(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    touch(room, "b")
    held = cast.hold(room, "a")
    report = drain_in_thread(room)

    for key in ("a", "b", "new"):
        with pytest.raises(RoomClosed):
            take_turn(room, key)
    assert cast.did("build") == ["b/1", "a/1"]
    held.end()

    assert report()
    with pytest.raises(RoomClosed):
        take_turn(room, "a")


def test_turns_that_wait_are_refused(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    held = cast.hold(room, "telegram:12345")
    waiting = [cast.queue(room, "telegram:12345") for _ in range(3)]

    report = drain_in_thread(room)

    for turn in waiting:
        error = turn.outcome()
        assert isinstance(error, RoomClosed)
        assert error.key == "telegram:12345"
    held.end()
    assert report()


def test_a_running_turn_may_end_and_is_committed(cast: Cast) -> None:
    """D1"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    held = cast.hold(room, "a")
    report = drain_in_thread(room, deadline=30.0)
    clock.advance(29.0)
    assert cast.log == ["build a/1"]

    held.end()

    assert report().committed == ("a",)
    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]
    assert held.turn.generation == 1


def test_a_commit_in_flight_may_end_and_newer_generations_are_committed_too(cast: Cast) -> None:
    """D1, G3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "a")
    committing = cast.at["commit"] = cast.gate()
    commit = in_thread(lambda: room.commit("a"))
    committing.wait_reached()
    touch(room, "a", "a")
    report = drain_in_thread(room, deadline=30.0)
    clock.advance(29.0)
    assert cast.did("close") == []

    committing.open()

    assert report().committed == ("a",)
    join_all([commit])
    assert cast.log == ["build a/1", "commit a/1", "commit a/1", "shutdown a/1", "close a/1"]


def test_what_is_dirty_is_committed_and_every_agent_closed_exactly_once(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    touch(room, *"abc")
    look_at(room, *"de")
    room.commit("a")
    room.adopt("f", Agent(cast, "f", "f/0"), SPEC)

    report = room.drain()

    assert sorted(cast.did("commit")) == ["a/1", "b/1", "c/1"]
    assert sorted(report.committed) == ["b", "c"]
    assert sorted(cast.did("close")) == ["a/1", "b/1", "c/1", "d/1", "e/1", "f/0"]
    assert sorted(cast.did("shutdown")) == sorted(cast.did("close"))
    assert cast.did("release") == []
    assert room.stats().known == 0
    assert room.stats().closes == 6


def test_a_turn_still_running_at_the_deadline_is_over_and_its_agent_closed(cast: Cast) -> None:
    """D1, T8"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "a")
    room.commit("a")
    held = cast.hold(room, "a")
    report = drain_in_thread(room, deadline=30.0)

    clock.advance(30.0)
    until(lambda: cast.did("close") == ["a/1"], "a close")

    assert report().abandoned == ("a",)
    held.end()
    assert cast.farewells() == {"a/1": 1}


def test_sessions_are_drained_in_parallel(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    together = threading.Barrier(6)
    touch(room, *"abcdef")
    cast.at["commit"] = lambda: together.wait(PATIENCE)

    report = room.drain()

    assert sorted(report.committed) == list("abcdef")
    assert not report.failed


def test_resources_are_closed_too(cast: Cast) -> None:
    """D1, S2"""
    closed: list[str] = []

    def build(context: Any) -> Agent:
        context.resources.get("sandbox", lambda: context.key, close=closed.append)
        return cast.build(context)

    room = cast.room(build=build)
    touch(room, *"ab")
    room.evict("a")
    room.settle()

    room.drain()

    assert sorted(closed) == ["a", "b"]


def test_an_agent_that_is_being_built_when_the_drain_begins_is_closed(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()
    waiting = cast.queue(room, "a", timeout=PATIENCE)
    building.wait_reached()
    report = drain_in_thread(room)
    assert isinstance(waiting.outcome(), RoomClosed)

    building.open()

    assert report()
    assert cast.log == ["build a/1", "shutdown a/1", "close a/1"]


def test_an_agent_that_its_caller_builds_when_the_drain_begins_is_closed(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    building = cast.at["build"] = cast.gate()
    waiting = cast.queue(room, "a")
    building.wait_reached()
    report = drain_in_thread(room)
    until(lambda: room.stats().draining, "a drain")

    building.open()

    assert isinstance(waiting.outcome(), RoomClosed)
    assert report()
    assert cast.log == ["build a/1", "shutdown a/1", "close a/1"]


def test_an_agent_that_is_being_released_when_the_drain_begins_is_not_closed_too(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    releasing = cast.at["release"] = cast.gate()
    look_at(room, "a")
    room.evict("a")
    releasing.wait_reached()
    report = drain_in_thread(room)

    releasing.open()

    assert report()
    assert cast.farewells() == {"a/1": 1}


def test_leaving_the_room_drains_and_closes_it(cast: Cast) -> None:
    """D1"""
    with cast.room() as room:
        touch(room, "a")

    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]
    with pytest.raises(RoomClosed):
        take_turn(room, "a")


# D2


def test_a_failing_session_stops_no_other(cast: Cast) -> None:
    """D2, D3"""
    room = cast.room()
    cast.at |= {"commit b": ConnectionError("memory is down"), "close c": OSError("it is broken")}
    touch(room, *"abcd")

    report = room.drain()

    assert sorted(report.committed) == ["a", "c", "d"]
    assert "b" in report.failed
    assert "memory is down" in report.problems["b"]
    assert sorted(cast.did("close")) == ["a/1", "b/1", "c/1", "d/1"]
    assert not report, "something failed"


def wedge_commit(cast: Cast, room: Greenroom) -> None:
    cast.at["commit a"] = cast.gate()
    touch(room, "a")


def wedge_shutdown(cast: Cast, room: Greenroom) -> None:
    cast.at["shutdown a"] = cast.gate()
    touch(room, "a")


def wedge_close(cast: Cast, room: Greenroom) -> None:
    cast.at["close a"] = cast.gate()
    touch(room, "a")


def wedge_release(cast: Cast, room: Greenroom) -> None:
    gate = cast.at["release a"] = cast.gate()
    touch(room, "a")
    room.evict("a")
    gate.wait_reached()


def wedge_build(cast: Cast, room: Greenroom) -> None:
    gate = cast.at["build a"] = cast.gate()
    cast.start(room, "a")
    gate.wait_reached()


def wedge_turn(cast: Cast, room: Greenroom) -> None:
    cast.hold(room, "a")


def wedge_replaced(cast: Cast, room: Greenroom) -> None:
    gate = cast.at["commit a/1"] = cast.gate()
    take_turn(room, "a", SPEC)
    take_turn(room, "a", OTHER)
    gate.wait_reached()


@pytest.mark.parametrize(
    "wedge",
    [
        wedge_commit,
        wedge_shutdown,
        wedge_close,
        wedge_release,
        wedge_build,
        wedge_turn,
        wedge_replaced,
    ],
    ids=lambda wedge: wedge.__name__,
)
def test_a_wedged_session_stops_no_other_and_the_drain_ends_a_second_after_its_deadline(
    cast: Cast, wedge: Callable[[Cast, Greenroom], None]
) -> None:
    """D2, D3. By the room's own clock, which this test owns."""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, *"bc")
    wedge(cast, room)

    report = drain_in_thread(room, deadline=30.0)
    until(lambda: room.stats().known == 1, "the end of the others")
    clock.advance(31.0)

    assert sorted(report().committed) == ["b", "c"]
    assert report().abandoned == ("a",)
    assert "a" in report().problems


def test_any_number_of_wedged_sessions_do_not_keep_a_drain(cast: Cast) -> None:
    """D2"""
    clock = ManualClock()
    room = cast.room(clock=clock, workers=2)
    cast.at["commit"] = cast.gate()
    touch(room, *(f"s{n}" for n in range(50)))
    cast.at["commit"] = wedged = cast.gate()

    report = drain_in_thread(room, deadline=30.0)
    wedged.wait_reached()
    clock.advance(31.0)

    assert len(report().abandoned) == 50
    assert report().committed == ()


def test_in_real_time_too(cast: Cast) -> None:
    """D2"""
    clock = Stopwatch()
    room = cast.room(clock=clock)
    cast.at["commit a"] = cast.gate()
    touch(room, *"ab")
    cast.hold(room, "c")

    report = drain_in_thread(room, deadline=0.1)
    until(lambda: room.stats().known == 2, "the end of the other")
    clock.start()

    assert report().committed == ("b",)
    assert sorted(report().abandoned) == ["a", "c"]


# D3


def test_the_report_tells_what_was_committed_what_failed_and_what_was_abandoned(cast: Cast) -> None:
    """D3"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "good")
    look_at(room, "clean")
    touch(room, "bad")
    touch(room, "wedged")
    cast.at |= {"commit bad": ConnectionError("memory is down"), "commit wedged": cast.gate()}

    waiting = drain_in_thread(room, deadline=30.0)
    until(lambda: room.stats().known == 1, "the end of the others")
    clock.advance(31.0)
    report = waiting()

    assert isinstance(report, DrainReport)
    assert report.committed == ("good",)
    assert report.failed == ("bad",)
    assert report.abandoned == ("wedged",)
    assert set(report.problems) == {"bad", "wedged"}


def test_a_drain_without_problems_is_true(cast: Cast) -> None:
    """D3"""
    room = cast.room()
    touch(room, "a")

    report = room.drain()

    assert report
    assert (report.failed, report.abandoned, dict(report.problems)) == ((), (), {})


def test_what_was_not_drained_cleanly_is_logged(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """D3"""
    room = cast.room()
    cast.at["commit"] = ConnectionError("memory is down")
    touch(room, "telegram:12345")

    room.drain()

    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("telegram:12345" in text and "memory is down" in text for text in errors)


# D4


def test_an_empty_room_is_drained(cast: Cast) -> None:
    """D4"""
    report = cast.room().drain()

    assert report
    assert report.committed == ()


def test_a_repeated_drain_answers_with_the_same_report(cast: Cast) -> None:
    """D4"""
    room = cast.room()
    touch(room, "a")

    first = room.drain()

    assert room.drain() is first
    assert room.close() is first
    assert room.close() is first
    assert room.drain(deadline=0) is first
    assert cast.farewells() == {"a/1": 1}


def test_concurrent_drains_are_one_drain_with_one_report(cast: Cast) -> None:
    """D4"""
    room = cast.room()
    touch(room, *"abc")
    reports: list[DrainReport] = []

    all_at_once([lambda: reports.append(room.drain())] * 8)

    assert len(reports) == 8
    assert all(report is reports[0] for report in reports)
    assert sorted(reports[0].committed) == ["a", "b", "c"]
    assert cast.farewells() == {"a/1": 1, "b/1": 1, "c/1": 1}


def test_a_drain_that_joins_a_running_one_waits_for_its_report(cast: Cast) -> None:
    """D4"""
    room = cast.room()
    held = cast.hold(room, "a")
    first = drain_in_thread(room)
    second = drain_in_thread(room, deadline=0)

    held.end()

    assert second() is first()
    assert first().committed == ("a",), "the deadline of the first is the one that counts"


# D5


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Run Python on a script that must come to an end."""
    return subprocess.run(
        [sys.executable, "-c", script], timeout=PATIENCE, check=False, capture_output=True, text=True
    )


WEDGED = """
import threading
from greenroom import Greenroom
class Agent:
    def commit_memory_session(self): reached.set(); threading.Event().wait()
    def close(self): threading.Event().wait()
class Building:
    def __init__(self): threading.Event().wait()
reached = threading.Event()
def build(context):
    return Building() if context.key == "building" else Agent()
room = Greenroom(build)
with room.turn("a"): pass
def wait():
    with room.turn("building"): pass
threading.Thread(target=wait, daemon=True).start()
room.events(lambda event: threading.Event().wait())
room.evict("a")
reached.wait()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "end",
    ["room.close(deadline=0)", "room.drain(deadline=0)", "pass"],
    ids=["close", "drain", "neither"],
)
def test_nothing_of_greenroom_keeps_the_interpreter_from_exiting(end: str) -> None:
    """D5"""
    ended = run_script(f"{WEDGED}\n{end}\nprint('end')\n")

    assert ended.stdout == "end\n", ended.stderr
    assert ended.returncode == 0


def test_a_closed_room_has_no_thread_any_more(cast: Cast) -> None:
    """D5"""
    before = set(threading.enumerate())
    room = cast.room()
    room.events(lambda _: None)
    touch(room, *"abc")
    room.evict("a")
    room.close()

    until(lambda: not set(threading.enumerate()) - before, "no thread that was not there before")
