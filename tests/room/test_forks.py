"""A room in a process that was forked from its own: it is the parent's, and stays so."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom import DrainReport, Greenroom
from greenroom.actors import Runtime, RuntimeClosed
from tests.actors.actors import PATIENCE, Recorder, in_thread
from tests.crash.databases import sqlite_url
from tests.forks import in_a_fork
from tests.house import ROOT
from tests.room.agents import Cast, take_turn, touch, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import PostgresServer


@pytest.fixture(params=["no-store", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == "no-store":
        return None
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "greenroom.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.fixture
def room(cast: Cast, store: str | None) -> Greenroom:
    return cast.room(store=store)


CALLS: dict[str, Callable[[Greenroom], object]] = {
    "turn": lambda room: room.turn("a"),
    "commit": lambda room: room.commit("a"),
    "commit of a key that is not there": lambda room: room.commit("z"),
    "has_uncommitted": lambda room: room.has_uncommitted("a"),
    "keys": lambda room: room.keys(),
    "len": len,
    "in": lambda room: "a" in room,
    "evict": lambda room: room.evict("a"),
    "end": lambda room: room.end("a"),
    "sweep": lambda room: room.sweep(),
    "adopt": lambda room: room.adopt("b", object()),
    "settings": lambda room: room.settings("a").get("x"),
    "configure": lambda room: room.configure(cap=3),
    "stats": lambda room: room.stats(),
    "snapshot": lambda room: room.snapshot(),
    "explain": lambda room: room.explain("a"),
    "events": lambda room: room.events(print),
    "settle": lambda room: room.settle(),
    "drain": lambda room: room.drain(),
    "supervisor": lambda room: room.supervisor,
    "session": lambda room: room.session("a"),
}


def told(call: Callable[..., object], *args: object) -> str:
    """What a call comes to."""
    try:
        return f"it returned {call(*args)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_every_call_on_a_room_in_a_forked_child_says_that_it_is_the_parents(
    cast: Cast, room: Greenroom
) -> None:
    """K2"""
    touch(room, "a")
    cast.hold(room, "held")

    answers = in_a_fork(lambda: {name: told(call, room) for name, call in CALLS.items()})

    refusal = "RoomClosed: the room belongs to the parent process, which this one was forked from"
    assert {name: text for name, text in answers.items() if not text.startswith(refusal)} == {}
    assert "parent" in in_a_fork(lambda: repr(room))
    assert in_a_fork(room.close) == DrainReport()
    touch(room, "a")
    assert room.stats().hits == 1


async def leave_async(room: Greenroom) -> None:
    await room.__aexit__(None, None, None)


LEAVING: dict[str, Callable[[Greenroom], object]] = {
    "close": lambda room: room.close(),
    "with": lambda room: room.__exit__(None, None, None),
    "async with": lambda room: asyncio.run(leave_async(room)),
}


@pytest.mark.parametrize("way", LEAVING)
def test_closing_a_room_in_a_forked_child_does_nothing_at_once(
    cast: Cast, room: Greenroom, way: str
) -> None:
    """K2: no hook is called there, nobody is waited for, and the parent goes on."""
    touch(room, "a", "b")
    held = cast.hold(room, "held")

    def leave() -> list[str]:
        LEAVING[way](room)
        return cast.log

    assert in_a_fork(leave) == cast.log == ["build a/1", "build b/1", "build held/1"]

    held.end()
    touch(room, "a")
    assert sorted(room.close().committed) == ["a", "b", "held"]
    assert cast.farewells() == {"a/1": 1, "b/1": 1, "held/1": 1}


def test_an_async_block_is_left_in_a_forked_child_without_the_threads_of_its_loop(cast: Cast) -> None:
    """K2: an executor of the parent's has no threads in the child, and believes that it has."""

    async def main() -> bool:
        async with cast.room() as room:
            async with room.turn("a"):
                pass
            await asyncio.to_thread(touch, room, "b")

            def leave() -> bool:
                leaving = room.__aexit__(None, None, None)
                with pytest.raises(StopIteration):  # it has nothing to wait for
                    leaving.send(None)
                return True

            return in_a_fork(leave)

    assert asyncio.run(main())
    assert cast.farewells() == {"a/1": 1, "b/1": 1}


def test_a_room_that_was_closed_before_the_fork_tells_in_the_child_what_it_told_before(
    cast: Cast, store: str | None
) -> None:
    room = cast.room(store=store)
    touch(room, "a")
    report = room.close()

    assert in_a_fork(lambda: (room.close(), room.stats().builds)) == (report, 1)


# Turns.


def test_a_turn_that_was_open_at_the_fork_is_left_in_the_child_without_effect(room: Greenroom) -> None:
    """K2"""
    touch(room, "a")
    turn = room.turn("a")
    turn.__enter__()

    def leave() -> tuple[bool, str]:
        turn.__exit__(None, None, None)
        return turn.completed, repr(turn)

    assert in_a_fork(leave) == (False, "<Turn of 'a', over>")

    turn.__exit__(None, None, None)
    assert turn.completed
    assert turn.generation == 2


