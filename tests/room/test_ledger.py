"""A room with a store: the ledger of its turns, and whose a session is. All on real SQLite files."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    AgentHooks,
    BuildFailed,
    DrainReport,
    Generation,
    Greenroom,
    LostOwnership,
    NotRecorded,
    Reason,
    RoomClosed,
    SessionBusy,
    StoreAway,
    TurnTimeout,
)
from greenroom.actors import ManualClock
from greenroom.actors.ledger.accounts import IN_DOUBT
from greenroom.actors.session.machine import Place
from greenroom.messages import OwnershipLost, StoreFailure
from greenroom.store import Store, UnknownSession, open_store
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.crash.databases import sqlite_url
from tests.room.agents import Agent, AsyncAgent, Cast, look_at, row_of, take_turn, touch, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from greenroom import Turn
    from greenroom.store import SessionRow, Transaction

RIVAL = "elsewhere:1:ab"


class Away(Exception):
    """The store cannot be reached."""

    temporary = True


class Moody:
    """A store that is really there, and is away, or slow, when it is told to be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.trouble: Exception | None = None
        self.refuses: set[str] = set()
        """What raises, of what a transaction does."""
        self.at: dict[str, Gate] = {}
        """Where it waits: by what is done (`take`, `complete`, `intend`, …), inside of a transaction."""
        self.deaf = False
        """It writes, and nobody is told."""
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def session(self, session_id: str) -> SessionRow:
        self._look()
        return self._store.session(session_id)

    def peek(self, session_id: str, expected: int) -> tuple[int, bool] | None:
        self._look()
        return self._store.peek(session_id, expected)

    @contextmanager
    def transaction(self, durability: str | None = None) -> Iterator[Any]:
        self._look()
        with self._store.transaction(durability) as ledger:
            yield MoodyLedger(self, ledger)
        if self.deaf:
            raise Away("it was written, and nobody was told")

    def transact(self, work: Any, *, owner: str, durability: str) -> None:
        with self.transaction(durability) as ledger:
            work(ledger)

    def take_all(self, turns: list[Any], *, owner: str) -> dict[str, Any]:
        self._look()
        for _ in turns:
            self.do("take")
        leases: dict[str, Any] = self._store.take_all(turns, owner=owner)
        if self.deaf and leases:
            raise Away("it was written, and nobody was told")
        return leases

    def record(self, turns: list[Any], *, owner: str, durability: str) -> dict[str, int]:
        self._look()
        for _ in turns:
            self.do("complete")
        versions = self._store.record(turns, owner=owner, durability=durability)
        if self.deaf:
            raise Away("it was written, and nobody was told")
        return versions

    def do(self, what: str) -> None:
        """Wait at its gate, raise if it is refused, and note it."""
        if what in self.at:
            self.at[what].wait()
        if what in self.refuses:
            raise Away(what)
        self.done.append(what)

    def _look(self) -> None:
        if self.trouble is not None:
            raise self.trouble


class MoodyLedger:
    def __init__(self, moody: Moody, ledger: Transaction) -> None:
        self._moody = moody
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        self._moody.do(name)
        return getattr(self._ledger, name)


