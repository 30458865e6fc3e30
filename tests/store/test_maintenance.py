"""What operators do: rooms, retries, counts, checks, vacuuming."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from greenroom.store import Store, StoreClosed, UnknownSession, open_store
from greenroom.store._maintenance import MOST, is_there
from greenroom.store._schema import LATEST
from tests.postgres import PostgresServer
from tests.store.engines import sql


def fail_a_commit(store: Store, session_id: str, *, most: int = 5) -> None:
    """Complete a turn of a session and let its commit fail."""
    with store.transaction() as ledger:
        epoch = ledger.take(session_id, key="k", owner="room").epoch
        ledger.complete(session_id, owner="room", epoch=epoch, generation=1, linger=0.0)
        assert ledger.fail(
            session_id, owner="room", epoch=epoch, problem="no answer", pause=3600.0, most=most
        )


def orphans(store: Store) -> list[str]:
    with store.transaction() as ledger:
        return [row.session_id for row in ledger.orphans(owner="other", limit=10)]


def damage(store: Store, statement: str) -> None:
    """Do to the tables what only a foreign program does."""
    sql(store._engine, statement)


# Rooms


def test_the_clock_is_the_one_of_the_database(store: Store) -> None:
    made = store.create_session("s", key="k").created
    assert made <= store.now() <= store.session("s").created + 60


def test_rooms_that_live_come_first(store: Store) -> None:
    with store.transaction() as ledger:
        ledger.beat("a", ttl=10.0, host="one", pid=1)
        ledger.beat("b", ttl=1000.0, host="two", pid=2)
    store._engine.clock_shift = 100.0
    found = store.rooms()
    assert [(room.room, room.alive) for room in found] == [("b", True), ("a", False)]
    assert (found[0].host, found[0].pid) == ("two", 2)
    assert found[0].expires - found[0].started == pytest.approx(1000.0, abs=5.0)


# Retries


def test_a_retry_makes_a_waiting_session_due_at_once(store: Store) -> None:
    fail_a_commit(store, "s")
    assert orphans(store) == []
    assert store.retry("s") == 1
    assert orphans(store) == ["s"]
    row = store.session("s")
    assert (row.tries, row.next_try, row.dead, row.problem) == (0, None, False, "no answer")


def test_a_retry_revives_a_dead_letter(store: Store) -> None:
    fail_a_commit(store, "s", most=1)
    assert store.session("s").dead
    assert store.retry("s") == 1
    assert orphans(store) == ["s"]


def test_a_retry_of_all_counts_those_that_failed(store: Store) -> None:
    fail_a_commit(store, "waiting")
    fail_a_commit(store, "dead", most=1)
    store.create_session("clean", key="k")
    assert store.retry() == 2
    assert store.retry() == 0


def test_a_retry_of_one_leaves_the_others(store: Store) -> None:
    fail_a_commit(store, "one", most=1)
    fail_a_commit(store, "two", most=1)
    assert store.retry("one") == 1
    assert store.session("two").dead


def test_a_retry_does_not_change_the_version(store: Store) -> None:
    fail_a_commit(store, "s")
    before = store.session("s").version
    store.retry("s")
    assert store.session("s").version == before


def test_a_retry_of_an_unknown_session_says_so(store: Store) -> None:
    with pytest.raises(UnknownSession) as caught:
        store.retry("nobody")
    assert caught.value.session_id == "nobody"


# Counts


def test_an_empty_store_counts_nothing(store: Store) -> None:
    counted = store.counts()
    assert (counted.sessions, counted.messages, counted.dirty, counted.uncommitted) == (0, 0, 0, 0)
    assert counted.size > 0


def test_everything_is_counted(store: Store) -> None:
    for session_id in ("a", "b", "c"):
        store.create_session(session_id, key="k")
        store.append(session_id, role="user", content="hello")
    store.append("a", role="assistant", content="hello yourself")
    store.end_session("c")
    fail_a_commit(store, "a", most=1)
    with store.transaction() as ledger:
        ledger.beat("room", ttl=10.0)
        epoch = ledger.take("b", key="k", owner="room").epoch
        ledger.complete("b", owner="room", epoch=epoch, generation=3, linger=0.0)
        ledger.commit("b", owner="room", epoch=epoch, generation=1)
    counted = store.counts()
    assert (counted.schema_version, counted.sessions, counted.ended, counted.messages) == (
        LATEST,
        3,
        1,
        4,
    )
    assert (counted.dirty, counted.uncommitted, counted.dead, counted.rooms) == (2, 3, 1, 1)


# Checks


def test_a_healthy_store_has_no_problems(store: Store) -> None:
    store.create_session("s", key="k")
    for content in ("text", {"a": [1, None]}, "nul \0", "surrogate \ud800"):
        store.append("s", role="user", content=content)
    damage(store, "DELETE FROM greenroom_messages WHERE position = 2")  # a gap is no damage
    damage(store, "DELETE FROM greenroom_messages WHERE position = 4")
    fail_a_commit(store, "s")
    assert store.check() == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "UPDATE greenroom_sessions SET committed = 2",
            "session 's': 2 turns are committed and only 0 completed",
        ),
        (
            "UPDATE greenroom_sessions SET owed_since = 1",
            "session 's': 0 of 0 turns are committed, and it is not marked so",
        ),
        (
            "UPDATE greenroom_sessions SET message_count = 7",
            "session 's': it says 7 messages and has 1",
        ),
        (
            "UPDATE greenroom_sessions SET last_position = 0",
            "session 's': its last position is said to be 0 and is 1",
        ),
        (
            "UPDATE greenroom_messages SET format = 'yaml'",
            "session 's', message 1: its format 'yaml' is unknown",
        ),
        (
            "UPDATE greenroom_messages SET format = 'json'",
            "session 's', message 1: its content is no JSON: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_damage_is_found(store: Store, statement: str, problem: str) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="hello")
    damage(store, statement)
    assert store.check() == [problem]


def test_so_many_problems_of_a_kind_are_enough(store: Store) -> None:
    for number in range(MOST + 5):
        store.create_session(f"s{number:03}", key="k")
    damage(store, "UPDATE greenroom_sessions SET committed = 1, message_count = 1")
    problems = store.check()
    assert len(problems) == 2 * (MOST + 1)
    assert problems.count("there is more of this kind") == 2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def test_a_message_of_no_session_is_found(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        store.create_session("s", key="k")
        store.append("s", role="user", content="hello")
        with closing(sqlite3.connect(file)) as foreign:  # one that does not ask for foreign keys
            foreign.execute("DELETE FROM greenroom_sessions")
            foreign.commit()
        assert store.check() == ["message 1: there is no session 's'"]


def test_a_damaged_file_is_found(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        for number in range(200):
            store.create_session(f"s{number}", key="k" * 300)
        store.vacuum()  # leaves nothing in the write-ahead log
    content = bytearray(file.read_bytes())
    content[8 * 4096 : 9 * 4096] = b"\xa5" * 4096
    file.write_bytes(content)
    with open_store(f"sqlite:///{file}") as store:
        problems = store.check()
    assert problems
    assert all(problem.startswith("the file is damaged: ") for problem in problems)


# Vacuum


def test_vacuuming_shrinks_a_file(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        store.create_session("s", key="k")
        for _ in range(50):
            store.append("s", role="user", content="long " * 2000)
        damage(store, "DELETE FROM greenroom_messages WHERE position > 1")
        before = store.counts().size
        store.vacuum()
        after = store.counts().size
        assert after < before / 4
        assert file.stat().st_size == after
        assert len(store.messages("s")) == 1


def test_vacuuming_changes_nothing_that_can_be_seen(store: Store) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="hello")
    before = store.session("s"), store.messages("s")
    store.vacuum()
    assert (store.session("s"), store.messages("s")) == before
    store.append("s", role="user", content="again")


def test_no_connection_is_left_without_a_time_limit(postgres_server: PostgresServer) -> None:
    with open_store(postgres_server.fresh_url()) as store:
        store.vacuum()
        store.check()
        for way in (store._engine.change, store._engine.read):
            asked = way(lambda connection: connection.exec_driver_sql("SHOW statement_timeout").scalar())
            assert asked == "5s"


# Whether there is a store


def test_looking_for_a_store_makes_none(file: Path) -> None:
    assert not is_there(f"sqlite:///{file}")
    assert list(file.parent.iterdir()) == []
    with open_store(f"sqlite:///{file}"):
        pass
    assert is_there(f"sqlite:///{file}")


def test_the_file_of_another_program_is_no_store(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE cookies (name TEXT)")
        other.commit()
    before = file.read_bytes()
    assert not is_there(f"sqlite:///{file}")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]


def test_a_file_that_cannot_be_read_is_left_to_whoever_opens_it(file: Path) -> None:
    file.write_text("Dear diary, " * 100)
    assert is_there(f"sqlite:///{file}")


def test_a_database_without_our_tables_is_no_store(postgres_server: PostgresServer) -> None:
    url = postgres_server.fresh_url()
    assert not is_there(url)
    assert not is_there(url)
    with open_store(url):
        assert is_there(url)


def test_memory_holds_no_store_to_be_found() -> None:
    assert not is_there("sqlite://")


# Afterwards


@pytest.mark.parametrize(
    "call",
    [Store.now, Store.rooms, Store.retry, Store.counts, Store.check, Store.vacuum],
    ids=lambda call: call.__name__,
)
def test_a_closed_store_is_closed_for_operators_too(call: Callable[[Store], object]) -> None:
    store = open_store("sqlite://")
    store.close()
    with pytest.raises(StoreClosed):
        call(store)
