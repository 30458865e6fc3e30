"""Opening and closing: URLs, secrets, versions of the tables."""

import builtins
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from greenroom.store import (
    Store,
    StoreClosed,
    StoreTooNew,
    StoreUnavailable,
    UnknownSession,
    open_store,
)
from greenroom.store._engine import Engine
from greenroom.store._schema import LATEST, upgrade_to
from greenroom.store._tables import metadata
from tests.store.engines import sql
from tests.store.foreign import execute

# URLs


@pytest.mark.parametrize(
    "url",
    [
        "",
        "greenroom.db",
        "mysql://user:hunter2@host/db",
        "postgres://user:hunter2@host/db",
        "postgresql+asyncpg://user:hunter2@host/db",
        "postgresql://user:hunt@er2@host/db",
        "sqlite://hunter2/greenroom.db",
        "sqlite:///greenroom.db?timeout=3",
        "sqlite:///file:greenroom.db",
    ],
)
def test_what_is_no_store_is_refused_without_telling_secrets(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///relative/path|%40") as caught:
        open_store(url)
    assert "er2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_url_is_a_string() -> None:
    with pytest.raises(TypeError, match=r"not a .*Path"):
        open_store(Path("greenroom.db"))  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=user&password=hunter2",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    assert "hunter2" not in Engine(url).url
    with pytest.raises(StoreUnavailable) as caught:
        open_store(url)
    error: BaseException | None = caught.value
    assert "127.0.0.1" in str(error)
    while error is not None:
        assert "hunter2" not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__


def test_a_password_is_not_in_the_repr(store: Store) -> None:
    assert "secret" not in f"{store!r} {store.url}"
    assert store.url in repr(store)


def test_a_relative_path_is_relative_to_where_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///store.db") as store:
        store.create_session("s", key="k")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert store.session("s").key == "k"
        assert store.peek("s") == (0, False)
    assert (tmp_path / "store.db").exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"no-such-folder.*does not exist"):
        open_store(f"sqlite:///{tmp_path}/no-such-folder/store.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 1000)
    with pytest.raises(StoreUnavailable, match="no SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "not a database " * 1000


@pytest.mark.parametrize("durability", ["", "FULL", "fsync", None])
def test_an_unknown_durability_is_refused(durability: str) -> None:
    with pytest.raises(ValueError, match="full, normal, off"):
        open_store("sqlite://", durability=durability)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_psycopg(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> object:
        if name == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_psycopg)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'greenroom\[postgres\]'"):
        open_store("postgresql://host/db")


# Durability


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1), ("off", 1)])
def test_sqlite_waits_for_the_disk_as_it_is_told(tmp_path: Path, durability: str, level: int) -> None:
    with open_store(f"sqlite:///{tmp_path}/store.db", durability=durability) as store:
        for asked, expected in ((None, level), ("full", 2), ("normal", 1), (None, level)):
            assert sql(store._engine, "PRAGMA synchronous", durability=asked) == expected
        assert sql(store._engine, "PRAGMA journal_mode") == "wal"
        assert sql(store._engine, "PRAGMA foreign_keys") == 1


@pytest.mark.parametrize(("durability", "level"), [("full", "on"), ("normal", "off"), ("off", "off")])
def test_postgresql_waits_for_the_disk_as_it_is_told(
    postgres_url: str, durability: str, level: str
) -> None:
    with open_store(postgres_url, durability=durability) as store:
        for asked, expected in ((None, level), ("full", "on"), ("normal", "off"), (None, level)):
            assert sql(store._engine, "SHOW synchronous_commit", durability=asked) == expected
            assert sql(store._engine, "SHOW lock_timeout") == "5s"
            assert sql(store._engine, "SHOW statement_timeout") == "5s"


