"""The machine of a session with a store, step by step: what the store is asked, what it says, and what
follows. The words are those of `machine_play.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from greenroom.actors.session.machine import Place
from greenroom.actors.session.machine.effects import Entry, Record, Recorded
from tests.actors.machine_play import Play, segments, snapshot
from tests.actors.machine_store_play import (
    building_and_other_line,
    building_resumed,
    dirty,
    draining_recording,
    draining_recovering,
    empty,
    entering,
    entering_and_line,
    entering_and_other_line,
    entering_dirty,
    entering_idle,
    entering_leaving,
    flushing,
    flushing_failed,
    held,
    idle,
    leaving,
    recording,
    recording_again,
    recording_and_close,
    recording_and_evict,
    recovering,
    recovering_late,
    recovery_agent_committing,
    recovery_agent_in_line,
    recovery_agent_stuck,
    resumed,
    resumed_beside,
    resumed_intended,
    retained,
    turn,
    turn_again,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Before a turn.


def test_a_turn_that_would_not_wait_is_refused_if_another_room_has_the_session() -> None:
    """T3"""
    play = empty().begin("t", reject=True)
    assert play.entered(Entry.HELD).told == "refuse t: elsewhere"
    assert play.machine.forgettable


def test_a_turn_is_asked_for_anew_when_the_key_has_another_conversation() -> None:
    play = entering_and_line().renewed("s#1")
    assert play.told == "enter t"
    assert play.machine.conversation == "s#1"
    assert play.entered().told == "build 1 for t"


def test_what_belongs_to_a_conversation_that_is_over_ends_before_the_next_turn() -> None:
    """H4"""
    play = entering_dirty()
    play.machine.conversation = "s"
    assert play.renewed("s#1").told == "end session 0; enter t; 1 commits to 1 of s@1"
    assert play.machine.conversation == "s#1"
    assert play.entered().told == "build 2 for t"


def test_a_conversation_that_nobody_waits_for_any_more_is_the_current_one_all_the_same() -> None:
    play = entering()
    play.machine.withdraw(play.turn("t"))
    assert play.renewed("s#1").told == ""
    assert (play.machine.conversation, play.machine.forgettable) == ("s#1", True)


def test_after_such_a_refusal_the_next_in_line_is_served() -> None:
    """T3"""
    play = empty().begin("t", reject=True).begin("w")
    assert play.entered(Entry.HELD).told == "refuse t: elsewhere; enter w"
    assert play.entered().told == "build 1 for w"


def test_the_pauses_are_counted_for_each_turn_anew() -> None:
    play = held().do("enter_again").entered(Entry.HELD)
    assert play.told == "enter later 2"
    play.begin("w").entered(Entry.AWAY)
    assert play.told == "refuse t: store; enter w"
    assert play.entered(Entry.HELD).told == "enter later 1"


def test_the_next_turn_takes_the_question_over_if_that_is_of_its_session_id() -> None:
    """T3: whatever its spec is, the store's answer is the same."""
    play = entering().begin("w", "b")
    play.do("withdraw", play.turn("t"))
    assert play.entered().told == "build 1 for w"
    play = entering_and_other_line()
    play.do("withdraw", play.turn("t"))
    assert play.entered().told == "enter w"
    assert play.entered().told == "build 1 for w"


def test_a_build_is_not_taken_over_by_a_turn_of_a_session_id_that_was_not_entered() -> None:
    """T3: nobody asked the store whether that session id is this room's."""
    play = building_and_other_line()
    play.do("withdraw", play.turn("t"))
    assert play.built(1).told == "insert 1; enter w"


def test_a_pause_of_which_nobody_is_left_ends_with_it() -> None:
    play = held()
    play.do("withdraw", play.turn("t"))
    assert play.do("enter_again").told == ""
    assert play.machine.forgettable


def test_an_answer_that_nobody_waits_for_any_more_lets_a_stale_agent_stay() -> None:
    """H2: the next turn asks again."""
    play = entering_idle()
    play.do("withdraw", play.turn("t"))
    assert play.entered(Entry.STALE).told == ""
    assert play.machine.agent == 1


