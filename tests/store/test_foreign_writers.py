"""What programs do that know the tables and not greenroom."""

import pytest

from greenroom.store import Store, StoreUnavailable, open_store
from tests.postgres import PostgresServer
from tests.store.foreign import execute, execute_elsewhere, refusals

INSERT = "INSERT INTO greenroom_messages (session_id, role, content) VALUES (?, ?, ?)"


@pytest.fixture(params=["sqlite-file", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Databases that others can reach."""
    if request.param == "sqlite-file":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.mark.long
def test_another_process_that_inserts_a_message_is_noticed(store: Store, store_url: str) -> None:
    """H2"""
    store.create_session("s", key="k")
    store.append("s", role="user", content="ours")
    execute_elsewhere(store_url, INSERT, "s", "user", "theirs")
    row = store.session("s")
    assert (row.version, row.message_count, store.own_writes("s")) == (2, 2, 1)
    assert [(message.position, message.content) for message in store.messages("s")] == [
        (1, "ours"),
        (2, "theirs"),
    ]
    assert store.append("s", role="user", content="ours").position == 3


def test_another_store_is_another_writer(store: Store, store_url: str) -> None:
    """H2"""
    store.create_session("s", key="k")
    with open_store(store_url) as other:
        other.append("s", role="user", content="x")
        assert (other.own_writes("s"), store.own_writes("s")) == (1, 0)
    assert store.session("s").version == 1


def test_lines_of_one_insert_get_positions_of_their_own(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    execute(store_url, INSERT + ", ('s', 'user', 'two'), ('s', 'user', 'three')", "s", "user", "one")
    assert [(message.position, message.content) for message in store.messages("s")] == [
        (1, "one"),
        (2, "two"),
        (3, "three"),
    ]
    row = store.session("s")
    assert (row.version, row.message_count) == (3, 3)


def test_of_messages_one_of_which_the_database_refuses_none_is_added(
    store: Store, store_url: str
) -> None:
    store.create_session("s", key="k")
    execute(store_url, "CREATE UNIQUE INDEX once ON greenroom_messages (content)")
    with pytest.raises(StoreUnavailable):
        store.extend("s", [("user", "x"), ("assistant", "x")])
    assert store.messages("s") == []
    row = store.session("s")
    assert (row.version, row.message_count, store.own_writes("s")) == (0, 0, 0)


def test_messages_of_several_sessions_in_one_statement_count_in_each(
    store: Store, store_url: str
) -> None:
    for session_id in ("s", "t"):
        store.create_session(session_id, key="k")
    more = ", ('t', 'user', 'two'), ('s', 'user', 'three')"
    execute(store_url, INSERT + more, "s", "user", "one")
    assert [message.content for message in store.messages("s")] == ["one", "three"]
    assert [message.content for message in store.messages("t")] == ["two"]
    execute(store_url, "DELETE FROM greenroom_messages WHERE content IN ('two', 'three')")
    rows = store.sessions()
    assert [(row.message_count, row.version) for row in rows] == [(1, 3), (0, 2)]
    assert list(store.check()) == []


def test_postgresql_counts_the_messages_of_a_statement_at_once(postgres_url: str) -> None:
    """Row by row, 30,000 messages took more than a minute: each update finds its way past the others."""
    updates = "SELECT pg_stat_get_xact_tuples_updated('greenroom_sessions'::regclass)"
    import psycopg  # not on every Python that the other tests run on

    with open_store(postgres_url) as store, psycopg.connect(postgres_url) as other:
        store.create_session("s", key="k")
        other.execute(
            "INSERT INTO greenroom_messages (session_id, role, content, position) "
            "SELECT 's', 'user', 'x', number FROM generate_series(1, 50) AS number"
        )
        assert other.execute(updates).fetchone() == (1,)
        other.execute("DELETE FROM greenroom_messages")
        assert other.execute(updates).fetchone() == (2,)
        other.commit()
        row = store.session("s")
        assert (row.version, row.message_count) == (100, 0)


def test_a_message_may_bring_its_position(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    execute(
        store_url,
        "INSERT INTO greenroom_messages (session_id, role, content, position) "
        "VALUES ('s', 'user', 'x', 5)",
    )
    assert store.append("s", role="user", content="y").position == 6


def test_an_insert_that_does_nothing_counts_nothing(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="x")
    execute(
        store_url,
        "INSERT INTO greenroom_messages (session_id, role, content, position) "
        "VALUES ('s', 'user', 'again', 1) ON CONFLICT DO NOTHING",
    )
    row = store.session("s")
    assert (row.version, row.message_count) == (1, 1)
    assert store.append("s", role="user", content="y").position == 2


def test_a_changed_message_is_a_version(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="x")
    execute(store_url, "UPDATE greenroom_messages SET content = 'y'")
    row = store.session("s")
    assert (row.version, row.message_count) == (2, 1)


def test_a_deleted_message_is_a_version_and_its_position_is_not_given_again(
    store: Store, store_url: str
) -> None:
    store.create_session("s", key="k")
    for content in "xyz":
        store.append("s", role="user", content=content)
    execute(store_url, "DELETE FROM greenroom_messages WHERE position >= 2")
    row = store.session("s")
    assert (row.version, row.message_count) == (5, 1)
    assert store.append("s", role="user", content="x").position == 4


WITH_POSITION = (
    "INSERT INTO greenroom_messages (session_id, role, content, position) VALUES (?, ?, ?, 1)"
)


@pytest.mark.parametrize("statement", [INSERT, WITH_POSITION])
def test_a_message_of_an_unknown_session_is_refused(
    store: Store, store_url: str, statement: str
) -> None:
    with pytest.raises(refusals()):
        execute(store_url, statement, "unknown", "user", "x")
    assert store.sessions() == []


def test_a_message_stays_in_its_session(store: Store, store_url: str) -> None:
    for session_id in ("s", "t"):
        store.create_session(session_id, key="k")
    store.append("s", role="user", content="x")
    with pytest.raises(refusals(), match="stays"):
        execute(store_url, "UPDATE greenroom_messages SET session_id = 't'")


def test_ending_a_session_or_taking_that_back_is_a_version(store: Store, store_url: str) -> None:
    """H4"""
    store.create_session("s", key="k")
    for version, ended in enumerate(("1.0", "1.0", "NULL"), start=1):
        execute(store_url, f"UPDATE greenroom_sessions SET ended = {ended}")
        assert store.session("s").version == (1, 1, 2)[version - 1]


def test_a_session_can_be_made_by_anyone(store: Store, store_url: str) -> None:
    execute_elsewhere(
        store_url, "INSERT INTO greenroom_sessions (session_id, key) VALUES (?, ?)", "s", "k"
    )
    row = store.session("s")
    assert (row.version, row.generation, row.dead, row.ended) == (0, 0, False, None)
    assert store.create_session("s", key="k") == row


def test_what_is_unreadable_comes_as_it_is(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    execute(
        store_url,
        "INSERT INTO greenroom_messages (session_id, role, content, format) "
        "VALUES ('s', 'user', '{', 'json'), ('s', 'user', 'x', 'yaml')",
    )
    assert [message.content for message in store.messages("s")] == ["{", "x"]
