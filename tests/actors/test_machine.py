"""The machine of a session, step by step: what takes more than one input, and one plain test for each
bug that there was. `machine_play.py` has the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actors.session.machine import CommitState
from greenroom.actors.session.machine.effects import Commit, TearDown
from tests.actors.machine_play import (
    Play,
    building,
    building_and_evict,
    building_for_nobody,
    building_the_next,
    closing,
    committing,
    draining_turn,
    failed,
    flushing,
    flushing_more,
    idle,
    leaving,
    orphan,
    resources,
    retained,
    retained_beside,
    retained_stuck,
    stuck,
    tearing,
    turn,
    turn_and_close,
    turn_and_commit,
    turn_and_evict,
    turn_and_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def owners(did: Iterable[object]) -> list[int]:
    return [effect.owner for effect in did if isinstance(effect, Commit)]


def torn(did: Iterable[object]) -> list[int]:
    return [effect.incarnation for effect in did if isinstance(effect, TearDown)]


def test_the_line_is_served_in_order_through_a_failed_build() -> None:
    """T5"""
    play = building().begin("u").begin("v", "b")
    assert play.built(1, succeeded=False).told == "refuse t: build; build 2 for u"
    assert play.built(2).told == "insert 2; grant u"
    assert play.end("u").told == "over u; build 3 for v; 2 commits to 1"
    assert play.built(3).told == "insert 3 (spec); grant v (spec)"


def test_a_turn_behind_one_that_left_takes_its_build_only_if_that_fits() -> None:
    """T3"""
    for signature, builder in (("a", "w"), (None, "w"), ("b", None)):
        play = building().begin("w", signature)
        play.do("withdraw", play.turn("t"))
        assert (play.machine.next_turn and play.machine.next_turn.spec) == builder


def test_an_agent_that_was_built_for_nobody_goes_to_whoever_waits() -> None:
    play = building_for_nobody().begin("new", None)
    assert play.built().told == "insert 1; grant new reused"


def test_an_agent_that_was_built_for_nobody_makes_way_for_another_spec() -> None:
    """T2"""
    play = building_for_nobody().begin("new", "b")
    assert play.built().told == "insert 1; release 1 (spec); build 2 for new"


def test_an_agent_that_is_wanted_out_before_it_is_built_has_its_turn_first() -> None:
    """T7"""
    play = building_and_evict().built()
    assert play.end(completed=False).told == "over t; release 1 (explicit)"
    play = building_for_nobody().do("evict")
    assert play.built().told == "insert 1; release 1 (explicit)"


def test_an_eviction_takes_effect_although_somebody_waits() -> None:
    """T7"""
    play = turn_and_line().do("evict").end(completed=False)
    assert play.told == "over t; release 1 (explicit); build 2 for w"
    assert play.built(2).told == "insert 2 (explicit); grant w (explicit)"


def test_whoever_waits_gets_the_next_session_when_this_one_ends() -> None:
    """T7"""
    play = turn_and_line().close().end()
    assert play.told == "over t; end session 0; build 2 for w; 1 commits to 1"
    assert play.built(2).told == "insert 2; grant w"
    assert play.committed().told == "close 1 (explicit)"
    assert play.do("torn_down", 1).told == "resources 0"
    assert play.do("resources_closed", 0).told == "session 0 over (explicit)"
    assert play.machine.turn is play.turn("w")


def test_a_wish_to_close_is_stronger_than_one_to_evict_whichever_comes_first() -> None:
    """T7"""
    for play in (turn_and_evict().close(), turn_and_close().do("evict")):
        assert play.end(completed=False).told == "over t; close 1 (explicit); end session 0"


def test_a_release_is_called_off_while_the_agent_is_whole_and_its_commit_goes_on() -> None:
    """G3"""
    play = turn_and_commit().end()
    assert play.committed().told == ""
    assert (play.machine.agent, play.machine.generations.dirty) == (1, 1)


def test_a_conversation_begins_when_the_turn_of_the_old_one_is_over() -> None:
    """T7"""
    play = turn_and_line().close(conversation="s#1").close()
    assert (play.machine.conversation, play.machine.next_conversation) == (None, "s#1")
    assert play.end().told.startswith("over t; end session 0; build 2 for w")
    assert (play.machine.conversation, play.machine.next_conversation) == ("s#1", None)
    assert play.close().machine.deferred is not None
    assert play.built(2).end("w").machine.conversation is None


def test_a_commit_that_was_sent_before_a_turn_began_waits_for_its_end() -> None:
    play = flushing().begin("t")
    assert play.start_commit().told == "not now"
    assert play.end().told == "over t; 1 commits to 2"
    assert play.start_commit().told == "go"
    assert play.committed().machine.commit is CommitState.NONE


def test_a_hook_that_hangs_stays_the_commit_in_flight_until_it_comes_back_however_late() -> None:
    """G8"""
    play = flushing().start_commit().do("commit_stuck")
    assert play.do("flush").do("retry").told == ""
    play.committed(succeeded=False)
    assert play.machine.commit is CommitState.NONE


def test_a_departure_commits_while_the_next_agent_is_in_a_turn() -> None:
    """C7"""
    play = building_the_next().built(2)
    assert play.start_commit().told == "go"
    assert play.committed().told == "release 1 (spec)"


def test_after_a_success_everything_that_was_retained_is_tried_again() -> None:
    """G9"""
    play = retained_beside().begin("t").end(discard=True)
    assert play.told == "over t; 1 commits to 1"
    assert play.committed(succeeded=False).told == "gave up; retain 2 (discard); pause 2"
    assert play.do("retry").told == "1 commits to 1"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"
    assert play.committed().told == "release 2 (discard)"


def test_a_stuck_commit_that_comes_back_is_what_the_others_waited_for() -> None:
    """G8"""
    play = retained_stuck().begin("t").built(2).end(discard=True)
    assert play.told == "over t; retain 2 (discard)"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"


def test_a_stuck_commit_that_comes_back_failed_is_tried_again_after_a_pause() -> None:
    """G9"""
    play = retained_stuck().committed(succeeded=False)
    assert play.told == "gave up; pause 2"
    assert play.do("retry").told == "1 commits to 1"


def test_a_flush_goes_through_all_segments_and_stops_at_a_failure() -> None:
    """G5"""
    play = retained_beside().begin("t").end()
    assert play.do("flush").told == "1 commits to 1"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"
    assert play.committed(succeeded=False).told == "gave up"
    assert play.machine.flush_to == 0
    assert play.do("flush").told == "2 commits to 2"


def test_turns_that_nobody_completed_are_the_agents_that_is_offered() -> None:
    """G6"""
    play = orphan().do("flush")
    assert play.told == "gave up"
    assert play.do("offer", 7).do("flush").told == "7 commits to 1"
    assert play.committed(succeeded=False).told == "gave up"
    assert play.do("offer", 8).do("flush").told == "7 commits to 1"


def test_turns_that_nobody_completed_are_the_agents_that_is_there() -> None:
    """G6"""
    assert idle().do("complete_elsewhere", None).do("flush").told == "1 commits to 1"


def test_a_session_is_not_forgotten_while_an_agent_from_elsewhere_commits() -> None:
    """G6"""
    play = Play().do("complete_elsewhere", 7).do("drain").do("resources_closed", 0)
    assert (play.machine.busy, play.machine.forgettable) == (True, False)
    play.committed()
    assert (play.machine.busy, play.machine.forgettable) == (False, True)


def test_an_agent_that_came_and_went_leaves_no_trace() -> None:
    """C9"""
    play = tearing()
    assert play.do("torn_down", 1).told == ""
    assert play.machine.forgettable


def test_a_session_that_ended_is_forgotten_when_its_resources_are_closed() -> None:
    """C9"""
    play = idle().close().do("torn_down", 1).do("resources_closed", 0)
    assert play.machine.forgettable


def test_a_failed_session_takes_turns_again_after_it_was_ended() -> None:
    play = failed().close()
    assert play.begin("new").told == "build 2 for new"


def test_a_drain_in_a_turn_commits_what_that_completes() -> None:
    """D1"""
    play = draining_turn().end()
    assert play.machine.flush_to == 1
    assert play.told == "over t; end session 0; 1 commits to 2"
    assert play.committed().told == "close 1 (shutdown)"
    assert play.do("torn_down", 1).told == "resources 0"
    assert play.do("resources_closed", 0).told == "session 0 over (shutdown)"
    assert play.machine.forgettable


def test_who_is_being_torn_down_is_not_torn_down_again_when_the_rest_is_abandoned() -> None:
    """S2"""
    play = retained_beside().do("drain")
    assert play.told == "close 2 (shutdown); end session 0; 1 commits to 1"
    assert torn(play.do("abandon").did) == [1]


def test_a_forced_turn_that_is_given_back_later_changes_nothing() -> None:
    """T8"""
    play = draining_turn().do("force")
    assert play.end().did is None
    assert play.machine.generations.generation == 1


# One for each bug that there was.


def test_a_drain_asks_no_agent_to_commit_that_it_has_torn_down() -> None:
    """D1: its commit failed, it was closed; then the turn of the next agent ends."""
    play = building_the_next().built(2).do("drain")
    assert play.committed(succeeded=False).told == "1 commits to 1"
    assert play.committed(succeeded=False).told == "gave up; release 1 (spec)"
    assert play.end("w").told == "over w; end session 0; gave up; close 2 (shutdown)"


def test_a_commit_that_comes_back_after_it_was_abandoned_begins_no_other() -> None:
    """D2: the owner of the next segment is torn down as well."""
    play = building_the_next().built(2).end("w").do("drain").do("abandon")
    assert owners(play.committed().did) == []


def test_a_stuck_commit_that_comes_back_in_a_drain_begins_none_of_who_is_torn_down() -> None:
    """D2: what was completed meanwhile has the same owner, which is closed already."""
    play = stuck().begin("t").end().do("drain")
    assert "close 1" in play.told
    assert owners(play.committed().did) == []


def test_turns_that_nobody_completed_are_not_given_to_who_is_being_torn_down() -> None:
    """G6"""
    play = idle().do("complete_elsewhere", None).release()
    assert play.told == "go; release 1 (idle)"
    assert play.do("flush").told == "gave up"


def test_a_drain_gives_turns_that_nobody_completed_to_nobody_who_is_torn_down() -> None:
    """G6, D1"""
    play = idle().do("complete_elsewhere", None).do("drain")
    assert not set(owners(play.did)) & set(torn(play.did))


def test_turns_that_nobody_completed_are_not_given_to_an_agent_in_a_turn() -> None:
    """G6: a commit must not see half a turn."""
    play = turn().do("complete_elsewhere", None).do("flush")
    assert owners(play.did) == []
    assert owners(play.end(completed=False).did) == [1]


def test_nor_does_a_drain_give_them_to_an_agent_in_a_turn_or_torn_down_after_it() -> None:
    """G6, D1"""
    play = turn().do("complete_elsewhere", None).do("drain")
    assert owners(play.did) == []
    play.end(completed=False)
    assert not set(owners(play.did)) & set(torn(play.did))


def test_whoever_waits_for_a_commit_hears_if_nobody_can_go_on_with_it() -> None:
    """G6: the first segment is committed, and for the second there is nobody."""
    play = Play().do("complete_elsewhere", 7).do("complete_elsewhere", None)
    assert play.do("flush").told == "7 commits to 1"
    assert play.committed().told == "gave up"


def test_while_a_commit_is_stuck_a_retry_changes_nothing() -> None:
    """G8: a session whose commit hangs would look busy for ever, and settle() would wait for it."""
    play = retained().do("flush").do("commit_stuck").do("retry")
    assert (play.machine.busy, play.machine.retained) == (False, 1)


def test_resources_that_are_closed_twice_count_once() -> None:
    """S2: given up after their time, and closed late, while those of the next session are."""
    play = resources().do("resources_closed", 0).close()
    assert play.do("resources_closed", 0).told == ""
    assert play.machine.busy


def test_a_release_behind_a_stuck_commit_is_retained_and_counted() -> None:
    """G9"""
    play = stuck().release()
    assert play.told == "go; retain 1 (idle)"
    assert play.machine.retained == 1


def test_whoever_waits_for_a_commit_hears_that_it_is_abandoned() -> None:
    """D2"""
    play = flushing().do("drain").do("abandon")
    assert "gave up" in play.told


def test_a_commit_that_is_put_off_after_its_time_leaves_nobody_retained_for_ever() -> None:
    """G9: agent 2 took turns without an owner, departure 1 waits behind it; a turn began meanwhile."""
    play = orphan().begin("t").built(1).end().do("adopt", "b")
    assert play.told == "number 2; insert 2 (explicit); 2 commits to 1"
    assert play.do("commit_stuck").told == "gave up; retain 1 (explicit)"
    assert play.begin("new", "b").start_commit().told == "not now; pause 1"
    assert play.end("new").told == "over new"
    assert play.do("retry").told == "2 commits to 1"


def test_a_pause_that_ends_in_a_turn_has_its_commit_begin_behind_that() -> None:
    """G9: as before, but the turn lasts longer than the pause."""
    play = orphan().begin("t").built(1).end().do("adopt", "b").do("commit_stuck")
    play.begin("new", "b").start_commit()
    assert play.do("retry").told == ""
    assert owners(play.end("new").did) == [2]


def test_a_commit_in_flight_when_the_drain_begins_is_tried_once_more() -> None:
    """D1"""
    for play in (flushing(), leaving(), committing()):
        assert play.do("drain").committed(succeeded=False).told == "1 commits to 1"
        assert play.committed(succeeded=False).told == "gave up; close 1 (shutdown)"


def test_a_commit_that_is_stuck_in_a_drain_is_not_tried_once_more() -> None:
    """D2: it is still in flight, and two never overlap."""
    play = committing().do("drain").do("commit_stuck")
    assert play.told == "gave up; close 1 (shutdown)"
    assert owners(play.committed(succeeded=False).did) == []


def test_an_agent_that_is_known_for_its_commits_only_commits_what_it_completed() -> None:
    """G5: beside an agent in its place, and in a turn."""
    play = turn().do("complete_elsewhere", 7).do("flush")
    assert play.told == "7 commits to 1"
    assert play.start_commit().told == "go"


def test_a_departure_behind_an_agent_that_is_known_for_its_commits_only_is_retained_with_it() -> None:
    """G9"""
    play = Play().do("complete_elsewhere", 7).begin("t").built(1).end(discard=True)
    assert play.told == "over t; 7 commits to 1"
    assert play.committed(succeeded=False).told == "gave up; retain 1 (discard); pause 1"
    assert play.do("retry").told == "7 commits to 1"


def test_an_agent_of_a_later_session_that_came_and_went_leaves_no_trace_either() -> None:
    """C9: turns were completed under this key, but not in this session."""
    play = closing().committed().do("torn_down", 1).do("resources_closed", 0)
    play.begin("new").built(2).end("new", completed=False).release()
    assert not play.machine.unused
    play.do("torn_down", 2)
    assert (play.machine.forgettable, play.machine.unused) == (True, True)


def test_an_agent_of_an_ended_session_that_goes_says_nothing_of_the_next() -> None:
    """C9"""
    play = closing().begin("new").built(2).end("new", completed=False).committed()
    play.do("torn_down", 1)
    assert play.machine.remembered


def test_a_departure_that_completes_a_turn_elsewhere_is_not_asked_after_it_is_torn_down() -> None:
    """D1: its commit failed twice, it is torn down; then the turn of the next agent ends."""
    play = building_the_next().built(2).do("complete_elsewhere", 1).do("drain")
    play.committed(succeeded=False)
    assert torn(play.committed(succeeded=False).did) == [1]
    assert 1 not in owners(play.end("w").did)


def test_a_drain_retains_nobody_whose_last_try_failed() -> None:
    """D1: the commit of a retained agent was stuck when the drain began, and comes back."""
    play = retained_stuck().do("drain")
    assert play.committed(succeeded=False).told == "1 commits to 1"
    assert play.committed(succeeded=False).told == "gave up; close 1 (shutdown)"


def test_a_drain_tries_nothing_again_that_it_has_sent_itself() -> None:
    """D1: the commit in flight succeeds; the next one is the drain's own."""
    play = flushing_more().do("drain")
    assert play.committed().told == "1 commits to 2"
    assert play.committed(succeeded=False).told == "gave up; close 1 (shutdown)"


def test_whoever_wants_a_commit_after_all_were_abandoned_hears_that_there_is_none() -> None:
    """D2: a build is still under way, so that the session is not over."""
    play = orphan().begin("t").do("drain").do("force").do("abandon")
    assert play.do("flush").told == "gave up"


def test_a_build_that_is_given_up_after_it_has_returned_changes_nothing() -> None:
    machine = Play().begin("t").machine
    machine.built(1, succeeded=True)

    assert machine.built(1, succeeded=False, returned=False) == []
    assert machine.agent == 1
    assert machine.late_builds == ()


def test_a_session_waits_for_a_build_that_was_given_up() -> None:
    """C9, S5"""
    machine = Play().begin("t").machine
    machine.built(1, succeeded=False, returned=False)
    assert not machine.forgettable

    machine.built(1, succeeded=False)
    assert machine.forgettable
