"""Ending on signals: `room.shutdown_on()`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest

from greenroom import Greenroom, RoomClosed
from greenroom.testing import RecordingBuild
from tests.actors.actors import PATIENCE, in_thread, join_all
from tests.room.agents import until


@pytest.fixture
def build() -> RecordingBuild:
    return RecordingBuild()


@pytest.fixture(autouse=True)
def nobody_else_handles_these() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_in_a_turn_lets_it_end_and_leaves_the_block_then(build: RecordingBuild) -> None:
    """K1"""
    ended: list[bool] = []

    def serve() -> None:
        with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
            with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
                ended.append(True)
            threading.Event().wait(PATIENCE)

    with pytest.raises(SystemExit) as left:
        serve()

    assert ended
    assert left.value.code == 0
    assert build.agents[0].calls == ["commit_memory_session", "shutdown_memory_provider", "close"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_turn_that_is_refused_after_a_signal_leaves_the_block(build: RecordingBuild) -> None:
    def serve() -> None:
        with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
            with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
            while True:
                with room.turn("a"):
                    pass

    with pytest.raises(SystemExit):
        serve()

    assert build.agents[0].calls[-1] == "close"


def test_the_handler_that_was_there_before_is_called_when_the_room_is_drained(
    build: RecordingBuild,
) -> None:
    class Stop(Exception):
        pass

    drained: list[bool] = []

    room = Greenroom(build)

    def stop(*_: object) -> None:
        drained.append(room.stats().draining)
        raise Stop

    def serve() -> None:
        with room, room.shutdown_on(signal.SIGTERM):
            with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
            threading.Event().wait(PATIENCE)

    signal.signal(signal.SIGTERM, stop)
    with pytest.raises(Stop):
        serve()

    assert drained == [True]
    assert signal.getsignal(signal.SIGTERM) is stop


@pytest.fixture
def told() -> list[bool]:
    """A handler that only notes that it was called, as a server's does, and whether the room drained."""
    return []


@pytest.fixture
def room_of_a_server(build: RecordingBuild, told: list[bool]) -> Iterator[Greenroom]:
    with Greenroom(build) as room:
        signal.signal(signal.SIGTERM, lambda *_: told.append(room._context.draining))
        yield room


def test_a_handler_that_returns_is_called_once_and_the_block_goes_on(
    room_of_a_server: Greenroom, told: list[bool]
) -> None:
    with room_of_a_server.shutdown_on(signal.SIGTERM):
        with room_of_a_server.turn("a"):
            signal.raise_signal(signal.SIGTERM)
            assert told == []
        until(lambda: bool(told), "the handler")

    assert told == [True]


def test_a_handler_that_returns_is_called_when_the_block_is_left_before_the_drain_is_over(
    room_of_a_server: Greenroom, told: list[bool]
) -> None:
    room, leave = room_of_a_server, threading.Event()
    begun = threading.Event()

    def take_a_turn() -> None:
        with room.turn("a"):
            begun.set()
            assert leave.wait(PATIENCE)

    other = in_thread(take_a_turn)
    assert begun.wait(PATIENCE)
    with room.shutdown_on(signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)
        leave.set()

    assert told == [True]
    join_all([other])


def test_a_handler_that_returns_gets_both_of_two_signals_and_all_that_come_later(
    room_of_a_server: Greenroom, told: list[bool]
) -> None:
    with room_of_a_server.shutdown_on(signal.SIGTERM), room_of_a_server.turn("a"):
        signal.raise_signal(signal.SIGTERM)
        assert told == []
        signal.raise_signal(signal.SIGTERM)
        assert len(told) == 2
        signal.raise_signal(signal.SIGTERM)
        assert len(told) == 3

    assert len(told) == 3


