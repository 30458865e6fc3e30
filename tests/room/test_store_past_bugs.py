"""One plain test for each bug that was found in how a room uses its store: whose a session is."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, LostOwnership, NotRecorded, StoreAway, TurnTimeout
from greenroom.actors import ManualClock, bookkeeping
from greenroom.actors.coherence import MOST_REMEMBERED
from greenroom.store import open_store
from tests.actors.actors import PATIENCE, in_thread, join_all
from tests.crash.databases import sqlite_url
from tests.room.agents import OTHER, SPEC, Cast, look_at, row_of, touch, until
from tests.room.test_ledger import (
    RIVAL,
    Away,
    Moody,
    Stage,
    advance_until,
    drain_in_thread,
    owner_of,
    touch_session,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from greenroom import CommitOutcome, Turn
    from tests.actors.actors import Gate

NEVER: dict[str, Any] = {"retry_first": 100_000.0, "retry_most": 100_000.0}
"""The store is not told again, unless something else comes."""

CALM: dict[str, Any] = {"lease_ttl": 100_000.0, **NEVER}
"""Neither is it told that the room lives, nor asked for orphans, once that was done."""


class Hesitant(Moody):
    """A store that may be slow to begin: nothing of it is locked meanwhile."""

    def __init__(self, stage: Stage) -> None:
        self.real = open_store(stage.url, durability="normal")
        super().__init__(self.real)
        self.before: Gate | None = None
        """Where the next transaction waits."""

    @contextmanager
    def transaction(self, durability: str | None = None) -> Iterator[Any]:
        gate, self.before = self.before, None
        if gate is not None:
            gate.wait()
        with super().transaction(durability) as ledger:
            yield ledger


class Blind(Moody):
    """A store that cannot be looked at without waiting, as PostgreSQL's."""

    can_peek = False


@pytest.fixture
def stage(cast: Cast, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(cast, sqlite_url(tmp_path / "greenroom.db"))
    yield stage
    cast.finish()
    stage.close()


@pytest.fixture
def hesitant(stage: Stage) -> Iterator[Hesitant]:
    store = Hesitant(stage)
    yield store
    stage.cast.finish()
    store.real.close()


def wait_open(store: Moody) -> None:
    """Wait until a room has said that it lives, and has looked for orphans."""
    until(lambda: "orphans" in store.done, "an open room")


def ledger_of(room: Greenroom, key: str = "a") -> Any:
    session: Any = room._board.directory[key].actor_inbox.actor
    return session._state.ledger


def doubts_of(room: Greenroom) -> int | None:
    """How often the store was told in vain that `a` is not wanted. `None`: nobody knows of it."""
    ref: Any = room._board.directory.get("a")
    return None if ref is None else ref.actor_inbox.actor._state.ledger.doubts.get("a", 0)


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
    until(lambda: ledger_of(room).accounts["a"].timer is None, "the retry")
    clock.advance(7.1)
    assert isinstance(waiting.outcome(), TurnTimeout)
    taking.open()

    until(lambda: stage.ledger() == (2, 0), "the record")
    until(lambda: room.stats().unrecorded == 0, "the end of it")
    assert stage.row().free_at is not None


def test_many_turns_that_could_not_be_recorded_are_recorded_at_once(stage: Stage) -> None:
    """There is one retry for all of them, and not one for each."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, lease_ttl=100_000.0, retry_first=10.0, retry_most=10.0)
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
    session: Any = room._board.directory["a"].actor_inbox.actor
    until(lambda: session._state.committers, "a commit that waits")
    stage.overtake()
    with pytest.raises(LostOwnership):
        held.end()
    join_all([committing])

    assert not outcomes[0]
    assert outcomes[0].committed == 0
    assert stage.tokens == []


# What keeps a session in the middle of a turn.


def test_a_turn_that_began_while_the_store_was_away_has_its_session_kept_soon(stage: Stage) -> None:
    """Else another room would take it in the middle of the turn."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, **CALM)
    touch(room, "a")
    clock.advance(3.0)  # it was this room's for a moment, and that is over
    store.trouble = Away("no route")
    held = stage.cast.hold(room, "a")
    assert stage.row().free_at is not None
    store.trouble = None

    advance_until(clock, lambda: stage.row().free_at is None, "a session that is kept")
    held.end()
    assert stage.ledger() == (2, 0)


def test_a_session_that_could_not_be_kept_is_kept_later(stage: Stage) -> None:
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, **CALM)
    touch(room, "a")
    clock.advance(0.9)
    held = stage.cast.hold(room, "a")
    store.refuses.add("pin")
    clock.advance(0.5)
    until(lambda: ledger_of(room).accounts["a"].loose, "a failure")
    store.refuses.clear()

    advance_until(clock, lambda: stage.row().free_at is None, "a session that is kept")
    held.end()
    assert stage.row().free_at is not None


