"""What was found of each invariant: how often it was looked at, and what did not hold. Pure."""

from __future__ import annotations

from greenroom.stress._result import Check

__all__ = ["INVARIANTS", "SHOWN", "Finding"]

SHOWN = 5
"""Violations that are told in full. The others are counted."""

INVARIANTS: dict[int, tuple[str, str]] = {
    1: ("no teardown in a turn", "No release or close between the start and the end of a turn."),
    2: (
        "agents within the cap",
        "Agents ≤ cap, or every one beyond it is explained by a turn in progress.",
    ),
    3: (
        "one commit at a time",
        "At most one commit in flight for a session; generations only grow; committed ≤ generation.",
    ),
    4: ("no turn forgotten", "A completed turn is committed, or dirty and known."),
    5: ("every turn answered", "Every message is answered, handed on or reported; none vanishes."),
    6: ("one teardown an agent", "Each agent that was built gets exactly one release or close."),
    7: ("nobody waits for the hung", "One hung hook delays no other session. Drain ends in time."),
}
"""The name and the promise of each, by its number in the design."""


class Finding:
    """Of one invariant."""

    __slots__ = ("_number", "_told", "remark", "seen", "violated")

    def __init__(self, number: int) -> None:
        self._number = number
        self._told: list[str] = []
        self.remark = ""
        self.seen = 0
        self.violated = 0

    def violation(self, text: str) -> None:
        """It did not hold."""
        self.violated += 1
        if len(self._told) < SHOWN:
            self._told.append(text)

    def check(self) -> Check:
        """What the report says. Nothing seen and nothing violated is not known."""
        name, promise = INVARIANTS[self._number]
        return Check(
            name=name,
            promise=promise,
            held=False if self.violated else True if self.seen else None,
            seen=self.seen,
            remark=self.remark,
            violations=tuple(self._told),
            violated=self.violated,
        )
