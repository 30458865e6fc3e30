"""One plain test for each bug that was found in how a room uses its store: what is recorded of a turn,
and who hears what of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, LostOwnership, NotRecorded, StoreAway, TurnTimeout
from greenroom.actors import ManualClock
from greenroom.actors.ledger import _bound_store
from greenroom.actors.ledger.coherence import MOST_REMEMBERED
from tests.actors.actors import in_thread, join_all
from tests.crash.databases import sqlite_url
from tests.room.agents import OTHER, SPEC, Cast, row_of, touch, until
from tests.room.test_ledger import (
    RIVAL,
    Away,
    Moody,
    Stage,
    drain_in_thread,
    owner_of,
    touch_session,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from greenroom import CommitOutcome, Turn

NEVER: dict[str, Any] = {"retry_first": 100_000.0, "retry_most": 100_000.0}
"""The store is not told again, unless something else comes."""


class Blind(Moody):
    """A store that cannot be looked at without waiting, as PostgreSQL's."""

    can_peek = False


@pytest.fixture
def stage(cast: Cast, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(cast, sqlite_url(tmp_path / "greenroom.db"))
    yield stage
    cast.finish()
    stage.close()


def ledger_of(room: Greenroom, key: str = "a") -> Any:
    session: Any = room._context.cards[key].ref.actor_inbox.actor
    return session._state.ledger


def everything_written(room: Greenroom) -> int:
    """Wait until what was asked of the store before is done. How many turns this took, behind it."""
    touch(room, "another")
    return 1


# Turns that could not be recorded.


def test_a_turn_that_is_cancelled_records_the_one_before_that_could_not_be(stage: Stage) -> None:
    """Invariant 4"""
    store = stage.moody()
    room = stage.room(store, **NEVER)
    touch(room, "a")
    store.refuses.add("complete")
    with pytest.raises(NotRecorded):
        touch(room, "a")
    store.refuses.clear()
    with room.turn("a") as turn:
        turn.cancel()

    assert stage.ledger() == (2, 0)
    assert room.stats().unrecorded == 0


def test_a_turn_that_timed_out_at_the_time_of_a_retry_does_not_take_its_place(stage: Stage) -> None:
    """Invariant 4: what could not be recorded is, although nobody asks for another turn."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(
        store, clock=clock, lease_ttl=100_000.0, retry_first=10.0, retry_most=10.0, store_timeout=None
    )
    touch(room, "a")
    store.refuses.add("complete")
    with pytest.raises(NotRecorded):
        touch(room, "a")
    store.refuses.clear()
    taking = store.at["take"] = stage.cast.gate()
    waiting = stage.cast.start(room, "a", timeout=20.0)
    taking.wait_reached()
    clock.advance(13.0)  # it is time to tell the store again, and the session is wanted
    until(lambda: ledger_of(room).timer is None, "the retry")
    clock.advance(7.1)
    assert isinstance(waiting.outcome(), TurnTimeout)
    taking.open()

    until(lambda: stage.ledger() == (2, 0), "the record")
    until(lambda: room.stats().unrecorded == 0, "the end of it")
    assert stage.row().free_at is not None


def test_many_turns_that_could_not_be_recorded_are_recorded_at_once(stage: Stage) -> None:
    """There is one retry for all of them, and not one for each."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(
        store, clock=clock, lease_ttl=100_000.0, retry_first=10.0, retry_most=10.0, store_timeout=None
    )
    touch(room, "a")
    store.refuses.add("complete")
    for _ in range(5):
        with pytest.raises(NotRecorded):
            touch(room, "a")
    store.refuses.clear()
    store.done.clear()
    clock.advance(12.6)
    until(lambda: room.stats().unrecorded == 0, "the record")
    written_last = everything_written(room)

    assert stage.ledger() == (6, 0)
    assert store.done.count("complete") - written_last == 1


@pytest.mark.parametrize("how", ["ephemeral", "failed"])
def test_a_drain_that_does_not_wait_for_the_store_keeps_what_a_turn_raised(
    stage: Stage, how: str
) -> None:
    """T4, D2: a turn that was not completed has nothing that could go unrecorded."""

    def fail(_: Turn) -> None:
        if how == "failed":
            raise ZeroDivisionError

    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, store_timeout=None)
    touch(room, "a")
    leaving = store.at["leave"] = stage.cast.gate()
    held = stage.cast.start(room, "a", ephemeral=how == "ephemeral", during=fail)
    leaving.wait_reached()
    report = drain_in_thread(room, 30.0)
    clock.advance(30.95)
    report()

    error = held.outcome()
    assert isinstance(error, ZeroDivisionError) if how == "failed" else error is None
    leaving.open()


