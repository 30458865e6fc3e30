"""A store that is timed is the store that it was: for a room, for agents, and for who looks into it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom import BuildContext, Event, Greenroom, LostOwnership, Reason, open_store
from greenroom.gateway.watch._timed_store import OPERATIONS, TimedStore
from greenroom.store import Fenced, StoreUnavailable, UnknownSession
from tests.actors.actors import PATIENCE

Observed = tuple[str, bool]


class Watched:
    """A timed store, and what it told."""

    def __init__(self, url: str) -> None:
        self.told: list[Observed] = []
        self.plain = open_store(url)
        self.store = TimedStore(self.plain, self._observe)

    def _observe(self, operation: str, seconds: float, failed: bool) -> None:
        assert seconds >= 0
        self.told.append((operation, failed))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "greenroom.db"


@pytest.fixture
def watched(path: Path) -> Iterator[Watched]:
    watched = Watched(f"sqlite:///{path}")
    with closing(watched.plain):
        yield watched


class Writer:
    """Writes what it hears to its transcript."""

    def __init__(self, context: BuildContext) -> None:
        self.store: Any = context.store

    def hear(self, session_id: str, text: str) -> None:
        self.store.append(session_id, role="user", content=text)

    def commit_memory_session(self) -> None:
        pass


def history(store: Any, path: Path) -> tuple[list[tuple[str, Reason | None]], tuple[int, ...]]:
    """Have a room live through coherence, the ledger and commits: its events, and its ledger."""
    events: list[tuple[str, Reason | None]] = []

    def happened(event: Event) -> None:
        events.append((event.kind, getattr(event, "reason", None)))

    with Greenroom(Writer, store=store) as room, closing(open_store(f"sqlite:///{path}")) as other:
        room.events(happened)
        for text in ("one", "two"):
            with room.turn("a") as turn:
                turn.agent.hear("a", text)
        other.append("a", role="user", content="from elsewhere")
        with room.turn("a") as turn:
            turn.agent.hear("a", "three")
        room.settle(PATIENCE)  # the agent that was let go has committed, and gone
        assert room.commit("a")
        room.settle(PATIENCE)
        row = other.session("a")
    # What happens behind a turn comes before what happens in it, or after.
    return sorted(events, key=str), (row.generation, row.committed, row.message_count, row.version)


def test_a_room_lives_with_it_as_with_the_store_itself(tmp_path: Path) -> None:
    plain_path, timed_path = tmp_path / "plain.db", tmp_path / "timed.db"
    with closing(open_store(f"sqlite:///{plain_path}")) as plain:
        expected = history(plain, plain_path)
    with closing(open_store(f"sqlite:///{timed_path}")) as behind:
        assert history(TimedStore(behind, lambda *_: None), timed_path) == expected

    events, ledger = expected
    assert ("build", Reason.COHERENCE) in events
    assert events.count(("hit", None)) == 1
    assert ledger == (3, 3, 4, 4)


def test_an_agent_that_lost_its_session_is_refused_through_it(watched: Watched, path: Path) -> None:
    with Greenroom(Writer, store=watched.store) as room:
        turn = room.turn("a")
        turn.__enter__()
        turn.agent.hear("a", "while it is ours")
        with closing(sqlite3.connect(path)) as thief:
            thief.execute("UPDATE greenroom_sessions SET owner = 'thief', epoch = epoch + 1")
            thief.commit()
        with pytest.raises(LostOwnership):
            turn.agent.hear("a", "too late")
        with pytest.raises(LostOwnership):
            turn.__exit__(None, None, None)
        assert watched.plain.session("a").message_count == 1
    assert ("append", False) in watched.told


def test_every_operation_is_told(watched: Watched) -> None:
    store = watched.store
    store.create_session("a", key="k")
    store.append("a", role="user", content="hello")
    store.extend("a", [("assistant", "hi")])
    assert [message.content for message in store.messages("a")] == ["hello", "hi"]
    assert store.session("a").message_count == 2
    assert [row.session_id for row in store.sessions()] == ["a"]
    with store.transaction(durability="normal") as ledger:
        assert ledger.take("a", key="k", owner="me").epoch == 1
    store.transact(lambda ledger: ledger.pin("a", owner="me", epoch=1))
    assert store.take_all([("a", "k")], owner="me")["a"].held
    assert store.record([("a", 1, 0, 0.0)], owner="me") == {"a": 2}
    store.end_session("a")
    store.delete_session("a")

    assert [name for name, _ in watched.told] == [
        "create_session",
        "append",
        "extend",
        "messages",
        "session",
        "sessions",
        "transaction",
        "transaction",
        "take_all",
        "record",
        "end_session",
        "delete_session",
    ]
    assert {name for name, _ in watched.told} == set(OPERATIONS)
    assert not any(failed for _, failed in watched.told)


async def _soon(store: Any) -> None:
    await store.create_session_soon("a", key="k")
    store.append_soon("a", role="user", content="hello").get(PATIENCE)
    store.end_session_soon("a")  # nobody waits for this one


def test_the_twins_for_event_loops_are_told_when_they_are_done(watched: Watched) -> None:
    asyncio.run(_soon(watched.store))
    watched.store.close()  # it finishes what was asked for

    assert sorted(watched.told) == [("append", False), ("create_session", False), ("end_session", False)]


def test_what_the_store_answers_is_no_failure(watched: Watched) -> None:
    nobodys = SimpleNamespace(owner="me", epoch=7)
    watched.store.create_session("a", key="k")
    with pytest.raises(UnknownSession):
        watched.store.session("nobody")
    with pytest.raises(Fenced):
        watched.store.append("a", role="user", content="x", fence=nobodys)

    assert watched.told[1:] == [("session", False), ("append", False)]


class Broken:
    """A store that cannot be reached."""

    def session(self, session_id: str) -> Any:
        raise StoreUnavailable(f"no {session_id}")

    def transaction(self, durability: str | None = None) -> Any:
        return self

    def __enter__(self) -> Any:
        raise OSError("no connection")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("it was never entered")


def test_a_store_that_cannot_be_reached_is_a_failure() -> None:
    told: list[Observed] = []
    store = TimedStore(Broken(), lambda name, _, failed: told.append((name, failed)))
    with pytest.raises(StoreUnavailable):
        store.session("a")
    with pytest.raises(OSError, match="no connection"), store.transaction():
        pass

    assert told == [("session", True), ("transaction", True)]
    assert not hasattr(store, "append")


class Torn:
    """A store whose connection is lost in the commit."""

    def session(self, session_id: str) -> Any:
        raise AssertionError(session_id)

    def transaction(self, durability: str | None = None) -> Any:
        return self

    def __enter__(self) -> str:
        return "ledger"

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            raise StoreUnavailable("no answer")


def test_a_transaction_that_fails_on_the_way_or_at_its_end_is_a_failure() -> None:
    told: list[Observed] = []
    store = TimedStore(Torn(), lambda name, _, failed: told.append((name, failed)))
    with pytest.raises(StoreUnavailable), store.transaction() as ledger:
        assert ledger == "ledger"
    with pytest.raises(ConnectionError), store.transaction():
        raise ConnectionError
    with pytest.raises(KeyError), store.transaction():
        raise KeyError

    assert told == [("transaction", True), ("transaction", True), ("transaction", False)]


def test_what_is_asked_in_handlers_is_the_stores_own_method(watched: Watched) -> None:
    for name in ("peek", "own_writes", "own_writes_done", "can_peek"):
        assert vars(watched.store)[name] == getattr(watched.plain, name)
    assert repr(watched.store) == repr(watched.plain)


def test_nobody_need_be_told(path: Path) -> None:
    with closing(open_store(f"sqlite:///{path}")) as behind:
        store = TimedStore(behind)
        store.create_session("a", key="k")
        assert store.session("a").key == "k"
