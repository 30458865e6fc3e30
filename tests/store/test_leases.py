"""Leases: who may have a session, since when, and for how long."""

import pytest

from greenroom.store import LeaseRow, Store

A, B = "room-a", "room-b"


def take(store: Store, owner: str, *, key: str = "k", session_id: str = "s") -> LeaseRow:
    with store.transaction() as ledger:
        return ledger.take(session_id, key=key, owner=owner)


def beat(store: Store, owner: str, ttl: float = 15.0) -> bool:
    with store.transaction() as ledger:
        return ledger.beat(owner, ttl=ttl, host="host", pid=7)


def leave(store: Store, lease: LeaseRow, linger: float = 2.0) -> int | None:
    with store.transaction() as ledger:
        return ledger.leave("s", owner=str(lease.owner), epoch=lease.epoch, linger=linger)


def test_an_unknown_session_is_created_and_taken(store: Store) -> None:
    lease = take(store, A)
    assert lease == LeaseRow(
        session_id="s", key="k", held=True, owner=A, epoch=1, version=0, ended=False,
        generation=0, committed=0, intended=0, conversation="k", wait=None,
    )  # fmt: skip
    row = store.session("s")
    assert (row.key, row.owner, row.epoch, row.free_at) == ("k", A, 1, None)


def test_a_session_that_nobody_has_is_taken_as_it_is(store: Store) -> None:
    store.create_session("s", key="other")
    store.append("s", role="user", content="x")
    store.end_session("s")
    lease = take(store, A)
    assert (lease.held, lease.version, lease.ended, lease.key) == (True, 2, True, "k")
    assert store.session("s").key == "k"


def test_a_session_in_a_turn_of_a_living_room_is_not_had(store: Store) -> None:
    beat(store, A, ttl=15.0)
    take(store, A)
    other = take(store, B, key="other")
    assert (other.held, other.owner, other.epoch, other.key) == (False, A, 1, "k")
    assert other.wait == pytest.approx(15.0, abs=10.0)
    assert store.session("s").owner == A


def test_after_a_turn_a_session_lingers_and_then_is_free(store: Store) -> None:
    beat(store, A, ttl=100.0)
    lease = take(store, A)
    assert leave(store, lease, linger=20.0) == 0
    other = take(store, B)
    assert not other.held
    assert other.wait == pytest.approx(20.0, abs=10.0)
    store._engine.clock_shift = 21.0
    other = take(store, B)
    assert (other.held, other.owner, other.epoch) == (True, B, 2)
    assert store.session("s").free_at is None


def test_the_sessions_of_a_dead_room_are_free(store: Store) -> None:
    beat(store, A, ttl=15.0)
    take(store, A)
    store._engine.clock_shift = 16.0
    other = take(store, B)
    assert (other.held, other.owner, other.epoch) == (True, B, 2)


def test_the_sessions_of_a_room_that_never_beat_are_free(store: Store) -> None:
    take(store, A)
    assert take(store, B).held


def test_taking_ones_own_again_keeps_the_epoch(store: Store) -> None:
    beat(store, A)
    first = take(store, A)
    again = take(store, A)
    assert (again.held, again.epoch) == (True, first.epoch)


def test_another_key_of_the_same_room_is_another_holder(store: Store) -> None:
    """It has an actor of its own, which knows nothing of the first one's."""
    beat(store, A)
    first = take(store, A)
    leave(store, first, linger=100.0)
    assert not take(store, A, key="other").held
    store._engine.clock_shift = 101.0
    moved = take(store, A, key="other")
    assert (moved.held, moved.epoch, moved.key) == (True, first.epoch + 1, "other")


@pytest.mark.parametrize("alive", [True, False])
def test_ones_own_in_a_turn_under_another_key_is_not_had(store: Store, alive: bool) -> None:
    """Whoever asks is alive, whatever the table of rooms says."""
    if alive:
        beat(store, A)
    take(store, A, key="one")
    other = take(store, A, key="two")
    assert (other.held, other.owner, other.key, other.wait) == (False, A, "one", None)


def test_a_session_handed_over_is_free_at_once_and_counts_as_another_owner(store: Store) -> None:
    beat(store, A)
    lease = take(store, A)
    with store.transaction() as ledger:
        assert ledger.hand_over("s", owner=A, epoch=lease.epoch)
    assert store.session("s").owner is None
    assert take(store, A).epoch == 2


def test_pinning_keeps_a_session_past_its_time(store: Store) -> None:
    beat(store, A, ttl=100.0)
    lease = take(store, A)
    leave(store, lease, linger=2.0)
    with store.transaction() as ledger:
        assert ledger.pin("s", owner=A, epoch=lease.epoch)
    store._engine.clock_shift = 50.0
    assert not take(store, B).held


def test_who_was_overtaken_changes_nothing(store: Store) -> None:
    old = take(store, A)
    new = take(store, B)  # A never beat
    assert new.epoch == old.epoch + 1
    before = store.session("s")
    for owner, epoch in ((A, old.epoch), (A, new.epoch), (B, old.epoch)):
        with store.transaction() as ledger:
            assert ledger.pin("s", owner=owner, epoch=epoch) is False
            assert ledger.leave("s", owner=owner, epoch=epoch, linger=1.0) is None
            assert ledger.complete("s", owner=owner, epoch=epoch, generation=5, linger=1.0) is None
            assert ledger.intend("s", owner=owner, epoch=epoch, generation=5) is False
            assert ledger.commit("s", owner=owner, epoch=epoch, generation=5) is False
            assert ledger.fail("s", owner=owner, epoch=epoch, problem="", pause=1.0, most=1) is False
            assert ledger.hand_over("s", owner=owner, epoch=epoch) is False
    assert store.session("s") == before


def test_a_room_that_beats_in_time_is_told_so(store: Store) -> None:
    assert beat(store, A, ttl=15.0) is False  # nobody knew it
    assert beat(store, A, ttl=15.0) is True
    store._engine.clock_shift = 14.0
    assert beat(store, A, ttl=15.0) is True
    store._engine.clock_shift = 30.0
    assert beat(store, A, ttl=15.0) is False  # too late: others may have its sessions
    assert beat(store, A, ttl=15.0) is True


def test_a_beat_keeps_the_sessions_of_its_room(store: Store) -> None:
    beat(store, A, ttl=15.0)
    take(store, A)
    store._engine.clock_shift = 14.0
    beat(store, A, ttl=15.0)
    store._engine.clock_shift = 28.0
    assert not take(store, B).held


def test_a_room_that_retires_frees_its_sessions_and_no_others(store: Store) -> None:
    for room in (A, B):
        beat(store, room)
    for session_id, owner in (("1", A), ("2", A), ("3", B)):
        take(store, owner, session_id=session_id)
    with store.transaction() as ledger:
        assert ledger.retire(A) == 2
        assert ledger.retire(A) == 0
    assert [store.session(sid).owner for sid in "123"] == [None, None, B]
    assert [room.room for room in store.rooms()] == [B]


def test_dead_rooms_are_forgotten_when_they_own_nothing(store: Store) -> None:
    for room in (A, B, "room-c"):
        beat(store, room, ttl=10.0)
    take(store, A)
    store._engine.clock_shift = 50.0
    beat(store, "room-c", ttl=10.0)
    with store.transaction() as ledger:
        assert ledger.forget_rooms(older_than=60.0) == 0
        assert ledger.forget_rooms(older_than=30.0) == 1
    assert {room.room for room in store.rooms()} == {A, "room-c"}