def test_a_stale_agent_commits_before_it_goes_and_the_next_is_built_beside_it() -> None:
    """H2, C8"""
    play = entering_dirty().entered(Entry.STALE)
    assert play.told == "build 2 for t; 1 commits to 1 of s@1"
    assert play.built(2).told == "insert 2 (coherence); grant t (coherence)"
    assert play.committed().told == "release 1 (coherence)"


def test_a_commit_may_run_while_the_store_is_asked_and_not_once_the_turn_runs() -> None:
    """G8: the agent is idle until then."""
    assert entering_dirty().do("flush").start_commit().told == "go"
    assert entering_dirty().do("flush").entered().start_commit().told == "not now"


def test_an_agent_in_whose_turn_the_store_is_told_does_not_commit() -> None:
    play = turn_again().do("flush").end()
    assert play.told == "record t"
    assert play.recorded().told == "over t; 1 commits to 2 of s@1"


def test_a_session_of_which_a_turn_is_entering_is_not_released() -> None:
    """C4"""
    assert entering_idle().release().told == "not now"
    assert recording().release().told == "not now"


def test_a_turn_that_comes_while_the_agent_is_whole_gets_it() -> None:
    """C8: the release is called off, even if its commit ends before the store has answered."""
    assert entering_leaving().committed().entered().told == "grant t reused"
    assert entering_leaving().committed(succeeded=False).entered().told == "grant t reused"


def test_a_release_stays_called_off_if_the_turn_that_came_is_refused() -> None:
    """C8: the agent is idle again, and whoever wants it asks again."""
    play = entering_leaving().entered(Entry.AWAY)
    assert play.told == "refuse t: store"
    assert play.committed().told == ""
    assert play.machine.state == "idle"
    assert play.release().told == "go; release 1 (idle)"


def test_a_turn_of_another_spec_does_not_call_a_release_off() -> None:
    """C8: it would not get that agent."""
    play = leaving().begin("t", "b")
    assert play.committed().told == "release 1 (idle)"
    assert play.entered().told == "build 2 for t"


# After a turn.


def test_a_turn_that_is_being_recorded_and_is_given_back_is_recorded_again_and_counts_once() -> None:
    """T8: whoever was to have it recorded may have been struck before."""
    play = recording()
    before = snapshot(play.machine)
    again = [Record(play.turn("t"), True)]
    assert play.end(completed=False).did == again
    assert play.do("withdraw", play.turn("t")).did == again
    assert snapshot(play.machine) == before
    assert play.recorded().told == "over t"
    assert play.recorded().told == ""


def test_a_turn_that_could_not_be_recorded_counts() -> None:
    """G1"""
    play = recording().recorded(Recorded.NOT_NOW)
    assert play.machine.generations.dirty == 1


def test_a_turn_of_a_session_that_was_lost_does_not_count_nor_what_was_uncommitted_before() -> None:
    """G9: another room answers for it."""
    play = recording_again().recorded(Recorded.LOST)
    assert play.told == "over t; release 1 (coherence)"
    assert (play.machine.generations.generation, play.machine.generations.dirty) == (1, 0)


def test_a_session_that_is_to_end_closes_its_agent_although_it_was_lost() -> None:
    """S2: otherwise its memory provider is never shut."""
    play = recording_and_close().recorded(Recorded.LOST)
    assert play.told == "over t; close 1 (explicit); end session 0"


def test_a_drain_closes_an_agent_although_its_session_was_lost() -> None:
    """D1"""
    play = draining_recording().recorded(Recorded.LOST)
    assert play.told == "over t; close 1 (shutdown); end session 0"


def test_an_agent_is_let_go_although_another_wish_waits_for_the_end_of_a_lost_turn() -> None:
    """H2"""
    play = recording_and_evict().begin("w").recorded(Recorded.LOST)
    assert play.told == "over t; release 1 (coherence); enter w"