def test_a_session_that_ends_while_its_last_turn_is_recorded_is_not_kept_afterwards(
    stage: Stage,
) -> None:
    """C9: nobody would ever let go of it."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, store_timeout=None, **CALM)
    wait_open(store)
    look_at(room, "a")
    held = stage.cast.hold(room, "a", ephemeral=True)
    assert room.end("a")
    leaving, pinning = stage.cast.gate(), stage.cast.gate()
    store.at.update({"leave": leaving, "pin": pinning})
    held.let_go()
    leaving.wait_reached()
    clock.advance(0.5)  # it is time to see to it that the session stays this turn's
    assert row_of(room, "a").state == "in turn"
    leaving.open()
    held.end()
    until(lambda: room.stats().closes == 1, "the end of its agent")
    pinning.open()
    until(lambda: room.stats().known == 0, "the end of its actor")
    everything_written(room)

    assert stage.row().free_at is not None


def test_after_an_absence_of_the_store_nothing_is_taken_before_the_room_lives_again(
    hesitant: Hesitant, stage: Stage
) -> None:
    """A session of a room that seems to be dead is anybody's, also in a turn."""
    clock = ManualClock()
    room = stage.room(hesitant, clock=clock, lease_ttl=15.0)
    wait_open(hesitant)
    hesitant.trouble = Away("no route")
    clock.advance(6.0)
    clerk: Any = room._board.clerk
    until(lambda: not clerk.actor_inbox.actor._state.beaten, "a beat that did not reach it")
    hesitant.trouble = None
    hesitant.real._clock_shift = 20.0  # that was a long time for the database
    held = stage.cast.hold(room, "a")

    with stage.later(20.0).transaction() as ledger:
        assert not ledger.take("a", key="a", owner=RIVAL).held
    held.end()


def test_a_record_that_comes_late_does_not_take_the_session_from_the_next_turn(
    hesitant: Hesitant, stage: Stage
) -> None:
    """It says that nobody is in a turn, and was true when it was asked."""
    clock = ManualClock()
    room = stage.room(hesitant, clock=clock, store_timeout=5.0, **CALM)
    wait_open(hesitant)
    first = stage.cast.hold(room, "a")
    late = hesitant.before = stage.cast.gate()
    first.let_go()
    late.wait_reached()
    clock.advance(5.1)
    assert isinstance(first.outcome(), NotRecorded)
    second = stage.cast.hold(room, "a")
    late.open()
    until(lambda: stage.row().generation == 1, "the late record")

    advance_until(clock, lambda: stage.row().free_at is None, "a session that is kept")
    second.end()
    assert stage.ledger() == (2, 0)


def test_a_session_that_is_given_late_is_given_back(hesitant: Hesitant, stage: Stage) -> None:
    """Whoever wanted it has gone. To say so before it was given would be of no use."""
    clock = ManualClock()
    room = stage.room(
        hesitant, clock=clock, store_timeout=5.0, lease_ttl=100_000.0, retry_first=10.0, retry_most=10.0
    )
    wait_open(hesitant)
    late = hesitant.before = stage.cast.gate()
    waiting = stage.cast.start(room, "a")
    late.wait_reached()
    clock.advance(5.1)
    assert isinstance(waiting.outcome(), StoreAway)
    until(lambda: doubts_of(room) != 0, "a try to give it back, in vain")
    late.open()
    until(lambda: stage.store.sessions(key="a"), "the late answer")

    advance_until(clock, lambda: stage.row().owner is None, "a session that is nobody's")
    advance_until(clock, lambda: room.stats().known == 0, "the end of its actor")


