"""Databases that cannot be reached, read or written."""

import os
import queue
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from greenroom.store import Store, StoreClosed, StoreError, StoreUnavailable, open_store
from greenroom.store._engine import Engine
from greenroom.store._schema import _ADVISORY_LOCK
from tests.store.engines import sql
from tests.store.foreign import execute


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr("greenroom.store._connect.PATIENCE", 0.05)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    """An SQLite file."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.mark.usefixtures("impatient")
def test_a_file_that_another_program_writes_to_is_unavailable_for_writing(file_url: str) -> None:
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        with closing(sqlite3.connect(str(store._engine.path), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"locked.*end it, or try again") as caught:
                store.append("s", role="user", content="x")
            assert caught.value.__cause__ is not None
            assert store.own_writes("s") == 0
            assert store.session("s").version == 0  # reading is fine
            other.execute("ROLLBACK")
        assert store.append("s", role="user", content="x").position == 1


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_is_not_given_back_is_unavailable() -> None:
    with open_store("sqlite://") as store:
        store.create_session("s", key="k")
        with (
            store.transaction(),
            pytest.raises(StoreUnavailable, match=r"\(1\).*keep transactions short"),
        ):
            store.session("s")
        assert store.session("s").key == "k"


def test_a_block_raises_what_is_raised_in_it(store: Store) -> None:
    with pytest.raises(queue.Empty), store.transaction():
        raise queue.Empty
    assert store.sessions() == []


def test_a_row_that_another_program_locks_is_unavailable(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        store.create_session("s", key="k")
        assert sql(store._engine, "SHOW lock_timeout") == "5s"
        sql(store._engine, "SET lock_timeout = 50")  # of the only connection so far, which is used next
        import psycopg

        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM greenroom_sessions FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                store.append("s", role="user", content="x")
            assert store.session("s").version == 0
        assert store.append("s", role="user", content="x").position == 1


def test_tables_are_made_by_one_at_a_time(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as other, pytest.MonkeyPatch.context() as impatience:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY_LOCK])
        impatience.setattr("greenroom.store._connect.PATIENCE", 0.05)
        with pytest.raises(StoreUnavailable, match="timeout"):
            open_store(postgres_url)
    open_store(postgres_url).close()


@pytest.mark.usefixtures("impatient")
def test_a_second_transaction_within_the_first_does_not_wait_for_ever(file_url: str) -> None:
    with (
        open_store(file_url) as store,
        store.transaction(),
        pytest.raises(StoreUnavailable, match="keep transactions short"),
    ):
        store.create_session("s", key="k")


def test_a_server_that_dropped_us_is_noticed_without_an_error(postgres_url: str) -> None:
    # The server may be shared: only the test's own connections are dropped.
    name = f"greenroom_test_{secrets.token_hex(8)}"
    with open_store(f"{postgres_url}&application_name={name}") as store:
        store.create_session("s", key="k")
        # With a time, which waits until they are gone: without one it sends a signal and goes on, and a
        # connection that is asked in between looks sound.
        dropped = execute(
            postgres_url,
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = ?",
            name,
        )
        assert dropped
        assert store.append("s", role="user", content="x").position == 1


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_server_that_drops_us_in_a_transaction_is_unavailable(postgres_url: str, calls: int) -> None:
    def dropped(store: Store) -> None:
        with store.transaction() as ledger:
            ledger.take("s", key="k", owner="room")
            assert not isinstance(ledger._connection, sa.Connection)
            raw: Any = ledger._connection.dbapi_connection
            pid = raw.execute("SELECT pg_backend_pid()").fetchone()[0]
            execute(postgres_url, "SELECT pg_terminate_backend(?, 60000)", pid)
            for _ in range(calls):
                with pytest.raises(StoreUnavailable):
                    ledger.take("t", key="k", owner="room")

    with open_store(postgres_url) as store:
        with pytest.raises(StoreUnavailable):
            dropped(store)
        assert store.sessions() == []
        assert store.create_session("s", key="k").version == 0


@pytest.mark.postgres  # its driver
def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        open_store("postgresql://127.0.0.1:1/db")


def test_tables_that_are_gone_are_unavailable(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("nobody else can reach them")
    with open_store(store_url) as store:
        execute(store_url, "DROP TABLE greenroom_messages")
        with pytest.raises(StoreUnavailable, match="greenroom_messages"):
            store.messages("s")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_may_not_be_written_is_unavailable(file_url: str, tmp_path: Path) -> None:
    open_store(file_url).close()
    (tmp_path / "store.db").chmod(0o400)
    with pytest.raises(StoreUnavailable, match="permissions"), open_store(file_url) as store:
        store.create_session("s", key="k")


def test_a_full_disk_is_unavailable_and_nothing_is_half_written(file_url: str) -> None:
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        pages = sql(store._engine, "PRAGMA page_count")
        sql(store._engine, f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailable, match="make room"):
            store.append("s", role="user", content="x" * 1_000_000)
        assert (store.session("s").version, store.messages("s")) == (0, [])
        assert store.own_writes("s") == 0


def test_an_error_tells_no_transcript(file_url: str) -> None:
    with open_store(file_url) as store:
        store.create_session("s", key="k")
        execute(file_url, "ALTER TABLE greenroom_messages ADD COLUMN x TEXT NOT NULL DEFAULT ''")
        execute(file_url, "CREATE UNIQUE INDEX one ON greenroom_messages (role)")
        store.append("s", role="user", content="my darkest secret")
        with pytest.raises(StoreUnavailable) as caught:
            store.append("s", role="user", content="my darkest secret")
        error: BaseException | None = caught.value
        while error is not None:
            assert "darkest" not in f"{error} {error!r}"
            error = error.__cause__


def test_a_connection_made_while_closing_is_closed_as_well(file_url: str) -> None:
    engine = Engine(file_url)

    def close_within(_: object) -> None:
        engine.close()
        sql(engine, "SELECT 'not reached'")

    with pytest.raises(StoreClosed):
        engine.write(close_within)
    assert issubclass(StoreClosed, StoreError)
    assert not Path(f"{engine.path}-wal").exists()


def test_a_new_file_that_another_is_opening_is_waited_for(
    file_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not ask its busy timeout before it refuses to switch to the write-ahead log."""
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN IMMEDIATE")
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            other.execute("ROLLBACK")

        with monkeypatch.context() as patch:
            patch.setattr("greenroom.store._connect.time.sleep", wait)
            open_store(file_url).close()
        assert len(waits) == 1
