"""Whether an agent still knows its transcript: each case, and beside a model of the transcript."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from greenroom.actors.ledger.coherence import MOST_REMEMBERED, Remembered, TranscriptVersion


def seen(version: int, *, own: int = 0, ended: bool = False) -> TranscriptVersion:
    """What was seen while this process wrote nothing: its writes can be told exactly."""
    return TranscriptVersion(version, ended, finished=own, begun=own)


def remembered(version: int = 5, *, own: int = 0) -> Remembered:
    """An agent that was built for "s", whose transcript was at this version."""
    made = Remembered("s")
    made.remember("s", seen(version, own=own))
    return made


def is_stale(made: Remembered, seen: TranscriptVersion | None, session_id: str = "s") -> bool:
    return made.is_stale(session_id, seen, None)


def test_an_agent_whose_transcript_did_not_change_is_reused() -> None:
    """H1"""
    assert not is_stale(remembered(5), seen(5))


def test_own_writes_do_not_make_an_agent_stale_in_a_turn_or_between_turns() -> None:
    """H1"""
    assert not is_stale(remembered(5, own=2), seen(9, own=6))


def test_the_end_of_an_own_turn_is_remembered_again() -> None:
    """H1"""
    made = remembered(5)
    made.remember("s", seen(8))
    assert not is_stale(made, seen(8))
    assert is_stale(made, seen(9))


def test_an_own_write_may_be_in_the_version_that_is_remembered_or_not() -> None:
    """H1: it was under way when the store was looked at, and is over now."""
    for version in (5, 6):
        made = Remembered("s")
        made.remember("s", TranscriptVersion(version, ended=False, finished=0, begun=1))
        assert not is_stale(made, seen(6, own=1))


def test_an_own_write_may_be_in_the_version_that_is_seen_or_not() -> None:
    """H1: it is under way now."""
    for version in (5, 6):
        assert not is_stale(remembered(5), TranscriptVersion(version, ended=False, finished=0, begun=1))


def test_a_write_of_another_process_makes_an_agent_stale() -> None:
    """H2"""
    assert is_stale(remembered(5), seen(6))


def test_a_write_of_another_process_is_seen_among_own_ones() -> None:
    """H2"""
    assert is_stale(remembered(5, own=2), seen(10, own=6))


def test_a_transcript_that_went_back_is_another_one() -> None:
    """H2: the store was restored from a copy."""
    assert is_stale(remembered(5), seen(4))
    assert is_stale(remembered(5), seen(4, own=3))


def test_another_session_id_is_compared_with_nothing() -> None:
    """H3"""
    assert not is_stale(remembered(5), seen(77), "r")


def test_the_version_stays_with_its_own_session_id() -> None:
    """H3: switching back does not rebuild either."""
    made = remembered(5)
    made.remember("r", seen(77))
    assert not is_stale(made, seen(5))
    assert not is_stale(made, seen(77), "r")


def test_a_foreign_write_is_seen_after_switching_back() -> None:
    """H2, H3"""
    made = remembered(5)
    made.remember("r", seen(77))
    assert is_stale(made, seen(6))
    assert is_stale(made, seen(78), "r")


@pytest.mark.parametrize("served", [False, True])
def test_an_agent_whose_own_session_id_has_ended_serves_no_other_one(served: bool) -> None:
    """H4"""
    made = remembered(5)
    if served:
        made.remember("r", seen(77))
    assert made.is_stale("r", seen(77), seen(5, ended=True))
    assert made.is_stale("r", None, seen(5, ended=True))
    assert not made.is_stale("r", seen(77), seen(5))


def test_a_session_id_that_has_ended_is_served_by_its_own_agent() -> None:
    """H4: it is about another one."""
    made = remembered(5)
    assert not made.is_stale("s", seen(5, ended=True), None)
    assert not made.is_stale("s", seen(5, ended=True), seen(5, ended=True))


def test_a_session_that_the_store_cannot_tell_of_does_not_make_an_agent_stale() -> None:
    """H5"""
    made = remembered(5)
    assert not is_stale(made, None)
    assert not made.is_stale("r", None, None)


def test_an_agent_without_a_remembered_version_is_reused() -> None:
    """H5"""
    assert not is_stale(Remembered("s"), seen(5))


def test_a_version_that_nobody_can_tell_is_not_remembered_and_the_next_is() -> None:
    """H5: at worst one stale turn."""
    made = remembered(5)
    assert "s" in made
    made.remember("s", None)
    assert "s" not in made
    assert not is_stale(made, seen(6))
    made.remember("s", None)
    made.remember("s", seen(6))
    assert is_stale(made, seen(7))


def test_an_agent_remembers_its_home_and_the_last_few_it_has_served() -> None:
    """C9"""
    made = remembered(5)
    names = [f"r{number}" for number in range(MOST_REMEMBERED + 3)]
    for name in names:
        made.remember(name, seen(1))
    forgotten = [name for name in names if not is_stale(made, seen(2), name)]
    assert forgotten == names[:3]
    assert is_stale(made, seen(6))


# Beside a model.


class TranscriptMachine(RuleBasedStateMachine):
    """A transcript that this process and others write to, and an agent that is asked about it.

    A write of this process has three moments: it begins, it is in the version, it is finished. A look
    has three as well: how many are finished, the version, how many are begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.begun = self.written = self.finished = 0
        self.foreign = 0
        self.agent = Remembered("s")
        self.mark: tuple[int, int] | None = None
        """How many foreign writes there were when it was remembered, and how many own ones might be
        counted twice since: those that were under way."""

    @rule()
    def own_write_begins(self) -> None:
        self.begun += 1

    @precondition(lambda self: self.written < self.begun)
    @rule()
    def own_write_is_in(self) -> None:
        self.written += 1
        self.version += 1

    @precondition(lambda self: self.finished < self.written)
    @rule()
    def own_write_is_finished(self) -> None:
        self.finished += 1

    @rule()
    def foreign_write(self) -> None:
        self.foreign += 1
        self.version += 1

    def look(self) -> TranscriptVersion:
        return TranscriptVersion(self.version, ended=False, finished=self.finished, begun=self.begun)

    @rule(data=st.data())
    def remember(self, data: st.DataObject) -> None:
        """The look may take its time: own writes begin and finish while it lasts."""
        finished = data.draw(st.integers(max(0, self.finished - 1), self.finished))
        self.agent.remember("s", self.look()._replace(finished=finished))
        self.mark = (self.foreign, self.written - finished)

    @rule()
    def forget(self) -> None:
        self.agent.remember("s", None)
        self.mark = None

    @rule()
    def ask(self) -> None:
        stale = self.agent.is_stale("s", self.look(), None)
        if self.mark is None:
            assert not stale, "H5"
            return
        foreign, under_way = self.mark
        news = self.foreign - foreign
        if not news:
            assert not stale, "H1: own writes only"
        if news > under_way + self.begun - self.written:
            assert stale, "H2: more than own writes can explain"

    @precondition(lambda self: self.begun == self.finished)
    @rule()
    def ask_exactly(self) -> None:
        """Nothing of this process is under way, now or when it was remembered: there is no doubt."""
        if self.mark is not None and self.mark[1] == 0:
            stale = self.agent.is_stale("s", self.look(), None)
            assert stale == (self.foreign > self.mark[0])


TestTranscript = TranscriptMachine.TestCase
TestTranscript.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
