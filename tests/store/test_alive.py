"""What rooms hold while they live, and what others make of it. Processes that are really killed are in
`tests/crash/test_dead_rooms.py`."""

from __future__ import annotations

import errno
import fcntl
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from greenroom.store import Store, open_store
from greenroom.store import _alive_sqlite as files
from greenroom.store._alive import PAUSE, RESPITE, NoLock
from greenroom.store._engine import Engine
from greenroom.store._schema import upgrade_to
from tests.crash.databases import sqlite_url
from tests.room.agents import until
from tests.store.engines import sql
from tests.store.foreign import execute, python
from tests.store.lookers import Looker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.postgres import PostgresServer

TTL = 600.0


def beat(store: Store, room: str = "room") -> bool:
    """Say that a room lives."""
    with store.transaction() as ledger:
        return ledger.beat(room, ttl=TTL)


def retire(store: Store, room: str = "room") -> None:
    """Say that it does not any more."""
    with store.transaction() as ledger:
        ledger.retire(room)


def lose_lock(store: Store, room: str = "room") -> None:
    """Free it as the end of a process does, which leaves a file behind."""
    lock = store._alive._held.pop(room)
    if isinstance(lock, files.FileLock):
        lock.leave_to_parent()
    else:
        lock.let_go()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that several can use."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "greenroom.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.fixture
def home(url: str) -> Iterator[Store]:
    """The store of a room that lives."""
    with open_store(url, durability="normal") as store:
        assert not beat(store)
        yield store


@pytest.fixture
def looker(home: Store, url: str) -> Iterator[Looker]:
    assert home.holds("room")
    with Looker(url) as looker:
        yield looker


# Both databases.


def test_a_room_that_lives_is_not_buried(home: Store, looker: Looker) -> None:
    name = looker.row().lock_name
    assert name is not None

    assert looker.look_twice() == ()

    assert beat(home)
    assert home.holds("room")
    assert looker.row().lock_name == name
    assert looker.row().alive


def test_two_rooms_of_one_process_are_two(home: Store, looker: Looker) -> None:
    """M3: one store ends, and the other lives on."""
    beat(looker.store, "other")
    assert looker.row().lock_name != looker.row("other").lock_name
    home.close()

    looker.look_twice()

    assert looker.row("other").alive
    assert beat(looker.store, "other")


def test_two_rooms_of_one_store_are_two(home: Store, looker: Looker) -> None:
    beat(home, "other")
    retire(home, "other")

    assert looker.look_twice() == ()

    assert [row.room for row in looker.store.rooms()] == ["room"]
    assert home.holds("room")


def test_nothing_is_buried_whose_row_says_something_else_by_now(home: Store, looker: Looker) -> None:
    """M3: the second look must find the same lock."""
    free = looker.row().lock_name
    lose_lock(home)
    until(lambda: looker.look().again, "a lock that is free")
    beat(home)
    assert looker.row().lock_name != free

    assert looker.look(PAUSE) == ((), False)
    assert looker.look_twice() == ()


