"""The generations of a session: each case, and beside a model, which is a list of who completed what."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from greenroom.actors.session.generations import Generations, Segment


def generations(*owners: int | None) -> Generations:
    """Generations that were completed by these."""
    made = Generations()
    for owner in owners:
        made.complete(owner)
    return made


def segments(made: Generations) -> list[tuple[int | None, int]]:
    return [(segment.owner, segment.last) for segment in made.segments]


# Completing.


def test_nothing_was_completed_at_first() -> None:
    """G7"""
    made = Generations()
    assert (made.generation, made.committed, made.dirty) == (0, 0, 0)
    assert made.segments == ()
    assert made.next_owner is None
    assert not made.owes(1)
    assert made.begin_commit() is None
    assert made.begin_commit(offered=1) is None
    assert made.in_flight is None


def test_a_completed_turn_makes_dirty_and_begins_no_commit() -> None:
    """G1"""
    made = Generations()
    assert made.complete(1) == 1
    assert made.complete(1) == 2
    assert (made.generation, made.committed, made.dirty) == (2, 0, 2)
    assert made.in_flight is None


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([1], [(1, 1)]),
        ([1, 1, 1], [(1, 3)]),
        ([1, 2], [(1, 1), (2, 2)]),
        ([1, 2, 1], [(1, 1), (2, 2), (1, 3)]),
        ([None, None], [(None, 2)]),
        ([None, 1, None], [(None, 1), (1, 2), (None, 3)]),
    ],
)
def test_a_segment_is_a_run_of_one_owner(
    owners: list[int | None], expected: list[tuple[int | None, int]]
) -> None:
    """G5"""
    made = generations(*owners)
    assert segments(made) == expected
    assert made.next_owner == expected[0][0]
    for owner in (1, 2):
        assert made.owes(owner) == (owner in owners)


def test_a_turn_completed_during_a_commit_begins_a_segment_which_the_next_join() -> None:
    """G3"""
    made = generations(1)
    made.begin_commit()
    made.complete(1)
    made.complete(1)
    assert segments(made) == [(1, 1), (1, 3)]


# Committing.


def test_one_commit_covers_everything_completed_before_it_began() -> None:
    """G2"""
    made = generations(1, 1, 1)
    assert made.begin_commit() == Segment(1, 3)
    assert made.end_commit(True) == 3
    assert (made.generation, made.committed, made.dirty) == (3, 3, 0)
    assert made.segments == ()
    assert not made.owes(1)
    assert made.begin_commit() is None


def test_a_turn_that_ends_during_a_commit_stays_uncommitted() -> None:
    """G3"""
    made = generations(1)
    made.begin_commit()
    made.complete(1)
    assert made.end_commit(True) == 1
    assert (made.dirty, made.owes(1)) == (1, True)
    assert made.begin_commit() == Segment(1, 2)


def test_a_failed_commit_keeps_the_generations_and_the_owner() -> None:
    """G4"""
    made = generations(1, 2)
    made.begin_commit()
    assert made.end_commit(False) == 0
    assert made.in_flight is None
    assert segments(made) == [(1, 1), (2, 2)]
    assert made.begin_commit() == Segment(1, 1)


def test_after_a_failed_commit_the_next_covers_what_its_owner_completed_meanwhile() -> None:
    """G2"""
    made = generations(1)
    made.begin_commit()
    made.complete(1)
    made.complete(2)
    made.complete(1)
    made.end_commit(False)
    assert made.begin_commit() == Segment(1, 2)
    assert segments(made) == [(1, 2), (2, 3), (1, 4)]


def test_segments_are_committed_oldest_first_each_by_its_owner() -> None:
    """G5"""
    made = generations(1, 1, 2, 1)
    order: list[tuple[int | None, int]] = []
    while (segment := made.begin_commit(offered=9)) is not None:
        order.append((segment.owner, made.end_commit(True)))
    assert order == [(1, 2), (2, 1), (1, 1)]


def test_commits_never_overlap() -> None:
    """G8"""
    made = generations(1, 2)
    first = made.begin_commit()
    assert made.begin_commit() is None
    assert made.begin_commit(offered=2) is None
    assert made.in_flight is first


def test_a_commit_that_is_not_in_flight_cannot_end() -> None:
    made = generations(1)
    for succeeded in (True, False):
        assert made.end_commit(succeeded) == 0
        assert segments(made) == [(1, 1)]
        assert made.committed == 0


def test_without_an_owner_nothing_is_committed() -> None:
    """G6"""
    made = generations(None)
    assert made.begin_commit() is None
    assert made.in_flight is None
    assert segments(made) == [(None, 1)]


def test_a_segment_without_an_owner_takes_who_is_offered_and_keeps_it() -> None:
    """G6"""
    made = generations(None, None)
    assert made.begin_commit(offered=7) == Segment(7, 2)
    made.end_commit(False)
    assert made.next_owner == 7
    assert made.begin_commit(offered=8) == Segment(7, 2)


def test_a_segment_with_an_owner_does_not_take_who_is_offered() -> None:
    """G5"""
    assert generations(1).begin_commit(offered=7) == Segment(1, 1)


def test_a_segment_that_takes_an_owner_is_joined_by_what_that_owner_did_next() -> None:
    """G2"""
    made = generations(None, 7, 7, None)
    assert made.begin_commit(offered=7) == Segment(7, 3)
    assert segments(made) == [(7, 3), (None, 4)]


# Beside a model.


class GenerationsMachine(RuleBasedStateMachine):
    """The model is a list of (generation, owner); the first so many of them are committed."""

    def __init__(self) -> None:
        super().__init__()
        self.made = Generations()
        self.model: list[tuple[int, int | None]] = []
        self.committed = 0
        self.flying = 0
        """How many generations are in flight."""

    @rule(owner=st.sampled_from([None, 1, 2, 3]))
    def complete(self, owner: int | None) -> None:
        generation = len(self.model) + 1
        self.model.append((generation, owner))
        assert self.made.complete(owner) == generation

    @rule(offered=st.sampled_from([None, 1, 2, 9]))
    def begin_commit(self, offered: int | None) -> None:
        segment = self.made.begin_commit(offered)
        pending = self.model[self.committed :]
        if self.flying or not pending or (pending[0][1] is None and offered is None):
            assert segment is None
            return
        if pending[0][1] is None:
            self._take(offered)
            pending = self.model[self.committed :]
        owner = pending[0][1]
        run = 0
        while run < len(pending) and pending[run][1] == owner:
            run += 1
        self.flying = run
        assert segment == Segment(owner, self.committed + run)

    def _take(self, offered: int | None) -> None:
        """Give the oldest run without an owner to whoever is offered."""
        for number in range(self.committed, len(self.model)):
            generation, owner = self.model[number]
            if owner is not None:
                break
            self.model[number] = (generation, offered)

    @rule(succeeded=st.booleans())
    def end_commit(self, succeeded: bool) -> None:
        expected = self.flying if succeeded else 0
        assert self.made.end_commit(succeeded) == expected
        self.committed += expected
        self.flying = 0

    @invariant()
    def the_model_agrees(self) -> None:
        made, pending = self.made, self.model[self.committed :]
        assert (made.generation, made.committed) == (len(self.model), self.committed)
        assert made.dirty == len(pending)
        assert (made.in_flight is not None) == bool(self.flying)
        assert made.next_owner == (pending[0][1] if pending else None)
        for owner in (1, 2, 3, 9):
            assert made.owes(owner) == any(who == owner for _, who in pending)
        spelt: list[tuple[int, int | None]] = []
        for segment in made.segments:
            first = self.committed + len(spelt) + 1
            assert segment.last >= first, "an empty segment"
            spelt += [(number, segment.owner) for number in range(first, segment.last + 1)]
        assert spelt == pending

    @invariant()
    def a_busy_session_has_few_segments(self) -> None:
        """Neighbours differ in their owner, but for what came behind the one in flight."""
        found = self.made.segments
        for one, other in pairwise(found):
            assert one.owner != other.owner or self._has_flown(one)

    def _has_flown(self, segment: Segment) -> bool:
        """Whether it is the oldest: in flight, or back from a commit that failed."""
        return segment is self.made.segments[0]


TestGenerations = GenerationsMachine.TestCase
TestGenerations.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
