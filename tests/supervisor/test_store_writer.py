"""The store writer: who writes to the store for all sessions, and what becomes of what it is asked."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from greenroom import Policy, RoomClosed
from greenroom.actors import (
    Actor,
    AgentHooks,
    ManualClock,
    RoomContext,
    Runtime,
    WorkTimedOut,
)
from greenroom.actors.ledger.bookkeeping import Bookkeeping, ToWrite
from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.actors.runtime._threads import LOCAL
from greenroom.messages import Answered, CallLedger, CloseBooks, EnterStore, RecordTurn
from greenroom.supervisor.store_writer import MOST_AT_ONCE, StoreHangs, StoreWriter
from tests.actors.actors import PATIENCE, Gate, Recorder, in_thread, join_all
from tests.room.agents import until
from tests.simulation.shelf import Away, Row, Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actors import Future


class Books(Shelf):
    """A shelf that notes what each transaction does, and waits or fails where it is told to."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.transactions: list[list[str]] = []
        """What each that was begun did: `beat`, `take a1`, …"""
        self.durabilities: set[str] = set()
        self.gates: dict[int, Gate] = {}
        """Where the transaction of this number, from 1, waits before it does anything."""
        self.trouble: Exception | None = None
        self.bad: dict[str, Exception] = {}
        """What is raised for a session id."""
        self.owners: set[str] = set()
        self.threads: list[str] = []
        """Who began each transaction."""
        self.interrupts = 0
        self.lost = False
        """Whether the room has lost its lock."""

    take_all: Any = None  # or a new session would take two transactions

    @contextmanager
    def transaction(self, *, durability: str) -> Iterator[Shelf]:
        self.durabilities.add(durability)
        self.transactions.append([])
        self.threads.append(threading.current_thread().name)
        gate = self.gates.get(len(self.transactions))
        if gate is not None:
            gate.wait()
        if self.trouble is not None:
            raise self.trouble
        with super().transaction(durability=durability):
            yield self

    def take(self, session_id: str, *, key: str, owner: str) -> Row:
        self._note("take", session_id)
        return super().take(session_id, key=key, owner=owner)

    def pin(self, session_id: str, *, owner: str, epoch: int) -> bool:
        self._note("pin", session_id)
        return super().pin(session_id, owner=owner, epoch=epoch)

    def complete(
        self, session_id: str, *, owner: str, epoch: int, generation: int, linger: float
    ) -> int | None:
        self._note(f"complete {generation}", session_id)
        return super().complete(
            session_id, owner=owner, epoch=epoch, generation=generation, linger=linger
        )

    def beat(self, owner: str, *, ttl: float, host: str, pid: int) -> bool:
        self._note("beat")
        self.owners.add(owner)
        return super().beat(owner, ttl=ttl, host=host, pid=pid)

    def retire(self, owner: str) -> int:
        self._note("retire")
        return super().retire(owner)

    def orphans(self, *, owner: str, limit: int) -> list[Row]:
        self._note("orphans")
        return super().orphans(owner=owner, limit=limit)

    def interrupt(self, owner: str) -> None:
        self.interrupts += 1

    def holds(self, owner: str) -> bool:
        return not self.lost

    def _note(self, what: str, session_id: str = "") -> None:
        self.transactions[-1].append(f"{what} {session_id}".strip())
        if session_id in self.bad:
            raise self.bad[session_id]


def open_writer(runtime: Runtime, store: Any, **policy: Any) -> StoreWriter:
    """One that has begun to say that the room lives."""
    figures = Policy(**policy)
    runtime.rescuer.start()
    context = RoomContext(runtime, lambda _: None, figures, AgentHooks(), Bookkeeping(store))
    writer = StoreWriter(context)
    writer.beat()
    return writer


