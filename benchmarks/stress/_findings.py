"""What was found of each invariant: how often it was looked at, and what did not hold. Pure."""

from __future__ import annotations

from greenroom.stress._result import Check

__all__ = ["INVARIANTS", "LOOKS", "SHOWN", "Finding", "Lasting"]

SHOWN = 5
"""Violations that are told in full. The others are counted."""

LOOKS = 20
"""So many looks in a row, with no fewer agents from one to the next, and it is a violation."""

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


class Lasting:
    """Agents that nothing explains, and that may be the matter of a moment: a session that was asked to
    release has its agent until it has answered, and what was asked of thousands takes a while. So look
    again soon: it is a violation if it stays so, and the number does not even fall, `LOOKS` times in a
    row."""

    __slots__ = ("_excess", "_looks")

    def __init__(self) -> None:
        self._excess = self._looks = 0

    def see(self, excess: int) -> bool | None:
        """`None`: all is well. `False`: look again soon. `True`: it has stayed so."""
        if excess <= 0:
            self._looks = 0
            return None
        if not self._looks or excess < self._excess:
            self._excess, self._looks = excess, 0
        self._looks += 1
        if self._looks < LOOKS:
            return False
        self._looks = 0
        return True
