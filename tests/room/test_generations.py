"""Generations: G1 to G10."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom
from greenroom.actors import ManualClock, Session
from greenroom.messages import Call, CommitSession
from tests.actors.actors import PATIENCE, all_at_once, in_thread, join_all
from tests.room.agents import (
    OTHER,
    SPEC,
    Agent,
    Cast,
    let_pass,
    look_at,
    row_of,
    take_turn,
    touch,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import CommitOutcome
    from tests.actors.actors import Gate


def commit_in_thread(room: Greenroom, key: str) -> Callable[[], CommitOutcome]:
    """Commit on a thread of its own. Returns a function that waits for the outcome."""
    outcomes: list[CommitOutcome] = []
    thread = in_thread(lambda: outcomes.append(room.commit(key)))

    def outcome() -> CommitOutcome:
        join_all([thread])
        return outcomes[0]

    return outcome


def commit_in_flight(cast: Cast, room: Greenroom, key: str) -> tuple[Gate, Callable[[], CommitOutcome]]:
    """Begin a commit that stands at a gate."""
    gate = cast.at["commit"] = cast.gate()
    outcome = commit_in_thread(room, key)
    gate.wait_reached()
    return gate, outcome


# G1


def test_completing_a_turn_makes_the_session_dirty_and_commits_nothing(cast: Cast) -> None:
    """G1"""
    room = cast.room()
    assert not room.has_uncommitted("a")

    touch(room, "a")
    room.settle()

    assert room.has_uncommitted("a")
    assert room.stats().dirty == 1
    assert (row_of(room, "a").generation, row_of(room, "a").committed) == (1, 0)
    assert cast.did("commit") == []


def test_the_generation_counts_the_completed_turns(cast: Cast) -> None:
    """G1"""
    room = cast.room()

    seen: list[tuple[int, int]] = []
    for _ in range(3):
        with room.turn("a") as turn:
            during = turn.generation
        seen.append((during, turn.generation))

    assert seen == [(0, 1), (1, 2), (2, 3)]
    assert row_of(room, "a").generation == 3


# G2


def test_one_commit_covers_every_turn_completed_before_it(cast: Cast) -> None:
    """G2"""
    room = cast.room()
    touch(room, "a", "a", "a")

    outcome = room.commit("a")

    assert outcome
    assert (outcome.committed, outcome.left) == (3, 0)
    assert cast.did("commit") == ["a/1"]
    assert not room.has_uncommitted("a")
    assert (room.stats().commits, room.stats().dirty) == (1, 0)


def test_with_nothing_new_a_commit_does_nothing(cast: Cast) -> None:
    """G2"""
    room = cast.room()
    touch(room, "a")
    assert room.commit("a")

    assert not room.commit("a")
    assert not room.commit("a", wait=False)

    assert cast.did("commit") == ["a/1"]
    assert room.stats().commits == 1


def test_a_commit_of_one_session_commits_no_other(cast: Cast) -> None:
    """G2"""
    room = cast.room()
    touch(room, *"ab")

    room.commit("a")

    assert (room.has_uncommitted("a"), room.has_uncommitted("b")) == (False, True)
    assert cast.did("commit") == ["a/1"]


def test_a_commit_keeps_the_agent(cast: Cast) -> None:
    """G2"""
    room = cast.room()
    agent = take_turn(room, "a")

    room.commit("a")

    assert take_turn(room, "a") is agent


def test_a_commit_asked_for_in_a_turn_waits_for_its_end_and_covers_it_or_not_but_never_half(
    cast: Cast,
) -> None:
    """G2, G3"""
    room = cast.room()
    touch(room, "a")
    held = cast.hold(room, "a")
    outcome = commit_in_thread(room, "a")
    until(lambda: room.stats().in_turn == 1)
    assert cast.did("commit") == []

    held.end()

    assert outcome()
    room.commit("a")
    assert not room.has_uncommitted("a")


def test_a_commit_asked_for_inside_its_own_turn_does_not_wait_for_itself(cast: Cast) -> None:
    """G2"""
    room = cast.room()
    touch(room, "a")

    with room.turn("a"):
        assert not room.commit("a")
    room.settle()

    assert cast.did("commit") == ["a/1"], "it is done when the turn is over"


def test_a_commit_that_takes_too_long_for_its_caller_goes_on(cast: Cast) -> None:
    """G2"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "a")
    committing = cast.at["commit"] = cast.gate()
    outcomes: list[CommitOutcome] = []
    thread = in_thread(lambda: outcomes.append(room.commit("a", timeout=5.0)))
    committing.wait_reached()
    row_of(room, "a")  # behind the request

    clock.advance(5.0)
    join_all([thread])
    assert not outcomes[0]
    assert outcomes[0].left == 1
    committing.open()
    room.settle()

    assert not room.has_uncommitted("a")
    assert cast.did("commit") == ["a/1"]


