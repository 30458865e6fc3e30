"""The checkers of histories, memories and transcripts find what is planted, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash import history, memories, transcripts
from tests.crash.history import Noted
from tests.crash.transcripts import content

# Histories


def noted(
    session: str, generation: int, begin: int, end: int, epoch: int = 1, writer: str = "a"
) -> Noted:
    return Noted(
        session=session, begin=begin, end=end, generation=generation, epoch=epoch, writer=writer
    )


GOOD = [
    noted("s", 1, 10, 20),
    noted("s", 2, 20, 25),
    noted("t", 1, 11, 21, epoch=7, writer="b"),  # another session may run at the same time
    noted("s", 3, 40, 50, epoch=2, writer="b"),
]


def test_a_history_of_one_turn_after_the_other_is_fine() -> None:
    assert history.violations(GOOD, {"s": 3, "t": 1}) == []
    assert history.violations(reversed(GOOD), {"s": 3, "t": 1}) == []


def test_a_history_can_be_written_and_read() -> None:
    assert history.parsed("".join(f"{turn}\n" for turn in GOOD)) == GOOD


@pytest.mark.parametrize(
    ("turns", "recorded", "complaint"),
    [
        ([noted("s", 1, 10, 20), noted("s", 2, 19, 30)], 2, "turns 1 and 2 overlap"),
        ([noted("s", 1, 10, 40), noted("s", 2, 20, 30)], 2, "turns 1 and 2 overlap"),
        ([noted("s", 1, 20, 10)], 1, "turn 1 ends before it begins"),
        ([noted("s", 1, 10, 20), noted("s", 1, 30, 40)], 1, "generation 1 is handed out 2 times"),
        ([noted("s", 2, 10, 20), noted("s", 1, 30, 40)], 2, "in the order [2, 1]"),
        ([noted("s", 1, 10, 20), noted("s", 3, 30, 40)], 3, "nobody completed [2] of 3"),
        ([noted("s", 1, 10, 20)], 2, "nobody completed [2] of 2"),
        ([], 1, "nobody completed [1] of 1"),
        ([noted("s", 1, 10, 20), noted("s", 2, 30, 40)], 1, "[2] are not in the ledger"),
        ([noted("s", 0, 10, 20)], 0, "[0] are not in the ledger"),
        ([noted("s", 1, 1, 2, 1, "a"), noted("s", 2, 3, 4, 1, "b")], 2, "epoch 1 has the writers"),
        ([noted("s", 1, 1, 2, 2, "a"), noted("s", 2, 3, 4, 1, "b")], 2, "epoch 1 comes after 2"),
    ],
)
def test_what_is_wrong_with_a_history_is_found(
    turns: list[Noted], recorded: int, complaint: str
) -> None:
    found = history.violations(turns, {"s": recorded})
    assert any(complaint in wrong for wrong in found), found


# Memories


def log(*lines: str) -> str:
    """`+5a`: process a begins the token 5 of the session s. `-5a`: it ends it."""
    what = {"+": "begin", "-": "end"}
    return "".join(f"{what[line[0]]} s {line[1:-1]} {line[-1]}\n" for line in lines)


@pytest.mark.parametrize(
    ("lines", "committed"),
    [
        ((), 0),
        (("+2a", "-2a", "+5a", "-5a"), 5),
        (("+2a", "-2a", "+2b", "-2b", "+5b", "-5b"), 5),  # it ended, and was not recorded
        (("+2a", "+2b", "+2c", "-2c", "+3c", "-3c"), 3),  # two processes died over it
    ],
)
def test_a_provider_that_learned_everything_is_fine(lines: tuple[str, ...], committed: int) -> None:
    assert memories.violations(memories.parsed(log(*lines)), {"s": committed}) == []


@pytest.mark.parametrize(
    ("lines", "committed", "complaint"),
    [
        (("+5a", "+6b", "-6b"), 6, "6 was begun while 5 was begun and never ended"),
        (("+6a", "+5b", "-5b", "+6b", "-6b"), 6, "5 was begun while 6 was begun"),
        (("+5a", "-5a", "+3b", "-3b"), 5, "3 was begun after 5 had ended"),
        (("+5a", "+5a", "-5a"), 5, "5 was begun twice at once by a"),
        (("+5a", "-5b"), 5, "b ended 5, which it had not begun last"),
        (("-5a",), 5, "a ended 5, which it had not begun last"),
        (("+5a",), 5, "5 was begun and never ended"),
        (("+5a", "-5a"), 6, "learned up to 5, the ledger says 6"),
        (("+5a", "-5a"), 4, "learned up to 5, the ledger says 4"),
        ((), 1, "learned up to 0, the ledger says 1"),
    ],
)
def test_what_a_provider_was_told_wrongly_is_found(
    lines: tuple[str, ...], committed: int, complaint: str
) -> None:
    found = memories.violations(memories.parsed(log(*lines)), {"s": committed})
    assert any(complaint in wrong for wrong in found), found


def test_a_session_that_the_ledger_does_not_have_is_found() -> None:
    found = memories.violations(memories.parsed(log("+1a", "-1a")), {})
    assert found == ["s: the provider learned up to 1, the ledger says 0"]


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line"):
        memories.parsed("lost s 1 a\n")


# Transcripts


def said(*parts: str) -> list[tuple[int, Any]]:
    """`1au`: what the user said in turn 1, try a. `1aa`: what the agent answered."""
    names = {"u": "user", "a": "assistant"}
    return [
        (position, content(int(part[0]), part[1], names[part[2]]))
        for position, part in enumerate(parts, start=1)
    ]


@pytest.mark.parametrize(
    ("parts", "generation", "acknowledged"),
    [
        ((), 0, {}),
        (("1au", "1aa", "2au", "2aa"), 2, {1: "a", 2: "a"}),
        (("1au", "1bu", "1ba"), 1, {1: "b"}),  # a was cut off
        (("1au", "1aa", "1bu", "1ba"), 1, {1: "b"}),  # a was cut off after it had written everything
        (("1au", "1aa", "2bu"), 1, {1: "a"}),  # b is cut off
        (("1au", "1aa"), 1, {}),  # completed, and then it died before it could say so
    ],
)
def test_a_whole_transcript_is_fine(
    parts: tuple[str, ...], generation: int, acknowledged: dict[int, str]
) -> None:
    assert transcripts.violations(said(*parts), generation, acknowledged) == []


@pytest.mark.parametrize(
    ("parts", "generation", "acknowledged", "complaint"),
    [
        (("1au",), 1, {}, "turn 1 was completed and is not whole"),
        (("1aa", "1au"), 1, {}, "turn 1 was completed and is not whole"),
        (("1au", "1bu", "1aa"), 1, {}, "turn 1 was completed and is not whole"),
        (("1au", "1aa"), 2, {}, "turn 2 was completed and is not whole"),
        (("1au", "1aa", "1bu"), 1, {}, "turn 1 was tried again after it was completed"),
        (("1au", "1aa", "1bu", "1ba"), 1, {1: "a"}, "turn 1 was acknowledged as a"),
        (("2au", "2aa", "1bu", "1ba"), 2, {}, "turn 1 comes after turn 2"),
        (("1au", "1aa", "3bu"), 1, {}, "turns [3] began before 2 was completed"),
        (("1au", "1aa"), 0, {1: "a"}, "turns [1] were acknowledged"),
    ],
)
def test_what_is_wrong_with_a_transcript_is_found(
    parts: tuple[str, ...], generation: int, acknowledged: dict[int, str], complaint: str
) -> None:
    found = transcripts.violations(said(*parts), generation, acknowledged)
    assert any(complaint in wrong for wrong in found), found


def test_a_gap_in_the_positions_is_found() -> None:
    messages = [(1, content(1, "a", "user")), (3, content(1, "a", "assistant"))]
    assert transcripts.violations(messages, 1, {}) == ["positions are [1, 3]"]
