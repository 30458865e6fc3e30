"""A replay does with a trace what a room would do, and says what that means."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from greenroom import Policy
from greenroom.stress.traces import _replay
from greenroom.stress.traces._replay import Replayed, Trace, replay, replay_one
from greenroom.stress.traces._replay_advice import advise, policies_for
from greenroom.stress.traces._replay_table import replay_json, replay_table
from greenroom.stress.traces._trace import Entry
from tests.stress.trace_room import have


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A room warns when it is beyond its cap, as small ones are all the time."""
    logger = logging.getLogger("greenroom.supervisor")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


BY_HAND = [
    #                               agents    what happens: cap 2, TTL 100 s, a sweep each 60 s
    Entry(0.0, "a", "turn", 10.0),  # 1       build; ends at 10
    Entry(5.0, "b", "turn", 10.0),  # 2       build; ends at 15
    Entry(20.0, "a", "turn", 10.0),  # 2      hit: b is the least recently used now; ends at 30
    Entry(25.0, "c", "turn", 10.0),  # 2      build; b goes for the cap; ends at 35
    Entry(26.0, "b", "turn", 20.0),  # 3      rebuild; a should go, and is in a turn: held; ends at 46
    #                                 3       at 30: a is the most recently used; c should go: in a turn
    #                                 3       at 35: c is the most recently used; b should go: in a turn
    Entry(40.0, "c", "turn", 5.0),  # 3       hit; ends at 45
    Entry(41.0, "c", "turn", 5.0),  # 3       waits until 45; hit; ends at 50
    # 2       at 46: b is the most recently used; a, idle, goes for the cap
    #                                 0       at 180, the third sweep: b, idle since 46, and c go
    Entry(190.0, "a", "turn", 10.0),  # 1     rebuild; ends at 200
    Entry(195.0, "a", "end"),  # 0            at 200: a is closed, as it was asked for
    Entry(210.0, "a", "turn", 10.0),  # 1     build: this is another session; ends at 220
    Entry(215.0, "d", "turn", 10.0),  # 2     build; ends at 225
]

HAND_POLICY = Policy(cap=2, idle_ttl=100.0, sweep_every=60.0)


def test_a_small_trace_has_the_outcome_that_was_computed_by_hand() -> None:
    assert replay_one(Trace.of(BY_HAND), HAND_POLICY) == Replayed(
        policy=HAND_POLICY,
        turns=10,
        hits=3,  # at 20, 40 and 45
        builds=7,
        rebuilds=2,  # at 26 and 190
        releases={"capacity": 2, "idle": 2, "explicit": 1},
        peak=3,
        # 1 agent from 0 to 5, 2 until 26, 3 until 46, 2 until 180, 1 from 190 to 200, 1 from 210 to 215,
        # 2 until 225
        mean=(5 + 2 * 21 + 3 * 20 + 2 * 134 + 10 + 5 + 2 * 10) / 225.0,
        agent_hours=410 / 3600.0,
        held=3,  # at 26, 40 and 45
        at_once=3,  # from 26 to 30
        waited=1,
        refused=0,
        seconds=225.0,
    )


def test_a_real_room_does_the_same_with_it() -> None:
    assert have(BY_HAND, HAND_POLICY) == {
        "hits": 3,
        "builds": 7,
        "rebuilds": 2,
        "releases": {"capacity": 2, "idle": 2, "explicit": 1},
        "refused": 0,
        "cached": 2,
    }


@st.composite
def traces(draw: st.DrawFn) -> list[Entry]:
    """Small ones, in which no two things happen at one moment: turns come at whole seconds, and each
    ends at a fraction that only sums of its own and others' can have."""
    time, entries = 0, []
    for number in range(draw(st.integers(1, 14))):
        key = draw(st.sampled_from("abcde"))
        if draw(st.integers(0, 7)) == 0:
            entries.append(Entry(float(time), key, "end"))
        else:
            seconds = draw(st.integers(0, 12)) + 2.0 ** -(number + 1)
            entries.append(Entry(float(time), key, "turn", seconds))
        time += draw(st.integers(1, 9))
    return entries