def test_nothing_is_buried_whose_row_changes_between_look_and_burial(
    home: Store, looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: the row is compared in the statement that buries."""
    lose_lock(home)
    until(lambda: looker.look().again, "a lock that is free")
    locks = looker.store._alive._locks
    assert locks is not None
    free = locks.free

    def then_it_beats(names: Collection[str]) -> set[str]:
        found = free(names)
        beat(home)
        return found

    monkeypatch.setattr(locks, "free", then_it_beats)
    assert looker.look(PAUSE).buried == ()
    assert looker.row().alive


def test_looks_that_failed_begin_anew(
    home: Store, looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: a database that nobody could reach was out of reach for the room, too."""

    def fail(_: object) -> None:
        raise OSError("no route")

    lose_lock(home)
    until(lambda: looker.look().again, "a lock that is free")
    with monkeypatch.context() as patch:
        patch.setattr(looker.store._engine, "look", fail)
        with pytest.raises(OSError, match="no route"):
            looker.look(PAUSE)

    assert looker.look(PAUSE) == ((), True)
    assert looker.look(PAUSE).buried == ("room",)


def test_a_lock_that_cannot_be_taken_is_not_tried_for_with_every_beat(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: it may take long to fail, and turns would wait for that."""
    locks, tries = looker.store._alive._locks, list[str]()
    assert locks is not None

    def refuse(owner: str) -> None:
        tries.append(owner)
        raise NoLock("a pooler without another connection")

    with monkeypatch.context() as patch:
        patch.setattr(locks, "take", refuse)
        for later, tried in [(0.0, 1), (RESPITE / 2, 1), (RESPITE / 2, 2), (RESPITE, 2), (RESPITE, 3)]:
            looker.look(later)
            beat(looker.store, "other")
            assert len(tries) == tried
    looker.look(4 * RESPITE)
    beat(looker.store, "other")
    assert looker.row("other").lock_name is not None


def test_a_room_without_a_lock_is_judged_by_its_lease(looker: Looker, url: str) -> None:
    """M3: as one of an older version is."""
    execute(url, "UPDATE greenroom_rooms SET lock_name = NULL")

    assert looker.look() == looker.look(PAUSE) == ((), False)
    assert looker.row().alive


@pytest.mark.parametrize("name", ["", "x", "@", "1@2@3", "../../etc/passwd@1", "0123456789abcdef@"])
def test_a_lock_that_nobody_understands_tells_nothing(looker: Looker, url: str, name: str) -> None:
    execute(url, "UPDATE greenroom_rooms SET lock_name = ?", name)

    assert looker.look() == looker.look(PAUSE) == ((), False)


def test_a_lock_of_another_world_tells_nothing(home: Store, looker: Looker, url: str) -> None:
    """M3: another boot, another machine, or a server that was started since."""
    number = (looker.row().lock_name or "").partition("@")[0]
    lose_lock(home)
    until(lambda: looker.look().again, "a lock that is free")
    execute(url, "UPDATE greenroom_rooms SET lock_name = ?", f"{number}@1")

    assert looker.look() == looker.look(PAUSE) == ((), False)
    assert looker.row().alive


CHILD_EXITS = """
import os, signal, sys, warnings
from greenroom.store import open_store

store = open_store(sys.argv[1])
with store.transaction() as ledger:
    ledger.beat("room", ttl=600)
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if child == 0:
    signal.alarm(20)
    with store.transaction() as ledger:
        ledger.beat("child", ttl=600)
    assert store.holds("child")
    store.close()
    sys.exit(0)  # the interpreter collects everything
assert os.waitpid(child, 0)[1] == 0
looker = open_store(sys.argv[1])
looker.bury()
looker._alive._clock = lambda: float("inf")
assert "room" not in looker.bury().buried
assert store.holds("room")
looker.close()
store.close()
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is no fork here")
def test_a_forked_child_that_ends_leaves_the_lock_to_its_parent(url: str) -> None:
    """K2: and can have one of its own, with the same store."""
    done = python(CHILD_EXITS, url)

    assert done.stderr == ""


@pytest.mark.parametrize("version", [3, 4])
def test_a_store_of_an_older_version_is_upgraded_and_its_rooms_live_by_their_leases(
    url: str, version: int
) -> None:
    engine = Engine(url)
    engine.change(lambda connection: upgrade_to(connection, version))
    sql(engine, "INSERT INTO greenroom_rooms (room, expires) VALUES ('old', 9e9)")
    engine.close()

    with Looker(url) as looker:
        assert looker.look_twice() == ()
        assert (looker.row("old").alive, looker.row("old").lock_name) == (True, None)
        beat(looker.store, "old")
        assert looker.row("old").lock_name is not None


def test_a_database_in_memory_has_none_of_this() -> None:
    with open_store("sqlite://") as store:
        beat(store)
        assert store.holds("room")
        assert store.bury() == store.bury() == ((), False)
        assert store.rooms()[0].lock_name is None


# Files.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "greenroom.db"


@pytest.fixture
def file_home(path: Path) -> Iterator[Store]:
    with open_store(sqlite_url(path), durability="normal") as store:
        beat(store)
        yield store


def locks_beside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}-room-*"))


def test_a_room_that_ends_in_order_leaves_no_file(file_home: Store, path: Path) -> None:
    assert len(locks_beside(path)) == 1
    retire(file_home)
    assert locks_beside(path) == []

    beat(file_home)
    file_home.close()
    assert locks_beside(path) == []


def test_a_file_that_was_deleted_tells_nothing_and_the_next_beat_makes_another(
    file_home: Store, path: Path
) -> None:
    """M3"""
    [lock] = locks_beside(path)
    lock.unlink()
    with Looker(sqlite_url(path)) as looker:
        assert looker.look() == looker.look(PAUSE) == ((), False)
        before = looker.row().lock_name

        assert beat(file_home)

        assert looker.row().lock_name != before
        assert len(locks_beside(path)) == 1
        assert looker.look_twice() == ()
        assert file_home.holds("room")


def test_a_file_that_was_replaced_tells_nothing_of_the_room(file_home: Store, path: Path) -> None:
    [lock] = locks_beside(path)
    lock.unlink()
    lock.touch()
    beat(file_home)
    with Looker(sqlite_url(path)) as looker:
        assert looker.look_twice() == ()
        assert looker.row().alive


def test_where_there_are_no_locks_those_of_others_tell_nothing(
    file_home: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: one program can lock and another cannot."""
    lose_lock(file_home)
    path.with_name("greenroom.db-room-0123456789abcdef").touch()
    monkeypatch.setattr(files, "fcntl", None)
    with Looker(sqlite_url(path)) as looker:
        assert looker.look() == looker.look(PAUSE) == ((), False)
    assert len(locks_beside(path)) == 2


@pytest.mark.usefixtures("file_home")
def test_files_that_no_row_names_are_removed(path: Path) -> None:
    left = path.with_name("greenroom.db-room-0123456789abcdef")
    foreign = path.with_name("greenroom.db-room-of-mine")
    left.touch()
    foreign.touch()
    [mine] = [lock for lock in locks_beside(path) if lock not in (left, foreign)]

    with Looker(sqlite_url(path)) as looker:
        looker.look()

    assert locks_beside(path) == sorted([mine, foreign])


@pytest.mark.parametrize("dead", [True, False])
def test_the_file_of_a_dead_room_whose_lease_has_run_out_is_removed(
    file_home: Store, path: Path, dead: bool
) -> None:
    """Nobody has looked before. One that stands still has it locked."""
    if dead:
        lose_lock(file_home)
    with Looker(sqlite_url(path)) as looker:
        looker.store._engine.clock_shift = 2 * TTL
        assert not looker.row().alive
        looker.look()
    assert len(locks_beside(path)) == (0 if dead else 1)


def test_a_file_that_is_removed_before_it_is_locked_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. a room makes its file  2. another store tidies up  3. the room locks what nobody will find."""
    flock, removed = fcntl.flock, list[Path]()

    def late(file: int, how: int) -> None:
        if how & fcntl.LOCK_EX and not removed:
            removed.extend(locks_beside(path))
            removed[0].unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with open_store(sqlite_url(path)) as store:
        beat(store)
        assert len(locks_beside(path)) == 1
        assert locks_beside(path) != removed
        assert store._alive._held["room"].there()


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOLCK])
def test_without_locks_the_lease_decides_and_it_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """M3: a file system that has none."""

    def refuse(*_: int) -> None:
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    check_leases_only(path, caplog, "no locks here")


def test_a_system_without_flock_has_leases(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """M3: Windows."""
    monkeypatch.setattr(files, "fcntl", None)
    check_leases_only(path, caplog, "this system has no flock")


def test_a_system_that_cannot_tell_its_boots_apart_has_leases(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """M3"""
    monkeypatch.setattr(files, "BOOT_ID", "/no/such/file")
    monkeypatch.setenv("PATH", "/no/such/folder")  # nor a `sysctl`
    check_leases_only(path, caplog, "does not tell one boot from another")


def check_leases_only(path: Path, caplog: pytest.LogCaptureFixture, why: str) -> None:
    with open_store(sqlite_url(path)) as store, caplog.at_level(logging.WARNING, "greenroom.store"):
        assert not beat(store)
        assert beat(store)
        assert store.holds("room")
        assert [row.lock_name for row in store.rooms()] == [None]
        assert store.bury() == store.bury() == ((), False)
        [warning] = caplog.messages
        assert why in warning
        assert "lease" in warning
        assert locks_beside(path) == []
