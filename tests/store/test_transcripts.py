"""Transcripts: sessions, messages, versions."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom.store import Fenced, SessionExists, Store, UnknownSession


def test_a_session_is_found_as_it_was_made(store: Store) -> None:
    made = store.create_session("s", key="telegram:1", source="telegram")
    assert made == store.session("s")
    assert (made.key, made.source, made.version, made.message_count) == ("telegram:1", "telegram", 0, 0)
    assert (made.generation, made.committed, made.intended, made.dirty) == (0, 0, 0, False)
    assert (made.ended, made.owner, made.epoch, made.free_at) == (None, None, 0, None)
    assert (made.tries, made.next_try, made.problem, made.dead) == (0, None, None, False)
    assert 1.7e9 < made.created <= made.updated


def test_making_a_session_again_finds_it(store: Store) -> None:
    made = store.create_session("s", key="k")
    assert store.create_session("s", key="k") == made


def test_the_first_who_knows_the_source_sets_it(store: Store) -> None:
    store.create_session("s", key="k")
    assert store.create_session("s", key="k", source="one").source == "one"
    assert store.create_session("s", key="k", source="two").source == "one"
    assert store.session("s").source == "one"


def test_a_session_of_another_key_is_not_taken_over(store: Store) -> None:
    store.create_session("s", key="mine")
    with pytest.raises(SessionExists, match="mine") as caught:
        store.create_session("s", key="yours", source="x")
    assert (caught.value.session_id, caught.value.key) == ("s", "mine")
    assert store.session("s").source is None


@pytest.mark.parametrize("bad", ["", "x" * 501, "a\0b", "\ud800", 7, None])
def test_an_id_that_no_database_could_hold_is_refused(store: Store, bad: Any) -> None:
    for call in (
        lambda: store.create_session(bad, key="k"),
        lambda: store.create_session("s", key=bad),
        lambda: store.append(bad, role="user", content="x"),
        lambda: store.extend(bad, []),
        lambda: store.session(bad),
        lambda: store.messages(bad),
        lambda: store.end_session(bad),
    ):
        with pytest.raises(ValueError, match="characters"):
            call()


def test_the_longest_id_and_any_script_are_fine(store: Store) -> None:
    for session_id in ("x" * 500, "чат 🎭", "'; DROP TABLE greenroom_sessions; --", "%s", ":sid"):
        assert store.create_session(session_id, key=session_id).session_id == session_id
        store.append(session_id, role="user", content=session_id)
        assert store.messages(session_id)[0].content == session_id


def test_messages_come_back_in_order_with_positions_from_one(store: Store) -> None:
    store.create_session("s", key="k")
    sent = [store.append("s", role=role, content=role * 3) for role in ("user", "assistant", "tool")]
    assert store.messages("s") == sent
    assert [message.position for message in sent] == [1, 2, 3]
    assert [message.role for message in sent] == ["user", "assistant", "tool"]


def test_each_append_is_one_version(store: Store) -> None:
    store.create_session("s", key="k")
    for number in (1, 2, 3):
        store.append("s", role="user", content="x")
        row = store.session("s")
        assert (row.version, row.message_count) == (number, number)
        assert row.updated >= row.created


def test_messages_that_are_added_together_are_messages_like_others(store: Store) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content="zero")
    said = [("user", "one"), ("assistant", {"calls": [1]}), ("tool", ["two"]), ("assistant", "thr\0ee")]
    added = store.extend("s", iter(said))
    assert store.messages("s", after=1) == added
    assert [(message.role, message.content) for message in added] == said
    assert [message.position for message in added] == [2, 3, 4, 5]
    assert store.append("s", role="user", content="four").position == 6
    row = store.session("s")
    assert (row.version, row.message_count, store.own_writes("s")) == (6, 6, 6)
    assert store.own_writes_done("s") == 6


def test_very_many_messages_are_added_together(store: Store) -> None:
    store.create_session("s", key="k")
    added = store.extend("s", [("user", str(number)) for number in range(5_000)])
    assert [message.position for message in added] == list(range(1, 5_001))
    assert [message.content for message in store.messages("s", after=4_998)] == ["4998", "4999"]
    assert (store.session("s").version, store.session("s").message_count) == (5_000, 5_000)
    assert store.delete_session("s")


def test_no_messages_are_added_together(store: Store) -> None:
    store.create_session("s", key="k")
    assert store.extend("s", []) == []
    assert (store.session("s").version, store.own_writes("s")) == (0, 0)


def test_of_messages_one_of_which_is_refused_none_is_added(store: Store) -> None:
    store.create_session("s", key="k")
    for bad in (("", "x"), ("user", object())):
        with pytest.raises((ValueError, TypeError)):
            store.extend("s", [("user", "good"), bad])
    assert store.messages("s") == []
    assert (store.session("s").version, store.own_writes("s")) == (0, 0)


def test_sessions_do_not_share_positions_or_versions(store: Store) -> None:
    for session_id in ("a", "b"):
        store.create_session(session_id, key="k")
    store.append("a", role="user", content="x")
    assert store.append("b", role="user", content="y").position == 1
    assert store.session("a").version == 1
    assert [message.content for message in store.messages("a")] == ["x"]


def test_messages_can_be_read_in_pages(store: Store) -> None:
    store.create_session("s", key="k")
    for number in range(1, 8):
        store.append("s", role="user", content=str(number))
    first = store.messages("s", limit=3)
    then = store.messages("s", after=first[-1].position, limit=3)
    last = store.messages("s", after=then[-1].position)
    assert [message.content for message in [*first, *then, *last]] == list("1234567")
    assert store.messages("s", after=7) == []
    with pytest.raises(ValueError, match="limit"):
        store.messages("s", limit=0)


def test_an_unknown_session_is_told_apart_from_an_empty_one(store: Store) -> None:
    store.create_session("s", key="k")
    assert store.messages("s") == []
    for call in (
        lambda: store.session("t"),
        lambda: store.messages("t"),
        lambda: store.append("t", role="user", content="x"),
        lambda: store.extend("t", []),
        lambda: store.end_session("t"),
    ):
        with pytest.raises(UnknownSession, match="'t'") as caught:
            call()
        assert caught.value.session_id == "t"


@pytest.mark.parametrize("role", ["", "x" * 65, "a\0", None, 3])
def test_what_is_no_role_is_refused(store: Store, role: Any) -> None:
    store.create_session("s", key="k")
    with pytest.raises(ValueError, match="role"):
        store.append("s", role=role, content="x")
    assert store.session("s").version == 0


# Content

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=JSON)
def test_what_comes_back_equals_what_went_in(store: Store, content: object) -> None:
    store.create_session("s", key="k")
    position = store.append("s", role="user", content=content).position
    (message,) = store.messages("s", after=position - 1)
    assert message.content == content
    assert type(message.content) is type(content)


@pytest.mark.parametrize(
    "text", ["", "a\0b", "\ud800", "\udc00\ud800", "null", '{"a": 1}', "🎭", "\\u0000"]
)
def test_any_text_comes_back(store: Store, text: str) -> None:
    store.create_session("s", key="k")
    store.append("s", role="user", content=text)
    assert store.messages("s")[0].content == text


def _endless() -> list[object]:
    endless: list[object] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("content", "error", "named"),
    [
        (object(), TypeError, "object"),
        ({"when": {1, 2}}, TypeError, "set"),
        (b"bytes", TypeError, "bytes"),
        ((1, 2), ValueError, "tuple"),
        ({1: "x"}, ValueError, "dict"),
        (math.nan, ValueError, "float"),
        ([math.inf], ValueError, "list"),
        ("\ud83d\ude00", ValueError, "surrogates"),
        (_endless(), ValueError, "list"),
    ],
)
def test_content_that_would_not_come_back_is_refused(
    store: Store, content: object, error: type[Exception], named: str
) -> None:
    store.create_session("s", key="k")
    with pytest.raises(error, match=named):
        store.append("s", role="user", content=content)
    assert store.session("s").version == 0


# Ending


def test_ending_a_session_is_a_version_and_the_first_time_counts(store: Store) -> None:
    """H4"""
    store.create_session("s", key="k")
    ended = store.end_session("s")
    assert ended.ended is not None
    assert ended.version == 1
    store._engine.clock_shift = 60.0
    assert store.end_session("s") == ended == store.session("s")


# Fences


class _Fence:
    def __init__(self, owner: str | None, epoch: int) -> None:
        self.owner = owner
        self.epoch = epoch


def test_a_fence_that_is_good_lets_writes_through(store: Store) -> None:
    with store.transaction() as ledger:
        lease = ledger.take("s", key="k", owner="room")
    store.append("s", role="user", content="x", fence=lease)
    store.extend("s", [("user", "y"), ("assistant", "z")], fence=lease)
    assert store.end_session("s", fence=_Fence("room", 1)).version == 4


@pytest.mark.parametrize(
    "fence", [_Fence("room", 0), _Fence("room", 2), _Fence("other", 1), _Fence(None, 1)]
)
def test_a_fence_that_is_not_writes_nothing(store: Store, fence: _Fence) -> None:
    with store.transaction() as ledger:
        ledger.take("s", key="k", owner="room")
    for call in (
        lambda: store.append("s", role="user", content="x", fence=fence),
        lambda: store.extend("s", [("user", "x"), ("assistant", "y")], fence=fence),
        lambda: store.end_session("s", fence=fence),
    ):
        with pytest.raises(Fenced, match="'room' has it") as caught:
            call()
        assert (caught.value.session_id, caught.value.owner, caught.value.epoch) == ("s", "room", 1)
    row = store.session("s")
    assert (row.version, row.ended, store.own_writes("s")) == (0, None, 0)


# Lists


def test_sessions_are_listed_by_id_in_pages(store: Store) -> None:
    for session_id in ("b", "Z", "a", "é", "_"):
        store.create_session(session_id, key="k")
    first = store.sessions(limit=2)
    then = store.sessions(limit=10, after=first[-1].session_id)
    assert [row.session_id for row in [*first, *then]] == ["Z", "_", "a", "b", "é"]


def test_sessions_are_chosen_by_what_they_are(store: Store) -> None:
    for session_id, key in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
        store.create_session(session_id, key=key)
    store.end_session("b")
    with store.transaction() as ledger:
        epochs = {sid: ledger.take(sid, key="two", owner="room").epoch for sid in ("c", "d")}
        for sid, epoch in epochs.items():
            ledger.complete(sid, owner="room", epoch=epoch, generation=1, linger=0.0)
        ledger.fail("d", owner="room", epoch=epochs["d"], problem="x", pause=0.0, most=1)

    def ids(**chosen: Any) -> str:
        return "".join(row.session_id for row in store.sessions(**chosen))

    assert ids(key="one") == "ab"
    assert (ids(ended=True), ids(ended=False)) == ("b", "acd")
    assert (ids(dirty=True), ids(dirty=False)) == ("cd", "ab")
    assert (ids(dead=True), ids(dead=False)) == ("d", "abc")
    assert ids(key="two", dirty=True, dead=False) == "c"


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_a_sensible_size(store: Store, limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        store.sessions(limit=limit)


# Own writes


def test_own_writes_grow_with_the_version(store: Store) -> None:
    """H1"""
    store.create_session("s", key="k")
    assert store.own_writes("s") == 0
    store.append("s", role="user", content="x")
    store.end_session("s")
    store.end_session("s")  # adds no version
    with pytest.raises(UnknownSession):
        store.append("t", role="user", content="x")
    assert (store.own_writes("s"), store.session("s").version) == (2, 2)
    assert store.own_writes("t") == 0