class Desk:
    """A store writer in a runtime with a clock of the test's own, and its store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.runtime = Runtime(clock=self.clock)
        self.store = Books()
        self.store.clock = self.clock
        self.writer: StoreWriter | None = None

    def open(self, **policy: Any) -> StoreWriter:
        self.writer = open_writer(self.runtime, self.store, **policy)
        return self.writer

    def ask(self, request: Any) -> Future[Any]:
        assert self.writer is not None
        return cast("Future[Any]", self.writer.ask(request, block=False))

    def entry(self, session_id: str, generation: int = 1) -> ToWrite:
        """The end of a turn. Its session is a mailbox for notices."""
        request = record(session_id, generation)
        session = self.runtime.start(Recorder).actor_inbox
        return ToWrite(request, session.create_future(request), session)

    def end_turn(self, session_id: str, generation: int = 1) -> ToWrite:
        """Have the end of a turn recorded, as its caller does."""
        assert self.writer is not None
        entry = self.entry(session_id, generation)
        self.writer.record(entry)
        return entry

    def enter(self, *session_ids: str) -> None:
        for session_id in session_ids:
            got(self.ask(enter(session_id)))
        self.wait_at_rest()

    def wait_at_rest(self) -> None:
        """Wait until nobody writes: who has written answers before letting go of the pen."""
        pen = cast("StoreWriter", self.writer)._pen
        until(lambda: not pen._baton and not pen.line, "rest")

    def gate(self, number: int) -> Gate:
        """Hold the transaction of this number. It is let go when the test is over, at the latest."""
        self.store.gates[number] = gate = Gate()
        return gate

    def wait_for_first_beat(self) -> None:
        until(lambda: self.written() == [["beat"]], "the first beat")

    def written(self) -> list[list[str]]:
        return [list(transaction) for transaction in self.store.transactions]

    def close(self) -> None:
        for gate in self.store.gates.values():
            gate.open()
        self.runtime.close(timeout=2.0)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


def enter(session_id: str, key: str = "a") -> EnterStore:
    return EnterStore(session_id=session_id, key=key)


def record(session_id: str, generation: int, epoch: int = 1) -> RecordTurn:
    return RecordTurn(
        session_id=session_id, epoch=epoch, generation=generation, linger=2.0, turn="a turn"
    )


def call(verb: str, session_id: str = "", **values: Any) -> CallLedger[Any]:
    return CallLedger(verb=verb, session_id=session_id, values=values)


def got(future: Future[Any]) -> Any:
    return future.get(timeout=PATIENCE)


# Group commit.


def test_one_that_finds_nothing_being_written_is_written_at_once(desk: Desk) -> None:
    desk.open()
    desk.wait_for_first_beat()

    entered = got(desk.ask(enter("s1")))

    assert entered.lease.held
    assert desk.written() == [["beat"], ["take s1"]]
    assert desk.store.durabilities == {"full"}


def test_what_arrives_while_one_transaction_is_written_goes_together_in_the_next(desk: Desk) -> None:
    """Group commit: sixty-four that finish together wait for two writes."""
    writing = desk.gate(1)
    desk.open()
    writing.wait_reached()

    asked = [desk.ask(enter(f"s{number:02}")) for number in range(64)]
    assert desk.written() == [[]]
    assert not any(future.done() for future in asked)
    writing.open()

    assert [got(future).lease.session_id for future in asked] == [f"s{n:02}" for n in range(64)]
    assert [len(transaction) for transaction in desk.written()] == [1, 64]


def test_a_transaction_has_its_sessions_sorted_and_each_in_order_of_asking(desk: Desk) -> None:
    desk.open()
    for session_id in ("s1", "s2"):
        got(desk.ask(enter(session_id)))
    before = len(desk.written())
    writing = desk.gate(before + 1)
    first = desk.ask(call("orphans", limit=1))
    writing.wait_reached()

    asked = [
        desk.ask(record("s2", 1)),
        desk.ask(record("s1", 1)),
        desk.ask(call("pin", "s2", epoch=1)),
        desk.ask(record("s1", 2)),
        desk.ask(record("s2", 2)),
    ]
    writing.open()

    assert got(first) == []
    assert [type(got(future)) for future in asked][2] is bool
    assert desk.written()[before + 1 :] == [
        ["complete 1 s1", "complete 2 s1", "complete 1 s2", "pin s2", "complete 2 s2"]
    ]


def test_a_transaction_is_not_longer_than_it_may_be(desk: Desk) -> None:
    writing = desk.gate(1)
    desk.open()
    writing.wait_reached()
    asked = [desk.ask(enter(f"s{number}")) for number in range(MOST_AT_ONCE + 5)]
    writing.open()
    for future in asked:
        got(future)
    assert [len(transaction) for transaction in desk.written()] == [1, MOST_AT_ONCE, 5]


def test_every_one_of_many_threads_is_answered_for_itself(desk: Desk) -> None:
    """Invariant 5"""
    desk.open()
    found: dict[str, Any] = {}
    start = threading.Barrier(8)

    def ask(number: int) -> None:
        start.wait(PATIENCE)
        for turn in range(20):
            session_id = f"s{number}.{turn}"
            found[session_id] = got(desk.ask(enter(session_id))).lease.session_id

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 160
    assert all(asked == answered for asked, answered in found.items())


# Callers that write.


def here() -> str:
    return threading.current_thread().name


def test_the_caller_of_a_turn_writes_its_end(desk: Desk) -> None:
    desk.open()
    desk.enter("s1")

    ended = desk.end_turn("s1")

    assert ended.answer.done()
    assert got(ended.answer) is not None
    assert desk.written()[-1] == ["complete 1 s1"]
    assert desk.store.threads[-1] == here()


class Asker(Actor):
    """A session that asks the store writer, and answers when it is answered."""

    def __init__(self, writer: StoreWriter) -> None:
        super().__init__()
        self.writer = writer
        self.reply: Any = None

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Answered):
            self.reply.set(message)
            return
        self.reply = self.defer_reply()
        ask_and_hear(self, cast("Any", self.writer), message)


@pytest.mark.parametrize(
    ("asked", "who"),
    [
        (EnterStore(session_id="s1", key="a", here=True), "caller"),
        (record("s1", 1), "caller"),
        (replace(record("s1", 1), turn=None), "worker"),
        (EnterStore(session_id="s1", key="a"), "worker"),
        (call("pin", "s1", epoch=1), "worker"),
    ],
    ids=["begins", "ends", "ended before", "begins, and may not wait for long", "something else"],
)
def test_who_waits_for_what_a_session_asks_writes_it(desk: Desk, asked: Any, who: str) -> None:
    """When the handler that asked has returned."""
    writer = desk.open()
    desk.enter("s1")
    asker = desk.runtime.start(Asker, writer)

    answered = asker.ask(asked, timeout=PATIENCE)

    assert answered.error is None
    assert (desk.store.threads[-1] == here()) is (who == "caller")
    assert LOCAL.state.pen is None
    assert not LOCAL.state.will_wait


def test_who_would_block_an_event_loop_writes_nothing_that_a_session_asks(desk: Desk) -> None:
    writer = desk.open()
    desk.enter("s1")
    asker = desk.runtime.start(Asker, writer)

    async def end() -> Any:
        return asker.ask(record("s1", 1), timeout=PATIENCE)

    assert asyncio.run(end()).error is None
    assert here() not in desk.store.threads


def test_who_does_not_wait_for_the_answer_writes_nothing(desk: Desk) -> None:
    writer = desk.open()
    desk.enter("s1")
    asker = desk.runtime.start(Asker, writer)
    answer = asker.ask(EnterStore(session_id="s1", key="a", here=True), block=False)
    assert got(answer).error is None
    assert here() not in desk.store.threads


def test_a_caller_writes_what_others_want_written_meanwhile(desk: Desk) -> None:
    desk.open()
    desk.enter("s1", "s2")
    writing = desk.gate(len(desk.written()) + 1)
    ends: list[ToWrite] = []
    writer = in_thread(lambda: ends.append(desk.end_turn("s1")))
    writing.wait_reached()
    ends.append(desk.end_turn("s2"))
    asked = desk.ask(enter("s3"))
    assert not ends[0].answer.done()
    writing.open()
    join_all([writer])

    assert [got(entry.answer) is not None for entry in ends] == [True, True]
    assert got(asked).lease.held
    assert desk.written()[-2:] == [["complete 1 s1"], ["complete 1 s2", "take s3"]]
    assert desk.store.threads[-2:] == [writer.name] * 2


def test_a_worker_writes_before_the_room_has_said_that_it_lives(desk: Desk) -> None:
    """Nothing is known of the store yet, and callers are to wait for nothing that may hang."""
    gate = desk.gate(1)
    desk.open()
    gate.wait_reached()
    ended = desk.end_turn("s1")
    assert not ended.answer.done()
    gate.open()
    assert got(ended.answer) is None  # nobody has the session
    assert here() not in desk.store.threads


def test_a_worker_writes_what_a_task_on_an_event_loop_wants(desk: Desk) -> None:
    desk.open()
    desk.enter("s1")

    async def end() -> Any:
        return await desk.end_turn("s1").answer

    assert asyncio.run(end()) is not None
    assert here() not in desk.store.threads


def test_what_is_put_down_is_written_together(desk: Desk) -> None:
    writer = desk.open()
    desk.enter("s1", "s2")
    before = len(desk.written())
    ends = [desk.entry(session_id) for session_id in ("s1", "s2")]
    for entry in ends:
        writer.put_down(entry)
    for _ in ends:
        writer.write_soon()

    assert None not in [got(entry.answer) for entry in ends]
    assert desk.written()[before:] == [["complete 1 s1", "complete 1 s2"]]
    desk.wait_at_rest()
    writer.write_soon()  # nothing is left
    assert len(desk.written()) == before + 1


def test_what_is_put_down_and_forgotten_is_written_with_the_next_beat(desk: Desk) -> None:
    writer = desk.open(lease_ttl=15.0)
    desk.enter("s1")
    entry = desk.entry("s1")
    writer.put_down(entry)
    assert not entry.answer.done()
    desk.clock.advance(5.1)
    assert got(entry.answer) is not None


@pytest.mark.parametrize(("patience", "timeout"), [(None, 10.0), (10.1, 10.0), (5.0, None)])
def test_a_worker_writes_where_a_caller_might_wait_for_too_long(
    desk: Desk, patience: float | None, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Books, "patience", patience)
    desk.open(store_timeout=timeout)
    desk.enter("s1")
    assert got(desk.end_turn("s1").answer) is not None
    assert here() not in desk.store.threads


def test_after_a_failure_of_the_store_workers_write_until_it_has_heard_that_the_room_lives(
    desk: Desk,
) -> None:
    desk.open(lease_ttl=15.0)
    desk.enter("s1")
    desk.store.trouble = Away("no route")
    with pytest.raises(Away):
        got(desk.end_turn("s1").answer)
    assert desk.store.threads[-1] == here()
    desk.store.trouble = None

    assert got(desk.end_turn("s1").answer) is not None
    assert desk.store.threads[-1] != here()

    known = beats(desk)
    desk.clock.advance(5.0)
    until(lambda: beats(desk) > known, "the next beat")
    desk.wait_at_rest()
    assert got(desk.end_turn("s1").answer) is not None
    assert desk.store.threads[-1] == here()


def test_a_caller_that_is_stuck_is_interrupted_then_given_up_and_its_session_told(desk: Desk) -> None:
    """H5: the turn is over for its session, and its caller hears of it when the store lets it go."""
    desk.open(store_timeout=10.0, lease_ttl=3_000.0)
    desk.enter("s1", "s2")
    writing = desk.gate(len(desk.written()) + 1)
    request = record("s1", 1)
    session = desk.runtime.start(Recorder)
    entry = ToWrite(request, session.actor_inbox.create_future(request), session.actor_inbox)
    writer = cast("StoreWriter", desk.writer)
    caller = in_thread(lambda: writer.record(entry))
    writing.wait_reached()

    desk.clock.advance(5.1)
    assert desk.store.interrupts == 1
    assert not entry.answer.done()
    desk.clock.advance(5.0)

    with pytest.raises(WorkTimedOut):
        got(entry.answer)
    recorder = cast("Recorder", session.actor_inbox.actor)
    until(lambda: recorder.received, "the notice")
    [told] = recorder.received
    assert (told.request, type(told.error)) == (request, WorkTimedOut)
    assert caller.is_alive()
    with pytest.raises(StoreHangs):
        got(desk.end_turn("s1").answer)
    assert got(desk.end_turn("s2").answer) is not None
    assert desk.store.threads[-1] != here()
    writing.open()
    join_all([caller])


def test_a_turn_that_ends_after_the_books_were_closed_is_refused(desk: Desk) -> None:
    """D1: and does not say any more that the room lives."""
    desk.open(lease_ttl=15.0)
    desk.enter("s1")
    assert got(desk.ask(CloseBooks())) is True
    desk.wait_at_rest()
    written = desk.written()
    desk.clock.advance(60.0)
    with pytest.raises(RoomClosed):
        got(desk.end_turn("s1").answer)
    assert desk.written() == written
    assert desk.store.rooms == {}


def test_a_handler_that_asks_two_rooms_has_both_written(desk: Desk) -> None:
    """Its caller writes for one of them."""
    other = Desk()
    try:
        writers = desk.open(lease_ttl=3_000.0), other.open(lease_ttl=3_000.0)
        for each in (desk, other):
            each.enter("s1")
        heard: list[Answered] = []

        class Both(Actor):
            reply: Any = None

            def on_receive(self, message: Any) -> Any:
                if not isinstance(message, Answered):
                    self.reply = self.defer_reply()
                    for writer in writers:
                        ask_and_hear(self, cast("Any", writer), record("s1", 1))
                    return
                heard.append(message)
                if len(heard) == 2:
                    self.reply.set(None)

        desk.runtime.start(Both).ask("write", timeout=PATIENCE)
        assert [answer.error for answer in heard] == [None, None]
    finally:
        other.close()


# Failures.


@pytest.mark.parametrize("trouble", [Away("gone"), OSError("no route")], ids=["temporary", "OSError"])
def test_a_store_that_is_away_refuses_everybody_on_the_transaction(
    desk: Desk, trouble: Exception
) -> None:
    writing = desk.gate(1)
    desk.open()
    writing.wait_reached()
    asked = [desk.ask(enter(session_id)) for session_id in ("s1", "s2", "s3")]
    desk.store.trouble = trouble
    writing.open()

    for future in asked:
        with pytest.raises(type(trouble), match=str(trouble)):
            got(future)
    assert len(desk.written()) == 2

    desk.store.trouble = None
    assert got(desk.ask(enter("s1"))).lease.held


def test_of_a_transaction_that_fails_otherwise_only_the_bad_one_fails(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad request must not spoil the others': each is tried by itself, in the same order."""
    writing = desk.gate(1)
    desk.open()
    writing.wait_reached()
    desk.store.bad["s2"] = ValueError("a value that no column takes")
    asked = {session_id: desk.ask(enter(session_id)) for session_id in ("s3", "s2", "s1")}
    again = desk.ask(record("s3", 1))
    with caplog.at_level(logging.WARNING, "greenroom"):
        writing.open()
        assert got(asked["s3"]).lease.held
        with pytest.raises(ValueError, match="no column"):
            got(asked["s2"])
        assert got(asked["s1"]).lease.held
        assert got(again) is not None

    assert desk.written() == [
        ["beat"],
        ["take s1", "take s2"],
        ["take s3"],
        ["take s2"],
        ["take s1"],
        ["complete 1 s3"],
    ]
    assert "4 requests to the store failed together, and are tried singly" in caplog.messages
    # And those who come later go together again.
    assert got(desk.ask(enter("s4"))).lease.held