def test_what_is_lost_of_one_session_id_leaves_another_alone() -> None:
    """G5"""
    play = dirty().begin("w", session_id="r").entered().end("w")
    play.did = play.machine.recorded(Recorded.DONE, "r", 1, 4)
    play.begin("t").entered().end()
    assert play.recorded(Recorded.LOST).told == "over t; 1 commits to 1 of r@4"
    assert play.committed().told == "release 1 (coherence)"


def test_a_turn_of_nobody_knows_which_session_id_that_was_lost_disowns_nothing() -> None:
    """The room had lost it before the turn ended."""
    play = recording_again()
    play.did = play.machine.recorded(Recorded.LOST)
    assert play.told == "over t; 1 commits to 1 of s@1"


# Commits.


def test_what_a_commit_was_begun_for_keeps_its_token_through_failures() -> None:
    """G4"""
    play = flushing_failed().begin("t").entered().end().recorded()
    assert segments(play) == "1..1/s1@1!,1..2/s2@1"
    assert play.do("flush").told == "1 commits to 1 of s@1"
    assert play.committed().told == "1 commits to 2 of s@1"


def test_a_commit_that_comes_too_late_is_nobodys_here_any_more() -> None:
    play = flushing().do("commit_lost")
    assert play.told == "release 1 (coherence)"
    assert (play.machine.generations.dirty, play.machine.generations.in_flight) == (0, None)


def test_a_commit_that_is_lost_in_a_turn_leaves_the_agent_to_the_end_of_it() -> None:
    """C4"""
    play = flushing().start_commit().begin("t").entered().do("commit_lost")
    assert play.told == ""
    assert play.end().recorded(Recorded.LOST).told == "over t; release 1 (coherence)"


def test_a_commit_of_turns_of_no_session_id_cannot_be_lost() -> None:
    play = idle().do("complete_elsewhere", None).do("flush")
    assert play.told == "1 commits to 1"
    assert play.do("commit_lost").told == ""
    assert play.machine.generations.in_flight is not None


def test_a_commit_that_is_lost_lets_an_agent_go_that_has_another_session_id_to_commit() -> None:
    """G5"""
    play = dirty().begin("w", session_id="r").entered().end("w")
    play.did = play.machine.recorded(Recorded.DONE, "r", 1, 4)
    assert play.do("flush").told == "1 commits to 1 of s@1"
    assert play.do("commit_lost").told == "1 commits to 1 of r@4"
    assert play.committed().told == "release 1 (coherence)"


def test_whoever_is_retained_behind_a_stuck_commit_that_is_lost_is_tried_again() -> None:
    """G9: no pause was set while it was stuck, and so none ends."""
    play = dirty().begin("w", session_id="r").entered().end("w", discard=True)
    play.did = play.machine.recorded(Recorded.DONE, "r", 1, 4)
    assert play.start_commit().do("commit_stuck").told == "gave up; retain 1 (discard)"
    assert play.do("commit_lost").told == "1 commits to 1 of r@4"
    assert play.committed().told == "release 1 (discard)"


def test_a_flush_is_not_over_because_later_turns_were_lost() -> None:
    """G2: a turn began before the commit did; then what was completed after the flush is lost."""
    play = dirty().do("flush").begin_at_once("t").start_commit()
    assert play.told == "not now"
    play.end()
    play.machine.recorded(Recorded.DONE, "r", 1, 1)  # it was a turn of another session id
    play.begin_at_once("u").start_commit()
    play.do("lose", "r", 1).end("u", completed=False)
    assert play.recorded().told == "over u; 1 commits to 1 of s@1"


def test_a_flush_is_over_when_all_that_is_left_of_it_is_lost() -> None:
    """G2, G9"""
    play = turn_again().do("flush").do("lose", "s", 1).end()
    assert play.recorded().told == "over t"


def test_whoever_is_retained_for_what_is_lost_is_let_go() -> None:
    """G9"""
    assert retained().do("lose", "s", 1).told == "release 1 (discard)"


# What nobody here completed.


