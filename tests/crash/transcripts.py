"""What agents wrote in turns that may have been cut off anywhere, and whether it is whole.

In every turn the agent writes two messages. They carry the number that the turn is going to have once it
is completed, and the try. A turn that was cut off leaves none, one or both of its messages, and the next
try has the same number.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PARTS", "content", "violations"]

PARTS = ("user", "assistant")

Message = tuple[int, Any]
"""A position and a content."""


def content(turn: int, attempt: str, part: str) -> dict[str, Any]:
    """What an agent writes."""
    return {"turn": turn, "try": attempt, "part": part}


def violations(
    messages: Sequence[Message], generation: int, acknowledged: Mapping[int, str]
) -> list[str]:
    """What is wrong with a transcript, given the generation of its session and, for each turn that was
    acknowledged, the try."""
    found: list[str] = []
    positions = [position for position, _ in messages]
    if positions != list(range(1, len(messages) + 1)):
        found.append(f"positions are {positions}")
    turns = [said["turn"] for _, said in messages]
    found += [
        f"turn {after} comes after turn {before}" for before, after in pairwise(turns) if after < before
    ]
    tries = _tries(messages)
    for turn in range(1, generation + 1):
        of_turn = tries.get(turn, [])
        whole = [attempt for attempt, parts in of_turn if tuple(parts) == PARTS]
        if not whole:
            found.append(f"turn {turn} was completed and is not whole")
        elif of_turn[-1][0] != whole[-1]:
            found.append(f"turn {turn} was tried again after it was completed")
        if turn in acknowledged and acknowledged[turn] not in whole[-1:]:
            found.append(f"turn {turn} was acknowledged as {acknowledged[turn]}, the last is {of_turn}")
    beyond = sorted({turn for turn in turns if turn > generation + 1})
    if beyond:
        found.append(f"turns {beyond} began before {generation + 1} was completed")
    lost = sorted(turn for turn in acknowledged if turn > generation)
    if lost:
        found.append(f"turns {lost} were acknowledged, the ledger ends at {generation}")
    return found


def _tries(messages: Sequence[Message]) -> dict[int, list[tuple[str, list[str]]]]:
    """For each turn its tries in order, each with the parts that follow each other without a break."""
    tries: dict[int, list[tuple[str, list[str]]]] = {}
    for _, said in messages:
        of_turn = tries.setdefault(said["turn"], [])
        if not of_turn or of_turn[-1][0] != said["try"]:
            of_turn.append((said["try"], []))
        of_turn[-1][1].append(said["part"])
    return tries