def test_what_comes_while_they_are_tried_singly_waits_for_its_turn_and_goes_together(
    desk: Desk,
) -> None:
    first, single = desk.gate(1), desk.gate(3)
    desk.open()
    first.wait_reached()
    desk.store.bad["s1"] = ValueError("bad")
    asked = [desk.ask(enter(session_id)) for session_id in ("s1", "s2")]
    first.open()
    single.wait_reached()
    later = [desk.ask(enter(session_id)) for session_id in ("s4", "s3")]
    single.open()

    with pytest.raises(ValueError, match="bad"):
        got(asked[0])
    assert [got(future).lease.held for future in (asked[1], *later)] == [True] * 3
    assert desk.written()[2:] == [["take s1"], ["take s2"], ["take s3", "take s4"]]


@pytest.mark.parametrize(
    "trouble", [Away("no route"), ValueError("the table is locked")], ids=["away", "otherwise"]
)
def test_those_that_are_tried_singly_are_told_if_the_room_cannot_say_that_it_lives(
    desk: Desk, trouble: Exception
) -> None:
    """M3: without its lock it writes nothing before it has said so."""
    desk.open(lease_ttl=3_000.0)
    desk.wait_for_first_beat()
    desk.wait_at_rest()
    desk.store.lost = True
    together, singly = desk.gate(2), desk.gate(3)
    desk.store.bad["s1"] = ValueError("bad")
    asked = [desk.ask(enter("s1"))]
    together.wait_reached()
    asked.append(desk.ask(enter("s2")))
    together.open()
    singly.wait_reached()
    desk.store.trouble = trouble
    singly.open()

    for future in asked:
        with pytest.raises(type(trouble), match=str(trouble)):
            got(future)

    desk.store.trouble = None
    assert got(desk.ask(enter("s2"))).lease.held


