"""One plain test for each bug that was found in how a room uses its store: how it keeps a session, and
takes up what others have left."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, LostOwnership, NotRecorded, SessionFailed, StoreAway
from greenroom.actors import ManualClock, Session
from greenroom.actors.ledger.accounts import IN_DOUBT
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session.generations import Segment
from greenroom.messages import EnterStore, RecordTurn
from greenroom.store import open_store
from tests.crash.databases import sqlite_url
from tests.room.agents import Cast, look_at, row_of, touch, until
from tests.room.test_ledger import RIVAL, Away, Moody, Stage, advance_until
from tests.room.test_store_past_bugs import NEVER, everything_written, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.actors.actors import Gate

CALM: dict[str, Any] = {"lease_ttl": 100_000.0, "store_timeout": None, **NEVER}
"""Neither is it told that the room lives, nor asked for orphans, once that was done."""

PATIENT: dict[str, Any] = {"store_timeout": None, "build_timeout": None, "commit_timeout": None}
"""However fast the test lets time pass, nothing takes too long."""


class Hesitant(Moody):
    """A store that may be slow to begin: nothing of it is locked meanwhile."""

    def __init__(self, stage: Stage) -> None:
        self.real = open_store(stage.url, durability="normal")
        super().__init__(self.real)
        self.before: Gate | None = None
        """Where the next transaction waits."""

    patience = None
    """So that workers write, and callers do not stand at the gate."""

    @contextmanager
    def transaction(self, durability: str | None = None) -> Iterator[Any]:
        self._wait_before()
        with super().transaction(durability) as ledger:
            yield ledger

    def take_all(self, turns: list[Any], *, owner: str) -> dict[str, Any]:
        self._wait_before()
        return super().take_all(turns, owner=owner)

    def record(self, turns: list[Any], *, owner: str, durability: str) -> dict[str, int]:
        self._wait_before()
        return super().record(turns, owner=owner, durability=durability)

    def _wait_before(self) -> None:
        gate, self.before = self.before, None
        if gate is not None:
            gate.wait()


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


def doubts_of(room: Greenroom) -> int | None:
    """How often the store was told in vain that `a` is not wanted. `None`: nobody knows of it."""
    ref: Any = room._line.find("a")
    if ref is None:
        return None
    in_doubt = ref.actor_inbox.actor._state.ledger.accounts.get("a", IN_DOUBT)
    return 0 if in_doubt is None else int(in_doubt.tries)


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
    clock.advance(3.0)
    store.trouble = Away("no route")
    held = stage.cast.hold(room, "a")
    store.trouble = None
    store.refuses.add("pin")
    clock.advance(0.5)
    until(lambda: ledger_of(room).accounts.by_id["a"].loose, "a failure")
    store.refuses.clear()

    advance_until(clock, lambda: stage.row().free_at is None, "a session that is kept")
    held.end()
    assert stage.row().free_at is not None


@pytest.mark.parametrize("reached", [False, True], ids=["store away", "store there"])
def test_a_turn_whose_session_a_commit_has_lost_meanwhile_is_acknowledged_only_if_it_is_recorded(
    stage: Stage, reached: bool
) -> None:
    """Invariant 4. Two turns were acknowledged as the same generation: 1. a turn is being recorded
    2. a commit is told that another room has the session id, and the account is closed  3. the store
    cannot be reached, or has recorded the turn before that: the answer to 1 comes."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, **CALM)
    for _ in range(3):
        touch(room, "a")
    assert room.commit("a")
    room.end("a")  # so that this room counts anew, and the ledger goes on
    room.settle()
    held = stage.cast.hold(room, "a")
    recording = store.at["complete"] = stage.cast.gate()
    held.let_go()
    recording.wait_reached()

    def lose(session: Session, _: object) -> bool:
        ledger = session._ledger()
        assert ledger is not None
        epoch = ledger_of(room).accounts.by_id["a"].epoch
        ledger.commit_lost(Segment(1, 1, "a", 1, epoch), 1)
        return True

    assert room._context.cards["a"].mailbox.step(LOCAL.state, lose, object())
    if not reached:
        store.refuses.add("complete")
    recording.open()

    if reached:
        held.end()
        assert (held.turn.completed, held.turn.generation, stage.ledger()) == (True, 4, (4, 3))
    else:
        with pytest.raises(LostOwnership):
            held.end()
        assert not held.turn.completed


