"""A room that finds others dead, and one that others may take for dead."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, SessionBusy, StoreAway
from greenroom.actors import ManualClock
from greenroom.store import Burial
from greenroom.store._alive_sqlite import FileLock
from greenroom.supervisor.dead_rooms import PACE, PAUSE
from tests.actors.actors import Gate, in_thread, join_all
from tests.room.agents import take_turn, touch, until
from tests.room.test_ledger import RIVAL, Away, Moody, Stage, advance_until, owner_of
from tests.room.test_ledger import stage as stage

if TYPE_CHECKING:
    from greenroom.store import Store

ENDLESS = 100_000.0
"""A lease that does not end during a test."""


class Watchful(Moody):
    """It measures the pause between two looks by the clock of the room."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store)
        store._alive._clock = clock
        self.looks = 0

    def bury(self) -> Burial:
        try:
            self._look()
            return self._store.bury()
        finally:
            self.looks += 1

    def wait_look(self, number: int) -> None:
        """Wait until somebody has looked so often."""
        until(lambda: self.looks >= number, "a look for dead rooms")


class Late(Watchful):
    """The answer to its first look for orphans is late."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.answer = Gate()

    def transact(self, work: Any, *, owner: str, durability: str) -> None:
        super().transact(work, owner=owner, durability=durability)
        if "orphans" in self.done:
            self.answer.wait()


class Scene:
    """A room on a clock of the test's, and a rival that has session `a`."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.clock = stage, ManualClock()
        self.store = Watchful(stage.moody()._store, self.clock)
        self.rivals = stage.moody()._store
        with self.rivals.transaction() as ledger:
            ledger.beat(RIVAL, ttl=ENDLESS)
            lease = ledger.take("a", key="a", owner=RIVAL)
            ledger.complete("a", owner=RIVAL, epoch=lease.epoch, generation=1, linger=ENDLESS)

    def open(self) -> Greenroom:
        return self.stage.room(
            self.store, clock=self.clock, lease_ttl=ENDLESS, store_timeout=None, build_timeout=None
        )

    def kill_rival(self) -> None:
        """Free its lock as the end of its process does."""
        lock = self.rivals._alive._held.pop(RIVAL)
        assert isinstance(lock, FileLock)
        lock.leave_to_parent()


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return Scene(stage)


