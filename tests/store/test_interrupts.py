"""A call on a store that another thread has fail."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, StoreUnavailable, open_store
from tests.actors.actors import Gate, in_thread, join_all
from tests.room.agents import until
from tests.store.test_ledger import A, B, taken

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Outcome:
    """What becomes of a call on a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._told: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._call = call
        self._thread = in_thread(self._run)

    def _run(self) -> None:
        try:
            self._told.put(self._call())
        except StoreUnavailable as error:
            self._told.put(error)

    def get(self) -> Any:
        join_all([self._thread])
        return self._told.get(timeout=0)


def waiting(store: Store) -> int:
    return len(store._engine.clerk._calls)


def test_who_waits_for_a_connection_is_interrupted_when_it_has_one(store: Store) -> None:
    """H5: it would wait once more, for the database."""
    epoch = taken(store)
    clerk = store._engine.clerk
    for _ in range(clerk._size):
        clerk._free.get()
    caller = Outcome(lambda: store.record([("s", epoch, 1, 0.0)], owner=A))
    until(lambda: waiting(store) == 1, "a caller that waits")
    store.interrupt(B)
    assert waiting(store) == 1
    store.interrupt(A)
    for _ in range(clerk._size):
        clerk._free.put(True)

    assert isinstance(caller.get(), StoreUnavailable)
    assert store.session("s").generation == 0
    assert store.record([("s", epoch, 1, 0.0)], owner=A) == {"s": 0}


@pytest.mark.parametrize("kind", ["sqlite-file", "postgresql"])
def test_who_connects_is_interrupted_when_it_has_connected(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: nothing else would end the first statement."""
    url = f"sqlite:///{tmp_path}/s.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
    with open_store(url) as store:
        clerk, gate = store._engine.clerk, Gate()
        while clerk._idle:
            clerk._close(clerk._idle.pop())
        connect = clerk.engine.raw_connection

        def slowly() -> Any:
            gate.wait()
            return connect()

        monkeypatch.setattr(clerk.engine, "raw_connection", slowly)
        monkeypatch.setattr(clerk, "_first", lambda _: pytest.fail("it goes on"))
        caller = Outcome(lambda: store.transact(lambda ledger: ledger.beat(A, ttl=1.0), owner=A))
        gate.wait_reached()
        store.interrupt(A)
        gate.open()
        assert isinstance(caller.get(), StoreUnavailable)
        assert (len(clerk._idle), len(clerk._calls)) == (0, 0)


@pytest.mark.parametrize("what", ["_first", "_plug"])
def test_a_connection_that_could_not_be_prepared_is_not_used(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1: it would wait for ever where others give up."""

    def fail(_: Any) -> None:
        raise OSError("too many open files")

    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        clerk = store._engine.clerk
        clerk._close(clerk._idle.pop())
        with monkeypatch.context() as patch:
            patch.setattr(clerk, what, fail)
            with pytest.raises(StoreUnavailable, match="too many open files"):
                taken(store)
        assert not clerk._idle
        assert not clerk._open
        assert taken(store) == 1


def test_who_comes_later_on_the_same_connection_is_not_hit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. who interrupts finds a call under way  2. that ends, and another begins  3. it interrupts"""
    epoch = taken(store)
    clerk, late, running, recorded = store._engine.clerk, Gate(), Gate(), Gate()
    interrupt = clerk._interrupt

    def slowly(plug: Any) -> None:
        late.wait()
        interrupt(plug)

    def run(ledger: Any) -> None:
        recorded.wait()
        ledger.complete("s", owner=A, epoch=epoch, generation=1, linger=0.0)

    def stop() -> int:
        running.wait()
        return 1

    def look(connection: Any) -> Any:
        driver, text = connection.dbapi_connection, "SELECT 1000"
        if store._engine.dialect.name == "sqlite":  # only what runs can be interrupted
            driver.create_function("here", 0, stop)
            text = """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                SELECT count(here()) FROM n"""
        else:
            running.wait()
        return driver.execute(text).fetchone()[0]

    monkeypatch.setattr(clerk, "_interrupt", slowly)
    first = Outcome(lambda: store.transact(run, owner=A))
    recorded.wait_reached()
    interrupter = in_thread(lambda: store.interrupt(A))
    late.wait_reached()
    recorded.open()
    assert first.get() is None
    second = Outcome(lambda: store._engine.call(clerk, look))
    running.wait_reached()
    late.open()
    join_all([interrupter])
    running.open()

    assert second.get() == 1000
    assert store.session("s").generation == 1
    assert not store._engine.clerk._calls


@pytest.mark.postgres
def test_a_network_that_loses_what_is_sent_or_the_answer_is_noticed(postgres_url: str) -> None:
    """H5: nobody interrupts a worker."""

    def look(connection: Any) -> dict[str, str]:
        found: dict[str, str] = connection.dbapi_connection.info.get_parameters()
        return found

    with open_store(f"{postgres_url}&keepalives_count=7") as store:
        found = store._engine.call(store._engine.clerk, look)
    assert (found["keepalives_idle"], found["tcp_user_timeout"]) == ("5", "5000")
    assert found["keepalives_count"] == "7"  # as its user wants


@pytest.mark.postgres
def test_one_owner_may_have_several_calls_under_way(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        gates = [Gate(), Gate()]

        def stop_at(gate: Gate) -> Outcome:
            return Outcome(lambda: store.transact(lambda _: gate.wait(), owner=A))

        calls = [stop_at(gate) for gate in gates]
        for gate in gates:
            gate.wait_reached()
        gates[0].open()
        assert calls[0].get() is None
        store.interrupt(A)
        gates[1].open()
        assert isinstance(calls[1].get(), StoreUnavailable)
