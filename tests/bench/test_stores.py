"""The benchmark of stores: who takes part does what is asked, what is lost is seen, and the bars."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import document, scenarios, stores
from benchmarks.results import Results
from benchmarks.stores import (
    BARE_FULL,
    BARE_NORMAL,
    BARE_POSTGRES,
    KEY,
    LOOK,
    NO_STORE,
    POSTGRES_FULL,
    READS_ONLY,
    SQLITE_FULL,
    SQLITE_NORMAL,
)
from benchmarks.stores.bare import UPDATE, Combining, Database, Row
from benchmarks.stores.bars import judge
from benchmarks.stores.databases import Databases
from benchmarks.stores.ours import check_ledger
from benchmarks.stores.scenarios import QUICK, Contestant, hopping, recovering, restarting
from benchmarks.stores.tables import report
from greenroom.store import open_store
from tests.actors.actors import PATIENCE, Gate
from tests.bench import samples
from tests.postgres import PostgresServer

IN_FILES = (READS_ONLY, SQLITE_NORMAL, BARE_NORMAL, SQLITE_FULL, BARE_FULL)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


# Those that take part do what is asked of them, and look themselves whether they did


def turns(name: str, url: str, sessions: int) -> float:
    load = scenarios.Scenario(name="", title="", kind="turn", threads=sessions, actors=sessions)
    return scenarios.measure(stores.load(name, url), load, 0.02)["samples"]


@pytest.mark.parametrize("sessions", [1, 8])
@pytest.mark.parametrize("name", [NO_STORE, *IN_FILES])
def test_each_takes_turns_on_a_fresh_file(name: str, sessions: int, url: str) -> None:
    assert turns(name, "" if name == NO_STORE else url, sessions) > 0


def test_a_look_takes_turns_in_one_thread(url: str) -> None:
    assert turns(LOOK, url, 1) > 0


@pytest.mark.parametrize("sessions", [1, 8])
@pytest.mark.parametrize("name", [POSTGRES_FULL, BARE_POSTGRES, stores.BARE_ONE])
def test_each_takes_turns_on_a_server(name: str, sessions: int, postgres_server: PostgresServer) -> None:
    assert turns(name, postgres_server.fresh_url(), sessions) > 0


@pytest.mark.parametrize("name", [POSTGRES_FULL, BARE_POSTGRES])
def test_a_life_of_a_session_on_a_server(name: str, postgres_server: PostgresServer) -> None:
    live(name, postgres_server.fresh_url())


@pytest.mark.parametrize("name", [SQLITE_FULL, BARE_FULL])
def test_a_life_of_a_session_in_a_file(name: str, url: str) -> None:
    live(name, url)


def live(name: str, url: str) -> None:
    life = stores.load(name, url).life(None, 0.0)
    life.turn()
    life.inherit()
    life.check(1, 2)


class OneFile(Databases):
    def __init__(self, url: str) -> None:
        self._url = url

    def fresh(self, kind: str) -> str:
        assert kind == "sqlite"
        return self._url


@pytest.mark.long
@pytest.mark.parametrize("scenario", [restarting, hopping, recovering])
def test_processes_that_are_killed_or_hop_leave_all_turns_behind(
    scenario: Callable[..., Any], url: str
) -> None:
    assert scenario(Contestant(BARE_FULL, OneFile(url)), QUICK)


@pytest.mark.long
def test_what_a_killed_room_left_is_committed(url: str) -> None:
    assert recovering(Contestant(SQLITE_FULL, OneFile(url)), QUICK)["seconds"] > 0


def test_a_turn_that_is_not_in_the_ledger_is_an_error(url: str) -> None:
    with open_store(url) as store, store.transaction() as ledger:
        lease = ledger.take(KEY, key=KEY, owner="x")
        ledger.complete(KEY, owner="x", epoch=lease.epoch, generation=2, linger=0.0)
        ledger.commit(KEY, owner="x", epoch=lease.epoch, generation=2)
    check_ledger(url, 1, 2)
    with pytest.raises(AssertionError, match="2 turns instead of 3"):
        check_ledger(url, 1, 3)
    with pytest.raises(AssertionError, match="1 sessions in the store instead of 2"):
        check_ledger(url, 2, 2)


def test_a_turn_that_is_not_committed_is_an_error(url: str) -> None:
    with open_store(url) as store, store.transaction() as ledger:
        lease = ledger.take(KEY, key=KEY, owner="x")
        ledger.complete(KEY, owner="x", epoch=lease.epoch, generation=2, linger=0.0)
    with pytest.raises(AssertionError, match="uncommitted"):
        check_ledger(url, 1, None)


def test_a_bare_write_under_another_owner_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bare.db"
    with closing(Database(f"sqlite:///{path}", "NORMAL")) as database:
        database.change("INSERT INTO sessions VALUES (?, ?, 1, 0, 0, 0.0, 0.0)", KEY, "other")
        with pytest.raises(AssertionError):
            database.writer(UPDATE)((1, 0.0, 0.0, KEY, "one", 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT generation FROM sessions").fetchall() == [(0,)]


# The combining that a room is compared with


def test_what_waits_is_written_at_once_by_the_thread_that_gets_the_lock() -> None:
    batches: list[list[Row]] = []
    gate, waiting = Gate(), threading.Semaphore(0)

    class Pausing:
        def write_all(self, statement: str, rows: list[Row]) -> None:
            batches.append(sorted(rows))
            gate.wait()

    class Seen(deque[list[Row]]):
        def append(self, entry: list[Row]) -> None:
            super().append(entry)
            waiting.release()

    combining = Combining(cast("Database", Pausing()))
    combining.pending = Seen()
    threads = [threading.Thread(target=combining.write, args=((number,),)) for number in range(4)]
    threads[0].start()
    gate.wait_reached()
    for thread in threads[1:]:
        thread.start()
    for _ in threads:
        assert waiting.acquire(timeout=PATIENCE)
    gate.open()
    for thread in threads:
        thread.join()
    assert batches == [[(0,)], [(1,), (2,), (3,)]]


# The bars


def results() -> Results:
    found = Results(
        machine=dict(samples.MACHINE) | {"file_system": "ext4"},
        versions={},
        settings={"repetitions": 2, "lives": 1, "orphans": 500, "load": 0.5},
        not_offered={name: {} for name in stores.NAMES if name != POSTGRES_FULL},
    )
    for times in (1.0, 3.0):
        found.add("turn", SQLITE_NORMAL, turn(40.0 * times))
        found.add("turn", BARE_NORMAL, turn(10.0))
        found.add("turn", NO_STORE, turn(2.0))
        found.add("turn", READS_ONLY, turn(14.0))
        found.add("turn_64", SQLITE_NORMAL, turn(100.0))
    found.add("hop", SQLITE_FULL, {"p50_ms": 20.0, "p99_ms": 101.0})
    found.add("restart", SQLITE_FULL, {"seconds": 1.0, "ms": 1000.0})
    found.add("restart", BARE_FULL, {"seconds": 0.002, "ms": 2.0})
    found.add("recover", SQLITE_FULL, {"seconds": 1.0})
    return found


def turn(microseconds: float) -> dict[str, float]:
    times = dict.fromkeys(("each", "p50", "p99", "p999", "max"), microseconds)
    return times | {"rate": 1e6 / microseconds, "p99_ms": microseconds / 1e3, "samples": 1}


def test_a_turn_is_held_against_the_driver_that_does_the_same() -> None:
    bars = {bar.what: bar for bar in judge(results())}
    warm = bars["SQLite, normal: an empty warm turn ÷ sqlite3, normal"]
    assert (warm.found.middle, warm.found.low, warm.found.high) == (8.0, 4.0, 12.0)
    assert not warm.met
    assert bars["Seeing that nobody wrote"].found.middle == 12.0
    assert {what: bar.met for what, bar in bars.items() if bar is not warm} == {
        "SQLite, normal: 64 sessions": True,
        "SQLite, normal: 64 sessions, p99": True,
        "SQLite, full: first turn of a session whose room was killed": True,
        "SQLite, full: a turn in another process than the last, p99": False,
        "SQLite, full: 500 sessions of a dead room, hooks of 1 ms": True,
        "Seeing that nobody wrote": True,
    }


def test_the_page_shows_the_bars_above_the_figures(tmp_path: Path) -> None:
    results().write(tmp_path / "stores.json", [])
    page = document.document(tmp_path)
    bars = page.index("| SQLite, normal: 64 sessions | ≥ 8000 turns/s | 10,000 turns/s | yes |")
    assert bars < page.index(report(results(), judge(results())))


def test_the_report_leaves_out_what_was_not_measured() -> None:
    text = " ".join(report(results(), judge(results())).split())
    assert "SQLite, normal 80.0 (40–120) 8.00× (4.0–12)" in text
    assert "SQLite, full 1,000 (1000–1000) 20.0 (20–20)" in text
    assert "SQLite, only read: a turn takes 12.0 (12–12) µs" not in text  # no bare look beside it
    assert "PostgreSQL, full" not in text
