"""PostgreSQL: what was asked on a connection that broke, or was given up, and arrives late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, StoreUnavailable, open_store
from greenroom.store import _connect as connects
from tests.actors.actors import in_thread, join_all
from tests.room.agents import until
from tests.store.engines import sql
from tests.store.postgres_proxy import Proxy, as_a_pooler
from tests.store.test_ledger import A, B, taken
from tests.store.urls import own_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom.store._pool import Pool
    from tests.actors.actors import Gate
    from tests.postgres import OwnServer

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("own postgres")]

RECORD, TAKE = b"greatest(generation", b"UPDATE greenroom_sessions SET"


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    """A server on a socket, which a proxy can stand before."""
    with own_postgres() as server:
        yield server


class Between:
    """A store with a proxy before its server, and one without."""

    def __init__(self, url: str, change: Callable[[bytes], bytes]) -> None:
        self.proxy = Proxy(url, change)
        self.store = open_store(self.proxy.url, durability="normal")
        self.direct = open_store(url, durability="normal")

    def ask(self, what: str) -> Any:
        return sql(self.direct._engine, f"SELECT count(*) FROM pg_stat_activity WHERE {what}")

    def give_up(self, what: bytes, call: Callable[[], object], owner: str = A) -> Gate:
        """Have a call interrupted while this part of it is on its way. That arrives behind the gate."""
        gate = self.proxy.hold(what)
        errors: list[StoreUnavailable] = []

        def try_it() -> None:
            try:
                call()
            except StoreUnavailable as error:
                errors.append(error)

        caller = in_thread(try_it)
        gate.wait_reached()
        self.store.interrupt(owner)
        join_all([caller])
        assert [error.temporary for error in errors] == [True]
        return gate

    def arrive(self, gate: Gate, pid: int) -> None:
        """Let what was held arrive, and wait until the server has done it, or never will."""
        gate.open()
        until(lambda: self.ask(f"pid = {pid}") == 0, "the end of the connection")

    def close(self) -> None:
        self.store.close()
        self.direct.close()
        self.proxy.__exit__()


def pid_of(driver: Any) -> int:
    return int(driver.execute("SELECT pg_backend_pid()").fetchone()[0])


def pid_in(pool: Pool) -> int:
    """The server's process for the connection that is used next."""
    return pid_of(pool._idle[-1].dbapi_connection)


@pytest.fixture(params=["direct", "pooler"])
def between(request: pytest.FixtureRequest, own_server: OwnServer) -> Iterator[Between]:
    between = Between(own_server.fresh_url(), as_a_pooler if request.param == "pooler" else bytes)
    yield between
    between.close()


def free_at(store: Store) -> float | None:
    return store.session("s").free_at


def test_the_end_of_a_turn_that_arrives_late_does_not_end_the_next_one(between: Between) -> None:
    """C9: owner and epoch are the same."""
    store = between.store
    epoch = taken(store)
    pid = pid_in(store._engine.clerk)
    gate = between.give_up(RECORD, lambda: store.record([("s", epoch, 1, 0.0)], owner=A))

    assert store.record([("s", epoch, 1, 0.0)], owner=A) == {"s": 0}
    assert store.take_all([("s", "k")], owner=A)["s"].epoch == epoch
    assert free_at(between.direct) is None
    between.arrive(gate, pid)

    assert free_at(between.direct) is None
    assert store.record([("s", epoch, 2, 0.0)], owner=A) == {"s": 0}
    assert free_at(between.direct) is not None


def test_a_beginning_that_arrives_late_takes_nothing(between: Between) -> None:
    """C9: nobody would give it back."""
    store = between.store
    taken(store, turns=1, owner=B)
    assert store.take_all([("unknown", "k")], owner=A) == {}
    pid = pid_in(store._engine.hurried)
    gate = between.give_up(TAKE, lambda: store.take_all([("s", "k")], owner=A))

    store.transact(lambda ledger: ledger.disclaim("s", key="k", owner=A), owner=A)
    between.arrive(gate, pid)

    assert between.direct.session("s").owner == B


@pytest.mark.parametrize("between", ["direct"], indirect=True)
def test_what_a_struck_thread_has_left_at_the_server_is_ended_before_anything_else(
    between: Between,
) -> None:
    """K1"""
    pids: list[int] = []

    class Struck(BaseException):
        pass

    def work(connection: Any) -> None:
        driver = connection.dbapi_connection
        pids.append(pid_of(driver))
        driver.pgconn.send_query(b"SELECT pg_sleep(600)")
        raise Struck

    with pytest.raises(Struck):
        between.store._engine.call(between.store._engine.clerk, work)
    assert between.store.take_all([("unknown", "k")], owner=A) == {}
    assert between.ask(f"pid = {pids[0]}") == 0


@pytest.mark.parametrize("between", ["direct"], indirect=True)
def test_while_it_does_not_end_the_store_is_unavailable(
    between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = between.store
    epoch = taken(store)
    gate = between.give_up(RECORD, lambda: store.record([("s", epoch, 1, 0.0)], owner=A))
    with monkeypatch.context() as patch:
        patch.setattr(connects, "LEDGER_PATIENCE", 0.0)
        patch.setattr(connects, "_END", "SELECT %s::int, %s::timestamptz")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="may still happen") as caught:
                store.take_all([("s", "k")], owner=A)
            assert caught.value.temporary
            with pytest.raises(StoreUnavailable, match="may still happen"):
                store.transact(lambda ledger: ledger.beat(A, ttl=1.0), owner=A)
    assert store.record([("s", epoch, 2, 0.0)], owner=A) == {"s": 0}
    assert not store._engine.clerk._doubtful
    gate.open()


@pytest.mark.parametrize("between", ["direct"], indirect=True)
def test_another_process_of_the_server_with_the_same_number_is_not_hit(between: Between) -> None:
    def work(connection: Any) -> int:
        pid, began = connection.info[connects.BACKEND]
        connection.info[connects.BACKEND] = pid, began.replace(year=began.year - 1)
        connects._wait_for_end(connection.dbapi_connection, connection)
        return pid_of(connection.dbapi_connection)

    pid = between.store._engine.call(between.store._engine.clerk, work)
    assert between.ask(f"pid = {pid}") == 1