# G3


def test_a_turn_that_ends_during_a_commit_stays_uncommitted(cast: Cast) -> None:
    """G3"""
    room = cast.room()
    touch(room, "a")
    committing, outcome = commit_in_flight(cast, room, "a")

    touch(room, "a")
    committing.open()
    assert outcome().committed == 1
    room.settle()

    assert room.has_uncommitted("a")
    row = row_of(room, "a")
    assert (row.generation, row.committed) == (2, 1)
    assert cast.did("commit") == ["a/1"]
    assert room.commit("a")
    assert cast.did("commit") == ["a/1", "a/1"]


def test_turns_that_end_during_a_commit_are_one_more_commit_and_not_one_each(cast: Cast) -> None:
    """G3, G2"""
    room = cast.room()
    touch(room, "a")
    committing, outcome = commit_in_flight(cast, room, "a")

    touch(room, "a", "a", "a", "a")
    committing.open()
    assert outcome().committed == 1

    assert room.commit("a").committed == 4
    assert cast.did("commit") == ["a/1", "a/1"]


def test_who_asks_for_a_commit_while_one_is_in_flight_gets_what_was_completed_by_then(
    cast: Cast,
) -> None:
    """G3, G8"""
    room = cast.room()
    touch(room, "a")
    committing, first = commit_in_flight(cast, room, "a")
    touch(room, "a")

    second = commit_in_thread(room, "a")
    row_of(room, "a")
    committing.open()

    assert first()
    assert second()
    assert not room.has_uncommitted("a")
    assert cast.did("commit") == ["a/1", "a/1"]


def test_a_turn_that_is_running_when_a_commit_begins_is_not_covered_by_it(cast: Cast) -> None:
    """G3"""
    room = cast.room()
    touch(room, "a")
    committing, outcome = commit_in_flight(cast, room, "a")
    held = cast.hold(room, "a")

    committing.open()
    assert outcome().committed == 1
    held.end()
    room.settle()

    assert room.has_uncommitted("a")


# G4


def test_a_failed_commit_keeps_the_generations_and_the_owner(cast: Cast) -> None:
    """G4"""
    room = cast.room()
    touch(room, "a", "a")
    cast.at["commit"] = ConnectionError("memory is down")

    outcome = room.commit("a")
    assert not outcome
    assert outcome.left == 2
    assert "memory is down" in outcome.note
    assert room.has_uncommitted("a")
    assert (room.stats().commits, room.stats().commit_failures) == (0, 1)
    del cast.at["commit"]

    assert room.commit("a").committed == 2
    assert cast.did("commit") == ["a/1", "a/1"]
    assert room.stats().commits == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_commit_that_raises_whatever_it_likes_kills_nothing_and_can_be_tried_again(
    cast: Cast, error: BaseException
) -> None:
    """G4, S5"""
    room = cast.room()
    touch(room, *"ab")
    cast.at["commit a"] = error

    assert not room.commit("a")
    assert room.commit("b")
    assert room.has_uncommitted("a")
    del cast.at["commit a"]

    assert room.commit("a")
    assert room.stats().commit_failures == 1


