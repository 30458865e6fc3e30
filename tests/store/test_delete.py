"""Deleting a session: its transcript and its row, or nothing."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from greenroom.store import SessionInUse, Store, UnknownSession, open_store


def _make(store: Store, session_id: str = "s", number: int = 3) -> None:
    store.create_session(session_id, key="k")
    for at in range(number):
        store.append(session_id, role="user", content=f"{session_id}{at}")


def _take(store: Store, owner: str = "room", session_id: str = "s") -> int:
    with store.transaction() as ledger:
        ledger.beat(owner, ttl=60.0)
        return ledger.take(session_id, key="k", owner=owner).epoch


def test_a_deleted_session_is_gone_with_its_transcript(store: Store) -> None:
    _make(store)
    _make(store, "other")
    assert store.delete_session("s") is True
    with pytest.raises(UnknownSession):
        store.session("s")
    with pytest.raises(UnknownSession):
        store.messages("s")
    assert [row.session_id for row in store.sessions()] == ["other"]
    assert [message.content for message in store.messages("other")] == ["other0", "other1", "other2"]
    assert (store.counts().messages, store.check()) == (3, [])


def test_deleting_what_is_not_there_says_so(store: Store) -> None:
    assert store.delete_session("s") is False
    _make(store)
    assert [store.delete_session("s"), store.delete_session("s")] == [True, False]


@pytest.mark.parametrize("bad", ["", "x" * 501, "a\0b", None])
def test_an_id_that_cannot_be_one_is_refused(store: Store, bad: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        store.delete_session(bad)


def test_a_session_made_again_begins_anew(store: Store) -> None:
    _make(store)
    store.delete_session("s")
    made = store.create_session("s", key="another")
    assert (made.key, made.version, made.message_count, made.epoch) == ("another", 0, 0, 0)
    assert store.append("s", role="user", content="again").position == 1
    assert (store.session("s").version, store.check()) == (1, [])


def test_a_session_in_a_turn_is_not_deleted(store: Store) -> None:
    _make(store)
    _take(store)
    with pytest.raises(SessionInUse, match="'room' is in a turn") as caught:
        store.delete_session("s")
    assert (caught.value.session_id, caught.value.owner) == ("s", "room")
    assert len(store.messages("s")) == 3
    assert store.delete_session("s", force=True)
    assert store.sessions() == []


def test_after_the_turn_it_can_be_deleted(store: Store) -> None:
    """Also while the room keeps it for a moment, should the next turn come at once."""
    _make(store)
    epoch = _take(store)
    with store.transaction() as ledger:
        assert ledger.leave("s", owner="room", epoch=epoch, linger=60.0) is not None
    assert store.delete_session("s")


def test_what_a_dead_room_was_in_a_turn_of_can_be_deleted(store: Store) -> None:
    _make(store)
    _take(store)
    store._engine.clock_shift = 120.0
    assert store.delete_session("s")


def test_uncommitted_turns_are_not_deleted_unless_by_force(store: Store) -> None:
    _make(store)
    epoch = _take(store)
    with store.transaction() as ledger:
        ledger.complete("s", owner="room", epoch=epoch, generation=2, linger=0.0)
    with pytest.raises(SessionInUse, match="2 of its completed turns are uncommitted") as caught:
        store.delete_session("s")
    assert (caught.value.owner, caught.value.uncommitted) == (None, 2)
    with store.transaction() as ledger:
        ledger.commit("s", owner="room", epoch=epoch, generation=1)
    with pytest.raises(SessionInUse, match="1 of"):
        store.delete_session("s")
    assert store.delete_session("s", force=True)


def test_committed_turns_are_no_reason_to_keep_it(store: Store) -> None:
    _make(store)
    epoch = _take(store)
    with store.transaction() as ledger:
        ledger.complete("s", owner="room", epoch=epoch, generation=2, linger=0.0)
        ledger.commit("s", owner="room", epoch=epoch, generation=2)
    assert store.delete_session("s")


def test_the_ledger_of_a_deleted_session_tells_its_room_that_it_is_gone(store: Store) -> None:
    _make(store)
    epoch = _take(store)
    store.delete_session("s", force=True)
    with store.transaction() as ledger:
        assert ledger.complete("s", owner="room", epoch=epoch, generation=1, linger=0.0) is None
        assert ledger.take("s", key="k", owner="room").generation == 0


def test_the_twin_can_be_awaited(store: Store) -> None:
    _make(store)

    async def delete() -> tuple[bool, bool]:
        return await store.delete_session_soon("s"), await store.delete_session_soon("s", force=True)

    assert asyncio.run(delete()) == (True, False)


def test_a_failure_in_the_middle_deletes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(f"sqlite:///{path}") as store:
        _make(store)
        with sqlite3.connect(path) as foreign:
            foreign.execute(
                "CREATE TRIGGER stop BEFORE DELETE ON greenroom_sessions "
                "BEGIN SELECT RAISE(ABORT, 'stopped'); END"
            )
        foreign.close()
        with pytest.raises(Exception, match="stopped"):
            store.delete_session("s")
        assert len(store.messages("s")) == 3
        assert store.check() == []