def test_a_write_that_takes_too_long_is_refused_and_what_comes_after_is_written(desk: Desk) -> None:
    writing = desk.gate(2)
    desk.open(store_timeout=10.0, lease_ttl=3_000.0)
    desk.wait_for_first_beat()
    asked = desk.ask(enter("s1"))
    writing.wait_reached()
    behind = desk.ask(enter("s2"))

    desk.clock.advance(9.9)
    assert not asked.done()
    desk.clock.advance(0.2)

    with pytest.raises(WorkTimedOut):
        got(asked)
    assert got(behind).lease.held
    assert desk.written() == [["beat"], [], ["take s2"]]


def test_nothing_is_written_for_a_session_while_a_write_of_it_may_still_happen(desk: Desk) -> None:
    """What comes back late would undo what was written since."""
    writing = desk.gate(2)
    desk.open(store_timeout=10.0, lease_ttl=3_000.0)
    desk.wait_for_first_beat()
    asked = desk.ask(enter("s1"))
    writing.wait_reached()
    desk.clock.advance(10.1)
    with pytest.raises(WorkTimedOut):
        got(asked)

    with pytest.raises(StoreHangs):
        got(desk.ask(enter("s1")))
    assert got(desk.ask(enter("s2"))).lease.held
    assert "s1" not in desk.store.rows

    writing.open()
    until(lambda: "s1" in desk.store.rows, "the late write")

    def accepted() -> bool:
        try:
            return bool(got(desk.ask(enter("s1"))).lease.held)
        except StoreHangs:
            return False

    until(accepted, "its return")