def test_a_failed_commit_stops_nothing_and_is_told(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """G4, S5"""
    room = cast.room()
    agent = take_turn(room, "telegram:12345")
    cast.at["commit"] = ConnectionError("memory is down")

    room.commit("telegram:12345")

    assert "telegram:12345" in caplog.text
    assert "memory is down" in caplog.text
    assert "memory is down" in str(room.explain("telegram:12345"))
    assert take_turn(room, "telegram:12345") is agent


def test_a_commit_that_is_stuck_counts_as_failed_and_its_turns_are_not_lost(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """G4, G8, S5"""
    clock = ManualClock()
    room = cast.room(clock=clock, commit_timeout=60.0)
    touch(room, "telegram:12345")
    stuck, outcome = commit_in_flight(cast, room, "telegram:12345")

    clock.advance(60.0)
    assert not outcome()
    room.settle()
    stats = room.stats()
    assert (stats.workers_lost, stats.commit_failures, stats.dirty) == (1, 1, 1)
    assert any("telegram:12345" in name for name in stats.stuck)
    assert "telegram:12345" in caplog.text
    assert not room.commit("telegram:12345"), "no second one beside it"
    touch(room, "telegram:12345", "other")
    assert cast.did("commit") == ["telegram:12345/1"]
    del cast.at["commit"]
    stuck.open()
    until(lambda: room.stats().stuck == (), "nothing that is stuck")

    until(lambda: room.commit("telegram:12345") or not room.has_uncommitted("telegram:12345"))
    assert not room.has_uncommitted("telegram:12345")


# G5


def test_a_replacement_never_takes_over_an_older_segment(cast: Cast) -> None:
    """G5"""
    room = cast.room()
    cast.at["commit a/1"] = ConnectionError("memory is down")
    take_turn(room, "a", SPEC)
    take_turn(room, "a", OTHER)
    room.settle()
    take_turn(room, "a", OTHER)

    assert not room.commit("a")
    room.settle()
    assert set(cast.did("commit")) == {"a/1"}, "the oldest first: the replacement is not asked"
    del cast.at["commit a/1"]
    before = len(cast.did("commit"))

    assert room.commit("a")
    room.settle()

    assert cast.did("commit")[before:] == ["a/1", "a/2"]
    assert not room.has_uncommitted("a")
    assert cast.did("release") == ["a/1"]


def test_each_segment_is_committed_by_its_owner_oldest_first(cast: Cast) -> None:
    """G5"""
    room = cast.room()
    specs = (SPEC, OTHER, {"model": "three"})
    cast.at["commit"] = ConnectionError("memory is down")
    for spec in specs:
        take_turn(room, "a", spec)
        take_turn(room, "a", spec)
        room.settle()
    assert room.stats().retained == 2
    before = len(cast.did("commit"))
    del cast.at["commit"]

    assert room.commit("a").committed == 6
    room.settle()

    assert cast.did("commit")[before:] == ["a/1", "a/2", "a/3"]
    assert sorted(cast.did("release")) == ["a/1", "a/2"]


def test_a_commit_stops_at_the_first_failure(cast: Cast) -> None:
    """G5, G4"""
    room = cast.room()
    cast.at["commit"] = ConnectionError("memory is down")
    take_turn(room, "a", SPEC)
    take_turn(room, "a", OTHER)
    room.settle()
    cast.at = {"commit a/2": ConnectionError("memory is down")}

    outcome = room.commit("a")
    room.settle()

    assert (outcome.committed, outcome.left) == (1, 1)
    assert outcome
    assert room.has_uncommitted("a")
    assert "a" in room


# G6


def test_a_segment_without_an_owner_takes_the_agent_that_is_offered(cast: Cast) -> None:
    """G6"""
    room = cast.room()
    session = room.session("a")
    assert session.complete().get(timeout=PATIENCE) == 1
    assert room.has_uncommitted("a")
    assert not room.commit("a"), "there is nobody to be asked"
    offered = Agent(cast, "a", "offered")

    outcome = session.actor_ref.ask(CommitSession(agent=offered), timeout=PATIENCE)

    assert outcome
    assert cast.did("commit") == ["offered"]
    assert not room.has_uncommitted("a")


def test_a_segment_without_an_owner_keeps_the_agent_it_took_for_retries(cast: Cast) -> None:
    """G6, G4"""
    room = cast.room()
    session = room.session("a")
    session.complete().get(timeout=PATIENCE)
    cast.at["commit"] = ConnectionError("memory is down")
    first, second = Agent(cast, "a", "first"), Agent(cast, "a", "second")

    assert not session.actor_ref.ask(CommitSession(agent=first), timeout=PATIENCE)
    del cast.at["commit"]
    assert session.actor_ref.ask(CommitSession(agent=second), timeout=PATIENCE)

    assert cast.did("commit") == ["first", "first"]


def test_an_agent_that_is_offered_takes_no_segment_that_has_an_owner(cast: Cast) -> None:
    """G6, G5"""
    room = cast.room()
    touch(room, "a")

    request = CommitSession(agent=Agent(cast, "a", "offered"))
    assert room.session("a").actor_ref.ask(request, timeout=PATIENCE)

    assert cast.did("commit") == ["a/1"]


def test_a_turn_that_was_run_elsewhere_is_committed_by_who_ran_it(cast: Cast) -> None:
    """G6"""
    room = cast.room()
    elsewhere = Agent(cast, "a", "elsewhere")

    room.session("a").complete(elsewhere).get(timeout=PATIENCE)

    assert room.commit("a")
    assert cast.log == ["commit elsewhere"]


# G7


def test_a_session_with_no_completed_turn_is_never_committed(cast: Cast) -> None:
    """G7"""
    room = cast.room(cap=2)
    look_at(room, *"abcde")
    assert not room.commit("e")
    room.evict("d")
    room.end("e")
    room.settle()
    cancelled = room.turn("f")
    with cancelled:
        cancelled.cancel()
    with pytest.raises(ZeroDivisionError), room.turn("g"):
        raise ZeroDivisionError
    room.close()

    assert cast.did("commit") == []
    assert room.stats().commits == 0


def test_an_adopted_agent_with_no_completed_turn_is_never_committed(cast: Cast) -> None:
    """G7"""
    room = cast.room()
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)

    assert not room.commit("a")
    room.evict("a")
    room.settle()

    assert cast.log == ["release adopted"]


# G8


def test_a_commit_that_would_not_wait_answers_at_once_while_one_is_in_flight(cast: Cast) -> None:
    """G8"""
    room = cast.room()
    touch(room, "a")
    committing, outcome = commit_in_flight(cast, room, "a")
    touch(room, "a")

    assert not room.commit("a", wait=False)

    assert cast.did("commit") == ["a/1"]
    committing.open()
    assert outcome()


def test_a_commit_that_would_not_wait_commits_if_none_is_in_flight(cast: Cast) -> None:
    """G8"""
    room = cast.room()
    touch(room, "a")

    assert room.commit("a", wait=False)

    assert not room.has_uncommitted("a")


def test_commits_of_one_session_never_overlap(cast: Cast) -> None:
    """G8"""
    room = cast.room(max_waiting=16)
    inside: list[int] = []
    most: list[int] = []

    def commit() -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    cast.at["commit"] = commit

    def turns_and_commits(spec: Any) -> None:
        for n in range(10):
            take_turn(room, "a", spec)
            room.commit("a", wait=n % 2 == 0)

    all_at_once(functools.partial(turns_and_commits, spec) for spec in (SPEC, SPEC, OTHER, OTHER))
    room.commit("a")
    room.settle(PATIENCE)

    assert max(most) == 1
    row = row_of(room, "a")
    assert row.generation == row.committed == 40
    assert len(most) <= 40


def test_commits_of_two_sessions_do_overlap(cast: Cast) -> None:
    """G8, C7"""
    room = cast.room()
    both = threading.Barrier(2)
    cast.at["commit"] = lambda: both.wait(PATIENCE)
    touch(room, *"ab")

    outcomes = [commit_in_thread(room, key) for key in "ab"]

    assert [bool(outcome()) for outcome in outcomes] == [True, True]


def test_a_release_waits_for_the_commit_in_flight_and_begins_no_second_one(cast: Cast) -> None:
    """G8, S1"""
    room = cast.room()
    touch(room, "a")
    committing, outcome = commit_in_flight(cast, room, "a")

    room.evict("a")
    committing.open()
    assert outcome()
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "release a/1"]