def test_a_file_that_was_deleted_records_nothing_and_says_so(stage: Stage, tmp_path: Path) -> None:
    """It could be written to as before, and nobody would ever read that."""
    if os.name == "nt":
        pytest.skip("a file that is open cannot be deleted here")
    room = stage.room(**NEVER)
    touch(room, "a")
    for file in tmp_path.glob("greenroom.db*"):
        file.unlink()

    with pytest.raises(NotRecorded, match="was deleted or replaced"):
        touch(room, "a")
    assert room.stats().unrecorded == 1
    with pytest.raises(StoreAway, match="was deleted or replaced"):
        touch(room, "unknown")


# Turns that were overtaken.


def test_whoever_waits_behind_a_turn_that_was_overtaken_waits_for_the_other_room(stage: Stage) -> None:
    """Invariant 4: the session is the other's, and so is the next turn."""
    room = stage.room()
    held = stage.cast.hold(room, "a")
    second = stage.cast.queue(room, "a")
    stage.overtake()
    with stage.store.transaction() as ledger:
        ledger.beat(RIVAL, ttl=1_000.0)
    with pytest.raises(LostOwnership):
        held.end()
    until(lambda: second.begun or row_of(room, "a").holder == RIVAL, "the answer of the store")
    assert not second.begun

    with stage.store.transaction() as ledger:
        ledger.retire(RIVAL)
    second.wait_begun()
    assert stage.row().owner == owner_of(room)
    second.end()
    assert stage.ledger() == (1, 0)


def test_a_turn_behind_one_that_was_overtaken_keeps_the_session_that_it_is_given(stage: Stage) -> None:
    """What the lost one lets go of must not be the next one's."""
    store = Blind(stage.later(0.0))
    room = stage.room(store)
    held = stage.cast.hold(room, "a")
    second = stage.cast.queue(room, "a")
    stage.overtake()
    with stage.store.transaction() as ledger:
        ledger.retire(RIVAL)  # the other room has come and gone
    with pytest.raises(LostOwnership):
        held.end()
    second.wait_begun()
    everything_written(room)

    assert stage.row().owner == owner_of(room)
    second.end()
    assert stage.ledger() == (1, 0)


def test_a_turn_that_a_commit_found_overtaken_is_lost_although_the_store_is_away(stage: Stage) -> None:
    """Its block must not be left as if it had been counted."""
    store = stage.moody()
    room = stage.room(store, **NEVER)
    with room.turn("a", SPEC):
        pass
    committing = stage.cast.at["commit"] = stage.cast.gate()
    held = stage.cast.hold(room, "a", OTHER)  # the first agent leaves, and commits beside the turn
    committing.wait_reached()
    stage.overtake()
    committing.open()
    until(lambda: room.stats().ownership_lost == 1, "the loss")
    store.trouble = Away("no route")

    with pytest.raises(LostOwnership):
        held.end()
    assert stage.tokens == [("a", 1)]
    assert not room.has_uncommitted("a")


def test_a_commit_that_waits_for_a_turn_that_is_overtaken_has_committed_nothing(stage: Stage) -> None:
    """G8"""
    room = stage.room()
    touch(room, "a")
    held = stage.cast.hold(room, "a")
    outcomes: list[CommitOutcome] = []
    committing = in_thread(lambda: outcomes.append(room.commit("a")))
    session: Any = room._context.cards["a"].ref.actor_inbox.actor
    until(lambda: session._state.committers, "a commit that waits")
    stage.overtake()
    with pytest.raises(LostOwnership):
        held.end()
    join_all([committing])

    assert not outcomes[0]
    assert outcomes[0].committed == 0
    assert stage.tokens == []


# What is kept, and where.


def test_a_key_with_many_session_ids_does_not_keep_them_all(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9: while its agent stays."""
    monkeypatch.setattr(_bound_store, "MOST_FENCES", 8)
    room = stage.room()
    for number in range(20):
        touch_session(room, f"s{number:02}")
        assert room.commit("a")

    ledger = ledger_of(room)
    assert list(ledger.fences._epochs) == [f"s{number}" for number in range(12, 20)]
    assert len(ledger.accounts.by_id) <= MOST_REMEMBERED + 1
    assert stage.cast.did("build") == ["a/1"]