class Stage:
    """A cast, a file, the store that the test looks with, and rooms on stores of their own."""

    def __init__(self, cast: Cast, url: str) -> None:
        self.cast = cast
        self.url = url
        self.store = open_store(url, durability="normal")
        self.tokens: list[tuple[str | None, int]] = []
        self._opened = [self.store]

    def moody(self) -> Moody:
        self._opened.append(open_store(self.url, durability="normal"))
        return Moody(self._opened[-1])

    def later(self, seconds: float) -> Store:
        """Another store on the same file, whose clock is ahead."""
        self._opened.append(open_store(self.url, durability="normal"))
        self._opened[-1]._engine.clock_shift = seconds
        return self._opened[-1]

    def room(self, store: Any = None, **kwargs: Any) -> Greenroom:
        kwargs.setdefault("hooks", AgentHooks(commit=self._commit))
        return self.cast.room(store=self.url if store is None else store, **kwargs)

    def _commit(self, agent: Agent, generation: Generation) -> Any:
        self.tokens.append((generation.session_id, int(generation)))
        return self.cast.act("commit", agent)

    def row(self, session_id: str = "a") -> SessionRow:
        return self.store.session(session_id)

    def ledger(self, session_id: str = "a") -> tuple[int, int]:
        """Generation and committed."""
        row = self.row(session_id)
        return row.generation, row.committed

    def overtake(self, session_id: str = "a") -> None:
        """Have another room take the session over, whoever has it: the first one seems to be dead."""
        with self.later(1_000.0).transaction() as ledger:
            assert ledger.take(session_id, key="elsewhere", owner=RIVAL).held

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def stage(cast: Cast, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(cast, sqlite_url(tmp_path / "greenroom.db"))
    yield stage
    cast.finish()
    stage.close()


def owner_of(room: Greenroom) -> str:
    books = room._context.books
    assert books is not None
    return books.owner


def advance_until(clock: ManualClock, condition: Callable[[], object], what: str) -> None:
    """Let time pass until something is so. Timers may be set by threads that are not through yet."""

    def later() -> object:
        clock.advance(1.0)
        return condition()

    until(later, what)


def test_nothing_of_a_turn_is_kept_when_it_is_recorded(stage: Stage) -> None:
    class Given:
        pass

    room, given = stage.room(), Given()
    with room.turn("a", given=given):
        pass
    kept = weakref.ref(given)
    del given
    room.settle()
    gc.collect()
    assert kept() is None


# The store of a room.


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_with_either_durability_a_completed_turn_is_in_the_ledger(stage: Stage, durability: Any) -> None:
    """Invariant 4"""
    with Greenroom(stage.cast.build, store=stage.url, durability=durability) as room:
        touch(room, "a")
        assert stage.ledger() == (1, 0)
    assert stage.ledger() == (1, 1)


def test_with_durability_off_the_room_only_reads(stage: Stage) -> None:
    """H1: no row, no owner, no generation. What is there is compared all the same."""
    stage.store.create_session("known", key="known")
    with Greenroom(stage.cast.build, store=stage.url, durability="off") as room:
        touch(room, "a", "known")
        stage.store.append("known", role="user", content="news")
        with room.turn("known") as turn:
            assert turn.rebuild_reason == "coherence"
        assert turn.generation == 2
        assert room.commit("known")
        with pytest.raises(UnknownSession):
            stage.row("a")
        assert stage.ledger("known") == (0, 0)
        assert stage.row("known").owner is None
        assert stage.store.rooms() == []


@pytest.mark.parametrize("store", [None, "sqlite://"])
def test_another_durability_is_refused(cast: Cast, store: str | None) -> None:
    with pytest.raises(
        ValueError, match="durability must be one of 'full', 'normal', 'off', not 'safe'"
    ):
        Greenroom(cast.build, store=store, durability="safe")  # type: ignore[arg-type]  # the point


def test_what_is_no_store_is_refused(cast: Cast) -> None:
    with pytest.raises(TypeError, match=r"session\(session_id\)"):
        Greenroom(cast.build, store=object())


def test_a_store_that_the_room_opened_is_closed_with_it(stage: Stage) -> None:
    stores: list[Any] = []

    def build(context: Any) -> Agent:
        stores.append(context.store)
        return stage.cast.build(context)

    with Greenroom(build, store=stage.url) as room:
        touch(room, "a")
        assert stores[0].session("a").generation == 1
    assert repr(stores[0].messages.__self__).endswith(" closed>")


def test_a_store_that_was_given_stays_open(stage: Stage) -> None:
    with Greenroom(stage.cast.build, store=stage.store) as room:
        touch(room, "a")
    assert stage.ledger() == (1, 1)
    stage.store.append("a", role="user", content="still open")


def test_agents_write_to_their_transcript_through_the_context(stage: Stage) -> None:
    stores: list[Any] = []

    def build(context: Any) -> Agent:
        stores.append(context.store)
        return stage.cast.build(context)

    room = stage.room(build=build)
    with room.turn("a"):
        stores[0].append("a", role="user", content="Hello")
    assert [message.content for message in stage.store.messages("a")] == ["Hello"]
    with room.turn("a") as turn:
        assert turn.reused


# Generations.


def test_a_session_that_the_store_does_not_know_gets_a_row_with_its_first_turn(stage: Stage) -> None:
    room = stage.room()
    with pytest.raises(UnknownSession):
        stage.row("20261115-a1")
    with room.turn("telegram:1", session_id="20261115-a1"):
        row = stage.row("20261115-a1")
        assert (row.key, row.generation, row.owner) == ("telegram:1", 0, owner_of(room))
        assert row.free_at is None
    row = stage.row("20261115-a1")
    assert row.generation == 1
    assert row.free_at is not None


# Whether a session stays for a moment after a turn.


class Blind(Moody):
    """A store that cannot be looked at without waiting, as on PostgreSQL."""

    can_peek = False


def held_for(row: SessionRow) -> float:
    """For how long nobody else may have it."""
    assert row.free_at is not None
    return row.free_at - row.updated


def test_a_turn_gives_its_session_back_when_it_ends(stage: Stage) -> None:
    room = stage.room(clock=ManualClock())
    touch(room, "a")
    assert held_for(stage.row()) == pytest.approx(0.0, abs=0.01)
    assert row_of(room, "a").holder is None
    with stage.room().turn("a", on_busy="reject") as turn:
        assert not turn.reused


@pytest.mark.parametrize(("lease_ttl", "term"), [(15.0, 2.0), (3.0, 1.5)])
def test_when_turns_come_quickly_a_session_stays_for_the_next(
    stage: Stage, lease_ttl: float, term: float
) -> None:
    """Two seconds, or half the life of a lease. The first two turns take it, the others need not."""
    store = stage.moody()
    room = stage.room(store, clock=ManualClock(), lease_ttl=lease_ttl)
    for _ in range(6):
        touch(room, "a")
    assert held_for(stage.row()) == pytest.approx(term, abs=0.01)
    assert row_of(room, "a").holder == owner_of(room)
    assert store.done.count("take") == 2
    assert store.done.count("complete") == 6
    assert "leave" not in store.done
    with pytest.raises(SessionBusy), stage.room().turn("a", on_busy="reject"):
        pass


def test_a_session_does_not_stay_when_the_next_turn_takes_its_time(stage: Stage) -> None:
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock)
    for _ in range(4):
        touch(room, "a")
        clock.advance(0.06)
    assert held_for(stage.row()) == pytest.approx(0.0, abs=0.01)
    assert store.done.count("take") == 4


def test_a_store_that_cannot_be_looked_at_keeps_no_session_for_a_turn_that_asks_it_anyway(
    stage: Stage,
) -> None:
    store = Blind(stage.moody()._store)
    room = stage.room(store, clock=ManualClock())
    for _ in range(4):
        touch(room, "a")
    assert held_for(stage.row()) == pytest.approx(0.0, abs=0.01)
    assert store.done.count("take") == 4


