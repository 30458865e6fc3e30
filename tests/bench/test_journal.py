"""What the side-by-side benchmark reads from the journal of its agents."""

from __future__ import annotations

import pytest

from benchmarks.peers.agents import Recipe
from benchmarks.peers.journal import Journal, judge


def lines(*events: str, key: str = "chat:1", agent: str = "1.0") -> list[str]:
    return [f"{event} {key} {agent}" for event in events]


WHOLE = ("built", "began", "ended", "committing", "committed", "releasing", "released")


def test_a_life_in_which_everything_was_done_in_order_has_no_complaint() -> None:
    verdict = judge(lines(*WHOLE))
    assert (verdict.agents, verdict.turns) == (1, 1)
    assert (verdict.torn, verdict.lost, verdict.left, verdict.overlaps) == (0, 0, 0, 0)


@pytest.mark.parametrize("end", ["releasing", "closed"])
def test_an_agent_that_is_torn_down_in_a_turn_is_counted_once(end: str) -> None:
    verdict = judge(lines("built", "began", end, "closed", "ended"))
    assert verdict.torn == 1


def test_a_turn_that_ended_after_its_commit_began_is_lost_when_none_follows() -> None:
    assert judge(lines("built", "began", "committing", "ended", "committed", "closed")).lost == 1
    assert judge(lines("built", "began", "ended", "committing", "committed", "closed")).lost == 0


def test_a_commit_that_did_not_end_covers_nothing() -> None:
    assert judge(lines("built", "began", "ended", "committing", "closed")).lost == 1


def test_an_agent_that_was_neither_released_nor_closed_is_left() -> None:
    verdict = judge([*lines("built"), *lines("built", "closed", agent="1.1")])
    assert (verdict.agents, verdict.left) == (2, 1)


def test_two_turns_of_one_session_overlap_whichever_agents_they_have() -> None:
    one, other = lines("began", "ended"), lines("began", "ended", agent="1.1")
    assert judge([one[0], other[0], one[1], other[1]]).overlaps == 1
    assert judge([*one, *other]).overlaps == 0
    apart = lines("began", "ended", key="chat:2", agent="1.1")
    assert judge([one[0], apart[0], one[1], apart[1]]).overlaps == 0


def test_agents_write_down_what_is_done_to_them() -> None:
    with Journal() as journal:
        agent = Recipe(journal=journal.path).build("chat:1")
        agent.answer(0.0)  # leaves no trace: it is there to be timed
        agent.answer(1e-9)
        agent.commit_memory_session()
        agent.release_clients()
        found = [line.split()[:2] for line in journal.lines()]
        assert found == [[event, "chat:1"] for event in WHOLE]
        journal.wait("released", 1)
        with pytest.raises(TimeoutError, match=r"1 of 2 agents released in 0\.0 s"):
            journal.wait("released", 2, patience=0.0)