POLICIES = st.builds(
    Policy,
    cap=st.sampled_from([None, 1, 2, 3]),
    idle_ttl=st.sampled_from([None, 2.0, 10.0]),
    sweep_every=st.sampled_from([None, 3.0 + 2.0**-20]),
    session_ttl=st.sampled_from([None, 6.0]),
    max_waiting=st.sampled_from([0, 1, 16]),
    memory_budget=st.sampled_from([None, None, 250]),
    memory_batch=st.sampled_from([1, 2]),
    memory_relief=st.sampled_from([0.4, 0.9]),
    weigh=st.just(lambda _: 100),
)


@settings(max_examples=80, deadline=None)
@given(traces(), POLICIES)
def test_a_real_room_does_the_same_with_any_trace(entries: list[Entry], policy: Policy) -> None:
    replayed = replay_one(Trace.of(entries), policy, agent_bytes=100)
    real = have(entries, policy)
    assert (replayed.hits, replayed.builds) == (real["hits"], real["builds"])
    assert replayed.releases == real["releases"]
    assert replayed.refused == real["refused"]
    assert replayed.builds - sum(replayed.releases.values()) == real["cached"]


def test_memory_is_shed_down_to_its_relief_however_small_a_batch_is() -> None:
    entries = [Entry(float(time), key, "turn", 0.5) for time, key in enumerate("abc")]
    policy = Policy(memory_budget=250, memory_relief=0.4, memory_batch=1, weigh=lambda _: 100)
    replayed = replay_one(Trace.of(entries), policy, agent_bytes=100)
    # With c there are 300 bytes: a and b go, for 100.
    assert replayed.releases == have(entries, policy)["releases"] == {"memory": 2}
    assert replayed.agent_hours == (1 + 2 + 0.5) / 3600.0  # both at once


def test_memory_is_looked_at_before_those_beyond_the_cap_have_let_go() -> None:
    entries = [Entry(float(time), key, "turn", 0.5) for time, key in enumerate("abc")]
    policy = Policy(cap=2, memory_budget=250, memory_relief=0.4, weigh=lambda _: 100)
    replayed = replay_one(Trace.of(entries), policy, agent_bytes=100)
    # With c there are 300 bytes: a goes for the cap, and for the 200 that are left b, too.
    assert replayed.releases == have(entries, policy)["releases"] == {"capacity": 1, "memory": 1}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_without_overlap_a_larger_cap_never_has_fewer_hits(keys: list[str]) -> None:
    trace = Trace.of([Entry(float(time), key, "turn", 0.5) for time, key in enumerate(keys)])
    caps = (1, 2, 3, 4, 8, None)
    outcomes = replay(trace, [Policy(cap=cap, idle_ttl=None) for cap in caps])
    assert all(one.hits <= two.hits for one, two in itertools.pairwise(outcomes))
    assert all(one.peak <= (one.policy.cap or 8) for one in outcomes)
    assert outcomes[-1].builds == len(set(keys))
    assert all(one.held == one.refused == one.waited == 0 for one in outcomes)


def test_a_turn_of_unknown_length_takes_what_is_said() -> None:
    entries = [Entry(100.0, "a", "turn"), Entry(103.0, "a", "turn")]
    trace = Trace.of(entries, turn_seconds=5.0)
    assert (trace.turns, trace.sessions, trace.without_length, trace.seconds) == (2, 1, 2, 3.0)
    replayed = replay_one(trace, Policy())
    assert (replayed.waited, replayed.seconds) == (1, 10.0)
    with pytest.raises(ValueError, match="turn_seconds must be 0 or more"):
        Trace.of(entries, turn_seconds=-1.0)


def test_an_empty_trace_has_an_outcome_too() -> None:
    trace = Trace.of([])
    replayed = replay_one(trace, Policy())
    assert (replayed.turns, replayed.hit_rate, replayed.mean, replayed.seconds) == (0, None, 0.0, 0.0)
    assert advise([replayed]).chosen is None
    assert [policy.cap for policy in policies_for(trace)] == [None]