def test_a_signal_that_ends_two_rooms_drains_one_after_the_other(
    room_of_a_server: Greenroom, told: list[bool]
) -> None:
    with (
        room_of_a_server.shutdown_on(signal.SIGTERM),
        Greenroom(RecordingBuild()) as inner,
        inner.shutdown_on(signal.SIGTERM),
    ):
        signal.raise_signal(signal.SIGTERM)
        until(lambda: bool(told), "the handler")
        assert inner._context.draining

    assert told == [True]


def test_a_handler_that_somebody_installed_since_is_left_alone(build: RecordingBuild) -> None:
    def other(*_: object) -> None:
        pass

    with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
        signal.signal(signal.SIGTERM, other)

    assert signal.getsignal(signal.SIGTERM) is other


def test_a_second_signal_does_not_wait(build: RecordingBuild) -> None:
    def serve() -> None:
        with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM), room.turn("a"):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("the second one leaves the block")

    with pytest.raises(SystemExit):
        serve()


def test_after_a_second_signal_leaving_the_block_does_not_wait_for_the_drain() -> None:
    gate, left = threading.Event(), threading.Event()

    class Slow:
        def commit_memory_session(self) -> None:
            assert gate.wait(PATIENCE)

    def serve() -> None:
        with Greenroom(lambda _: Slow()) as room:
            try:
                with room.shutdown_on(signal.SIGTERM):
                    with room.turn("a"):
                        signal.raise_signal(signal.SIGTERM)
                    signal.raise_signal(signal.SIGTERM)
            finally:
                left.set()  # while its commit still runs
                gate.set()

    with pytest.raises(SystemExit):
        serve()

    assert left.is_set()


@pytest.mark.parametrize("on_a_loop", [False, True], ids=["with", "async with"])
def test_after_a_second_signal_closing_the_room_does_not_wait_for_the_drain_either(
    on_a_loop: bool,
) -> None:
    """D2: the drain has no more time, whatever its deadline was."""
    gate, committing = threading.Event(), threading.Event()

    class Slow:
        def commit_memory_session(self) -> None:
            committing.set()
            assert gate.wait(3 * PATIENCE)

    room = Greenroom(lambda _: Slow())

    def serve() -> None:
        with room, room.shutdown_on(signal.SIGTERM, deadline=2 * PATIENCE):
            with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
            assert committing.wait(PATIENCE)
            signal.raise_signal(signal.SIGTERM)

    async def serve_on_a_loop() -> None:
        async with room, room.shutdown_on(signal.SIGTERM, deadline=2 * PATIENCE):
            async with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
            await asyncio.to_thread(committing.wait, PATIENCE)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(PATIENCE)

    try:
        with pytest.raises(SystemExit):
            asyncio.run(serve_on_a_loop()) if on_a_loop else serve()
        report = room.close()
        assert report.seconds < 2 * PATIENCE
        assert report.abandoned == ("a",)
    finally:
        gate.set()


def test_no_turn_begins_on_any_thread_after_a_signal(build: RecordingBuild) -> None:
    """D1"""
    refused: list[bool] = []
    room = Greenroom(build)

    def take_turns() -> None:
        try:
            while True:
                with room.turn("b"):
                    pass
        except RoomClosed:
            refused.append(True)

    def serve() -> None:
        with room, room.shutdown_on(signal.SIGTERM):
            other = in_thread(take_turns)
            with room.turn("a"):
                signal.raise_signal(signal.SIGTERM)
                join_all([other])
            threading.Event().wait(PATIENCE)

    with pytest.raises(SystemExit):
        serve()

    assert refused == [True]