# Beats.


def beats(desk: Desk) -> int:
    return sum(transaction.count("beat") for transaction in desk.store.transactions)


def test_it_says_at_once_that_the_room_lives_and_then_three_times_for_every_lease(desk: Desk) -> None:
    desk.open(lease_ttl=15.0)
    until(lambda: beats(desk) == 1, "the first beat")

    for number in range(2, 6):
        desk.clock.advance(4.9)
        got(desk.ask(call("orphans", limit=1)))  # whatever was to be written before this is
        assert beats(desk) == number - 1
        desk.clock.advance(0.1)
        until(lambda number=number: beats(desk) == number, f"beat {number}")  # type: ignore[misc]

    [owner] = desk.store.owners
    assert desk.store.rooms == {owner: 20.0 + 15.0}


def test_no_second_beat_comes_on_the_list_while_one_waits(desk: Desk) -> None:
    writing = desk.gate(2)
    desk.open(lease_ttl=15.0, store_timeout=None)
    desk.wait_for_first_beat()
    asked = desk.ask(enter("s1"))
    writing.wait_reached()
    desk.clock.advance(60.0)
    last = desk.ask(enter("s2"))
    writing.open()

    assert got(asked).lease.held
    assert got(last).lease.held
    assert desk.written() == [["beat"], ["take s1"], ["beat", "take s2"]]