def test_turns_that_wait_begin_in_the_order_in_which_they_came() -> None:
    entries = [
        Entry(0.0, "a", "turn", 10.0),
        Entry(1.0, "a", "turn", 5.0),  # begins at 10
        Entry(2.0, "a", "turn", 1.0),  # begins at 15, and makes a the most recently used
        Entry(13.0, "b", "turn", 0.5),
        Entry(20.0, "c", "turn", 1.0),  # b has to go
        Entry(30.0, "a", "turn", 1.0),
    ]
    replayed = replay_one(Trace.of(entries), Policy(cap=2))
    assert (replayed.hits, replayed.builds) == (3, 3)


def test_a_session_that_expired_and_comes_back_is_built_again() -> None:
    entries = [Entry(0.0, "a", "turn", 1.0), Entry(100.0, "a", "turn", 1.0)]
    replayed = replay_one(Trace.of(entries), Policy(session_ttl=20.0, sweep_every=10.0))
    assert replayed.releases == {"session-expired": 1}
    assert (replayed.builds, replayed.rebuilds) == (2, 1)


@pytest.mark.parametrize(
    ("budget", "agent_bytes", "complaint"),
    [(0.5, 100, "must be bytes"), (2**20, 0, "agent_bytes must be more than 0")],
)
def test_a_memory_budget_needs_bytes(budget: float, agent_bytes: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replay_one(Trace.of(BY_HAND), Policy(memory_budget=budget), agent_bytes=agent_bytes)


def test_progress_is_told_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_replay, "LOOK_EVERY", 1)
    moments = iter(range(1000))
    monkeypatch.setattr(_replay, "monotonic", lambda: float(next(moments)))
    told: list[float] = []
    replay(Trace.of(BY_HAND), [Policy(), Policy(cap=1)], progress=told.append)
    assert told == sorted(told)
    assert 0.5 in told
    assert len(told) > 10
    assert told[-1] == 1.0


# How large should my cap be?


def _round_robin(sessions: int, rounds: int) -> Trace:
    """Everybody in turn: with LRU, a cap below their number has no hit at all."""
    return Trace.of(
        Entry(float(number), f"s{number % sessions}", "turn", 0.5) for number in range(sessions * rounds)
    )


def test_the_caps_that_are_tried_are_those_that_make_a_difference() -> None:
    trace = _round_robin(20, 3)
    assert [policy.cap for policy in policies_for(trace)] == [1, 2, 4, 8, 16, None]
    assert {policy.idle_ttl for policy in policies_for(trace)} == {3600.0}
    many = policies_for(_round_robin(600, 2), idle_ttls=[None])
    assert [policy.cap for policy in many] == [4, 8, 16, 32, 64, 128, 256, 512, None]


def test_caps_far_below_the_number_of_turns_at_once_are_not_tried() -> None:
    trace = Trace.of(Entry(number / 100, f"s{number}", "turn", 60.0) for number in range(100))
    assert [policy.cap for policy in policies_for(trace)] == [16, 32, 64, None]


def test_named_caps_and_ttls_are_tried_each_with_each() -> None:
    tried = policies_for(_round_robin(3, 3), caps=[2, None], idle_ttls=[60.0, None], session_ttl=9.0)
    assert [(policy.cap, policy.idle_ttl, policy.session_ttl) for policy in tried] == [
        (2, 60.0, 9.0),
        (None, 60.0, 9.0),
        (2, None, 9.0),
        (None, None, 9.0),
    ]
    (single,) = policies_for(_round_robin(3, 3), cap=5, idle_ttl=7.0)
    assert (single.cap, single.idle_ttl) == (5, 7.0)


def _outcome(cap: int | None, hits: int, hours: float, **others: Any) -> Replayed:
    figures: dict[str, Any] = {
        "rebuilds": 0,
        "held": 0,
        "refused": 0,
        "waited": 0,
        "at_once": 2,
        "peak": 7,
        "mean": 3.0,
    }
    return Replayed(
        policy=Policy(cap=cap),
        turns=1000,
        hits=hits,
        builds=1000 - hits,
        releases={},
        agent_hours=hours,
        seconds=3600.0,
        **{**figures, **others},
    )


