"""`Store.take_all()` and `Store.record()`: turns that begin and that end, in one statement each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, StoreUnavailable, open_store
from greenroom.store._turns import _POSTGRES_ONE, _SQLITE_ONE
from tests.actors.actors import in_thread, join_all
from tests.room.agents import until
from tests.store.engines import sql
from tests.store.test_ledger import A, B, taken

if TYPE_CHECKING:
    from greenroom.store import SessionRow

Turn = tuple[str, int, int, float]


def recorded(store: Store, *turns: Turn, owner: str = A) -> dict[str, int]:
    return store.record(turns, owner=owner)


def completed(store: Store, *turns: Turn, owner: str = A) -> dict[str, int]:
    """The same with `Transaction.complete()`."""
    versions: dict[str, int] = {}
    with store.transaction() as ledger:
        for session_id, epoch, generation, linger in turns:
            version = ledger.complete(
                session_id, owner=owner, epoch=epoch, generation=generation, linger=linger
            )
            if version is not None:
                versions[session_id] = version
    return versions


def seen(row: SessionRow) -> dict[str, Any]:
    """A row, with its times as what lies between them."""
    assert row.free_at is not None
    names = ("generation", "committed", "intended", "owner", "epoch", "version", "dirty")
    return {name: getattr(row, name) for name in names} | {"linger": round(row.free_at - row.updated, 3)}


# Turns that begin.


@pytest.mark.parametrize("count", [1, 2, 200])
def test_it_takes_what_may_be_had_and_leaves_out_the_rest(store: Store, count: int) -> None:
    """As in a transaction: those that nobody has, that are free again, and one's own."""
    for number in range(count):
        taken(store, f"free{number}", turns=3)
        taken(store, f"mine{number}", B, turns=1)
        taken(store, f"theirs{number}")  # in a turn
        with store.transaction() as ledger:
            epoch = ledger.take(f"nobody's{number}", key="k", owner=A).epoch
            ledger.hand_over(f"nobody's{number}", owner=A, epoch=epoch)
    store.append("free0", role="user", content="x")
    with store.transaction() as ledger:
        ledger.renew("k", session_id="current")
    names = [f"{kind}{n}" for n in range(count) for kind in ("free", "mine", "theirs", "nobody's")]

    leases = store.take_all([(name, "k") for name in [*names, "unknown"]], owner=B)

    assert sorted(leases) == sorted(name for name in names if not name.startswith("theirs"))
    for name, lease in leases.items():
        row = store.session(name)
        assert (lease.held, lease.owner, lease.key, lease.conversation) == (True, B, "k", "current")
        assert (
            (lease.epoch, lease.version)
            == (row.epoch, row.version)
            == (
                1 if name.startswith("mine") else 2,
                name == "free0",
            )
        )
        assert (lease.generation, lease.committed, lease.intended, lease.ended) == (
            row.generation,
            0,
            0,
            False,
        )
        assert row.free_at is None
    assert store.session("theirs0").owner == A


@pytest.mark.parametrize("others", [0, 1])
def test_another_key_is_another_owner(store: Store, others: int) -> None:
    """C9: it has an actor of its own."""
    taken(store, "in a turn")
    taken(store, "free", turns=1)
    wanted = [("in a turn", "k2"), ("free", "k2")][: 1 + others]
    leases = store.take_all(wanted, owner=A)
    assert "in a turn" not in leases
    if others:
        assert (leases["free"].epoch, leases["free"].key, store.session("free").key) == (2, "k2", "k2")


def test_a_session_of_a_room_that_seems_dead_takes_a_transaction(store: Store) -> None:
    """Whether it is dead is read with the row locked."""
    taken(store)
    assert store.take_all([("s", "k")], owner=B) == {}
    with store.transaction() as ledger:
        assert ledger.take("s", key="k", owner=B).held


# Turns that end.


@pytest.mark.parametrize("count", [1, 2, 200])
def test_it_does_what_complete_does_for_any_number_of_sessions(store: Store, count: int) -> None:
    """G1"""
    turns: dict[str, list[Turn]] = {"one": [], "other": []}
    for way, ends in turns.items():
        for number in range(count):
            epoch = taken(store, f"{way}{number}", turns=number % 3)
            store.append(f"{way}{number}", role="user", content="x")
            ends.append((f"{way}{number}", epoch, 2, 1.5 + number))

    ours, theirs = recorded(store, *turns["one"]), completed(store, *turns["other"])

    assert list(ours.values()) == list(theirs.values()) == [1] * count
    for number in range(count):
        assert seen(store.session(f"one{number}")) == seen(store.session(f"other{number}"))


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("why", ["owner", "epoch", "unknown", "nobody's"])
def test_a_turn_whose_lease_is_not_good_is_refused_and_changes_nothing(
    store: Store, why: str, others: int
) -> None:
    """C9: and the others are recorded all the same."""
    epoch = taken(store, "s", turns=1)
    good = [("good", taken(store, "good"), 5, 0.0)][:others]
    if why == "nobody's":
        with store.transaction() as ledger:
            ledger.hand_over("s", owner=A, epoch=epoch)
    if why == "owner":
        with store.transaction() as ledger:
            ledger.hand_over("s", owner=A, epoch=epoch)
            ledger.take("s", key="k", owner=B)
    before = store.session("s")
    session_id = "another" if why == "unknown" else "s"
    turn = (session_id, epoch + (why == "epoch"), 7, 0.0)

    assert recorded(store, turn, *good) == dict.fromkeys(("good",)[:others], 0)
    assert store.session("s") == before