def test_that_the_store_is_away_and_comes_back_is_logged_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    # No timeout: the worker of the first beat may still be on its way home ten seconds later.
    desk.open(lease_ttl=15.0, store_timeout=None)
    desk.wait_for_first_beat()
    with caplog.at_level(logging.WARNING, "greenroom"):
        desk.store.trouble = Away("no route")
        for _ in range(3):
            desk.clock.advance(5.0)
            with pytest.raises(Away):
                got(desk.ask(call("orphans", limit=1)))
        desk.store.trouble = None
        desk.clock.advance(5.0)
        assert got(desk.ask(call("orphans", limit=1))) == []

    assert caplog.messages == [
        "The store cannot be reached: Away: no route",
        "The store can be reached again",
        "Other rooms may have taken this one for dead, and its sessions over",
    ]


def test_a_short_absence_of_the_store_is_no_lapse(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The lease was still good when the room was heard of again."""
    # No timeout: the worker of the first beat may still be on its way home ten seconds later.
    desk.open(lease_ttl=15.0, store_timeout=None)
    desk.wait_for_first_beat()
    with caplog.at_level(logging.WARNING, "greenroom"):
        desk.store.trouble = Away("no route")
        desk.clock.advance(5.0)
        until(lambda: "The store cannot be reached: Away: no route" in caplog.messages, "a lapse")
        desk.store.trouble = None
        desk.clock.advance(5.0)
        until(lambda: "The store can be reached again" in caplog.messages, "a return")
    assert len(caplog.messages) == 2


# The end.


def test_after_the_books_are_closed_nothing_is_written_and_everybody_else_is_refused(
    desk: Desk,
) -> None:
    """D1"""
    desk.open(lease_ttl=15.0)
    got(desk.ask(enter("s1")))

    assert got(desk.ask(CloseBooks())) is True
    written = desk.written()
    assert written[-1] == ["retire"]
    assert desk.store.rows["s1"].owner is None
    assert desk.store.rooms == {}

    for request in (enter("s1"), record("s1", 1), call("orphans", limit=1)):
        with pytest.raises(RoomClosed):
            got(desk.ask(request))
    desk.clock.advance(60.0)
    assert got(desk.ask(CloseBooks())) is True
    assert desk.written() == written


def test_what_was_asked_before_the_books_are_closed_is_still_written(desk: Desk) -> None:
    """D3: a turn that ended while the store was busy is in the ledger when the room hands over."""
    desk.open()
    got(desk.ask(enter("s1")))
    before = len(desk.written())
    writing = desk.gate(before + 1)
    busy = desk.ask(enter("s2"))
    writing.wait_reached()

    recorded = desk.ask(record("s1", 1))
    intended = desk.ask(call("intend", "s1", epoch=1, generation=1))
    closed = desk.ask(CloseBooks())
    with pytest.raises(RoomClosed):
        got(desk.ask(enter("s3")))
    writing.open()

    assert got(busy).lease.held
    assert got(closed) is True
    row = desk.store.rows["s1"]
    assert (row.generation, row.intended, row.owner) == (1, 1, None)
    assert got(recorded) is not None
    assert got(intended) is True


def test_a_store_that_is_away_when_the_books_are_closed_says_so(desk: Desk) -> None:
    """D2"""
    desk.open()
    desk.wait_for_first_beat()
    desk.store.trouble = Away("no route")
    with pytest.raises(Away):
        got(desk.ask(CloseBooks()))
    with pytest.raises(RoomClosed):
        got(desk.ask(enter("s1")))


# Without a ledger.


class Glass:
    """A store that can only be looked at, and takes its time where it is told to."""

    def __init__(self) -> None:
        self.gates: dict[str, Gate] = {}
        self.bad: dict[str, Exception] = {}

    def session(self, session_id: str) -> Any:
        if session_id in self.gates:
            self.gates[session_id].wait()
        if session_id in self.bad:
            raise self.bad[session_id]
        return SimpleNamespace(version=len(session_id), ended=None)


def test_without_a_ledger_a_slow_look_delays_no_other() -> None:
    """C7"""
    store = Glass()
    slow = store.gates["slow"] = Gate()
    store.bad["unknown"] = KeyError("unknown")
    with Runtime(clock=ManualClock()) as runtime:
        writer = open_writer(runtime, store)
        waiting = writer.ask(enter("slow"), block=False)
        slow.wait_reached()

        assert writer.ask(enter("s1"), timeout=PATIENCE).seen.version == 2
        assert writer.ask(record("s22", 1), timeout=PATIENCE).version == 3
        with pytest.raises(KeyError):
            writer.ask(enter("unknown"), timeout=PATIENCE)
        assert not waiting.done()
        slow.open()
        assert waiting.get(timeout=PATIENCE).seen.version == 4


def test_without_a_ledger_a_look_that_takes_too_long_is_refused() -> None:
    """H5"""
    store = Glass()
    slow = store.gates["slow"] = Gate()
    clock = ManualClock()
    with Runtime(clock=clock) as runtime:
        writer = open_writer(runtime, store, store_timeout=10.0)
        waiting = writer.ask(enter("slow"), block=False)
        slow.wait_reached()
        clock.advance(10.1)
        with pytest.raises(WorkTimedOut):
            waiting.get(timeout=PATIENCE)
        slow.open()


def test_without_a_ledger_there_are_no_books_to_close_and_no_beats() -> None:
    clock = ManualClock()
    with Runtime(clock=clock) as runtime:
        writer = open_writer(runtime, Glass())
        assert writer.ask(CloseBooks(), timeout=PATIENCE) is True
        clock.advance(3_600.0)
        assert writer.ask(enter("s1"), timeout=PATIENCE).seen.version == 2
        assert runtime.stats().failures == 0