def test_a_session_that_stayed_for_nothing_is_given_back(stage: Stage) -> None:
    """M1: another room need not wait until its time is over."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock)
    for _ in range(3):
        touch(room, "a")
    clock.advance(0.02)
    touch(room, "a")
    clock.advance(0.04)  # it is time to look, and there was a turn since
    assert "leave" not in store.done
    clock.advance(0.06)
    until(lambda: "leave" in store.done, "its end")
    assert (store.done.count("take"), store.done.count("complete")) == (2, 4)
    until(lambda: row_of(room, "a").holder is None, "that the room knows")
    with stage.room().turn("a", on_busy="reject"):
        pass


@pytest.mark.parametrize("how", ["evict", "end"])
def test_a_session_whose_agent_has_gone_stays_for_nobody(stage: Stage, how: str) -> None:
    store = stage.moody()
    room = stage.room(store, clock=ManualClock())
    for _ in range(3):
        touch(room, "a")
    getattr(room, how)("a")
    until(lambda: "leave" in store.done, "its end")
    until(lambda: room.stats().cached == 0, "the end of its agent")
    with stage.room().turn("a", on_busy="reject"):
        pass


def test_a_turn_that_comes_when_the_session_was_given_back_takes_it_again(stage: Stage) -> None:
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock)
    agent = take_turn(room, "a")
    for _ in range(2):
        touch(room, "a")
    gate = store.at["leave"] = Gate()
    clock.advance(0.06)
    gate.wait_reached()
    agents: list[Agent] = []
    next_turn = in_thread(lambda: agents.append(take_turn(room, "a")))
    until(lambda: row_of(room, "a").state == "entering", "the next turn")
    gate.open()
    join_all([next_turn])
    assert agents == [agent]
    assert (stage.row().generation, stage.row().owner) == (4, owner_of(room))


@pytest.mark.parametrize("name", ["x" * 501, "a\0b"])
def test_with_a_store_names_that_it_cannot_hold_are_refused_at_once(stage: Stage, name: str) -> None:
    """G10"""
    room = stage.room()
    for key, session_id in ((name, "s"), ("a", name)):
        with pytest.raises(ValueError, match="500 characters"):
            room.turn(key, session_id=session_id)
    assert room.stats().known == 0


def test_the_generation_of_a_turn_is_the_stores(stage: Stage) -> None:
    """Across rooms: the second one goes on where the first one was."""
    with stage.room() as room:
        for expected in (1, 2, 3):
            with room.turn("a") as turn:
                assert turn.generation == expected - 1
            assert turn.generation == expected == stage.row().generation
    with stage.room() as room:
        with room.turn("a") as turn:
            assert turn.generation == 3
        assert turn.generation == 4
        assert (row_of(room, "a").generation, row_of(room, "a").committed) == (4, 3)
    assert stage.ledger() == (4, 4)
    assert stage.tokens == [("a", 3), ("a", 4)]


def test_two_session_ids_of_a_key_have_their_own_generations_and_tokens(stage: Stage) -> None:
    """G2, H3: one agent, two transcripts, each committed under its own number."""
    room = stage.room()
    turns: list[Turn] = []
    for session_id in ("s1", "s2", "s2", "s1", "s2"):
        with room.turn("a", session_id=session_id) as turn:
            pass
        turns.append(turn)
    assert [turn.generation for turn in turns] == [1, 1, 2, 2, 3]
    assert stage.cast.did("build") == ["a/1"]
    assert (stage.ledger("s1"), stage.ledger("s2")) == ((2, 0), (3, 0))

    outcome = room.commit("a")

    assert (outcome.committed, outcome.left) == (5, 0)
    assert (stage.ledger("s1"), stage.ledger("s2")) == ((2, 2), (3, 3))
    assert stage.tokens == [("s1", 1), ("s2", 2), ("s1", 2), ("s2", 3)]


def test_a_commit_is_intended_before_its_hook_and_committed_after_it(stage: Stage) -> None:
    """G2, G3"""
    room = stage.room()
    touch(room, "a", "a")
    committing = stage.cast.at["commit"] = stage.cast.gate()
    commit = in_thread(lambda: room.commit("a"))
    committing.wait_reached()
    assert (stage.row().intended, stage.row().committed) == (2, 0)

    touch(room, "a")
    assert stage.row().intended == 2
    committing.open()
    join_all([commit])

    assert (stage.row().intended, *stage.ledger()) == (0, 3, 2)
    assert room.has_uncommitted("a")
    assert room.commit("a")
    assert stage.tokens == [("a", 2), ("a", 3)]


def test_a_failed_commit_has_the_same_token_on_every_try(stage: Stage) -> None:
    """G4: also when further turns were completed meanwhile."""
    room = stage.room()
    touch(room, "a", "a")
    stage.cast.at["commit"] = OSError("not today")
    assert not room.commit("a")
    assert (stage.row().intended, stage.row().committed) == (2, 0)
    touch(room, "a")
    del stage.cast.at["commit"]

    assert room.commit("a").committed == 3
    assert stage.tokens == [("a", 2), ("a", 2), ("a", 3)]
    assert stage.ledger() == (3, 3)


@pytest.mark.parametrize("how", ["ephemeral", "cancelled", "failed"])
def test_a_turn_that_is_not_completed_records_nothing_and_frees_the_session(
    stage: Stage, how: str
) -> None:
    """T4: another room can have it as soon as it has lingered."""
    room = stage.room()
    turn = room.turn("a", ephemeral=how == "ephemeral")
    with suppress(ZeroDivisionError), turn:
        assert stage.row().free_at is None
        if how == "cancelled":
            turn.cancel()
        if how == "failed":
            raise ZeroDivisionError

    row = stage.row()
    assert (row.generation, row.owner) == (0, owner_of(room))
    assert row.free_at is not None
    assert turn.generation == 0
    other = stage.room(stage.later(3.0))
    with other.turn("a", on_busy="reject") as turn:
        assert not turn.reused


def test_a_build_that_fails_frees_the_session(stage: Stage) -> None:
    """T5: and nothing is left of it."""
    room = stage.room()
    stage.cast.at["build"] = OSError("no key")
    with pytest.raises(BuildFailed):
        touch(room, "a")
    until(lambda: stage.row().free_at is not None, "a free session")
    until(lambda: room.stats().known == 0, "the end of its actor")
    assert stage.ledger() == (0, 0)

    del stage.cast.at["build"]
    with stage.room(stage.later(3.0)).turn("a", on_busy="reject"):
        pass


def test_a_build_that_fails_leaves_uncommitted_turns_to_whoever_recovers_them(stage: Stage) -> None:
    """T5, invariant 4: they came with the session, and nobody here answers for them."""
    with stage.store.transaction() as ledger:
        epoch = ledger.take("a", key="a", owner=RIVAL).epoch
        mine: dict[str, Any] = {"owner": RIVAL, "epoch": epoch}
        ledger.complete("a", **mine, generation=3, linger=0.0)
        ledger.fail("a", **mine, problem="not now", pause=3_600.0, most=10)
    room = stage.room()
    stage.cast.at["build"] = OSError("no key")
    with pytest.raises(BuildFailed):
        touch(room, "a")
    until(lambda: room.stats().known == 0, "the end of its actor")
    assert (stage.row().owner, *stage.ledger()) == (None, 3, 0)

    del stage.cast.at["build"]
    touch(room, "a")
    assert room.commit("a")
    assert stage.tokens == [("a", 4)]


def test_a_session_id_under_two_keys_has_every_turn_counted(stage: Stage) -> None:
    """Invariant 4: a conversation that goes on in another chat, and comes back."""
    room = stage.room()
    generations: list[int] = []
    for key in ("a", "b", "a", "b", "a"):
        with room.turn(key, session_id="s") as turn:
            pass
        generations.append(turn.generation)
    assert generations == [1, 2, 3, 4, 5]
    assert stage.ledger("s") == (5, 0)
    room.close()
    assert stage.ledger("s") == (5, 5)
    assert len(set(stage.tokens)) == len(stage.tokens), "two pieces of work under one token"


def test_a_session_id_is_in_one_turn_at_a_time_whatever_its_key(stage: Stage) -> None:
    room = stage.room()
    touch_session(room, "s", "a")
    held = stage.cast.hold(room, "b", session_id="s")
    with pytest.raises(SessionBusy), room.turn("a", session_id="s", on_busy="reject"):
        pass
    held.end()


def test_a_session_that_ended_leaves_nothing_behind(stage: Stage) -> None:
    """C9: its actor stops, and its transcript may be had by anybody."""
    room = stage.room()
    for session_id in ("s1", "s2", "s3"):
        touch_session(room, session_id)
    assert room.end("a")
    until(lambda: room.stats().known == 0, "the end of its actor")

    assert room.snapshot() == ()
    assert [stage.ledger(session_id) for session_id in ("s1", "s2", "s3")] == [(1, 1)] * 3
    assert all(stage.row(session_id).free_at is not None for session_id in ("s1", "s2", "s3"))
    assert stage.cast.log[-2:] == ["shutdown a/1", "close a/1"]


def test_session_ids_that_nothing_depends_on_are_forgotten(stage: Stage) -> None:
    """C9: a key that goes from conversation to conversation does not remember them all for ever."""
    room = stage.room()
    for number in range(30):
        touch_session(room, f"s{number}")
    room.commit("a")
    room.evict("a")
    room.settle()
    session: Any = room._context.cards["a"].ref.actor_inbox.actor
    assert session._state.ledger.accounts.by_id == {}
    with room.turn("a", session_id="s7") as turn:
        assert not turn.reused
    assert turn.generation == 2


def touch_session(room: Greenroom, session_id: str, key: str = "a") -> None:
    with room.turn(key, session_id=session_id):
        pass


# The store is away.


def test_a_turn_that_could_not_be_recorded_counts_and_is_recorded_with_the_next(stage: Stage) -> None:
    """Invariant 4"""
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)
    touch(room, "a")
    heard: list[Any] = []
    room.events(heard.append)

    store.trouble = trouble = Away("no route")
    with pytest.raises(NotRecorded, match="no route") as raised, room.turn("a") as turn:
        assert turn.reused
    assert raised.value.key == "a"
    assert raised.value.__cause__ is trouble
    assert stage.ledger() == (1, 0)
    assert room.stats().unrecorded == 1
    assert row_of(room, "a").generation == 2
    assert room.has_uncommitted("a")
    until(lambda: {e.what for e in heard if isinstance(e, StoreFailure)} == {"begin", "record"}, "both")
    assert room.stats().store_failures == 2

    store.trouble = None
    with room.turn("a") as turn:
        assert turn.reused
    assert turn.generation == 3
    assert stage.ledger() == (3, 0)
    assert room.stats().unrecorded == 0
    assert room.commit("a")
    assert stage.tokens == [("a", 3)]


def test_several_turns_may_go_unrecorded_and_none_is_forgotten(stage: Stage) -> None:
    """Invariant 4"""
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)
    touch(room, "a")
    store.trouble = Away("no route")
    for _ in range(3):
        with pytest.raises(NotRecorded):
            touch(room, "a")
    assert room.stats().unrecorded == 1
    store.trouble = None

    assert room.commit("a")
    assert stage.ledger() == (4, 4)
    assert stage.tokens == [("a", 4)]


def test_what_could_not_be_recorded_is_recorded_in_the_background(stage: Stage) -> None:
    """Invariant 4: with growing pauses."""
    store, clock = stage.moody(), ManualClock()
    # No timeout, for the clock runs on while the store writes: it would take too long for ever.
    policy: dict[str, Any] = {"lease_ttl": 100_000.0, "store_timeout": None}
    room = stage.room(store, clock=clock, retry_first=10.0, retry_most=1_000.0, **policy)
    touch(room, "a")
    store.trouble = Away("no route")
    with pytest.raises(NotRecorded):
        touch(room, "a")
    for tries in (2, 3):
        advance_until(clock, lambda tries=tries: tries_of(room) >= tries, "another try")  # type: ignore[misc]
    store.trouble = None

    advance_until(clock, lambda: stage.ledger() == (2, 0), "the record")
    until(lambda: room.stats().unrecorded == 0, "the end of it")
    assert stage.row().free_at is not None


def tries_of(room: Greenroom) -> int:
    session: Any = room._context.cards["a"].ref.actor_inbox.actor
    return int(session._state.ledger.accounts.by_id["a"].tries)


def test_a_turn_that_is_not_completed_while_the_store_is_away_is_no_error(stage: Stage) -> None:
    """T4"""
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)
    touch(room, "a")
    store.trouble = Away("no route")
    look_at(room, "a")
    with pytest.raises(ZeroDivisionError), room.turn("a"):
        raise ZeroDivisionError
    assert stage.cast.did("build") == ["a/1"]
    assert stage.ledger() == (1, 0)


def test_an_unknown_session_begins_no_turn_while_the_store_is_away(stage: Stage) -> None:
    """What this room knows nothing of could be another's."""
    store = stage.moody()
    room = stage.room(store, retry_first=0.01, retry_most=0.01)
    touch(room, "known")
    store.trouble = trouble = Away("no route")

    with pytest.raises(StoreAway, match="'unknown'") as raised:
        touch(room, "unknown")
    assert raised.value.key == "unknown"
    assert raised.value.__cause__ is trouble
    with pytest.raises(StoreAway):
        touch_session(room, "another", "known")
    with pytest.raises(NotRecorded), room.turn("known") as turn:
        assert turn.reused
    assert stage.cast.did("build") == ["known/1"]

    store.trouble = None
    until(lambda: room.stats().known == 1, "the end of the unknown one's actor")
    touch(room, "unknown")
    assert stage.ledger("unknown") == (1, 0)