def in_vain(play: Play) -> bool:
    """Whether agent 1, who leaves, was to commit what was resumed, and has not."""
    departure = play.machine.departure(1)
    assert departure is not None
    return departure.in_vain


def test_the_next_agent_answers_for_what_was_resumed() -> None:
    """G6"""
    play = building_resumed().built().end()
    play.recorded()
    assert play.do("flush").told == "1 commits to 3 of s@1"


def test_what_was_intended_is_committed_with_the_same_token_and_by_itself() -> None:
    """G4"""
    play = resumed_intended().begin("t").entered().built().end()
    play.did = play.machine.recorded(Recorded.DONE, "r", 3, 1)
    assert play.do("flush").told == "1 commits to 1 of r@1"
    assert play.committed().told == "1 commits to 3 of r@1"


def test_an_agent_that_enters_at_once_does_not_answer_for_what_was_resumed() -> None:
    """G6: it knows nothing of it, and commits its own turns as if that were not there."""
    play = resumed_beside().begin_at_once("t").end().recorded()
    assert play.machine.generations.nobodys("r")
    assert play.do("flush").told == "1 commits to 3 of s@1"
    assert play.committed().told == "gave up"
    assert (play.machine.generations.committed, play.machine.generations.owed("r")) == (1, 2)


def test_it_answers_for_it_when_it_enters_the_next_time() -> None:
    """G6"""
    play = resumed_beside().begin("t").entered()
    assert not play.machine.generations.nobodys("r")
    assert play.end().recorded().do("flush").told == "1 commits to 2 of r@1"
    assert play.committed().told == "1 commits to 3 of s@1"


def test_what_nobody_answers_for_holds_up_no_agent_that_leaves() -> None:
    """G5"""
    play = resumed_beside().begin_at_once("t").end().recorded()
    assert play.release().told == "go; 1 commits to 3 of s@1"
    assert play.committed().told == "release 1 (idle)"
    assert play.machine.generations.nobodys("r")


def test_who_is_offered_gets_what_was_resumed_and_an_agent_that_is_there_does_not() -> None:
    """G6"""
    assert resumed_beside().do("flush").told == "gave up"
    play = resumed_beside().do("offer", 99).do("flush")
    assert play.told == "99 commits to 2 of r@1"
    assert play.committed().told == ""
    assert (play.machine.commit_only, play.machine.generations.dirty) == ((), 0)


def test_a_recovery_agent_commits_and_goes_and_leaves_no_trace() -> None:
    """G9, C9"""
    play = recovering().built(1)
    assert play.told == "1 commits to 2 of r@1"
    assert play.committed().told == "release 1 (recovery)"
    assert not in_vain(play)
    assert play.do("torn_down", 1).told == ""
    assert play.machine.forgettable


def test_a_recovery_agent_whose_commit_fails_goes_and_leaves_the_turns_to_nobody() -> None:
    """G9: the ledger has them."""
    play = recovery_agent_committing().committed(succeeded=False)
    assert play.told == "gave up; release 1 (recovery)"
    assert play.machine.generations.nobodys("r")
    assert play.machine.generations.dirty == 2
    assert in_vain(play)


def test_a_recovery_agent_whose_commit_hangs_goes_as_well_and_two_never_overlap() -> None:
    """G8"""
    play = recovery_agent_stuck().recover()
    assert play.built(2).told == "release 2 (recovery)"
    assert play.committed(succeeded=False).told == "gave up"


def test_a_recovery_agent_finds_nothing_to_do_if_a_turn_was_faster() -> None:
    """G9"""
    play = recovering().begin("t").entered().built(2).built(1)
    assert play.told == "release 1 (recovery)"
    assert not in_vain(play)
    assert play.end().do("flush").told == ""
    assert play.recorded().told == "over t; 2 commits to 2 of r@1"


def test_a_recovery_agent_waits_behind_older_turns_of_an_agent_that_is_in_one() -> None:
    """G5"""
    play = recovery_agent_in_line().end().recorded()
    assert play.told == "over t; 1 commits to 1 of s@1"
    assert play.committed().told == "2 commits to 2 of r@1"
    assert play.committed().told == "release 2 (recovery)"


