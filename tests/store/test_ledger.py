"""The ledger: which turns were completed, which are committed, who commits what is left."""

from typing import Any

import pytest
import sqlalchemy as sa

from greenroom.store import Store, StoreUnavailable
from greenroom.store._transaction import Transaction

A, B = "room-a", "room-b"


def taken(store: Store, session_id: str = "s", owner: str = A, *, turns: int = 0) -> int:
    """Take a session, complete so many turns, and return the epoch."""
    with store.transaction() as ledger:
        epoch = ledger.take(session_id, key="k", owner=owner).epoch
        if turns:
            ledger.complete(session_id, owner=owner, epoch=epoch, generation=turns, linger=0.0)
    return epoch


def test_completing_a_turn_makes_the_session_dirty(store: Store) -> None:
    """G1"""
    store.create_session("s", key="k")
    store.append("s", role="user", content="x")
    epoch = taken(store)
    with store.transaction() as ledger:
        assert ledger.complete("s", owner=A, epoch=epoch, generation=1, linger=2.0) == 1
    row = store.session("s")
    assert (row.generation, row.committed, row.dirty) == (1, 0, True)
    assert row.free_at is not None
    assert row.version == 1


def test_a_generation_never_falls(store: Store) -> None:
    epoch = taken(store, turns=5)
    with store.transaction() as ledger:
        ledger.complete("s", owner=A, epoch=epoch, generation=3, linger=0.0)
    assert store.session("s").generation == 5


def test_a_turn_that_was_not_completed_leaves_the_generation(store: Store) -> None:
    """T4"""
    epoch = taken(store, turns=2)
    with store.transaction() as ledger:
        assert ledger.leave("s", owner=A, epoch=epoch, linger=2.0) == 0
    assert store.session("s").generation == 2


def test_a_commit_covers_what_it_covers(store: Store) -> None:
    """G3"""
    epoch = taken(store, turns=3)
    with store.transaction() as ledger:
        assert ledger.intend("s", owner=A, epoch=epoch, generation=2)
        assert ledger.commit("s", owner=A, epoch=epoch, generation=2)
    row = store.session("s")
    assert (row.generation, row.committed, row.intended, row.dirty) == (3, 2, 0, True)


def test_an_intention_is_on_record_until_its_commit(store: Store) -> None:
    epoch = taken(store, turns=3)
    with store.transaction() as ledger:
        ledger.intend("s", owner=A, epoch=epoch, generation=3)
    assert store.session("s").intended == 3
    with store.transaction() as ledger:
        ledger.commit("s", owner=A, epoch=epoch, generation=2)
    assert store.session("s").intended == 3
    with store.transaction() as ledger:
        ledger.commit("s", owner=A, epoch=epoch, generation=3)
    assert store.session("s").intended == 0


def test_there_is_nothing_to_intend_for_what_is_committed(store: Store) -> None:
    epoch = taken(store, turns=2)
    with store.transaction() as ledger:
        ledger.commit("s", owner=A, epoch=epoch, generation=2)
        assert ledger.intend("s", owner=A, epoch=epoch, generation=2)  # the lease is good
    assert store.session("s").intended == 0


def test_what_is_committed_was_completed_and_never_falls(store: Store) -> None:
    """A turn whose end could not be recorded is, at the latest, when it is committed."""
    epoch = taken(store, turns=2)
    for generation, committed in ((7, 7), (1, 7)):
        with store.transaction() as ledger:
            assert ledger.commit("s", owner=A, epoch=epoch, generation=generation)
        row = store.session("s")
        assert (row.committed, row.generation) == (committed, committed)


def test_what_is_about_to_be_committed_was_completed(store: Store) -> None:
    epoch = taken(store, turns=2)
    with store.transaction() as ledger:
        assert ledger.intend("s", owner=A, epoch=epoch, generation=3)
    row = store.session("s")
    assert (row.generation, row.committed, row.intended) == (3, 0, 3)


def test_a_failed_commit_is_tried_again_after_its_pause(store: Store) -> None:
    """G9"""
    epoch = taken(store, turns=1)
    with store.transaction() as ledger:
        assert ledger.fail("s", owner=A, epoch=epoch, problem="no\0 such", pause=10.0, most=3)
    row = store.session("s")
    assert (row.tries, row.problem, row.dead, row.owner) == (1, "no\ufffd such", False, None)
    assert row.next_try is not None
    with store.transaction() as ledger:
        assert ledger.orphans(owner=B, limit=10) == []
    store._engine.clock_shift = 11.0
    with store.transaction() as ledger:
        assert [orphan.session_id for orphan in ledger.orphans(owner=B, limit=10)] == ["s"]