def test_an_async_turn_that_was_open_at_the_fork_is_left_in_the_child_without_effect(
    room: Greenroom,
) -> None:
    """K2"""

    async def main() -> None:
        turn = room.turn("a")
        async with turn:

            def leave() -> bool:
                leaving = turn.__aexit__(None, None, None)
                with pytest.raises(StopIteration):
                    leaving.send(None)
                return turn.completed

            assert in_a_fork(leave) is False
        assert turn.completed
        assert turn.generation == 1

    asyncio.run(main())


@pytest.mark.parametrize("cached", [False, True])
def test_a_turn_that_was_made_before_the_fork_does_not_begin_in_the_child(
    cast: Cast, room: Greenroom, cached: bool
) -> None:
    """K2"""
    if cached:
        touch(room, "a")
    turn = room.turn("a")

    answer = in_a_fork(lambda: told(turn.__enter__))

    assert answer.startswith("RoomClosed: the room belongs to the parent process")
    with turn:
        assert turn.reused is cached
    assert cast.did("build") == ["a/1"]


def test_a_proxy_from_before_the_fork_is_dead_in_the_child(room: Greenroom) -> None:
    """K2"""
    touch(room, "a")
    session, supervisor = room.session("a"), room.supervisor

    def ask() -> list[str]:
        futures: tuple[pykka.Future[Any], ...] = (
            session.commit(),
            session.describe(),
            session.evict(),
            supervisor.stats(),
            supervisor.drain(),
        )
        return [told(partial(future.get, timeout=5.0)) for future in futures]

    answers = in_a_fork(ask)
    assert [a for a in answers if "ActorDeadError" not in a or "parent process" not in a] == []
    assert in_a_fork(session.actor_ref.is_alive) is False
    assert session.describe().get().generation == 1
    assert supervisor.stats().get().builds == 1


# Rooms that the child opens itself.


def work_in(room: Greenroom) -> tuple[bool, bool, bool]:
    """What every room can do: keep an agent, commit on a worker, build on another, close everything."""
    first = take_turn(room, "child")
    same = take_turn(room, "child") is first
    committed = bool(room.commit("child"))
    with room.turn("other", timeout=PATIENCE):
        pass
    return same, committed, bool(room.close())


def test_a_room_that_a_forked_child_opens_works(cast: Cast, room: Greenroom, store: str | None) -> None:
    """K2: also on the parent's store, while the parent is at work, and if a handler forked it."""
    touch(room, "a")
    cast.hold(room, "held")
    committing = cast.at["commit a"] = cast.gate()
    in_thread(lambda: room.commit("a"))
    committing.wait_reached()
    until(lambda: store is None or not room.store._in_use(), "a store that nobody uses")

    def work() -> tuple[Any, ...]:
        own = Cast()
        return *work_in(own.room(store=store)), own.farewells()

    answer = room.runtime.start(Recorder).ask(lambda: in_a_fork(work))
    assert answer == (True, True, True, {"child/1": 1, "other/1": 1})

    committing.open()
    touch(room, "a")
    assert "child" not in room


def test_a_runtime_of_the_parent_says_so_to_a_room_of_the_child(cast: Cast) -> None:
    """K2"""
    with Runtime() as runtime:

        def open_room() -> str:
            with pytest.raises(RuntimeClosed) as refused:
                Greenroom(cast.build, runtime=runtime)
            return str(refused.value)

        assert "belongs to the parent process" in in_a_fork(open_room)
        with Greenroom(cast.build, runtime=runtime) as room:
            touch(room, "a")


# Whole programs, with what the interpreter does at its end.

PROGRAM = """
import atexit, multiprocessing, os, signal, sys, warnings
from greenroom import Greenroom

os.register_at_fork(after_in_child=lambda: signal.alarm(20))  # ends a child that hangs
warnings.filterwarnings("ignore", category=DeprecationWarning)  # a room has threads
PARENT = os.getpid()

class Agent:
    def commit_memory_session(self):
        print("commit", os.getpid() == PARENT, flush=True)
    def close(self):
        print("close", os.getpid() == PARENT, flush=True)

how, url = sys.argv[1], sys.argv[2] or None
room = Greenroom(lambda context: Agent(), store=url)
atexit.register(room.close)
with room:
    with room.turn("a"):
        pass
    if how == "multiprocessing":
        child = multiprocessing.get_context("fork").Process(target=bool)
        child.start()
        child.join()
        status = child.exitcode
    else:
        child = os.fork()
        if child == 0:
            sys.exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7
    print("child", status)
    with room.turn("a") as turn:
        pass
    print("generation", turn.generation)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is no fork here")
@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_child_ends_as_any_program_does_and_leaves_the_room_alone(store: str | None, how: str) -> None:
    """K2: blocks are left, `atexit` calls, objects are collected; the hooks are called by the parent."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, store or ""],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == ["child 0", "generation 2", "commit True", "close True"]
    assert done.returncode == 0
