"""The look that waits for nobody."""

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from greenroom.store import CannotPeek, Store, StoreClosed, open_store
from tests.store.foreign import execute_elsewhere
from tests.store.test_threads import together
from tests.strikes.points import Striker
from tests.strikes.trials import Struck


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    """An SQLite file."""
    return f"sqlite:///{tmp_path / 'a store.db'}"


def test_where_one_can_peek_it_tells_version_and_end(store: Store) -> None:
    store.create_session("s", key="k")
    if not store.can_peek:
        with pytest.raises(CannotPeek, match="session"):
            store.peek("s")
        return
    assert store.peek("s") == (0, False)
    store.append("s", role="user", content="x")
    assert store.peek("s") == (1, False)
    store.end_session("s")
    assert store.peek("s") == (2, True)
    assert store.peek("unknown") is None
    assert store.peek("\ud800") is None


def test_a_look_tells_the_same_whatever_is_expected(file_url: str) -> None:
    """H2, H4"""
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        store.append("s", role="user", content="x")
        assert [store.peek("s", expected) for expected in (-1, 0, 1, 2)] == [(1, False)] * 4
        store.end_session("s")
        assert [store.peek("s", expected) for expected in (1, 2, 3)] == [(2, True)] * 3
        store.delete_session("s")
        assert [store.peek("s", expected) for expected in (-1, 0, 2)] == [None] * 3
        assert store.peek("\ud800", 0) is None


def test_only_a_file_can_be_peeked_at(store: Store) -> None:
    assert store.can_peek is store.url.startswith("sqlite:///")


def test_a_write_of_another_process_is_seen(file_url: str) -> None:
    """H2"""
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        assert store.peek("s") == (0, False)
        statement = "INSERT INTO greenroom_messages (session_id, role, content) VALUES (?, 'user', 'x')"
        execute_elsewhere(file_url, statement, "s")
        assert store.peek("s") == (1, False)


def test_a_writer_in_the_middle_of_a_transaction_is_not_waited_for(file_url: str) -> None:
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        with store.transaction() as ledger:
            ledger.take("s", key="k", owner="room")
            assert store.peek("s") == (0, False)
            # A reader that has seen nothing yet does not wait either.
            store._peeker.close()
            assert store.peek("s") == (0, False)


def test_a_look_leaves_no_snapshot_behind(file_url: str) -> None:
    """A reader that stays in its transaction would keep the log from being emptied."""
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        store.peek("s")
        store.append("s", role="user", content="x")
        with closing(sqlite3.connect(str(store._engine.path))) as connection:
            busy, left, moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert (busy, left, moved) == (0, 0, 0)


def test_many_threads_peek_at_once(file_url: str) -> None:
    with open_store(file_url) as store:
        for number in range(8):
            store.create_session(str(number), key="k")
            for _ in range(number):
                store.append(str(number), role="user", content="x")

        def peek(number: int) -> None:
            for _ in range(200):
                assert store.peek(str(number)) == (number, False)

        together(peek)


@pytest.mark.parametrize("idle", [True, False], ids=["an idle connection", "a new one"])
def test_a_look_that_is_struck_keeps_no_connection(file_url: str, idle: bool) -> None:
    """K1, K2: a connection that looks in use for ever would hold up every fork."""
    striker = Striker()
    with open_store(file_url) as store:
        store.create_session("s", key="k")

        def strike(n: int) -> bool:
            if not idle:
                store._peeker.close()
            try:
                striker.call(lambda: store.peek("s"), n, Struck())
            except Struck:
                pass
            assert not store._in_use(), f"struck at {striker.place}"
            assert store.peek("s") == (0, False)
            return striker.place is not None

        strike(0)
        assert len(list(itertools.takewhile(strike, itertools.count(1)))) >= 5


def test_a_file_that_is_gone_cannot_be_peeked_at(file_url: str) -> None:
    with open_store(file_url) as store:
        path = Path(str(store._engine.path))
        path.rename(path.with_suffix(".moved"))
        with pytest.raises(CannotPeek, match="cannot be looked at"):
            store.peek("s")


def test_after_closing_there_is_nothing_to_see(file_url: str) -> None:
    store = open_store(file_url)
    store.create_session("s", key="k")
    store.peek("s")
    store.close()
    with pytest.raises(StoreClosed):
        store.peek("s")
