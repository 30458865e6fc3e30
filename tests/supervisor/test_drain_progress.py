"""The progress of a drain: who is still to be heard of, and what is reported."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from greenroom.messages import DrainReport, SessionDrained
from greenroom.supervisor.drain import ABANDON, ANSWER, FORCE, REPORT, STAGES, DrainProgress

STUCK = "it was still busy at the deadline: a hook of it is stuck"


def drained(
    key: str = "k",
    *,
    committed: bool = False,
    left: int = 0,
    abandoned: bool = False,
    problem: str | None = None,
) -> SessionDrained:
    return SessionDrained(key=key, committed=committed, left=left, abandoned=abandoned, problem=problem)


def report(*messages: SessionDrained, keys: str = "k") -> DrainReport:
    progress = DrainProgress(keys, began=10.0, deadline=40.0)
    for message in messages:
        progress.drained(message)
    return progress.report(now=12.5)


def test_the_stages_come_in_order_within_a_second_of_the_deadline() -> None:
    """D2"""
    assert list(STAGES) == [FORCE, ABANDON, REPORT, ANSWER]
    assert sorted(STAGES.values()) == list(STAGES.values())
    assert STAGES[FORCE] == 0.0
    assert STAGES[REPORT] < 1.0


def test_an_empty_room_has_an_empty_report() -> None:
    """D4"""
    progress = DrainProgress((), began=10.0, deadline=40.0)
    assert progress.pending == set()
    assert (progress.began, progress.deadline) == (10.0, 40.0)
    assert progress.report(now=10.0) == DrainReport()


def test_the_report_says_how_long_it_took() -> None:
    """D3"""
    assert report(drained()).seconds == 2.5


@pytest.mark.parametrize(
    ("message", "where", "problem"),
    [
        (drained(), "", None),
        (drained(committed=True), "committed", None),
        (drained(left=2), "failed", "nobody could be asked to commit (2 turns are uncommitted)"),
        (drained(problem="commit: no"), "failed", "commit: no"),
        (drained(left=1, problem="commit: no"), "failed", "commit: no (1 turns are uncommitted)"),
        (drained(committed=True, problem="close: no"), "committed failed", "close: no"),
        (drained(abandoned=True), "abandoned", None),
        (drained(abandoned=True, problem="in a turn"), "abandoned", "in a turn"),
        (
            drained(abandoned=True, left=3),
            "abandoned",
            "nobody could be asked to commit (3 turns are uncommitted)",
        ),
        (drained(abandoned=True, committed=True), "committed abandoned", None),
    ],
)
def test_what_a_session_tells_is_put_where_it_belongs(
    message: SessionDrained, where: str, problem: str | None
) -> None:
    """D3"""
    found = report(message)
    for name in ("committed", "failed", "abandoned"):
        assert getattr(found, name) == (("k",) if name in where.split() else ())
    assert found.problems == ({} if problem is None else {"k": problem})
    assert bool(found) == (where in ("", "committed"))


def test_whoever_was_not_heard_of_is_abandoned() -> None:
    """D2"""
    found = report(drained("b", committed=True), keys="abc")
    assert found.committed == ("b",)
    assert found.abandoned == ("a", "c")
    assert found.problems == {"a": STUCK, "c": STUCK}
    assert not found


def test_whoever_is_gone_had_nothing_to_do() -> None:
    """D3"""
    progress = DrainProgress("ab", began=0.0, deadline=1.0)
    progress.gone("a")
    progress.gone("a")
    progress.gone("stranger")
    assert progress.pending == {"b"}
    assert progress.report(now=1.0).abandoned == ("b",)


def test_a_session_is_heard_once() -> None:
    """D4"""
    found = report(drained(committed=True), drained(left=3, problem="late"))
    assert found.committed == ("k",)
    assert found.failed == ()
    assert not found.problems


def test_a_session_that_came_later_is_not_in_the_report() -> None:
    found = report(drained("stranger", committed=True), drained())
    assert (found.committed, found.abandoned) == ((), ())


def test_a_report_stays_as_it_was() -> None:
    progress = DrainProgress("ab", began=0.0, deadline=1.0)
    progress.drained(drained("a", problem="no"))
    first = progress.report(now=0.5)
    progress.drained(drained("b", problem="no"))
    assert (first.failed, first.abandoned) == (("a",), ("b",))
    assert pickle.loads(pickle.dumps(first)) == first


messages = st.builds(
    drained,
    st.sampled_from("abcde"),
    committed=st.booleans(),
    left=st.integers(0, 2),
    abandoned=st.booleans(),
    problem=st.sampled_from([None, "no"]),
)


@settings(deadline=None)
@given(keys=st.sets(st.sampled_from("abcd")), heard=st.lists(st.one_of(messages, st.just("a"))))
def test_every_session_is_accounted_for(keys: set[str], heard: list[SessionDrained | str]) -> None:
    """D3"""
    progress = DrainProgress(keys, began=0.0, deadline=1.0)
    first: dict[str, SessionDrained | None] = {}
    for message in heard:
        if isinstance(message, str):
            progress.gone(message)
            first.setdefault(message, None)
        else:
            progress.drained(message)
            first.setdefault(message.key, message)
    assert progress.pending == keys - set(first)
    told = {key: message for key, message in first.items() if key in keys and message is not None}
    found = progress.report(now=1.0)
    abandoned = {key for key, message in told.items() if message.abandoned} | progress.pending
    problems = {key for key, message in told.items() if message.left or message.problem}
    assert set(found.abandoned) == abandoned
    assert set(found.committed) == {key for key, message in told.items() if message.committed}
    assert set(found.failed) == problems - abandoned
    assert set(found.problems) == problems | progress.pending