def test_a_session_that_the_store_gave_without_telling_is_given_back(stage: Stage) -> None:
    """Nobody here knows that the room has it, so nobody would ever let it go."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, retry_first=10.0, lease_ttl=100_000.0, store_timeout=None)
    until(lambda: "orphans" in store.done, "an open room")
    store.deaf = True
    with pytest.raises(StoreAway):
        touch(room, "a")
    until(lambda: "disclaim" in store.done, "the first try to give it back")
    store.deaf = False
    advance_until(clock, lambda: room.stats().known == 0, "the end of its actor")
    assert stage.row().owner is None
    with stage.room().turn("a", on_busy="reject"):
        pass


def test_a_turn_that_begins_while_the_session_is_being_given_back_keeps_it(stage: Stage) -> None:
    """What was asked for the turn before must not take this one's session away."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, retry_first=10.0, lease_ttl=1_000.0, store_timeout=None)
    until(lambda: "orphans" in store.done, "an open room")
    store.trouble = Away("no route")
    with pytest.raises(StoreAway):
        touch(room, "a")
    session: Any = room._context.cards["a"].ref.actor_inbox.actor
    accounts = session._state.ledger.accounts
    until(lambda: accounts.get("a", IN_DOUBT).tries == 1, "a try to give it back, in vain")
    store.trouble = None
    taking = store.at["take"] = stage.cast.gate()
    held = stage.cast.start(room, "a")
    taking.wait_reached()
    clock.advance(13.0)  # it is time to try again
    taking.open()
    held.wait_begun()
    touch(room, "b")  # whatever was to be written before this is

    assert stage.row().owner == owner_of(room)
    held.end()
    assert stage.ledger() == (1, 0)


