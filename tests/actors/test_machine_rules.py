"""The rules between the machines of a session: what gives each of them something to do, and what not."""

from __future__ import annotations

import pytest

from greenroom.actors.session.machine import CommitState, Phase, Place, SessionMachine, rules
from greenroom.actors.session.machine.effects import Entry
from tests.actors import machine_store_play as with_store
from tests.actors.machine_play import (
    Play,
    building_and_evict,
    building_for_nobody,
    closing,
    committing,
    dirty,
    draining_turn,
    flushing,
    idle,
    leaving,
    orphan,
    retained_beside,
    retained_stuck,
    stuck,
    tearing,
    turn,
    turn_again,
    turn_and_commit,
    turn_and_line,
)


def test_the_rules_are_those_that_their_module_explains_in_that_order() -> None:
    assert rules.__doc__ is not None
    lines = rules.__doc__.splitlines()
    explained = [line[4:31].strip() for line in lines if line.startswith("    ") and line[4:5].strip()]
    assert explained == [rule.__name__.replace("_", " ") for rule in rules.RULES]


@pytest.mark.parametrize("rule", rules.RULES)
def test_a_machine_that_is_new_gives_no_rule_anything_to_do(rule: rules.Rule) -> None:
    assert not rule(SessionMachine(), [])


# Committed agents go.


def test_an_agent_that_leaves_goes_when_it_has_committed() -> None:
    """C8"""
    assert leaving().committed().told == "release 1 (idle)"


def test_an_agent_that_leaves_behind_a_stuck_commit_goes_and_is_retained() -> None:
    """G9"""
    assert stuck().release().told == "go; retain 1 (idle)"


def test_an_agent_that_leaves_goes_and_is_retained_when_its_commit_has_failed() -> None:
    """G9"""
    play = leaving().committed(succeeded=False)
    assert play.told == "gave up; retain 1 (idle); pause 1"


def test_a_departure_is_torn_down_when_it_has_committed() -> None:
    """C8"""
    assert committing().committed().told == "release 1 (discard)"


def test_an_agent_in_a_turn_does_not_go_when_it_has_committed() -> None:
    """C4"""
    assert turn_and_commit().committed().told == ""


# What was deferred happens.


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("evict", "over t; release 1 (explicit)"),
        ("close", "over t; close 1 (explicit); end session 0"),
        ("drain", "over t; close 1 (shutdown); end session 0"),
    ],
)
def test_what_was_deferred_happens_when_the_turn_has_ended(given: str, told: str) -> None:
    """T7, D1"""
    play = turn()
    play = play.close() if given == "close" else play.do(given)
    assert play.told == ""
    assert play.machine.place is Place.IN_TURN
    assert play.end(completed=False).told == told


def test_a_drain_closes_an_agent_that_was_to_be_evicted() -> None:
    """D1: whichever comes first, and for the drain's own reason."""
    for play in (turn().do("evict").do("drain"), turn().do("drain").do("evict")):
        assert play.end(completed=False).told == "over t; close 1 (shutdown); end session 0"


def test_a_drain_leaves_a_session_that_was_to_end_its_reason() -> None:
    """D1"""
    play = turn().close().do("drain")
    assert play.end(completed=False).told == "over t; close 1 (explicit); end session 0"


def test_an_eviction_is_over_if_the_build_that_it_was_deferred_for_fails() -> None:
    """T7"""
    play = building_and_evict().built(succeeded=False)
    assert (play.told, play.machine.deferred) == ("refuse t: build", None)


def test_a_build_that_fails_for_no_turn_leaves_the_place_empty() -> None:
    """T5"""
    play = building_for_nobody().built(succeeded=False)
    assert (play.told, play.machine.place) == ("", Place.EMPTY)


def test_an_agent_that_was_built_for_no_turn_is_there_for_the_next() -> None:
    """T5"""
    play = building_for_nobody().built()
    assert (play.told, play.machine.place) == ("insert 1", Place.IDLE)


# Resources are closed.


def test_resources_are_closed_when_the_last_agent_of_an_ended_session_is_gone() -> None:
    """S2"""
    play = closing().committed()
    assert play.told == "close 1 (explicit)"
    assert play.do("torn_down", 1).told == "resources 0"


def test_resources_of_a_session_without_an_agent_are_closed_at_once() -> None:
    """S2"""
    assert Play().close().told == "end session 0; resources 0"


def test_an_agent_of_another_session_does_not_keep_resources_open() -> None:
    """S2"""
    play = tearing().close().begin("new").built(2)
    assert play.do("torn_down", 1).told == "resources 0"


# The next turn is served.


def test_the_next_turn_is_served_when_the_place_is_at_rest() -> None:
    """T3"""
    assert turn_and_line().end(completed=False).told == "over t; grant w reused"


def test_with_a_store_the_next_turn_is_served_by_asking_about_it() -> None:
    """T3"""
    play = with_store.entering_and_line().entered(Entry.AWAY)
    assert (play.told, play.machine.place) == ("refuse t: store; enter w", Place.ENTERING)


# The next commit begins.


def test_a_commit_begins_when_one_is_wanted() -> None:
    """G2"""
    assert dirty().do("flush").told == "1 commits to 1"


def test_no_commit_begins_while_another_is_in_flight() -> None:
    """G8"""
    for play in (flushing(), stuck()):
        play.begin("t").end("t")
        assert play.do("flush").told == ""


def test_no_commit_begins_while_its_owner_is_in_a_turn() -> None:
    """G8: it would see half of one. It begins when the turn has ended."""
    play = turn_again().do("flush")
    assert (play.told, play.machine.commit) == ("", CommitState.NONE)
    assert play.end().told == "over t; 1 commits to 2"


def test_a_commit_is_not_started_while_its_owner_is_in_a_turn() -> None:
    """G8: the turn began while it was on its way."""
    play = flushing().begin("t").start_commit()
    assert (play.told, play.machine.commit) == ("not now", CommitState.NONE)
    assert play.end().told == "over t; 1 commits to 2"


def test_a_commit_begins_while_another_agent_is_in_a_turn() -> None:
    """C7"""
    play = retained_beside().begin("t").do("retry")
    assert play.told == "1 commits to 1"


def test_commits_are_given_up_if_no_agent_could_do_the_next() -> None:
    """G6"""
    assert orphan().do("flush").told == "gave up"


def test_no_commit_begins_when_all_were_abandoned() -> None:
    """D2"""
    play = draining_turn().do("abandon").end()
    assert play.told == "over t; close 1 (shutdown); end session 0"


def test_a_commit_that_is_put_off_lets_another_begin_that_waited_behind_it() -> None:
    """G5: a recovery agent has older turns, and its own were not there when the commit was sent."""
    play = with_store.resumed_beside().recover().begin_at_once("t").end().recorded().do("flush")
    play.begin_at_once("u").built(2)
    assert play.start_commit().told == "not now; 2 commits to 2 of r@1"


def test_those_that_are_retained_wait_while_a_commit_is_stuck() -> None:
    """G8"""
    play = retained_stuck().do("retry")
    assert [departure.phase for departure in play.machine.departures] == [Phase.RETAINED]


def test_an_idle_agent_with_nothing_to_commit_is_released_at_once() -> None:
    """C8"""
    assert idle().release().told == "go; release 1 (idle)"