def test_the_cheapest_policy_within_a_point_of_the_best_is_advised() -> None:
    outcomes = [_outcome(8, 700, 10.0), _outcome(16, 895, 20.0), _outcome(32, 899, 30.0)]
    outcomes.append(_outcome(None, 900, 40.0))
    advice = advise(outcomes, build_seconds=2.0)
    assert advice.chosen == 1
    assert "Take a cap of 16 and an idle TTL of 1 h: 89.5 % of the turns find" in advice.text
    assert "the best policy here has 90.0 %" in advice.text
    assert "A cap of 8 would have 70.0 %, for 10 agent-hours." in advice.text
    assert "With 2 s a build, people wait 3.5 min for builds, 10 s more" in advice.text
    assert advise(outcomes, near=0.0).chosen == 3
    assert advise(outcomes, near=0.3).chosen == 0


def test_no_cap_is_advised_with_the_number_that_would_do() -> None:
    advice = advise([_outcome(8, 500, 10.0), _outcome(None, 900, 40.0, peak=1444)])
    assert advice.chosen == 1
    assert "A cap of 1,444 would never be reached" in advice.text
    assert "no policy here has more" in advice.text


def test_a_trace_of_one_turn_is_spoken_of_in_the_singular() -> None:
    trace = Trace.of([Entry(0.0, "a", "turn", 90.0)])
    outcomes = replay(trace, [Policy(cap=1)])
    advice = advise(outcomes)
    assert "It keeps 1.0 agents on average, 1 at most: 0.03 agent-hours." in advice.text
    assert "Its only build is for the first turn of a session" in advice.text
    out = io.StringIO()
    Console(file=out, width=80).print(replay_table(trace, outcomes, advice))
    assert out.getvalue().startswith("1 turn of 1 session in ")


def test_what_a_policy_does_not_hold_is_said_with_it() -> None:
    text = advise([_outcome(8, 500, 10.0, held=12, refused=3456)]).text
    assert text.startswith("With a cap of 8")
    assert "12 turns began with more agents than the cap" in text
    assert "3,456 turns were refused: 16 others waited" in text


def test_a_cap_that_is_never_reached_has_the_outcome_of_no_cap() -> None:
    trace = _round_robin(20, 3)
    without = replay_one(trace, Policy(cap=None))
    assert without.peak == 20
    same, smaller = (replay_one(trace, Policy(cap=cap)) for cap in (20, 19))
    assert (same.hits, same.agent_hours) == (without.hits, without.agent_hours)
    assert smaller.hits == 0


def test_the_table_fits_into_80_columns_and_points_at_the_advice() -> None:
    trace = Trace.of(
        Entry(float(number * 7), f"s{number * number % 977}", "turn", 30.0) for number in range(9000)
    )
    outcomes = replay(trace, policies_for(trace))
    advice = advise(outcomes)
    out = io.StringIO()
    table = replay_table(trace, outcomes, advice, build_seconds=2.0)
    Console(file=out, width=80).print(table)
    lines = out.getvalue().splitlines()
    assert "…" not in out.getvalue()
    assert lines[0].startswith("9,000 turns of 489 sessions in 17.5h, replayed against")
    assert advice.chosen is not None
    assert [line.startswith("→") for line in lines[2:]].index(True) == advice.chosen
    assert len(lines) == 2 + len(outcomes)


def test_the_json_holds_everything_and_can_be_written() -> None:
    trace = Trace.of(BY_HAND)
    outcomes = replay(trace, [HAND_POLICY])
    told = json.loads(
        json.dumps(replay_json(trace, outcomes, advise(outcomes), build_seconds=2.0), allow_nan=False)
    )
    assert told["trace"] == {"turns": 10, "sessions": 4, "seconds": 215.0, "turns_without_length": 0}
    (policy,) = told["policies"]
    assert policy["policy"]["cap"] == 2
    assert policy["releases"] == {"capacity": 2, "idle": 2, "explicit": 1}
    assert (policy["hit_rate"], policy["waiting_for_builds"]) == (0.3, 14.0)
    assert told["chosen"] == 0
    assert "a cap of 2" in told["advice"]