def test_a_commit_while_the_store_is_away_fails_before_its_hook(stage: Stage) -> None:
    """G4: what is begun has its number in the ledger first."""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    store.trouble = Away("no route")
    outcome = room.commit("a")
    assert not outcome
    assert (outcome.left, stage.tokens) == (1, [])
    store.trouble = None
    assert room.commit("a")
    assert stage.tokens == [("a", 1)]


def test_a_commit_that_the_ledger_did_not_hear_of_is_made_again_under_the_same_token(
    stage: Stage,
) -> None:
    """G4: at least once, and always under the same number."""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    store.refuses.add("commit")
    assert not room.commit("a")
    assert stage.tokens == [("a", 1)]
    store.refuses.clear()
    touch(room, "a")
    assert room.commit("a").committed == 2
    assert stage.tokens == [("a", 1), ("a", 1), ("a", 2)]
    assert stage.ledger() == (2, 2)


# Another room.


def test_while_another_room_is_in_a_turn_a_turn_is_refused_or_waits(stage: Stage) -> None:
    """T3: across rooms."""
    room, other = stage.room(), stage.room()
    held = stage.cast.hold(room, "a")

    with (
        pytest.raises(SessionBusy, match="another room") as raised,
        other.turn("a", on_busy="reject"),
    ):
        pass
    assert owner_of(room) in str(raised.value)
    with pytest.raises(TurnTimeout), other.turn("a", timeout=0.05):
        pass
    until(lambda: other.stats().known == 0, "the end of the other actor")
    assert stage.row().owner == owner_of(room)
    held.end()
    assert stage.ledger() == (1, 0)


def test_an_idle_session_is_taken_over_with_what_is_uncommitted(stage: Stage) -> None:
    """G5: its new owner commits that. The old agent is let go without a commit, at its next turn."""
    clock = ManualClock()
    room = stage.room(clock=clock, lease_ttl=1_000.0)
    touch(room, "a", "a")
    clock.advance(3.0)  # on both clocks: the room's, and the database's
    other = stage.room(stage.later(3.0))
    with other.turn("a") as turn:
        assert turn.agent.name == "a/2"
    assert turn.generation == 3
    assert other.commit("a")
    assert stage.tokens == [("a", 3)]
    assert stage.ledger() == (3, 3)
    other.close()
    heard: list[Any] = []
    room.events(heard.append)

    with room.turn("a") as turn:
        assert (turn.reused, turn.rebuild_reason) == (False, "coherence")
    room.settle()

    assert turn.generation == 4
    assert stage.cast.done_to("a/1") == ["build", "release"]
    until(lambda: any(isinstance(event, OwnershipLost) for event in heard), "the event")
    [lost] = [event for event in heard if isinstance(event, OwnershipLost)]
    assert (lost.key, lost.session_id, lost.turns) == ("a", "a", 2)
    assert room.stats().ownership_lost == 1


def test_a_commit_of_what_another_room_has_taken_over_is_not_made(stage: Stage) -> None:
    """G5"""
    room = stage.room()
    touch(room, "a")
    stage.overtake()
    outcome = room.commit("a")
    room.settle()

    assert not outcome
    assert stage.tokens == []
    assert not room.has_uncommitted("a")
    row = stage.row()
    assert (row.owner, row.generation, row.committed, row.intended) == (RIVAL, 1, 0, 0)
    assert room.stats().ownership_lost == 1
    assert room.stats().commit_failures == 0


def test_a_turn_that_was_overtaken_is_not_counted_and_its_agent_let_go_without_a_commit(
    stage: Stage,
) -> None:
    """Invariant 4: what the other room does is untouched."""
    room = stage.room()
    touch(room, "a")
    room.commit("a")  # so that nothing of it is to be recovered
    held = stage.cast.hold(room, "a")
    other = stage.room(stage.later(1_000.0))
    with other.turn("a") as turn:
        assert turn.agent.name == "a/2"
    assert turn.generation == 2

    with pytest.raises(LostOwnership, match="another room has taken 'a' over") as raised:
        held.end()
    room.settle()

    assert raised.value.key == "a"
    assert stage.cast.done_to("a/1") == ["build", "commit", "release"]
    assert stage.tokens == [("a", 1)]
    assert room.stats().reasons[Reason.COHERENCE.value] == 1
    assert (room.stats().ownership_lost, room.stats().dirty) == (1, 0)
    row = stage.row()
    assert (row.owner, row.generation, row.committed) == (owner_of(other), 2, 1)
    with other.turn("a") as turn:
        assert turn.reused
    assert stage.ledger() == (3, 1)
    assert "a" not in room


@pytest.mark.parametrize("how", ["ephemeral", "failed"])
def test_a_turn_that_was_overtaken_and_not_completed_is_no_error(stage: Stage, how: str) -> None:
    """T4"""
    room = stage.room()
    with suppress(ZeroDivisionError), room.turn("a", ephemeral=how == "ephemeral"):
        stage.overtake()
        if how == "failed":
            raise ZeroDivisionError
    room.settle()
    assert stage.cast.done_to("a/1") == ["build", "release"]
    assert stage.row().owner == RIVAL


def test_what_an_overtaken_agent_writes_is_refused_inside_of_the_turn(stage: Stage) -> None:
    stores: list[Any] = []

    def build(context: Any) -> Agent:
        stores.append(context.store)
        return stage.cast.build(context)

    room = stage.room(build=build)

    def write() -> None:
        stage.overtake()
        stores[0].append("a", role="user", content="late")

    with pytest.raises(LostOwnership), room.turn("a"):
        write()
    assert stage.store.messages("a") == []