def test_a_recovery_agent_that_was_given_up_and_comes_back_has_nothing_to_do_with_it() -> None:
    """G9"""
    play = recovering_late()
    assert not play.machine.forgettable
    assert play.built(1).told == "release 1 (discard)"
    assert play.machine.generations.nobodys("r")


def test_a_recovery_agent_that_is_built_in_a_drain_commits_and_is_closed() -> None:
    """D1"""
    play = draining_recovering().built(1)
    assert play.told == "1 commits to 2 of r@1"
    assert play.committed().told == "close 1 (recovery)"


@pytest.mark.parametrize("how", ["close", "drain"])
def test_a_recovery_agent_stays_one_when_the_session_is_ended(how: str) -> None:
    """G9: whoever asked for the recovery is answered when an agent goes whose reason is RECOVERY."""
    play = recovery_agent_committing()
    play = play.close() if how == "close" else play.do("drain")
    assert play.committed().told == "close 1 (recovery)"


def test_a_recovery_agent_of_an_ended_session_leaves_the_turns_to_nobody_if_its_commit_fails() -> None:
    """G9"""
    play = recovery_agent_committing().close().committed(succeeded=False)
    assert play.told == "gave up; close 1 (recovery)"
    assert play.machine.generations.nobodys("r")
    assert in_vain(play)


def test_a_recovery_agent_that_is_built_after_commits_were_abandoned_is_closed() -> None:
    """D2, S2: no commit begins any more that it could wait for."""
    play = draining_recovering().do("force").do("abandon").built(1)
    assert play.told == "close 1 (recovery)"
    assert play.machine.generations.nobodys("r")
    assert in_vain(play)


def test_a_recovery_agent_that_is_abandoned_leaves_the_turns_to_nobody() -> None:
    """G9: nothing was committed, and so whoever asked for the recovery is not told that it was."""
    play = draining_recovering().built(1).do("force").do("abandon")
    assert play.told == "close 1 (recovery)"
    assert play.machine.generations.nobodys("r")
    assert in_vain(play)


def test_what_a_recovery_agent_could_not_commit_is_not_overtaken_by_later_turns() -> None:
    """G5: the agent that has completed those answers for all of them."""
    play = empty().resume("s").recover("s").built(1).begin("t").entered().built(2).end().recorded()
    assert segments(play) == "1..2/s2@1!,2..3/s3@1"
    play.committed(succeeded=False)
    assert in_vain(play)
    assert play.do("flush").told == "2 commits to 2 of s@1"
    assert play.committed().told == "2 commits to 3 of s@1"


def test_two_session_ids_are_recovered_each_by_its_own_agent() -> None:
    """G5"""
    play = resumed().resume("q").recover("r").recover("q")
    assert play.built(1).told == "1 commits to 2 of r@1"
    assert play.built(2).told == ""
    assert play.committed().told == "release 1 (recovery); 2 commits to 2 of q@1"
    assert play.committed().told == "release 2 (recovery)"


# The end.


def test_a_drain_waits_for_the_answer_of_the_store_and_ends_by_force() -> None:
    """D2"""
    play = entering_idle().do("drain")
    assert play.do("force").told == "close 1 (shutdown); end session 0"
    assert play.entered().told == ""


def test_a_turn_that_is_recorded_in_a_drain_is_committed() -> None:
    """D1"""
    play = draining_recording().recorded()
    assert play.told == "over t; end session 0; 1 commits to 2 of s@1"
    assert play.committed().told == "close 1 (shutdown)"


def test_a_drain_ends_no_turn_by_force_that_is_being_recorded() -> None:
    """D2, G9: it was given back in time. It counts when the session gives the recording up."""
    play = draining_recording()
    before = snapshot(play.machine)
    assert play.do("force").told == ""
    assert snapshot(play.machine) == before
    play.recorded(Recorded.NOT_NOW)
    assert play.told == "over t; end session 0; 1 commits to 2 of s@1"
    assert play.machine.generations.generation == 2