# G9


def retained(cast: Cast, room: Greenroom, key: str = "a") -> None:
    """Have a session evicted whose commit fails."""
    touch(room, key)
    cast.at[f"commit {key}"] = ConnectionError("memory is down")
    room.evict(key)
    room.settle()


def test_what_could_not_be_committed_outlives_eviction(cast: Cast) -> None:
    """G9"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    retained(cast, room)

    assert "a" not in room
    assert cast.did("release") == []
    stats = room.stats()
    assert (stats.cached, stats.retained, stats.dirty, stats.commit_failures) == (0, 1, 1, 1)
    assert room.has_uncommitted("a")
    explanation = room.explain("a")
    assert explanation.session is not None
    assert explanation.session.retained == 1
    assert "1 of its 1 completed turns are not committed" in str(explanation)


def test_it_is_retried_and_the_agent_released_when_it_succeeds(cast: Cast) -> None:
    """G9"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    retained(cast, room)
    del cast.at["commit a"]

    let_pass(room, clock, 2.0)
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "commit a/1", "release a/1"]
    stats = room.stats()
    assert (stats.retained, stats.dirty, stats.commits, stats.commit_failures) == (0, 0, 1, 1)
    assert not room.has_uncommitted("a")


def pauses_before_retries(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, count: int, **policy: Any
) -> list[float]:
    """Have a commit fail so often, and tell how long it is waited each time."""
    pauses: list[float] = []
    call_later = Session.call_later

    def note(session: Session, delay: float, message: Any) -> Any:
        timer = call_later(session, delay, message)
        if isinstance(message, Call) and message.name == "_retry_commit":
            pauses.append(delay)
        return timer

    monkeypatch.setattr(Session, "call_later", note)
    clock = ManualClock()
    room = cast.room(clock=clock, sweep_every=None, commit_timeout=None, **policy)
    retained(cast, room)
    for number in range(1, count):
        until(lambda number=number: len(pauses) == number, "a pause")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        until(lambda: room.stats().retained == 1, "an agent that is retained")
        room.snapshot()  # behind that: the timer is set when the handler has ended
        clock.advance(pauses[-1])
    until(lambda: len(pauses) == count, "the last pause")
    until(lambda: room.stats().retained == 1, "an agent that is retained")
    assert len(cast.did("commit")) == room.stats().commit_failures == count
    return pauses


