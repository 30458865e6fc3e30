"""The witness finds each kind of violation, and nothing where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom.stress._findings import LOOKS, SHOWN
from greenroom.stress._observations import Kind, Log, Seen
from greenroom.stress._result import Check
from greenroom.stress._witness import HUNG, TOO_LONG, Witness


class Story:
    """Tells a witness what happens, one thing a millisecond."""

    def __init__(self, *, exact: bool = True) -> None:
        self.witness = Witness(exact=exact)
        self.now = 0.0

    def see(self, kind: Kind, agent: int = 0, what: Any = None, key: str = "a") -> None:
        self.now += 0.001
        self.witness.see(Seen(kind, self.now, key, agent, what))

    def build(self, agent: int, key: str = "a") -> None:
        self.see(Kind.BUILDING, agent, key=key)
        self.see(Kind.BUILT, agent, key=key)

    def turn(
        self, agent: int, generation: int | None, key: str = "a", waited: float | None = None
    ) -> None:
        self.see(Kind.ASKED, key=key)
        self.see(Kind.BEGAN, agent, waited, key=key)
        self.see(Kind.ENDED, agent, key=key)
        self.see(Kind.LEFT, agent, generation, key=key)

    def commit(self, agent: int, upto: int, succeeds: bool = True, key: str = "a") -> None:
        self.see(Kind.COMMIT, agent, upto, key=key)
        self.see(Kind.COMMITTED, agent, succeeds, key=key)

    def let_go(self, agent: int, key: str = "a") -> None:
        self.see(Kind.TEARDOWN, agent, key=key)
        self.see(Kind.TORN, agent, key=key)

    def finish(self, **known: Any) -> dict[int, Check]:
        ends: dict[str, Any] = {
            "known_dirty": (),
            "abandoned": (),
            "drain": 0.5,
            "deadline": 1.0,
            **known,
        }
        return dict(enumerate(self.witness.finish(**ends), 1))

    def violations(self, **known: Any) -> dict[int, str]:
        checks = self.finish(**known)
        return {number: check.violations[0] for number, check in checks.items() if check.held is False}


def a_whole_life(story: Story, agent: int, key: str) -> None:
    story.build(agent, key)
    story.turn(agent, 1, key)
    story.turn(agent, None, key)
    story.turn(agent, 2, key)
    story.commit(agent, 2, False, key)
    story.commit(agent, 2, True, key)
    story.let_go(agent, key)


@pytest.mark.parametrize("exact", [True, False])
def test_a_room_that_keeps_its_promises_is_not_accused(exact: bool) -> None:
    story = Story(exact=exact)
    a_whole_life(story, 1, "a")
    story.see(Kind.DRAINING)
    checks = story.finish()
    assert [check.held for check in checks.values()] == [True, None, True, True, True, True, True]
    assert [check.seen for check in checks.values()] == [4, 0, 2, 2, 3, 1, 1]


def test_what_is_over_is_forgotten() -> None:
    story = Story()
    for number in range(1, 50):
        a_whole_life(story, number, f"chat:{number}")
    assert story.witness.remembered == 0
    assert story.witness.commits.count == 98
    assert story.witness.teardowns.count == 49


# 1


def test_a_teardown_in_the_middle_of_a_turn_is_found() -> None:
    story = Story()
    story.build(1)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    story.let_go(1)
    story.see(Kind.ENDED, 1)
    story.see(Kind.LEFT, 1, None)
    found = story.violations()
    assert found == {1: "0.01 s, session 'a': an agent was let go in the middle of a turn"}


def test_a_teardown_between_the_end_of_a_turn_and_its_return_is_fine() -> None:
    """The room has the agent back before whoever had the turn hears of it."""
    story = Story()
    story.build(1)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    story.see(Kind.ENDED, 1)
    story.commit(1, 1)
    story.let_go(1)
    story.see(Kind.LEFT, 1, 1)
    assert story.violations() == {}
    assert story.witness.remembered == 0


def test_a_turn_with_an_agent_that_was_let_go_is_found() -> None:
    story = Story()
    story.build(1)
    story.let_go(1)
    story.turn(1, None)
    assert "had been let go" in story.violations()[1]


def test_two_turns_with_one_agent_are_found() -> None:
    story = Story()
    story.build(1)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    assert "two turns" in story.violations(abandoned=["a"])[1]


# 2


def look(story: Story, cached: int, **figures: Any) -> bool:
    known: dict[str, Any] = {"cap": 2, "in_turn": 0, "busy": 0, "retained": 0, **figures}
    return story.witness.look(story.now, cached=cached, **known)


def test_agents_beyond_the_cap_that_stay_are_found() -> None:
    story = Story()
    assert all(look(story, 4, in_turn=1) for _ in range(LOOKS - 1))
    assert not look(story, 4, in_turn=1), "once it is told, nobody needs to look again"
    assert "4 were cached" in story.violations()[2]


def test_agents_beyond_the_cap_are_found_though_the_room_denies_them() -> None:
    story = Story()
    for number in range(1, 5):
        story.build(number, f"chat:{number}")
    for _ in range(LOOKS):
        look(story, 2)
    found = story.violations(abandoned=[f"chat:{number}" for number in range(1, 5)])
    assert "4 sessions had an agent" in found[2]


def test_a_passing_moment_beyond_the_cap_is_fine() -> None:
    story = Story()
    for _ in range(3):
        for _ in range(LOOKS - 1):
            look(story, 4)
        assert not look(story, 2)
    assert story.violations() == {}


def test_a_cap_that_was_lowered_may_take_its_time_as_long_as_it_is_being_reached() -> None:
    story = Story()
    for excess in range(5 * LOOKS, 0, -1):
        assert look(story, 2 + excess)
    assert not look(story, 2)
    assert story.violations() == {}


def test_turns_builds_and_commits_explain_agents_beyond_the_cap() -> None:
    story = Story()
    for number in range(1, 8):
        story.build(number, f"chat:{number}")
    assert not look(story, 4, in_turn=2, busy=2, retained=1)
    assert not look(story, 9, cap=None)
    assert look(story, 4, in_turn=2, busy=2, retained=0)


# 3


def test_two_commits_of_a_session_at_once_are_found() -> None:
    story = Story()
    for agent in (1, 2):
        story.build(agent)
        story.turn(agent, agent)
    story.see(Kind.COMMIT, 1, 1)
    story.see(Kind.COMMIT, 2, 2)
    assert "2 commits were in flight" in story.violations(known_dirty="a", abandoned="a")[3]


def test_a_commit_of_turns_that_nobody_had_is_found() -> None:
    story = Story()
    story.build(1)
    story.turn(1, 1)
    story.commit(1, 3)
    story.let_go(1)
    assert "a commit up to 3, and 1 turns are completed" in story.violations()[3]


def test_a_commit_may_have_the_turn_that_is_just_being_given_back() -> None:
    story = Story()
    story.build(1)
    story.turn(1, 7)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    story.see(Kind.ENDED, 1)
    story.commit(1, 8)
    story.see(Kind.LEFT, 1, 8)
    story.let_go(1)
    assert story.violations() == {}


def test_a_commit_for_an_agent_without_a_turn_is_found() -> None:
    story = Story()
    story.build(1)
    story.commit(1, 1)
    story.let_go(1)
    assert "has completed no turn" in story.violations()[3]


def test_a_commit_that_goes_back_is_found() -> None:
    story = Story()
    story.build(1)
    story.turn(1, 1)
    story.turn(1, 2)
    story.commit(1, 2)
    story.commit(1, 1)
    story.let_go(1)
    assert "a commit up to 2 was followed by 1" in story.violations()[3]


def test_a_generation_that_does_not_grow_is_found() -> None:
    story = Story()
    story.build(1)
    story.turn(1, 2)
    story.turn(1, 2)
    story.commit(1, 2)
    story.let_go(1)
    assert "generation 2 was followed by 2" in story.violations()[3]


def two_turns_that_are_left_at_once(*generations: int) -> Story:
    """The second is ENDED before the first is LEFT."""
    story = Story()
    story.build(1)
    for _ in generations:
        story.see(Kind.ASKED)
        story.see(Kind.BEGAN, 1)
        story.see(Kind.ENDED, 1)
    for generation in generations:
        story.see(Kind.LEFT, 1, generation)
    story.commit(1, 2)
    story.let_go(1)
    return story


def test_of_two_turns_that_are_just_over_the_later_may_be_left_first() -> None:
    assert not two_turns_that_are_left_at_once(2, 1).violations()


def test_two_turns_that_are_just_over_have_generations_of_their_own() -> None:
    assert "generation 2 was followed by 2" in two_turns_that_are_left_at_once(2, 2).violations()[3]


def test_generations_that_were_left_at_once_are_behind_those_that_follow() -> None:
    story = Story()
    story.build(1)
    for generation in (2, 1):
        story.see(Kind.ASKED)
        story.see(Kind.BEGAN, 1)
        story.see(Kind.ENDED, 1)
        story.see(Kind.LEFT, 1, generation)
    assert "generation 2 was followed by 1" in story.violations(abandoned=("a",))[3]


# 4


@pytest.mark.parametrize("exact", [True, False])
def test_an_agent_that_is_let_go_uncommitted_is_found(exact: bool) -> None:
    story = Story(exact=exact)
    story.build(1)
    story.turn(1, 1)
    story.commit(1, 1)
    story.turn(1, 2)
    story.commit(1, 2, False)
    story.let_go(1)
    assert "turns up to 2, committed up to 1" in story.violations()[4]


def test_a_turn_that_turns_out_to_be_uncommitted_after_its_agent_is_gone_is_found() -> None:
    story = Story()
    story.build(1)
    story.see(Kind.ASKED)
    story.see(Kind.BEGAN, 1)
    story.see(Kind.ENDED, 1)
    story.let_go(1)
    story.see(Kind.LEFT, 1, 1)
    assert "turns up to 1, committed up to 0" in story.violations()[4]


def test_a_commit_by_an_agent_that_is_gone_is_found() -> None:
    story = Story()
    story.build(1)
    story.let_go(1)
    story.commit(1, 1)
    assert "after it had been let go" in story.violations()[4]


def test_what_a_drain_could_not_commit_it_has_to_report() -> None:
    def drained_dirty() -> Story:
        story = Story()
        story.build(1)
        story.turn(1, 1)
        story.see(Kind.DRAINING)
        story.commit(1, 1, False)
        story.let_go(1)
        return story

    assert "the drain did not report it" in drained_dirty().violations(known_dirty=["b"])[4]
    assert drained_dirty().violations(known_dirty=["a"]) == {}


# 5


def test_a_turn_that_was_never_answered_is_found() -> None:
    story = Story()
    story.see(Kind.ASKED)
    story.see(Kind.ASKED, key="b")
    story.see(Kind.REFUSED, key="b")
    assert story.violations() == {5: "session 'a': 1 turns were never answered"}


def test_a_turn_that_nobody_waits_for_needs_no_answer() -> None:
    story = Story()
    story.see(Kind.ASKED)
    story.see(Kind.GAVE_UP)
    assert story.violations() == {}
    assert story.witness.remembered == 0


def test_a_turn_that_the_room_does_not_know_is_found() -> None:
    story = Story()
    story.witness.vanished(2.0, "a")
    assert "2.00 s, session 'a': a turn was not answered" in story.violations()[5]


# 6


def test_an_agent_that_is_let_go_twice_is_found() -> None:
    story = Story()
    story.build(1)
    story.let_go(1)
    story.let_go(1)
    assert "let go twice" in story.violations()[6]


def test_an_agent_that_is_never_let_go_is_found() -> None:
    story = Story()
    story.build(1)
    story.build(2, "b")
    story.let_go(2, "b")
    assert story.violations() == {6: "session 'a': an agent was never let go"}


def test_an_agent_of_an_abandoned_session_is_known_of() -> None:
    story = Story()
    story.build(1)
    assert story.violations(abandoned=["a"]) == {}


# 7


def with_a_hung_hook(seconds: float) -> Story:
    story = Story()
    story.build(1, "hung")
    story.see(Kind.TEARDOWN, 1, key="hung")
    story.build(2)
    story.now += seconds
    return story


def test_a_turn_that_waits_long_for_its_idle_agent_while_a_hook_hangs_is_found() -> None:
    story = with_a_hung_hook(HUNG + 2 * TOO_LONG)
    story.turn(2, None, waited=TOO_LONG + 1.0)
    story.let_go(2)
    assert "waited 6.0 s for its idle agent" in story.violations()[7]


@pytest.mark.parametrize(("hangs", "waited"), [(HUNG + 2 * TOO_LONG, 0.1), (TOO_LONG, TOO_LONG + 1.0)])
def test_a_short_wait_or_one_in_which_nothing_hung_says_nothing(hangs: float, waited: float) -> None:
    story = with_a_hung_hook(hangs)
    story.turn(2, None, waited=waited)
    story.let_go(2)
    assert story.violations() == {}


def test_a_session_may_wait_for_its_own_hook() -> None:
    story = with_a_hung_hook(HUNG + 2 * TOO_LONG)
    story.build(3, "hung")
    story.turn(3, None, "hung", waited=TOO_LONG + 1.0)
    story.let_go(3, "hung")
    story.let_go(2)
    assert story.violations() == {}


def test_a_drain_that_outlasts_its_deadline_and_a_second_is_found() -> None:
    assert Story().violations(drain=1.9, deadline=1.0) == {}
    assert "the drain took 2.1 s" in Story().violations(drain=2.1, deadline=1.0)[7]


# The report


def test_the_first_few_violations_are_told_and_all_are_counted() -> None:
    story = Story()
    for _ in range(SHOWN + 3):
        story.let_go(1)
    check = story.finish()[6]
    assert check.held is False
    assert (len(check.violations), check.violated) == (SHOWN, SHOWN + 3)


def test_failures_that_were_planned_are_counted() -> None:
    story = Story()
    story.see(Kind.PLANNED)
    story.see(Kind.PLANNED)
    assert story.witness.planned_failures == 2


def test_what_is_let_go_at_the_very_end_is_not_timed() -> None:
    story = Story()
    story.build(1)
    story.turn(1, 1)
    story.see(Kind.COMMIT, 1, 1)
    story.build(2, "b")
    story.see(Kind.TEARDOWN, 2, key="b")
    story.see(Kind.OVER)
    story.see(Kind.COMMITTED, 1, False)
    story.see(Kind.TORN, 2, key="b")
    assert story.witness.commits.count == story.witness.teardowns.count == 0


def test_a_log_is_taken_out_in_order_and_as_much_as_is_wanted() -> None:
    log = Log()
    for number in range(5):
        log.write(Kind.BUILT, "a", number)
    assert [seen.agent for seen in log.take(2)] == [0, 1]
    assert [seen.agent for seen in log.take()] == [2, 3, 4]
    assert log.take() == []