def test_an_agent_that_is_built_after_commits_were_abandoned_is_closed() -> None:
    """D2, S2: it has taken over what was resumed."""
    play = building_resumed().do("drain").do("force").do("abandon").built(1)
    assert play.told == "insert 1; close 1 (shutdown); end session 0"


def test_an_agent_whose_turn_is_recorded_after_commits_were_abandoned_is_closed() -> None:
    """D2, S2"""
    play = draining_recording().do("abandon").recorded()
    assert play.told == "over t; close 1 (shutdown); end session 0"
    assert play.machine.generations.dirty == 2


def test_a_failed_session_serves_nobody_when_the_store_answers() -> None:
    play = entering_and_line().do("fail")
    assert play.told == "refuse t: failed; refuse w: failed"
    assert play.entered().told == ""
    assert play.machine.state == "failed"


def test_a_commit_does_not_start_in_a_turn_of_its_owner_whoever_else_comes_to_commit() -> None:
    """G8: a recovery agent has taken over what lies before it, and is the next to commit."""
    play = resumed_beside().recover().begin_at_once("t").end().recorded()
    assert play.do("flush").told == "1 commits to 3 of s@1"
    play.begin_at_once("u").built(2)
    assert play.start_commit().told == "not now; 2 commits to 2 of r@1"


def test_a_commit_starts_while_somebody_else_is_in_a_turn_who_answers_for_older_ones() -> None:
    """G8: it is not put off, because its owner is not in that turn."""
    play = resumed_beside().begin_at_once("t").end(discard=True).recorded()
    assert play.told == "over t; 1 commits to 3 of s@1"
    play.begin("u").entered().built(2)
    assert play.start_commit().told == "go"


def test_a_release_is_called_off_when_a_turn_that_fits_moves_up() -> None:
    """C8: the turn before it, for which the agent would have gone anyway, was withdrawn."""
    play = dirty().release().begin("other", "b").begin("t")
    assert play.machine.state == "entering"
    play.do("withdraw", play.turn("other")).committed()
    assert play.entered().told == "grant t reused"


# The end of a turn, in two steps that need no message.


@pytest.mark.parametrize("completed", [True, False])
def test_two_steps_do_what_two_messages_do(completed: bool) -> None:
    """G1, T4"""
    steps, messages = turn(), turn()
    name = steps.machine.turn

    assert steps.machine.record_now(name, completed)
    messages.end_now(completed=completed)
    assert without_turn(steps) == without_turn(messages)

    assert steps.machine.recorded_now(name, "s", 1, 1)
    messages.recorded()
    assert snapshot(steps.machine) == snapshot(messages.machine)


def without_turn(play: Play) -> dict[str, object]:
    """Which is another one in each."""
    return {name: value for name, value in snapshot(play.machine).items() if name != "turn"}


def test_a_turn_that_does_not_run_is_not_ended_by_a_step() -> None:
    """T8"""
    for play in (turn(), dirty(), recording()):
        before = snapshot(play.machine)
        name = play.machine.turn if play.machine.place is Place.RECORDING else play.turn("nobody")
        assert not play.machine.record_now(name, completed=True)
        assert snapshot(play.machine) == before


def someone_waits(play: Play) -> Play:
    return play.begin("next")


def it_is_to_be_released(play: Play) -> Play:
    return play.close()


@pytest.mark.parametrize("more", [someone_waits, it_is_to_be_released])
def test_a_recorded_turn_behind_which_there_is_more_to_do_takes_a_message(
    more: Callable[[Play], Play],
) -> None:
    play = more(recording())
    before = snapshot(play.machine)
    assert not play.machine.recorded_now(play.machine.turn, "s", 1, 1)
    assert snapshot(play.machine) == before


def test_a_turn_that_is_not_being_recorded_has_no_second_step() -> None:
    play = turn()
    assert not play.machine.recorded_now(play.machine.turn, "s", 1, 1)
    assert not recording().machine.recorded_now(play.turn("nobody"), "s", 1, 1)
