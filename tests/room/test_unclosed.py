"""Rooms that nobody closes: dropped, or still open when the interpreter exits."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom
from tests.actors.actors import PATIENCE
from tests.room.agents import until, wait_dead

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.messages import Event


class Gateway:
    """Has a room whose build, listener and agents refer back to it, as the methods of a gateway do."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.room = Greenroom(self.build)
        self.room.events(self.hear)

    def build(self, _: Any) -> Agent:
        return Agent(self, self.log)

    def hear(self, event: Event) -> None:
        """Listen."""


class Agent:
    def __init__(self, gateway: Gateway | None, log: list[str]) -> None:
        self.gateway = gateway
        self.log = log

    def commit_memory_session(self) -> None:
        self.log.append("commit")

    def close(self) -> None:
        self.log.append("close")


def drop_a_plain_room(log: list[str]) -> weakref.ref[Greenroom]:
    room = Greenroom(lambda _: Agent(None, log))
    with room.turn("a"):
        pass
    return weakref.ref(room)


def drop_a_room_in_a_cycle(log: list[str]) -> weakref.ref[Greenroom]:
    gateway = Gateway()
    gateway.log = log
    with gateway.room.turn("a"):
        pass
    return weakref.ref(gateway.room)


@pytest.mark.parametrize(
    ("drop", "maker"),
    [(drop_a_plain_room, drop_a_plain_room), (drop_a_room_in_a_cycle, Gateway.__init__)],
)
def test_a_dropped_room_warns_where_it_was_opened_and_ends(
    drop: Callable[[list[str]], weakref.ref[Greenroom]],
    maker: Callable[..., object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K4"""
    log: list[str] = []
    threads = set(threading.enumerate())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        room = drop(log)
        # Its listener may be being called with the last event, on a worker.
        until(lambda: gc.collect() >= 0 and bool(warned), "the warning")
    [opened] = [n for n, line in enumerate(*inspect.getsourcelines(maker)) if "Greenroom(" in line]
    [warning] = [(w.category, w.filename, w.lineno) for w in warned]
    assert warning == (ResourceWarning, __file__, opened)
    warned.clear()  # they refer to the room
    [said] = [record.getMessage() for record in caplog.records if record.name == "greenroom"]
    assert f"{__file__}:{opened}" in said
    assert "uncommitted turns: 1" in said
    until(lambda: log == ["commit", "close"], "the end of its agent")
    until(lambda: set(threading.enumerate()) <= threads, "the end of its threads")
    wait_dead(room)


def test_a_room_that_is_closed_or_drained_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """K4: and leaves no thread behind, which is looked at behind every test."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Greenroom(lambda _: object()) as left:
            pass
        closed = Greenroom(lambda _: object())
        closed.close()
        drained = Greenroom(lambda _: object())
        drained.drain()
        with pytest.raises(TypeError):
            Greenroom(None)  # type: ignore[arg-type]  # it is never opened
        del left, closed, drained
        gc.collect()
    assert warned == []
    assert caplog.records == []


SCRIPT = """
import asyncio, logging, sys, threading
import greenroom._ending
from greenroom import Greenroom

logging.basicConfig(level=logging.WARNING, format="%(message)s")
greenroom._ending.PATIENCE = float(sys.argv[2])

class Sync:
    def commit_memory_session(self): print("commit", flush=True)
    def close(self): print("close", flush=True)

class Async:
    async def commit_memory_session(self): await asyncio.sleep(0); print("commit", flush=True)
    async def close(self): print("close", flush=True)

class Stuck(Sync):
    def commit_memory_session(self): threading.Event().wait()

kind = globals().get(sys.argv[1], Sync)
room = Greenroom(lambda _: kind())
with room.turn("a"):
    pass

def hold():
    with room.turn("a"):
        begun.set()
        threading.Event().wait()

begun = threading.Event()
if sys.argv[1] == "in-a-turn":
    threading.Thread(target=hold, daemon=True).start()
    begun.wait()
"""


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="3.12 starts no thread while it exits")
@pytest.mark.parametrize(
    ("what", "patience", "done"),
    [
        ("Sync", 5.0, ["commit", "close"]),
        ("Async", 5.0, ["commit", "close"]),
        ("in-a-turn", 0.2, ["commit", "close"]),
        ("Stuck", 0.2, ["close"]),
    ],
)
def test_what_can_be_committed_at_exit_is(what: str, patience: float, done: list[str]) -> None:
    """K4"""
    ended = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", SCRIPT, what, str(patience)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ended.stdout.split() == done
    assert "<string>:21: ResourceWarning: the room opened here was still open" in ended.stderr
    assert "uncommitted turns: 1" in ended.stderr
