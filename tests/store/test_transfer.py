"""A store as records, and back."""

import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from greenroom.store import SessionExists, Store, StoreClosed, UnknownSession, open_store
from greenroom.store import _transfer as transfer
from greenroom.store._transfer import BadRecord, Record
from tests.postgres import PostgresServer
from tests.store.engines import sql

CONTENTS: list[object] = ["hello", {"a": [1, 2.5, None, "é"]}, "nul \0", "surrogate \ud800", "", 7]


@pytest.fixture
def other() -> Iterator[Store]:
    """Another store, to import into."""
    with open_store("sqlite://") as opened:
        yield opened


def fill(store: Store) -> None:
    """Sessions of every kind: empty, ended, with a gap, dirty and owned, given up."""
    for session_id in ("b-full", "a-empty", "c-é", "d-dead"):
        store.create_session(session_id, key=f"key of {session_id}", source="test")
    for content in CONTENTS:
        store.append("b-full", role="user", content=content)
    store.append("c-é", role="user", content="one")
    store.append("c-é", role="tool", content="two")
    sql(
        store._engine,
        "DELETE FROM greenroom_messages WHERE session_id = 'c-é' AND position = 2",
        "DELETE FROM greenroom_messages WHERE position = 3",
    )
    store.end_session("c-é")
    with store.transaction() as ledger:
        for session_id in ("b-full", "d-dead"):
            epoch = ledger.take(session_id, key=f"key of {session_id}", owner="room").epoch
            ledger.complete(session_id, owner="room", epoch=epoch, generation=4, linger=9.0)
            ledger.commit(session_id, owner="room", epoch=epoch, generation=1)
            ledger.intend(session_id, owner="room", epoch=epoch, generation=4)
        ledger.fail("d-dead", owner="room", epoch=epoch, problem="no answer", pause=60.0, most=1)


def record_of(kind: str, **changes: Any) -> Record:
    """A good record, but for the changes."""
    session = {
        "session_id": "s",
        "key": "k",
        "source": None,
        "message_count": 1,
        "last_position": 1,
        "version": 1,
        "created": 1.0,
        "updated": 2,
        "ended": None,
        "generation": 2,
        "committed": 1,
        "intended": 0,
        "tries": 0,
        "next_try": None,
        "problem": None,
        "dead": False,
    }
    message = {
        "session_id": "s",
        "position": 1,
        "role": "user",
        "format": "text",
        "content": "hello",
        "created": 1.5,
    }
    return {"kind": kind, **(session if kind == "session" else message), **changes}


def without(record: Record, name: str) -> Record:
    return {key: value for key, value in record.items() if key != name}


def session_ids(store: Store) -> list[str]:
    return [row.session_id for row in store.sessions()]


# Out


def test_records_are_sessions_each_before_its_messages(store: Store) -> None:
    fill(store)
    found = [(record["kind"], record["session_id"], record.get("position")) for record in store.export()]
    assert found == [
        ("session", "a-empty", None),
        ("session", "b-full", None),
        *(("message", "b-full", position) for position in (1, 2, 4, 5, 6)),
        ("session", "c-é", None),
        ("message", "c-é", 1),
        ("session", "d-dead", None),
    ]


def test_records_are_what_json_can_hold(store: Store) -> None:
    fill(store)
    records = list(store.export())
    assert [json.loads(json.dumps(record, allow_nan=False)) for record in records] == records


def test_leases_are_left_out(store: Store) -> None:
    fill(store)
    assert store.session("b-full").owner == "room"
    assert not {"owner", "epoch", "free_at"} & {name for record in store.export() for name in record}


def test_progress_tells_how_much_of_how_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAGE", 4)
    fill(store)
    told: list[tuple[int, int | None]] = []
    assert len(list(store.export(lambda done, whole: told.append((done, whole))))) == 10
    assert told == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize("store_url", ["sqlite-file", "postgresql"], indirect=True)