def test_it_is_retried_with_growing_pauses(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """G9"""
    pauses = pauses_before_retries(cast, monkeypatch, 7, retry_first=1.0, retry_most=300.0)

    assert pauses == sorted(set(pauses))


def test_the_pauses_do_not_grow_for_ever(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """G9"""
    pauses = pauses_before_retries(cast, monkeypatch, 10, retry_first=1.0, retry_most=4.0)

    assert max(pauses) <= 4.0 * 1.25


def test_an_agent_that_is_retained_is_tried_again_by_a_commit_without_waiting_for_the_pause(
    cast: Cast,
) -> None:
    """G9"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    retained(cast, room)
    cast.at.clear()

    assert room.commit("a")
    room.settle()

    assert cast.did("release") == ["a/1"]
    assert room.stats().retained == 0


def test_an_agent_that_is_retained_is_tried_again_by_drain(cast: Cast) -> None:
    """G9, D1"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    retained(cast, room)
    cast.at.clear()

    report = room.drain()

    assert report.committed == ("a",)
    assert cast.did("commit") == ["a/1", "a/1"]
    assert cast.farewells() == {"a/1": 1}


def test_a_turn_after_such_an_eviction_gets_another_agent_and_both_are_committed(cast: Cast) -> None:
    """G9, G5"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    retained(cast, room)

    assert take_turn(room, "a").name == "a/2"
    assert room.stats().dirty == 1
    cast.at.clear()
    assert room.commit("a").committed == 2
    room.settle()

    assert cast.did("commit")[-2:] == ["a/1", "a/2"]
    assert cast.did("release") == ["a/1"]


def test_many_evictions_with_a_provider_that_is_down_lose_nothing(cast: Cast) -> None:
    """G9, C3"""
    clock = ManualClock()
    room = cast.room(clock=clock, cap=2)
    cast.at["commit"] = ConnectionError("memory is down")
    touch(room, *(f"s{n}" for n in range(10)))
    room.settle()
    assert (room.stats().cached, room.stats().retained, room.stats().dirty) == (2, 8, 10)
    cast.at.clear()

    let_pass(room, clock, 2.0)
    room.settle()

    assert (room.stats().retained, room.stats().dirty) == (0, 2)
    assert len(cast.did("release")) == 8


def test_ending_a_session_whose_commit_fails_does_not_lose_it(cast: Cast) -> None:
    """G9, S2"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "a")
    cast.at["commit"] = ConnectionError("memory is down")
    room.end("a")
    room.settle()
    assert room.stats().retained == 1
    assert cast.did("close") == []
    cast.at.clear()

    let_pass(room, clock, 2.0)
    room.settle()

    assert cast.done_to("a/1") == ["build", "commit", "commit", "shutdown", "close"]
    until(lambda: room.stats().known == 0, "no session")


# G10


BAD_KEYS: list[Any] = ["", None, 0, 12345, b"telegram:12345", ("a",)]

CALLS: dict[str, Callable[[Greenroom, Any], object]] = {
    "turn": Greenroom.turn,
    "commit": Greenroom.commit,
    "has_uncommitted": Greenroom.has_uncommitted,
    "evict": Greenroom.evict,
    "end": Greenroom.end,
    "settings": Greenroom.settings,
    "adopt": lambda room, key: room.adopt(key, object(), SPEC),
    "explain": Greenroom.explain,
    "session": Greenroom.session,
}


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_an_empty_or_non_string_key_is_refused(cast: Cast, call: str, key: Any) -> None:
    """G10"""
    room = cast.room()

    with pytest.raises(ValueError, match="key must be a string"):
        CALLS[call](room, key)

    assert room.stats().known == 0