def test_an_unrecorded_turn_that_was_overtaken_is_lost_and_said_to_be(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The epoch decides afterwards whose turns count."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, retry_first=10.0, lease_ttl=100_000.0, store_timeout=None)
    touch(room, "a")
    store.trouble = Away("no route")
    with pytest.raises(NotRecorded):
        touch(room, "a")
    with stage.later(1e6).transaction() as ledger:
        assert ledger.take("a", key="a", owner=RIVAL).held
    store.trouble = None
    with caplog.at_level(logging.WARNING, "greenroom"):
        advance_until(clock, lambda: room.stats().ownership_lost == 1, "the loss")
        row_of(room, "a")  # behind that: all that is to be said of it has been said

    assert any("Not all that was completed here" in text for text in caplog.messages)
    assert room.stats().unrecorded == 0
    assert not room.has_uncommitted("a")
    assert (stage.row().owner, *stage.ledger()) == (RIVAL, 1, 0)
    room.evict("a")
    room.settle()
    assert stage.cast.done_to("a/1") == ["build", "release"]


def test_on_an_event_loop_the_same_is_raised(stage: Stage) -> None:
    stage.cast.kind = AsyncAgent
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)

    async def turn(during: Callable[[], object] = lambda: None, key: str = "a") -> Turn:
        async with room.turn(key) as turn:
            during()
        return turn

    def go_away() -> None:
        store.trouble = Away("no route")

    async def main() -> None:
        assert (await turn()).generation == 1
        with pytest.raises(NotRecorded):
            await turn(go_away)
        with pytest.raises(StoreAway):
            await turn(key="unknown")
        store.trouble = None
        assert (await turn()).generation == 3
        with pytest.raises(LostOwnership):
            await turn(stage.overtake)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    room.settle()
    assert (stage.row().owner, *stage.ledger()) == (RIVAL, 3, 0)
    assert stage.cast.done_to("a/1") == ["build", "release"]
    assert room.stats().unrecorded == 0


# While the store is asked, or told.


def entering(stage: Stage, room: Greenroom, store: Moody, **kwargs: Any) -> tuple[Gate, Any]:
    """A turn of `a` that the store is being asked for. The other session id is never known before."""
    gate = store.at["take"] = stage.cast.gate()
    held = stage.cast.start(room, "a", session_id="s2", **kwargs)
    gate.wait_reached()
    until(lambda: row_of(room, "a").state == "entering", "a turn that enters")
    return gate, held


def recording(stage: Stage, room: Greenroom, store: Moody) -> tuple[Gate, Any]:
    """A turn of `a` that the store is being told of."""
    held = stage.cast.hold(room, "a")
    gate = store.at["complete"] = stage.cast.gate()
    held.let_go()
    gate.wait_reached()
    return gate, held


def test_a_turn_is_in_the_ledger_before_its_block_is_left(stage: Stage) -> None:
    """Invariant 4"""
    store = stage.moody()
    room = stage.room(store)
    gate, held = recording(stage, room, store)
    assert row_of(room, "a").state == "in turn"
    assert (stage.ledger(), room.stats().in_turn) == ((0, 0), 1)
    assert not room.has_uncommitted("a")
    gate.open()
    held.end()
    assert stage.ledger() == (1, 0)
    assert room.has_uncommitted("a")


@pytest.mark.parametrize("moment", [entering, recording])
def test_no_agent_is_adopted_while_the_store_is_asked_or_told(
    stage: Stage, moment: Callable[..., Any]
) -> None:
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    gate, held = moment(stage, room, store)
    with pytest.raises(SessionBusy):
        room.adopt("a", Agent(stage.cast, "a", "a/adopted"))
    gate.open()
    held.end()
    assert stage.cast.did("build") == ["a/1"]


@pytest.mark.parametrize("moment", [entering, recording])
def test_an_eviction_while_the_store_is_asked_or_told_takes_effect_when_the_turn_is_over(
    stage: Stage, moment: Callable[..., Any]
) -> None:
    """T7"""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    gate, held = moment(stage, room, store)
    assert room.evict("a")
    assert stage.cast.log == ["build a/1"]
    gate.open()
    held.end()
    room.settle()

    assert held.turn.generation == (1 if moment is entering else 2)
    assert stage.cast.done_to("a/1")[-1] == "release"
    assert "a" not in room
    assert not room.has_uncommitted("a")
    assert stage.ledger("a")[0] == stage.ledger("a")[1]


@pytest.mark.parametrize("moment", [entering, recording])
def test_an_end_while_the_store_is_asked_or_told_takes_effect_when_the_turn_is_over(
    stage: Stage, moment: Callable[..., Any]
) -> None:
    """T7"""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    gate, held = moment(stage, room, store)
    assert room.end("a")
    assert stage.cast.log == ["build a/1"]
    gate.open()
    held.end()
    until(lambda: room.stats().known == 0, "the end of its actor")

    assert stage.cast.log[-2:] == ["shutdown a/1", "close a/1"]
    assert stage.ledger("a")[0] == stage.ledger("a")[1]


@pytest.mark.parametrize("moment", [entering, recording])
def test_a_commit_while_the_store_is_asked_or_told_waits_for_the_turn(
    stage: Stage, moment: Callable[..., Any]
) -> None:
    """G8: and covers what is completed by then of its session id."""
    store = stage.moody()
    room = stage.room(store)
    touch(room, "a")
    gate, held = moment(stage, room, store)
    assert not room.commit("a", timeout=0.0)
    outcomes: list[Any] = []
    commit = in_thread(lambda: outcomes.append(room.commit("a")))
    assert stage.tokens == []
    gate.open()
    held.end()
    join_all([commit])

    assert outcomes[0]
    room.commit("a")
    assert not room.has_uncommitted("a")
    assert stage.ledger("a") == ((1, 1) if moment is entering else (2, 2))
    assert stage.tokens[0][0] == "a"


@pytest.mark.parametrize("moment", [entering, recording])
def test_the_cap_takes_nobody_away_whom_the_store_is_asked_or_told_about(
    stage: Stage, moment: Callable[..., Any]
) -> None:
    """C4"""
    store = stage.moody()
    room = stage.room(store, cap=1)
    touch(room, "a")
    gate, held = moment(stage, room, store)
    other = Agent(stage.cast, "b", "b/adopted")
    room.adopt("b", other)
    assert room.sweep() == 0
    assert "release a/1" not in stage.cast.log
    assert room.keys() in {("a", "b"), ("b", "a")}
    gate.open()
    held.end()