@pytest.mark.parametrize("count", [1, 3])
def test_written_twice_it_is_as_written_once(store: Store, count: int) -> None:
    """K1: who is struck cannot tell whether it was written."""
    turns = [(f"s{n}", taken(store, f"s{n}"), 4, 2.0) for n in range(count)]
    first = recorded(store, *turns)
    rows = [seen(store.session(f"s{n}")) for n in range(count)]
    assert recorded(store, *turns) == first
    assert [seen(store.session(f"s{n}")) for n in range(count)] == rows
    older = [(session_id, epoch, 3, 2.0) for session_id, epoch, _, _ in turns]
    recorded(store, *older)
    assert [store.session(f"s{n}").generation for n in range(count)] == [4] * count


def test_an_unknown_durability_is_refused(store: Store) -> None:
    epoch = taken(store)
    with pytest.raises(ValueError, match="durability='quick'"):
        store.record([("s", epoch, 1, 0.0)], owner=A, durability="quick")
    assert store.session("s").generation == 0


def test_nothing_that_runs_cannot_be_interrupted(store: Store) -> None:
    epoch = taken(store)
    store.interrupt(A)
    assert recorded(store, ("s", epoch, 1, 0.0)) == {"s": 0}


@pytest.mark.postgres
def test_a_server_that_does_not_answer_holds_nobody_who_is_interrupted(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: nothing else would end this wait."""
    monkeypatch.setattr("greenroom.store._connect.PATIENCE", 600.0)
    monkeypatch.setattr("greenroom.store._connect.LEDGER_PATIENCE", 600.0)
    with open_store(postgres_url) as store, open_store(postgres_url) as other:
        epoch = taken(store)
        errors: list[StoreUnavailable] = []

        def record() -> None:
            try:
                recorded(store, ("s", epoch, 1, 0.0))
            except StoreUnavailable as error:
                errors.append(error)

        def waits() -> Any:
            return sql(other._engine, "SELECT count(*) FROM pg_locks WHERE NOT granted")

        with other.transaction() as ledger:
            assert ledger.pin("s", owner=A, epoch=epoch)
            caller = in_thread(record)
            until(waits, "a record that waits")
            store.interrupt(B)
            assert not errors
            store.interrupt(A)
            join_all([caller])
            assert [error.temporary for error in errors] == [True]
        until(lambda: not waits(), "the end of its statement")
        assert recorded(store, ("s", epoch, 2, 0.0)) == {"s": 0}


# What it costs.


def changes_an_index(store: Store, turn: Turn) -> bool:
    """Whether the statement that ends a turn writes to an index, as the database itself says."""
    session_id, epoch, generation, linger = turn
    values = (generation, 0.0, linger, 0.0, session_id, epoch, A)
    if store._engine.dialect.name == "sqlite":
        steps = explained(store, values)
        assert "MakeRecord" in steps
        return "IdxInsert" in steps

    def run(connection: Any) -> int:
        driver = connection.dbapi_connection
        driver.execute(_POSTGRES_ONE, values)
        heap_only = "SELECT pg_stat_get_xact_tuples_hot_updated('greenroom_sessions'::regclass)"
        (count,) = driver.execute(heap_only).fetchone()
        return int(count)

    return store._engine.write(run) == 0


def explained(store: Store, values: tuple[Any, ...]) -> set[str]:
    """The instructions of the statement, without those of triggers."""

    def explain(connection: Any) -> set[str]:
        rows = connection.dbapi_connection.execute(f"EXPLAIN {_SQLITE_ONE}", values).fetchall()
        # Each trigger's begin at 0 again.
        return {row[1] for at, row in enumerate(rows) if row[0] == at}

    return store._engine.look(explain)


def test_the_end_of_a_turn_of_an_uncommitted_session_changes_no_index(store: Store) -> None:
    """Most of what it cost was that."""
    epoch = taken(store, turns=1)
    assert not changes_an_index(store, ("s", epoch, 2, 0.0))