def test_a_signal_after_the_room_was_closed_leaves_the_block_at_once(build: RecordingBuild) -> None:
    room = Greenroom(build)
    room.close()
    with pytest.raises(SystemExit), room.shutdown_on(signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_in_a_forked_child_a_signal_does_what_it_did_before(build: RecordingBuild) -> None:
    """K2"""
    with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
        runs, to_runs = os.pipe()
        child = os.fork()
        if not child:
            os.write(to_runs, b"!")
            while True:
                time.sleep(0.01)
        try:
            assert os.read(runs, 1)  # CPython drops a signal that comes in the middle of the fork
            os.kill(child, signal.SIGTERM)
            until(lambda: left_with(child) is not None, "the end of the child")
            assert os.WTERMSIG(endings[child]) == signal.SIGTERM
        finally:
            if child not in endings:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            os.close(runs)
            os.close(to_runs)
        with room.turn("a"):
            pass


endings: dict[int, int] = {}


def left_with(child: int) -> int | None:
    """What a child has ended with. `None`: it runs."""
    number, status = os.waitpid(child, os.WNOHANG)
    if number:
        endings[child] = status
    return endings.get(child)


def test_a_block_without_a_signal_changes_nothing(build: RecordingBuild) -> None:
    with Greenroom(build) as room:
        with room.shutdown_on(signal.SIGTERM):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        with room.turn("a"):
            pass

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_exception_leaves_the_block_as_it_is(build: RecordingBuild) -> None:
    with pytest.raises(KeyError), Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
        raise KeyError


def test_only_the_main_thread_handles_signals(build: RecordingBuild) -> None:
    errors: list[str] = []

    def enter() -> None:
        try:
            with room.shutdown_on(signal.SIGTERM):
                pass
        except RuntimeError as error:
            errors.append(str(error))

    with Greenroom(build) as room:
        join_all([in_thread(enter)])

    assert "main thread" in errors[0]


def test_what_is_no_signal_is_refused(build: RecordingBuild) -> None:
    with Greenroom(build) as room, pytest.raises(ValueError, match="12345"):
        room.shutdown_on(12345)


@pytest.mark.parametrize("waits", [False, True], ids=["in a turn", "waiting"])
def test_on_an_event_loop_the_task_of_the_block_is_ended(build: RecordingBuild, waits: bool) -> None:
    ended: list[str] = []

    async def serve() -> None:
        async with Greenroom(build) as room, room.shutdown_on(signal.SIGTERM):
            async with room.turn("a"):
                if not waits:
                    signal.raise_signal(signal.SIGTERM)
                    await asyncio.sleep(0)
                    ended.append("turn")
            if waits:
                signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(SystemExit) as left:
        asyncio.run(serve())

    assert left.value.code == 0
    assert ended == ([] if waits else ["turn"])
    assert build.agents[0].calls[-1] == "close"


@pytest.mark.parametrize("style", ["with", "async with"])
def test_a_program_ends_in_good_order_on_a_real_signal(style: str) -> None:
    """K1"""
    program = PROGRAMS[style]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in a turn\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out.split()) == (0, ["ended", "commit", "close"])


def test_more_signals_end_a_program_whatever_hangs() -> None:
    program = AGENT + HANGS
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in a turn\n"

    def is_gone() -> bool:
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    until(is_gone, "the end")
    process.stdout.close()


AGENT = """
    import asyncio, signal, time
    from greenroom import Greenroom

    class Agent:
        def commit_memory_session(self): print("commit", flush=True)
        def close(self): print("close", flush=True)
"""

PROGRAMS = {
    "with": AGENT
    + """
    with Greenroom(lambda _: Agent()) as room, room.shutdown_on():
        with room.turn("a"):
            print("in a turn", flush=True)
            while not room.stats().draining:
                time.sleep(0.001)
            print("ended", flush=True)
        signal.pause()
    """,
    "async with": AGENT
    + """
    async def main():
        async with Greenroom(lambda _: Agent()) as room, room.shutdown_on():
            async with room.turn("a"):
                print("in a turn", flush=True)
                while not room.stats().draining:
                    await asyncio.sleep(0.001)
                print("ended", flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
    """,
}

HANGS = """
    import threading

    def hang():
        with room.turn("a"):
            print("in a turn", flush=True)
            threading.Event().wait()

    with Greenroom(lambda _: Agent()) as room, room.shutdown_on(deadline=600):
        threading.Thread(target=hang, daemon=True).start()
        while True:
            signal.pause()
"""