def test_who_comes_while_the_store_is_asked_waits_or_is_refused(stage: Stage) -> None:
    """T3"""
    store = stage.moody()
    room = stage.room(store, max_waiting=1)
    gate, first = entering(stage, room, store)
    with pytest.raises(SessionBusy), room.turn("a", on_busy="reject"):
        pass
    second = stage.cast.queue(room, "a", session_id="s2")
    gate.open()
    first.wait_begun()
    assert not second.begun
    first.end()
    second.end()
    assert [first.turn.generation, second.turn.generation] == [1, 2]


def test_a_turn_that_waits_in_vain_for_the_store_times_out_and_lets_the_session_go(
    stage: Stage,
) -> None:
    """T3: the answer comes late, and brings a hold that nobody wants."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock)
    gate, held = entering(stage, room, store, timeout=5.0)
    clock.advance(5.1)
    assert isinstance(held.outcome(), TurnTimeout)
    gate.open()

    until(lambda: room.stats().known == 0, "the end of its actor")
    assert stage.row("s2").free_at is not None
    assert stage.cast.did("build") == []


def test_a_turn_that_is_cancelled_while_the_store_is_asked_lets_the_session_go(stage: Stage) -> None:
    """T3"""
    store = stage.moody()
    room = stage.room(store)
    gate = store.at["take"] = stage.cast.gate()

    async def main() -> None:
        async def turn() -> None:
            async with room.turn("a"):
                pytest.fail("nobody wanted it any more")

        task = asyncio.ensure_future(turn())
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_reached)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    gate.open()
    until(lambda: room.stats().known == 0, "the end of its actor")
    assert stage.row().free_at is not None
    assert stage.cast.did("build") == []


def test_a_turn_that_is_cancelled_while_the_store_is_told_counts_all_the_same(stage: Stage) -> None:
    """Invariant 4: it was completed when its block was left."""
    stage.cast.kind = AsyncAgent
    store = stage.moody()
    room = stage.room(store)
    gate = store.at["complete"] = stage.cast.gate()

    async def main() -> None:
        async def turn() -> None:
            async with room.turn("a"):
                pass

        task = asyncio.ensure_future(turn())
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_reached)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    gate.open()
    until(lambda: room.has_uncommitted("a"), "the end of the turn")
    assert stage.ledger() == (1, 0)
    with room.turn("a") as turn:
        assert turn.reused
    assert turn.generation == 2


# Drain.


def drain_in_thread(room: Greenroom, deadline: float = 30.0) -> Callable[[], DrainReport]:
    reports: list[DrainReport] = []
    thread = in_thread(lambda: reports.append(room.drain(deadline)))
    until(lambda: room.stats().draining, "a drain")

    def report() -> DrainReport:
        join_all([thread])
        return reports[0]

    return report


def test_a_drain_commits_and_hands_everything_over(stage: Stage) -> None:
    """D1: another room may have it at once, and nothing waits for a lease to end."""
    room = stage.room()
    touch(room, "a", "b")
    look_at(room, "c")
    assert [row.room for row in stage.store.rooms()] == [owner_of(room)]

    report = room.drain()

    assert report
    assert report.committed == ("a", "b")
    assert [stage.row(key).owner for key in "abc"] == [None] * 3
    assert (stage.ledger("a"), stage.ledger("b"), stage.ledger("c")) == ((1, 1), (1, 1), (0, 0))
    assert stage.store.rooms() == []
    other = stage.room()
    with other.turn("a", on_busy="reject") as turn:
        pass
    assert turn.generation == 2


def test_what_a_drain_could_not_commit_is_in_the_ledger_for_the_next_room(stage: Stage) -> None:
    """D3"""
    room = stage.room()
    touch(room, "a", "a")
    stage.cast.at["commit"] = OSError("not today")
    report = room.close()
    assert report.failed == ("a",)
    assert (stage.row().owner, *stage.ledger(), stage.row().intended) == (None, 2, 0, 2)

    del stage.cast.at["commit"]
    other = stage.room()
    until(lambda: stage.ledger() == (2, 2), "the recovery")
    until(lambda: other.stats().recovered == 1, "the recovery")
    assert set(stage.tokens) == {("a", 2)}


def test_a_drain_lets_a_turn_be_recorded(stage: Stage) -> None:
    """D1"""
    store = stage.moody()
    room = stage.room(store)
    gate, held = recording(stage, room, store)
    report = drain_in_thread(room)
    gate.open()
    held.end()
    assert report().committed == ("a",)
    assert stage.ledger() == (1, 1)
    assert stage.row().owner is None


def test_a_drain_while_the_store_is_asked_refuses_the_turn(stage: Stage) -> None:
    """D1"""
    store = stage.moody()
    room = stage.room(store)
    gate, held = entering(stage, room, store)
    report = drain_in_thread(room)
    assert isinstance(held.outcome(), RoomClosed)
    gate.open()
    assert report()
    assert stage.cast.did("build") == []
    assert stage.row("s2").owner is None


def test_a_drain_does_not_wait_for_a_store_that_hangs(stage: Stage) -> None:
    """D2, D3: whoever ran the turn is told that it was not recorded."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, store_timeout=None)
    touch(room, "a", "b")
    gate, held = recording(stage, room, store)
    report = drain_in_thread(room, 30.0)
    clock.advance(30.95)

    found = report()
    assert found.seconds < 31.0
    assert isinstance(held.outcome(), NotRecorded)
    assert found.committed == ()
    assert set(found.abandoned) | set(found.failed) == {"a", "b"}
    assert set(found.problems) == {"a", "b"}
    until(lambda: sorted(stage.cast.did("close")) == ["a/1", "b/1"], "the end of both agents")
    gate.open()