def test_a_read_sees_one_snapshot(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("there is one connection: nobody can write meanwhile")
    with open_store(store_url, durability="normal") as store:

        def count(connection: sa.Connection) -> object:
            return connection.exec_driver_sql("SELECT count(*) FROM greenroom_sessions").scalar()

        def before_and_after(connection: sa.Connection) -> list[object]:
            before = count(connection)
            store.create_session("s", key="k")
            return [before, count(connection)]

        assert store._engine.read(before_and_after) == [0, 0]
        assert store._engine.read(count) == 1


# Versions of the tables


def columns_of(engine: Engine) -> dict[str, dict[str, bool]]:
    def look(connection: sa.Connection) -> dict[str, dict[str, bool]]:
        inspector = sa.inspect(connection)
        return {
            table: {
                column["name"]: column["nullable"]
                for column in inspector.get_columns(table)
                if column["name"] not in inspector.get_pk_constraint(table)["constrained_columns"]
            }
            for table in inspector.get_table_names()
            if table.startswith("greenroom_")
        }

    return engine.read(look)


def test_the_tables_are_what_the_code_thinks_they_are(store: Store) -> None:
    expected = {
        table.name: {
            column.name: bool(column.nullable) for column in table.columns if not column.primary_key
        }
        for table in metadata.tables.values()
    }
    assert columns_of(store._engine) == expected


def make_version_1(engine: Engine) -> None:
    """A store as version 1 left it, with data."""
    engine.change(lambda connection: upgrade_to(connection, 1))
    sql(
        engine,
        "INSERT INTO greenroom_sessions (session_id, key, source) VALUES ('s', 'k', 'x')",
        "INSERT INTO greenroom_sessions (session_id, key, ended) VALUES ('t', 'k', 5.0)",
        "INSERT INTO greenroom_messages (session_id, role, content) VALUES ('s', 'user', 'one')",
        """INSERT INTO greenroom_messages (session_id, role, content, format)
        VALUES ('s', 'tool', '[2]', 'json')""",
    )


def test_a_store_of_version_1_is_upgraded_with_its_data(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("nobody can leave one in memory")
    engine = Engine(store_url)
    make_version_1(engine)
    assert "generation" not in columns_of(engine)["greenroom_sessions"]
    engine.close()
    for _ in range(2):
        with open_store(store_url) as store:
            first, second = store.sessions()
            assert (first.session_id, first.source, first.message_count, first.version) == (
                "s",
                "x",
                2,
                2,
            )
            assert (first.generation, first.committed, first.intended, first.epoch) == (0, 0, 0, 0)
            assert (first.owner, first.dead, first.tries, first.ended) == (None, False, 0, None)
            assert second.ended == 5.0
            assert [message.content for message in store.messages("s")] == ["one", [2]]
    with open_store(store_url) as store:
        assert store.append("s", role="user", content="three").position == 3
        with store.transaction() as ledger:
            assert ledger.take("s", key="k", owner="room").version == 3


def test_an_upgrade_finds_what_was_uncommitted(store_url: str) -> None:
    """Which the older tables found by their number of turns."""
    if store_url == "sqlite://":
        pytest.skip("nobody can leave one in memory")
    engine = Engine(store_url)
    engine.change(lambda connection: upgrade_to(connection, 5))
    columns = "INSERT INTO greenroom_sessions (session_id, key, generation, committed) VALUES"
    sql(engine, f"{columns} ('owes', 'k', 3, 1), ('clean', 'k', 2, 2), ('new', 'k', 0, 0)")
    engine.close()

    with open_store(store_url) as store:
        assert [row.session_id for row in store.sessions(dirty=True)] == ["owes"]
        with store.transaction() as ledger:
            assert [row.session_id for row in ledger.orphans(owner="x", limit=9)] == ["owes"]
        assert store.check() == []


def test_an_upgrade_that_fails_leaves_the_old_version(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store_url == "sqlite://":
        pytest.skip("nobody can leave one in memory")
    engine = Engine(store_url)
    make_version_1(engine)
    before = columns_of(engine)
    engine.close()
    steps = ("ALTER TABLE greenroom_sessions ADD COLUMN x TEXT", "NONSENSE")
    broken = {"sqlite": steps, "postgresql": steps}
    with monkeypatch.context() as patch:
        patch.setattr("greenroom.store._schema.MIGRATIONS", ({}, broken))
        with pytest.raises(StoreUnavailable):
            open_store(store_url)
    engine = Engine(store_url)
    assert columns_of(engine) == before
    engine.close()
    with open_store(store_url) as store:
        assert store.session("s").generation == 0


def test_a_store_of_a_later_version_is_left_alone(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("nobody can leave one in memory")
    open_store(store_url).close()
    execute(store_url, "UPDATE greenroom_schema SET version = 99")
    with pytest.raises(StoreTooNew, match=f"99.*up to {LATEST}: upgrade") as caught:
        open_store(store_url)
    assert (caught.value.found, caught.value.known) == (99, LATEST)


# Closing


def test_a_closed_store_says_so(store_url: str) -> None:
    store = open_store(store_url)
    store.create_session("s", key="k")
    store.close()
    store.close()
    for call in (
        lambda: store.session("s"),
        lambda: store.create_session("s", key="k"),
        lambda: store.append("s", role="user", content="x"),
        lambda: store.transaction().__enter__(),
    ):
        with pytest.raises(StoreClosed, match="open_store"):
            call()
    assert "closed" in repr(store)


def test_what_is_under_way_when_the_store_is_closed_ends_well(store_url: str) -> None:
    store = open_store(store_url)
    with store.transaction() as ledger:
        ledger.take("s", key="k", owner="room")
        store.close()
        ledger.take("t", key="k", owner="room")
    if store_url != "sqlite://":
        with open_store(store_url) as again:
            assert [row.session_id for row in again.sessions()] == ["s", "t"]


def test_what_is_in_a_file_is_there_again(store_url: str) -> None:
    with open_store(store_url) as store:
        store.create_session("s", key="k")
    with open_store(store_url) as store:
        if store_url == "sqlite://":
            with pytest.raises(UnknownSession):
                store.session("s")
        else:
            assert store.session("s").key == "k"


def test_a_closed_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        store.create_session("s", key="k")
        store.session("s")
        store.peek("s")
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
