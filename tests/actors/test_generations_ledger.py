"""The generations of a session with a ledger: session ids, tokens, and who answers for what.

Each case, and beside a model, which is a list of the uncommitted turns and all that is known of them.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom.actors.session.generations import Generation, Generations, Segment


def shown(made: Generations) -> list[str]:
    """The segments: owner, last, session id, token, epoch; "!" if a commit was begun for them."""
    return [
        f"{s.owner or 'nobody'}..{s.last} {s.session_id}{s.token}@{s.epoch}{'!' if s.begun else ''}"
        for s in made.segments
    ]


def with_turns(*turns: tuple[int | None, str, int]) -> Generations:
    """Turns by (owner, session id, number), all under epoch 1."""
    made = Generations()
    for owner, session_id, number in turns:
        made.complete(owner, session_id, number, 1)
    return made


# What a commit hook gets.


def test_the_generation_that_a_hook_gets_is_a_number_that_knows_its_session_id() -> None:
    """G4"""
    generation = Generation(3, "s")
    assert generation == 3
    assert generation + 1 == 4
    assert generation.session_id == "s"
    assert Generation(3, None).session_id is None


def test_it_can_be_sent_to_another_process() -> None:
    """G4"""
    generation = pickle.loads(pickle.dumps(Generation(3, "s")))
    assert (type(generation), generation, generation.session_id) == (Generation, 3, "s")


# Segments.


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ((1, "s", 2, 1), ["1..2 s2@1"]),
        ((2, "s", 2, 1), ["1..1 s1@1", "2..2 s2@1"]),
        ((1, "r", 1, 1), ["1..1 s1@1", "1..2 r1@1"]),
        ((1, "s", 2, 2), ["1..1 s1@1", "1..2 s2@2"]),
    ],
)
def test_a_segment_is_a_run_of_one_owner_session_id_and_epoch(
    second: tuple[int, str, int, int], expected: list[str]
) -> None:
    """G5"""
    made = Generations()
    made.complete(1, "s", 1, 1)
    made.complete(*second)
    assert shown(made) == expected


def test_what_is_owed_for_a_session_id() -> None:
    made = with_turns((1, "s", 1), (None, "r", 1), (1, "s", 2), (1, "s", 3))
    assert [made.owed(name) for name in ("s", "r", "q")] == [3, 1, 0]
    assert [made.owed_for(name) for name in ("s", "r", "q")] == [True, True, False]
    assert [made.nobodys(name) for name in ("s", "r", "q")] == [False, True, False]
    assert not Generations().owed_for("s")
    assert Generations().owed("s") == 0
    assert not Generations().nobodys("s")


def test_what_a_commit_was_begun_for_is_not_changed_any_more() -> None:
    """G4: a memory provider can tell a second try from a second piece of work."""
    made = with_turns((1, "s", 1))
    made.begin_commit()
    made.complete(1, "s", 2, 1)
    made.end_commit(False)
    made.complete(1, "s", 3, 1)
    assert shown(made) == ["1..1 s1@1!", "1..3 s3@1"]
    segment = made.begin_commit()
    assert segment is not None
    assert (segment.token, made.end_commit(True)) == (1, 1)
    segment = made.begin_commit()
    assert segment is not None
    assert (segment.token, made.end_commit(True)) == (3, 2)


def test_nor_is_it_by_a_commit_that_was_put_off() -> None:
    made = with_turns((1, "s", 1))
    made.begin_commit()
    made.put_off_commit()
    assert made.in_flight is None
    made.complete(1, "s", 2, 1)
    assert shown(made) == ["1..1 s1@1!", "1..2 s2@1"]


def test_without_a_session_id_the_next_try_covers_what_was_completed_meanwhile() -> None:
    """G2"""
    made = Generations()
    made.complete(1)
    made.begin_commit()
    made.put_off_commit()
    made.complete(1)
    assert made.begin_commit() == Segment(1, 2)


# Resuming.


@pytest.mark.parametrize(
    ("generation", "committed", "intended", "expected"),
    [
        (0, 0, 0, []),
        (4, 4, 4, []),
        (4, 4, 2, []),
        (4, 1, 0, ["nobody..3 s4@7"]),
        (4, 1, 1, ["nobody..3 s4@7"]),
        (4, 1, 3, ["nobody..2 s3@7!", "nobody..3 s4@7"]),
        (4, 1, 4, ["nobody..3 s4@7!"]),
    ],
)
def test_what_the_ledger_has_and_nobody_here_completed_is_resumed(
    generation: int, committed: int, intended: int, expected: list[str]
) -> None:
    """G6"""
    made = Generations()
    count = made.resume("s", 7, generation=generation, committed=committed, intended=intended)
    assert shown(made) == expected
    assert count == made.dirty == made.generation == generation - committed


def test_what_is_resumed_comes_behind_what_is_uncommitted_here() -> None:
    """G5"""
    made = with_turns((1, "s", 1))
    assert made.resume("r", 2, generation=5, committed=3) == 2
    assert shown(made) == ["1..1 s1@1", "nobody..3 r5@2"]


def test_what_is_resumed_of_one_session_id_and_epoch_is_one_segment() -> None:
    """G2"""
    made = Generations()
    made.resume("s", 1, generation=2, committed=0)
    made.resume("s", 1, generation=3, committed=2)
    assert shown(made) == ["nobody..3 s3@1"]


def test_what_was_resumed_goes_to_who_takes_it_over() -> None:
    """G6"""
    made = Generations()
    made.complete(None)
    made.resume("s", 1, generation=1, committed=0)
    made.resume("r", 1, generation=1, committed=0)
    made.take_over(4, "r")
    assert [segment.owner for segment in made.segments] == [None, None, 4]
    made.take_over(5)
    assert [segment.owner for segment in made.segments] == [None, 5, 4]
    made.leave_to_nobody(4)
    assert [segment.owner for segment in made.segments] == [None, 5, None]


def test_nobody_takes_over_what_is_not_there() -> None:
    made = Generations()
    made.take_over(1)
    made.leave_to_nobody(1)
    assert made.disown("s", 9) == 0
    assert made.segments == ()
    assert made.next is None
    assert made.next_owner is None
    assert made.begin_commit(1) is None


def test_what_was_resumed_and_is_nobodys_yet_holds_up_nobody() -> None:
    """G5, G6"""
    made = Generations()
    made.resume("r", 1, generation=2, committed=0)
    made.complete(1, "s", 1, 1)
    made.complete(1, "s", 2, 1)
    assert made.next_owner == 1
    segment = made.begin_commit()
    assert shown(made) == ["nobody..2 r2@1", "1..4 s2@1!"]
    assert segment is made.segments[1]
    assert made.end_commit(True) == 2
    assert shown(made) == ["nobody..4 r2@1"], "it has moved up"
    assert (made.committed, made.extracted, made.dirty) == (2, 2, 2)
    assert (made.owed("r"), made.owed("s")) == (2, 0)
    assert made.next is None
    assert made.next_owner is None


def test_but_what_was_completed_later_of_the_same_session_id_waits_for_it() -> None:
    """G5: a commit covers everything up to its token, in the ledger at least."""
    made = Generations()
    made.resume("s", 1, generation=2, committed=0)
    made.complete(1, "s", 3, 1)
    made.complete(1, "r", 1, 1)
    made.complete(1, "s", 4, 1)
    segment = made.begin_commit()
    assert segment is not None
    assert (segment.session_id, made.end_commit(True)) == ("r", 1)
    assert shown(made) == ["nobody..3 s2@1", "1..4 s3@1", "1..5 s4@1"]
    assert made.next is made.begin_commit() is None
    made.take_over(2, "s")
    segment = made.begin_commit()
    assert segment is not None
    assert (segment.owner, segment.token) == (2, 2)


def test_nor_is_it_given_to_somebody_who_is_there_by_chance() -> None:
    """G6: whoever takes it over knows what it is; whoever is offered need not."""
    made = Generations()
    made.resume("s", 1, generation=2, committed=0)
    assert made.begin_commit(4) is None
    assert (shown(made), made.in_flight) == (["nobody..2 s2@1"], None)
    made.complete(None)
    assert made.begin_commit(None) is None
    segment = made.begin_commit(4)
    assert (segment, made.segments[0].owner) == (Segment(4, 3), None)
    made.take_over(5)
    assert made.end_commit(True) == 1
    assert shown(made) == ["5..3 s2@1"]


def test_whatever_becomes_of_what_lies_before_a_commit_in_flight_it_ends_as_it_began() -> None:
    made = Generations()
    made.resume("r", 1, generation=2, committed=0)
    made.complete(1, "s", 1, 1)
    segment = made.begin_commit()
    made.take_over(2)
    assert made.next_owner == 2
    assert made.disown("r", 1) == 2
    assert made.in_flight is segment
    assert shown(made) == ["1..3 s1@1!"]
    assert (made.end_commit(True), made.dirty) == (1, 0)
    assert (made.disowned, made.extracted) == (2, 1)


# Disowning.


def test_what_another_room_answers_for_counts_as_done() -> None:
    """G9"""
    made = with_turns((1, "s", 1), (1, "s", 2), (2, "r", 1), (1, "s", 3))
    assert made.disown("s", 1) == 3
    assert shown(made) == ["2..4 r1@1"]
    assert (made.generation, made.committed, made.dirty) == (4, 3, 1)
    assert made.extracted == 0, "nothing was committed here"
    assert made.disown("r", 1) == 1
    assert (made.segments, made.dirty) == ((), 0)


def test_what_was_completed_since_it_was_taken_back_stays() -> None:
    made = with_turns((1, "s", 1))
    made.complete(1, "s", 2, 2)
    assert made.disown("s", 1) == 1
    assert shown(made) == ["1..2 s2@2"]


def test_a_commit_in_flight_learns_by_itself_that_it_is_disowned() -> None:
    """G8"""
    made = with_turns((1, "s", 1), (2, "s", 2))
    segment = made.begin_commit()
    assert made.disown("s", 1) == 1
    assert made.in_flight is segment
    assert shown(made) == ["1..2 s1@1!"]
    assert made.end_commit(True) == 1
    assert made.dirty == 0


# Beside a model.

OWNERS = [1, 2, 9]
SESSION_IDS = ["s", "r"]


@dataclass(slots=True, eq=False)
class Turn:
    """An uncommitted turn."""

    owner: int | None
    session_id: str | None
    number: int
    epoch: int
    piece: int = 0
    """Which commit was begun for it: all turns of one piece are committed together. 0: none."""

    def alike(self, other: Turn) -> bool:
        return (self.owner, self.session_id, self.epoch) == (other.owner, other.session_id, other.epoch)


class LedgerMachine(RuleBasedStateMachine):
    """Two session ids, which may be taken over by another room and come back at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.made = Generations()
        self.pending: list[Turn] = []
        self.generation = 0
        self.extracted = 0
        self.disowned = 0
        self.flying: list[Turn] = []
        """The pending turns that are in flight."""
        self.pieces = 0
        self.tokens: dict[int, int] = {}
        """For each piece the token of its commit."""
        self.numbers = dict.fromkeys(SESSION_IDS, 0)
        self.epochs = dict.fromkeys(SESSION_IDS, 1)

    @rule(owner=st.sampled_from(OWNERS), session_id=st.sampled_from(SESSION_IDS))
    def complete(self, owner: int, session_id: str) -> None:
        self.numbers[session_id] += 1
        self.generation += 1
        number, epoch = self.numbers[session_id], self.epochs[session_id]
        self.pending.append(Turn(owner, session_id, number, epoch))
        assert self.made.complete(owner, session_id, number, epoch) == self.generation

    @rule(owner=st.sampled_from([None, *OWNERS]))
    def complete_elsewhere(self, owner: int | None) -> None:
        self.generation += 1
        self.pending.append(Turn(owner, None, 0, 0))
        assert self.made.complete(owner) == self.generation

    @rule(
        session_id=st.sampled_from(SESSION_IDS),
        committed=st.integers(0, 2),
        uncommitted=st.integers(0, 3),
        intended=st.integers(0, 3),
    )
    def comes_back(self, session_id: str, committed: int, uncommitted: int, intended: int) -> None:
        """Another room had it, completed and committed some, and has let go."""
        self.disown(session_id, older=0)
        self.epochs[session_id] += 1
        epoch, first = self.epochs[session_id], self.numbers[session_id] + committed
        intended = min(intended, uncommitted)
        self.pieces += 1
        for count in range(1, uncommitted + 1):
            piece = self.pieces if count <= intended else 0
            self.pending.append(Turn(None, session_id, first + count, epoch, piece))
        if intended:
            self.tokens[self.pieces] = first + intended
        self.generation += uncommitted
        self.numbers[session_id] = first + uncommitted
        resumed = self.made.resume(
            session_id,
            epoch,
            generation=first + uncommitted,
            committed=first,
            intended=first + intended if intended else 0,
        )
        assert resumed == uncommitted

    @rule(session_id=st.sampled_from(SESSION_IDS), older=st.integers(0, 2))
    def disown(self, session_id: str, older: int) -> None:
        epoch = self.epochs[session_id] - older
        kept = [
            turn
            for turn in self.pending
            if turn.session_id != session_id or turn.epoch > epoch or turn in self.flying
        ]
        gone = len(self.pending) - len(kept)
        assert self.made.disown(session_id, epoch) == gone
        self.pending = kept
        self.disowned += gone

    @rule(owner=st.sampled_from(OWNERS), session_id=st.sampled_from([None, *SESSION_IDS]))
    def take_over(self, owner: int, session_id: str | None) -> None:
        for turn in self.pending:
            wanted = turn.session_id is not None and session_id in (None, turn.session_id)
            if turn.owner is None and wanted:
                turn.owner = owner
        self.made.take_over(owner, session_id)

    @rule(owner=st.sampled_from(OWNERS))
    def leave_to_nobody(self, owner: int) -> None:
        for turn in self.pending:
            if turn.owner == owner:
                turn.owner = None
        self.made.leave_to_nobody(owner)

    def due(self) -> int | None:
        """Which of the pending turns is committed next."""
        held_up: set[str | None] = set()
        for at, turn in enumerate(self.pending):
            if turn.owner is None and turn.session_id is not None:
                held_up.add(turn.session_id)
            elif turn.session_id not in held_up:
                return at
        return None

    @rule(offered=st.sampled_from([None, *OWNERS]))
    def begin_commit(self, offered: int | None) -> None:
        due = self.due()
        segment = self.made.begin_commit(offered)
        if self.flying or due is None or self.pending[due].owner is offered is None:
            assert segment is None
            return
        assert segment is not None
        first = self.pending[due]
        end = segment.last - self.made.committed
        run, rest = self.pending[due:end], self.pending[end:]
        assert segment.owner == (offered if first.owner is None else first.owner), "G5, G6"
        self.flying = run
        for turn in run:
            turn.owner = segment.owner
        assert all(turn.alike(first) and turn.piece == first.piece for turn in run)
        assert segment.token == run[-1].number
        if first.piece:
            assert segment.token == self.tokens[first.piece], "G4: another token than before"
            assert all(turn.piece != first.piece for turn in rest)
        else:
            assert not (rest and rest[0].alike(first) and not rest[0].piece), "G2"
            self.note_begun(run)

    def note_begun(self, run: list[Turn]) -> None:
        if run[0].session_id is not None:
            self.pieces += 1
            self.tokens[self.pieces] = run[-1].number
            for turn in run:
                turn.piece = self.pieces

    @rule(succeeded=st.booleans())
    def end_commit(self, succeeded: bool) -> None:
        done = self.flying if succeeded else []
        assert self.made.end_commit(succeeded) == len(done)
        self.pending = [turn for turn in self.pending if turn not in done]
        self.extracted += len(done)
        self.flying = []

    @precondition(lambda self: self.flying)
    @rule()
    def commit_is_put_off_or_lost(self) -> None:
        self.made.put_off_commit()
        self.flying = []

    @invariant()
    def the_model_agrees(self) -> None:
        made = self.made
        assert (made.generation, made.dirty) == (self.generation, len(self.pending))
        assert made.committed == self.generation - len(self.pending)
        assert (made.extracted, made.disowned) == (self.extracted, self.disowned)
        due = self.due()
        assert made.next_owner == (None if due is None else self.pending[due].owner)
        assert (made.in_flight is not None) == bool(self.flying)
        for session_id in SESSION_IDS:
            of_it = [turn for turn in self.pending if turn.session_id == session_id]
            assert made.owed_for(session_id) == bool(of_it)
            assert made.owed(session_id) == len(of_it)
            assert made.nobodys(session_id) == any(turn.owner is None for turn in of_it)

    @invariant()
    def the_segments_are_the_pending_turns(self) -> None:
        start, rest = self.made.committed, self.pending
        for segment in self.made.segments:
            count, start = segment.last - start, segment.last
            assert count > 0, "an empty segment"
            run, rest = rest[:count], rest[count:]
            assert all(turn.alike(run[0]) and turn.piece == run[0].piece for turn in run)
            assert (segment.owner, segment.session_id) == (run[0].owner, run[0].session_id)
            assert (segment.token, segment.epoch) == (run[-1].number, run[-1].epoch)
            assert segment.begun == bool(run[0].piece)
        assert not rest


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
