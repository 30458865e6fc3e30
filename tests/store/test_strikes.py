"""Exceptions that strike a thread while it uses a store cost other threads nothing (K1)."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, open_store
from tests.strikes.points import WHERE, Striker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Struck(BaseException):
    pass


def strike_everywhere(
    call: Callable[[], object], see: Callable[[str], None], *, held: bool = True
) -> None:
    """Strike a call at each of its points in the store, and look each time. `held`: while the exception
    is handled, whose traceback keeps what the call has used."""
    striker = Striker(WHERE["store"])
    for _ in range(2):  # the first time more is done than later
        striker.call(call, 0, Struck())
    struck = 0
    for n in range(1, striker.count + 1):
        try:
            striker.call(call, n, Struck())
        except Struck:
            struck += 1
            if held:
                see(f"struck at {striker.place}")
        if not held:
            gc.collect()  # the tool refers to the exception in a cycle
            see(f"struck at {striker.place}")
    assert struck > 20


def block(store: Store) -> None:
    with store.transaction() as ledger:
        ledger.beat("room", ttl=60.0)


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.append("s", role="user", content="x"),
        lambda store: store.sessions(),
        lambda store: store.retry("s"),
        block,
    ],
    ids=["append", "sessions", "retry", "transaction"],
)
def test_a_struck_call_leaves_nothing_open_and_the_store_as_it_was(
    tmp_path: Path, kind: str, call: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: neither a transaction nor a snapshot."""
    monkeypatch.setattr("greenroom.store._connect.PATIENCE", 1.0)
    url = f"sqlite:///{tmp_path}/s.db" if kind == "file" else "sqlite://"
    with open_store(url, durability="off") as store:
        store.create_session("s", key="k")
        written = 0

        def see(where: str) -> None:
            nonlocal written
            store.append("s", role="user", content=written)
            written += 1
            assert store.messages("s")[-1].content == written - 1, where

        # What a block has used may come back when the exception is forgotten: see `_pool`.
        strike_everywhere(lambda: call(store), see, held=call is not block)
        assert not store._in_use()


def test_what_struck_writes_are_counted_hides_no_write_of_others() -> None:
    """H2"""
    with open_store("sqlite://") as store:
        for session_id in ("open", "ended"):
            store.create_session(session_id, key="k")
        store.end_session("ended")

        def compare(session_id: str) -> Callable[[str], None]:
            def see(where: str) -> None:
                assert store.own_writes(session_id) <= store.session(session_id).version, where
                assert store.own_writes_done(session_id) <= store.own_writes(session_id), where

            return see

        strike_everywhere(lambda: store.append("open", role="user", content="x"), compare("open"))
        strike_everywhere(lambda: store.end_session("ended"), compare("ended"))


def test_an_export_that_becomes_garbage_leaves_the_database_in_memory_open() -> None:
    class User:
        def __init__(self, store: Store) -> None:
            self.records = store.export()
            self.me: Any = self

    with open_store("sqlite://") as store:
        for number in range(5):
            store.create_session(f"s{number}", key="k")
        user = User(store)
        next(user.records)
        del user
        gc.collect()
        assert len(store.sessions()) == 5


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_connection_that_sqlalchemy_gave_up_is_not_missed(tmp_path: Path, kind: str) -> None:
    """It gives up what it uses when that is interrupted: a database in memory would be gone."""
    url = f"sqlite:///{tmp_path}/s.db" if kind == "file" else "sqlite://"
    with open_store(url) as store:
        store.create_session("s", key="k")

        def interrupted(connection: Any) -> None:
            connection.exec_driver_sql("SELECT 1")
            connection.invalidate()
            raise KeyboardInterrupt

        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                store._engine.change(interrupted)
        assert [row.session_id for row in store.sessions()] == ["s"]