def test_what_a_dead_room_left_is_committed_when_it_is_known_to_be_dead(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """M3 G9: recovery looks then, and not when it would have looked again."""
    scene.kill_rival()
    room = scene.open()
    scene.store.wait_look(1)
    assert scene.stage.ledger() == (1, 0)

    with caplog.at_level(logging.WARNING, "greenroom.supervisor"):
        advance_until_look(scene, 2)
        until(lambda: scene.stage.ledger() == (1, 1), "the commit of what was left")

    assert f"The process of room {RIVAL} has ended. Its sessions may be taken over" in caplog.messages
    until(lambda: room.stats().recovered == 1, "a recovery that is counted")


def test_what_a_dead_room_left_is_looked_for_again_if_it_was_just_looked_for(scene: Scene) -> None:
    """G9: 1. recovery looks, and finds nothing  2. the room is found dead  3. recovery hears of 1."""
    scene.store = store = Late(scene.store._store, scene.clock)
    scene.kill_rival()
    room = scene.open()
    store.answer.wait_reached()
    dead_rooms = room._context.dead_rooms
    assert dead_rooms is not None
    found, told = dead_rooms._found, list[object]()
    dead_rooms._found = lambda: told.append(found())

    advance_until_look(scene, 2)
    until(lambda: told, "a recovery that is told")
    assert scene.stage.ledger() == (1, 0)
    store.answer.open()

    until(lambda: scene.stage.ledger() == (1, 1), "the commit of what was left")


def advance_until_look(scene: Scene, number: int) -> None:
    """Let the pause pass. Its timer is set by a thread that may not be through yet."""

    def looked() -> bool:
        scene.clock.advance(PAUSE)
        return scene.store.looks >= number

    until(looked, "another look")


def test_a_turn_that_waits_for_a_room_begins_when_that_is_known_to_be_dead(scene: Scene) -> None:
    """M3 T3: whether it died before or meanwhile."""
    room = scene.open()
    waiting = in_thread(lambda: take_turn(room, "a"))
    until(lambda: RIVAL in str(room.explain("a")), "a turn that waits")

    scene.kill_rival()

    advance_until(scene.clock, lambda: not waiting.is_alive(), "the turn")
    join_all([waiting])
    assert scene.stage.row().owner == owner_of(room)


def test_a_turn_that_is_refused_has_dead_rooms_looked_for(scene: Scene) -> None:
    """M3 T3"""
    room = scene.open()
    scene.store.wait_look(1)
    scene.kill_rival()
    scene.clock.advance(1.0)
    with pytest.raises(SessionBusy):
        room.turn("a", on_busy="reject").__enter__()

    scene.store.wait_look(2)
    advance_until_look(scene, 3)

    def begins() -> bool:
        try:
            with room.turn("a", on_busy="reject"):
                return True
        except SessionBusy:
            return False

    until(begins, "a turn that begins")


def test_a_turn_that_waits_for_long_has_others_looked_at_now_and_then(scene: Scene) -> None:
    """It asks for its session more often than that."""
    room = scene.open()
    scene.store.wait_look(1)
    waiting = in_thread(lambda: take_turn(room, "a"))
    until(lambda: RIVAL in str(room.explain("a")), "a turn that waits")
    began, looks = scene.clock(), scene.store.looks

    def asked_often() -> bool:
        scene.clock.advance(0.05)
        return scene.store.done.count("take") >= 20

    until(asked_often, "a turn that has asked again and again")

    assert scene.store.looks - looks <= (scene.clock() - began) / PACE + 1
    scene.kill_rival()
    advance_until(scene.clock, lambda: not waiting.is_alive(), "the turn")


def test_a_room_that_lives_is_waited_for(scene: Scene) -> None:
    """M3"""
    room = scene.open()
    scene.store.wait_look(1)
    for number in range(2, 5):
        scene.clock.advance(1.0)
        with pytest.raises(SessionBusy):
            room.turn("a", on_busy="reject").__enter__()
        scene.store.wait_look(number)
    assert scene.stage.row().owner == RIVAL


def test_looking_goes_on_when_it_has_failed(scene: Scene) -> None:
    """M3: the store was away."""
    scene.kill_rival()
    room = scene.open()
    scene.store.wait_look(1)
    scene.store.trouble = Away("no route")
    advance_until_look(scene, 2)
    scene.store.trouble = None

    advance_until(scene.clock, lambda: begins_at_once(room), "a turn that begins")


def begins_at_once(room: Greenroom) -> bool:
    try:
        with room.turn("a", on_busy="reject"):
            return True
    except (SessionBusy, StoreAway):
        return False


def test_a_room_that_is_closed_looks_no_more(scene: Scene) -> None:
    room = scene.open()
    scene.store.wait_look(1)
    room.close()
    looks = scene.store.looks

    scene.clock.advance(2 * ENDLESS)

    assert scene.store.looks == looks


def test_a_room_that_cannot_say_that_it_is_over_lets_its_lock_go(stage: Stage) -> None:
    """M3: the store that it was given lives on."""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    assert list(store._store._alive._held) == [owner_of(room)]

    store.trouble = Away("no route")
    room.close()

    assert store._store._alive._held == {}


# A room that lost its lock.


@pytest.fixture
def lost(stage: Stage) -> tuple[Moody, Greenroom, Any]:
    """A room with a warm session, and its lock: without a name it is lost."""
    store = stage.moody()
    room = stage.room(store, clock=ManualClock(), lease_ttl=ENDLESS)
    touch(room, "a", "a")
    return store, room, store._store._alive._held[owner_of(room)]


def test_a_room_without_its_lock_asks_before_it_begins_and_says_that_it_has_none(
    stage: Stage, lost: tuple[Moody, Greenroom, Any]
) -> None:
    """M3: in one transaction. Then its lease decides, until it has another lock."""
    store, room, lock = lost
    store.done.clear()
    touch(room, "a")
    assert "take" not in store.done

    name, lock.name = lock.name, None
    store.done.clear()
    touch(room, "a")
    assert store.done[:2] == ["beat", "take"]
    assert lock_named(stage) is None
    store.done.clear()
    touch(room, "a")
    assert "beat" not in store.done

    lock.name = lock.said = name
    assert room.stats().builds == 1


def test_a_turn_that_ends_without_the_lock_is_recorded_with_a_beat(
    stage: Stage, lost: tuple[Moody, Greenroom, Any]
) -> None:
    """M3"""
    store, room, lock = lost
    held = stage.cast.hold(room, "a")
    store.done.clear()

    lock.name = None
    held.end()

    assert store.done[:2] == ["beat", "complete"]
    assert stage.ledger() == (3, 0)
    assert lock_named(stage) is None


def test_a_room_without_its_lock_begins_nothing_while_the_store_is_away(
    stage: Stage, lost: tuple[Moody, Greenroom, Any]
) -> None:
    """M3: with its lock it goes on with the agent that is there."""
    store, room, lock = lost
    store.trouble = Away("no route")
    lock.name = None

    with pytest.raises(StoreAway):
        room.turn("a").__enter__()

    store.trouble = None
    touch(room, "a")
    assert stage.ledger() == (3, 0)


def lock_named(stage: Stage) -> str | None:
    """The lock that the row of the only room names."""
    [row] = stage.store.rooms()
    return row.lock_name