def test_a_turn_that_was_being_recorded_when_the_drain_had_its_time_is_in_the_ledger(
    stage: Stage,
) -> None:
    """D3: the store was slow, not away. What it was asked before the end it does."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, store_timeout=None)
    touch(room, "a")
    held = stage.cast.hold(room, "a")
    slow = store.at["take"] = stage.cast.gate()
    stage.cast.start(room, "other")
    slow.wait_reached()
    held.let_go()
    session: Any = room._context.cards["a"].ref.actor_inbox.actor
    until(lambda: session._state.machine.place is Place.RECORDING, "the end of the turn")
    row_of(room, "a")  # behind that: the store writer has been asked
    report = drain_in_thread(room, 30.0)
    clock.advance(30.95)
    report()
    assert isinstance(held.outcome(), NotRecorded)
    slow.open()

    until(lambda: stage.row().owner is None, "the handing over")
    assert stage.ledger() == (2, 0)


def test_a_drain_while_the_store_is_away_reports_what_it_could_not_do(stage: Stage) -> None:
    """D2, D3"""
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)
    touch(room, "a")
    store.trouble = Away("no route")
    with pytest.raises(NotRecorded):
        touch(room, "a")
    report = room.drain()
    assert report.failed == ("a",)
    assert "no route" in report.problems["a"]
    assert stage.cast.log == ["build a/1", "shutdown a/1", "close a/1"]
    store.trouble = None
    assert stage.ledger() == (1, 0)


# What is told.


def test_explain_says_what_the_ledger_has_and_who_holds_it(stage: Stage) -> None:
    room = stage.room(clock=ManualClock(), store_timeout=None)  # it lets go of nothing meanwhile
    touch(room, "a", "a")
    why = room.explain("a").why
    assert "In the store, 'a' is owned by this room, and 2 of its 2 turns are uncommitted." in why
    room.commit("a")
    why = room.explain("a").why
    assert "In the store, 'a' is owned by this room, and none of its turns is uncommitted." in why
    assert row_of(room, "a").holder == owner_of(room)


def test_explain_knows_of_keys_that_only_the_store_knows(stage: Stage) -> None:
    other = stage.room()
    stage.cast.at["commit"] = OSError("not today")
    touch(other, "a")
    held = stage.cast.hold(other, "b")
    room = stage.room()
    found = room.explain("a")
    assert not found.known
    assert f"In the store, 'a' is owned by {owner_of(other)}, and 1 of its 1 turns are uncommitted." in (
        found.why
    )
    with pytest.raises(SessionBusy), room.turn("b", on_busy="reject"):
        pass
    assert any(owner_of(other) in sentence for sentence in room.explain("b").why)
    held.end()
    assert room.explain("never").why == (
        "There is no such session. Its next turn begins one, and builds an agent.",
    )


@pytest.mark.parametrize("timeout", [None, 1000.0])
def test_a_turn_that_waits_for_another_room_for_long_is_named_in_the_log(
    stage: Stage, timeout: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    """K3"""
    clock = ManualClock()
    # The store works in real time, of which the clock knows nothing.
    other, room = stage.room(), stage.room(clock=clock, store_timeout=None)
    held = stage.cast.hold(other, "a")
    waiting = stage.cast.start(room, "a", timeout=timeout)
    waited = f" s, for a turn in another room, {owner_of(other)}"
    advance_until(clock, lambda: waited in caplog.text, "a line in the log")
    held.end()
    other.close()
    advance_until(clock, lambda: waiting.begun, "the turn")
    waiting.end()
    assert caplog.text.count(waited) == 1


def test_explain_names_the_room_that_a_waiting_turn_waits_for(stage: Stage) -> None:
    other = stage.room()
    held = stage.cast.hold(other, "a")
    room = stage.room()
    waiting = stage.cast.start(room, "a")
    sentence = f"{owner_of(other)}, another room, was last seen in a turn of it."
    until(lambda: sentence in room.explain("a").why, "the answer of the store")
    why = room.explain("a").why
    assert "Its next turn is about to begin: the store is being asked whether it may." in why
    assert row_of(room, "a").holder == owner_of(other)
    other.close(deadline=0.0)
    held.end()
    waiting.wait_begun()
    assert row_of(room, "a").holder == owner_of(room)
    waiting.end()


def test_explain_tells_of_dead_letters(stage: Stage) -> None:
    """G9"""
    with stage.store.transaction() as ledger:
        epoch = ledger.take("a", key="a", owner=RIVAL).epoch
        mine: dict[str, Any] = {"owner": RIVAL, "epoch": epoch}
        ledger.complete("a", **mine, generation=3, linger=0.0)
        ledger.fail("a", **mine, problem="the provider is away", pause=1.0, most=1)
    room = stage.room()
    assert room.explain("a").why[-1] == (
        "In the store, 'a' is owned by nobody, and 3 of its 3 turns are uncommitted; recovering it was "
        "given up: the provider is away."
    )
    assert room.stats().recovered == 0
    # A turn takes it up again, and its agent answers for it.
    touch(room, "a")
    assert room.commit("a")
    assert stage.ledger() == (4, 4)
    assert not stage.row().dead


def test_stats_count_what_the_store_is_about(stage: Stage) -> None:
    store = stage.moody()
    room = stage.room(store, retry_first=3_600.0, retry_most=3_600.0)
    touch(room, "a", "b")
    stats = room.stats()
    names = ("store_failures", "ownership_lost", "recovered", "recovery_failures", "unrecorded")
    assert [getattr(stats, name) for name in names] == [0] * 5
    store.refuses.add("complete")
    for key in ("a", "b"):
        with pytest.raises(NotRecorded):
            touch(room, key)
    store.refuses.clear()
    stats = room.stats()
    assert (stats.store_failures, stats.unrecorded, stats.dirty) == (2, 2, 2)
    touch(room, "a")
    assert room.stats().unrecorded == 1
    stage.overtake("b")
    assert not room.commit("b")
    stats = room.stats()
    assert (stats.unrecorded, stats.ownership_lost, stats.dirty) == (0, 1, 1)


def test_the_agent_of_a_turn_is_the_same_with_a_store(stage: Stage) -> None:
    """T1, T2"""
    room = stage.room()
    agent = take_turn(room, "a")
    assert take_turn(room, "a") is agent
    room.evict("a")
    room.settle()
    assert stage.tokens == [("a", 2)]
    assert take_turn(room, "a") is not agent
    assert stage.ledger() == (3, 2)


def test_turns_that_end_in_one_round_of_an_event_loop_are_recorded_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is woken once, and not for each."""
    recorded: list[list[str]] = []
    record = Store.record

    def note(store: Store, turns: Any, **more: Any) -> dict[str, int]:
        recorded.append(sorted(session_id for session_id, *_ in turns))
        return record(store, turns, **more)

    monkeypatch.setattr(Store, "record", note)
    room = stage.room()
    keys = ["a", "b", "c"]
    touch(room, *keys)
    recorded.clear()

    async def turns() -> None:
        everybody, now = asyncio.Barrier(len(keys) + 1), asyncio.Event()

        async def turn(key: str) -> None:
            async with room.turn(key):
                await everybody.wait()
                await now.wait()

        tasks = [asyncio.create_task(turn(key)) for key in keys]
        await everybody.wait()
        await asyncio.sleep(0)  # those who waited there wait for the other now
        until(lambda: not room._context.writer._pen._baton, "the end of all writing")
        now.set()
        await asyncio.gather(*tasks)

    asyncio.run(turns())
    assert recorded == [keys]