def test_a_commit_that_failed_too_often_is_dead(store: Store) -> None:
    for number in (1, 2, 3):
        epoch = taken(store, turns=1)
        with store.transaction() as ledger:
            ledger.fail("s", owner=A, epoch=epoch, problem="x" * 5000, pause=0.0, most=3)
        row = store.session("s")
        assert (row.tries, row.dead, len(row.problem or "")) == (number, number == 3, 1000)
    with store.transaction() as ledger:
        assert ledger.orphans(owner=B, limit=10) == []


def test_a_commit_that_succeeds_wipes_the_failures(store: Store) -> None:
    for _ in range(2):
        epoch = taken(store, turns=1)
        with store.transaction() as ledger:
            ledger.fail("s", owner=A, epoch=epoch, problem="x", pause=0.0, most=2)
    epoch = taken(store)
    with store.transaction() as ledger:
        ledger.commit("s", owner=A, epoch=epoch, generation=1)
    row = store.session("s")
    assert (row.tries, row.next_try, row.problem, row.dead, row.dirty) == (0, None, None, False, False)


def test_orphans_are_dirty_sessions_without_a_living_owner(store: Store) -> None:
    with store.transaction() as ledger:
        ledger.beat(A, ttl=15.0)
        ledger.beat(B, ttl=100.0)
    taken(store, "of the dead", A, turns=1)
    store._engine.clock_shift = 1.0
    taken(store, "clean", A)
    taken(store, "of the living", B, turns=1)
    handed_over = taken(store, "handed over", B, turns=1)
    with store.transaction() as ledger:
        ledger.hand_over("handed over", owner=B, epoch=handed_over)

    def orphans(owner: str) -> list[str]:
        with store.transaction() as ledger:
            return [row.session_id for row in ledger.orphans(owner=owner, limit=10)]

    assert orphans("c") == ["handed over"]
    store._engine.clock_shift = 16.0
    assert orphans("c") == ["of the dead", "handed over"]  # the longest waiting first
    assert orphans(A) == ["handed over"]
    with store.transaction() as ledger:
        assert len(ledger.orphans(owner="c", limit=1)) == 1


# Transactions


def test_a_block_that_raises_writes_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction() as ledger:
            ledger.take("s", key="k", owner=A)
            ledger.beat(A, ttl=5.0)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert store.sessions() == []
    assert store.rooms() == []


def test_many_sessions_fit_into_one_transaction(store: Store) -> None:
    with store.transaction("normal") as ledger:
        for number in range(50):
            lease = ledger.take(f"{number:03}", key="k", owner=A)
            ledger.complete(lease.session_id, owner=A, epoch=lease.epoch, generation=1, linger=0.0)
    assert len(store.sessions(dirty=True)) == 50


def run_raw(ledger: Transaction, statement: str) -> None:
    """Run what no call of a ledger runs, in the same transaction."""
    assert not isinstance(ledger._connection, sa.Connection)
    raw: Any = ledger._connection.dbapi_connection
    raw.execute(statement)


def test_a_failure_inside_the_block_cannot_be_overlooked(store: Store) -> None:
    """PostgreSQL takes the COMMIT of a failed transaction for a ROLLBACK, and does not say so."""

    def overlook() -> None:
        with store.transaction() as ledger:
            ledger.take("s", key="k", owner=A)
            run_raw(ledger, "DROP TABLE greenroom_rooms")
            with pytest.raises(StoreUnavailable, match="greenroom_rooms"):
                ledger.beat(A, ttl=5.0)
            with pytest.raises(StoreUnavailable, match="begin again"):
                ledger.take("t", key="k", owner=A)

    with pytest.raises(StoreUnavailable, match="nothing was written"):
        overlook()
    assert store.sessions() == []


@pytest.mark.parametrize("durability", ["full", "normal", "off", None])
def test_a_transaction_can_ask_for_more_or_less_durability(store: Store, durability: str | None) -> None:
    with store.transaction(durability) as ledger:
        ledger.take("s", key="k", owner=A)
    assert store.session("s").owner == A


def test_an_unknown_durability_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="durability='most'"), store.transaction("most"):
        raise AssertionError("not reached")