def test_an_export_is_one_snapshot(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAGE", 1)
    fill(store)
    before = list(store.export())
    stream = store.export()
    seen = [next(stream)]
    store.append("b-full", role="user", content="late")
    store.append("d-dead", role="user", content="late")
    store.create_session("e-late", key="k")
    store.end_session("a-empty")
    assert seen + list(stream) == before
    assert len(list(store.export())) == len(before) + 3


def test_an_export_that_is_given_up_gives_its_connection_back(store: Store) -> None:
    fill(store)
    for _ in range(20):  # more than there are connections
        stream = store.export()
        next(stream)
        stream.close()  # type: ignore[attr-defined]  # it is a generator
    store.append("b-full", role="user", content="goes on")


def test_an_export_holds_a_page_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAGE", 2)
    store.create_session("s", key="k")
    for _ in range(30):
        store.append("s", role="user", content="x" * 200_000)
    tracemalloc.start()
    try:
        assert sum(len(record.get("content", "")) for record in store.export()) == 6_000_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_an_export_leaves_the_rest_to_the_server(postgres_server: PostgresServer) -> None:
    """What the driver holds for us is memory, too, though Python does not count it."""
    with open_store(postgres_server.fresh_url()) as store:
        fill(store)
        cursors: list[str] = []

        def note(_: object, cursor: object, statement: str, *_rest: object) -> None:
            if "ORDER BY" in statement:
                cursors.append(type(cursor).__name__)

        event.listen(store._engine.reader.engine, "before_cursor_execute", note)
        assert len(list(store.export())) == 10
    assert cursors == ["ServerCursor", "ServerCursor", "ServerCursor"]


def test_messages_of_no_session_hold_up_nobody(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        fill(store)
        with closing(sqlite3.connect(tmp_path / "store.db")) as foreign:
            foreign.execute("DELETE FROM greenroom_sessions WHERE session_id = 'b-full'")
            foreign.commit()
        assert [record["session_id"] for record in store.export()] == ["a-empty", "c-é", "c-é", "d-dead"]


def test_what_nobody_can_read_is_exported_and_not_imported(store: Store, other: Store) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="{broken")
    sql(store._engine, "UPDATE greenroom_messages SET format = 'json'")
    records = list(store.export())
    assert (records[1]["format"], records[1]["content"]) == ("json", "{broken")
    with pytest.raises(BadRecord, match="record 2: its content is no JSON"):
        other.import_(records)


def test_a_closed_store_exports_nothing() -> None:
    store = open_store("sqlite://")
    store.close()
    with pytest.raises(StoreClosed):
        next(store.export())


# In


def test_what_was_exported_comes_back_equal(store: Store, other: Store) -> None:
    fill(store)
    assert other.import_(json.loads(json.dumps(record)) for record in store.export()) == (4, 6)
    assert list(other.export()) == list(store.export())
    for row in store.sessions():
        assert other.session(row.session_id) == replace(row, owner=None, epoch=0, free_at=None)
        assert other.messages(row.session_id) == store.messages(row.session_id)
    assert other.check() == []


def test_an_import_into_every_kind_of_database(store: Store, other: Store) -> None:
    fill(other)
    assert store.import_(other.export()) == (4, 6)
    assert list(store.export()) == list(other.export())
    assert [message.content for message in store.messages("b-full")] == [
        content for number, content in enumerate(CONTENTS, 1) if number != 3
    ]


def test_a_transcript_goes_on_where_it_was(store: Store, other: Store) -> None:
    """A position that was deleted at the end is not given again."""
    fill(other)
    store.import_(other.export())
    version = store.session("c-é").version
    assert store.append("c-é", role="user", content="next").position == 3
    assert store.session("c-é").version == version + 1


def test_a_session_that_is_there_is_refused_and_stays(store: Store, other: Store) -> None:
    fill(other)
    store.create_session("b-full", key="mine")
    before = store.session("b-full")
    with pytest.raises(SessionExists) as caught:
        store.import_(other.export())
    assert caught.value.session_id == "b-full"
    assert store.session("b-full") == before
    assert store.messages("b-full") == []
    assert session_ids(store) == ["b-full"]


def test_a_session_that_comes_twice_is_refused(store: Store) -> None:
    twice = [record_of("session"), record_of("message")] * 2
    with pytest.raises(SessionExists):
        store.import_(twice)
    assert session_ids(store) == []


def test_sessions_are_written_whole_a_few_at_a_time(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BATCH", 2)
    fill(other)
    records = list(other.export())
    told: list[int] = []
    seen: list[list[str]] = []

    def look(done: int, whole: int | None) -> None:
        assert whole is None
        told.append(done)
        seen.append(session_ids(store))

    assert store.import_(records, look) == (4, 6)
    assert told == [7, 9, 10]
    assert seen[0] == ["a-empty", "b-full"]
    assert list(store.export()) == records


def test_nothing_of_a_session_with_a_bad_message_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BATCH", 1)
    good = [record_of("session", session_id="a"), record_of("message", session_id="a")]
    bad = [record_of("session"), record_of("message", role="")]
    with pytest.raises(BadRecord) as caught:
        store.import_(good + bad)
    assert caught.value.number == 4
    assert session_ids(store) == ["a"]
    with pytest.raises(UnknownSession):
        store.session("s")


def test_nothing_of_a_session_that_cannot_be_written_is_there(postgres_server: PostgresServer) -> None:
    """All that is written for it is one transaction."""
    with open_store(postgres_server.fresh_url()) as store:
        sql(
            store._engine,
            "ALTER TABLE greenroom_messages ADD CONSTRAINT polite CHECK (content <> 'rude')",
        )
        records = [
            record_of("session", message_count=2, last_position=2),
            record_of("message"),
            record_of("message", position=2, content="rude"),
        ]
        with pytest.raises(Exception, match="polite"):
            store.import_(records)
        assert session_ids(store) == []


def test_nothing_to_import_is_fine(store: Store) -> None:
    assert store.import_([]) == (0, 0)


@pytest.mark.parametrize(
    ("records", "number", "problem"),
    [
        ([["session"]], 1, "it is of type list, not an object"),
        ([{}], 1, "its kind is None, not session, message or conversation"),
        ([{"kind": ["x"]}], 1, "its kind is ['x'], not session, message or conversation"),
        ([without(record_of("session"), "key")], 1, "this session has no key"),
        (
            [record_of("session", colour="red")],
            1,
            "'colour' is no field of a session: it may come from a newer greenroom",
        ),
        ([record_of("session", owner=None)], 1, "'owner' is no field of a session"),
        (
            [record_of("session", session_id="")],
            1,
            "session_id of this session is '', not text of 1 to 500",
        ),
        ([record_of("session", key="k" * 501)], 1, "key of this session is 'kkk"),
        ([record_of("session", key="\ud800")], 1, r"key of this session is '\ud800'"),
        (
            [record_of("session", source="\0")],
            1,
            r"source of this session is '\x00', not text without NUL",
        ),
        (
            [record_of("session", version=-1)],
            1,
            "version of this session is -1, not a whole number from 0",
        ),
        ([record_of("session", version=2**63)], 1, "version of this session is 9223372036854775808"),
        ([record_of("session", tries=2**31)], 1, "tries of this session is 2147483648"),
        ([record_of("session", tries=True)], 1, "tries of this session is True, not a whole number"),
        (
            [record_of("session", created=None)],
            1,
            "created of this session is None, not seconds since 1970",
        ),
        ([record_of("session", ended=float("nan"))], 1, "ended of this session is nan"),
        ([record_of("session", dead=0)], 1, "dead of this session is 0, not true or false"),
        ([record_of("session", committed=3)], 1, "more turns of this session are committed than"),
        ([record_of("message")], 1, "this message is of 's', which is not the session before it"),
        ([record_of("session"), record_of("message", session_id="t")], 2, "this message is of 't'"),
        ([record_of("session"), record_of("message", position=0)], 2, "position of this message is 0"),
        (
            [record_of("session"), record_of("message", position=2)],
            2,
            "its position is 2, after 0 and with 1",
        ),
        (
            [record_of("session"), *[record_of("message")] * 2],
            3,
            "its position is 1, after 1 and with 1",
        ),
        (
            [record_of("session"), record_of("message", format="yaml")],
            2,
            "format of this message is 'yaml'",
        ),
        ([record_of("session"), record_of("message", content={})], 2, "content of this message is {}"),
        (
            [record_of("session"), record_of("message", format="json", content="{")],
            2,
            "its content is no JSON",
        ),
        ([record_of("session")], 1, "session 's' has 1 messages, but 0 follow it"),
        (
            [record_of("session"), record_of("session", session_id="t")],
            1,
            "session 's' has 1 messages, but 0 follow it",
        ),
    ],
)
def test_a_bad_record_is_refused(other: Store, records: list[Any], number: int, problem: str) -> None:
    with pytest.raises(BadRecord) as caught:
        other.import_(records)
    assert caught.value.number == number
    assert caught.value.problem.startswith(problem)
    assert session_ids(other) == []


def test_the_good_record_is_good(other: Store) -> None:
    """Else the test above would show nothing."""
    assert other.import_([record_of("session"), record_of("message")]) == (1, 1)