def test_a_session_that_ends_while_its_last_turn_is_recorded_is_not_kept_afterwards(
    stage: Stage,
) -> None:
    """C9: nobody would ever let go of it."""
    store, clock = stage.moody(), ManualClock()
    room = stage.room(store, clock=clock, **CALM)
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
    writer: Any = room._context.writer
    until(lambda: not writer._health.beaten, "a beat that did not reach it")
    hesitant.trouble = None
    hesitant.real._engine.clock_shift = 20.0  # that was a long time for the database
    held = stage.cast.hold(room, "a")

    with stage.later(20.0).transaction() as ledger:
        assert not ledger.take("a", key="a", owner=RIVAL).held
    held.end()


def test_a_record_that_comes_late_does_not_take_the_session_from_the_next_turn(
    hesitant: Hesitant, stage: Stage
) -> None:
    """It says that nobody is in a turn, and was true when it was asked."""
    clock = ManualClock()
    room = stage.room(hesitant, clock=clock, **(CALM | {"store_timeout": 5.0}))
    wait_open(hesitant)
    first = stage.cast.hold(room, "a")
    late = hesitant.before = stage.cast.gate()
    first.let_go()
    late.wait_reached()
    clock.advance(5.1)
    assert isinstance(first.outcome(), NotRecorded)
    room.configure(store_timeout=None)
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
    room.configure(store_timeout=None)
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
    room = stage.room(clock=clock, **PATIENT)
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
    room = stage.room(store, clock=clock, retry_first=10.0, retry_most=10.0, **PATIENT)
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


# What becomes of a session whose actor fails on what the store has answered.


def failing_on(request: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every session actor fail whenever it gets the answer to such a request."""

    def fail(_: Session, answer: Any) -> None:
        raise ZeroDivisionError(answer)

    monkeypatch.setitem(Session._answers, request, fail)


def test_a_session_that_fails_on_being_given_a_session_id_does_not_keep_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_on(EnterStore, monkeypatch)
    room = stage.room(**NEVER)

    with pytest.raises(SessionFailed), room.turn("a"):
        pass

    until(lambda: stage.row("a").epoch == 1 and stage.row("a").owner is None, "a session given back")


def test_a_session_that_fails_on_the_record_of_a_turn_says_so_and_keeps_no_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ran the turn would wait for ever."""
    room = stage.room(**NEVER)
    touch(room, "a")
    room._context.warm = None  # a caller who has it recorded would need no message
    failing_on(RecordTurn, monkeypatch)

    with pytest.raises(NotRecorded):
        touch(room, "a")

    assert row_of(room, "a").state == "failed"
    assert room.stats().in_turn == 0


def test_a_session_that_fails_on_taking_over_what_was_left_lets_the_next_one_be_recovered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time is recovered: who is never heard of must not hold up the others."""
    failing_on(EnterStore, monkeypatch)
    with stage.store.transaction() as ledger:
        for session_id in ("a", "b"):
            epoch = ledger.take(session_id, key=session_id, owner="dead:1:ab").epoch
            ledger.complete(session_id, owner="dead:1:ab", epoch=epoch, generation=1, linger=0.0)

    clock = ManualClock()
    room = stage.room(recover_at_once=1, clock=clock, **PATIENT)

    def both_have_failed() -> bool:
        return {"a", "b"} <= {row.key for row in room.snapshot() if row.state == "failed"}

    advance_until(clock, both_have_failed, "both")