def test_another_lease_ttl_holds_at_once(stage: Stage) -> None:
    """C5: what was said before, that the room lives for an hour, is taken back."""
    store = stage.moody()
    room = stage.room(store, clock=ManualClock(), lease_ttl=3_600.0)
    wait_open(store)
    [before] = stage.store.rooms()
    room.configure(lease_ttl=2.0)
    until(lambda: stage.store.rooms()[0].expires < before.expires - 1_800.0, "a shorter life")
    touch(room, "a")

    row = stage.row()
    assert row.free_at is not None
    assert row.free_at - row.updated == pytest.approx(1.0, abs=0.1)


# What others have left.


def test_what_a_dead_room_completed_in_between_is_recovered_by_the_one_before(stage: Stage) -> None:
    """Its agent knows nothing of it: what it knows is of an older epoch."""
    clock = ManualClock()
    room = stage.room(clock=clock)
    touch(room, "a")
    assert room.commit("a")
    with stage.later(1_000.0).transaction() as ledger:
        epoch = ledger.take("a", key="a", owner=RIVAL).epoch
        ledger.complete("a", owner=RIVAL, epoch=epoch, generation=2, linger=0.0)

    advance_until(clock, lambda: stage.ledger() == (2, 2), "the recovery")
    until(lambda: room.stats().recovered == 1, "the end of it")
    assert stage.tokens == [("a", 1), ("a", 2)]


def test_a_failed_recovery_that_could_not_be_noted_is_tried_again(stage: Stage) -> None:
    """G9: the store thinks that this room has the session, and nobody in it knows."""
    leave_behind(stage, "a")
    store, clock = stage.moody(), ManualClock()
    store.refuses.update({"fail", "disclaim"})
    stage.cast.at["commit"] = OSError("not today")
    room = stage.room(store, clock=clock, lease_ttl=30.0, retry_first=10.0, retry_most=10.0)
    until(lambda: room.stats().recovery_failures == 1, "a failure")
    until(lambda: doubts_of(room) != 0, "a try to say so, in vain")
    del stage.cast.at["commit"]
    store.refuses.clear()

    advance_until(clock, lambda: stage.ledger() == (1, 1), "the recovery")
    assert set(stage.tokens) == {("a", 1)}


def leave_behind(stage: Stage, session_id: str, after: float = 0.0) -> int:
    """Complete a turn of a session, as a room that was killed then. Returns its epoch."""
    with stage.later(after).transaction() as ledger:
        epoch = ledger.take(session_id, key=session_id, owner=RIVAL).epoch
        ledger.complete(session_id, owner=RIVAL, epoch=epoch, generation=1, linger=0.0)
    return int(epoch)


def test_those_that_failed_wait_behind_those_that_were_never_tried(stage: Stage) -> None:
    """C7: however old they are, and however soon they may be tried again."""
    epoch = leave_behind(stage, "bad")
    leave_behind(stage, "good", after=1.0)
    with stage.later(2.0).transaction() as ledger:
        ledger.fail("bad", owner=RIVAL, epoch=epoch, problem="no", pause=0.0, most=10)
    with stage.later(3.0).transaction() as ledger:
        assert [row.session_id for row in ledger.orphans(owner="x", limit=9)] == ["good", "bad"]


# What is kept, and where.


def test_a_key_with_many_session_ids_does_not_keep_them_all(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9: while its agent stays."""
    monkeypatch.setattr(bookkeeping, "MOST_FENCES", 8)
    room = stage.room()
    for number in range(40):
        touch_session(room, f"s{number:02}")
        assert room.commit("a")

    ledger = ledger_of(room)
    assert list(ledger.fences._epochs) == [f"s{number}" for number in range(32, 40)]
    assert len(ledger.accounts) <= MOST_REMEMBERED + 1
    assert stage.cast.did("build") == ["a/1"]


@pytest.mark.parametrize("stored", [False, True], ids=["without a store", "with one"])
def test_a_process_that_was_forked_in_a_turn_leaves_it_to_its_parent(stage: Stage, stored: bool) -> None:
    if not hasattr(os, "fork") or sys.platform == "darwin":
        pytest.skip("there is no fork here")
    room = stage.room() if stored else stage.cast.room()
    turn = room.turn("a")
    turn.__enter__()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))  # it has nobody else who would end it
        code = 1
        try:
            turn.__exit__(None, None, None)
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    turn.__exit__(None, None, None)

    assert turn.generation == 1
    if stored:
        assert stage.ledger() == (1, 0)
