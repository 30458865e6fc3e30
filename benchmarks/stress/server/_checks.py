"""Which promises of a server held, as far as that can be seen from outside.

What is known here: each request and its answer; the metrics, if the token is an operator's; and how many
turns the server says that a session has had. What its agents' hooks do is its own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from greenroom.stress._findings import INVARIANTS, Finding, Lasting
from greenroom.stress._result import Check
from greenroom.stress.server._looks import Metrics

__all__ = ["ServerWitness"]

UNSEEN = "The hooks of a server's agents cannot be seen from outside."


SHORTEST_TTL = 60.0
"""What is taken for the server's `session_ttl` where only an operator is told."""


class ServerWitness:
    """Compares what the server says with what was asked of it."""

    def __init__(self) -> None:
        self.session_ttl: float | None = SHORTEST_TTL
        """After which the server closes a session that is not used: `None` is never."""
        self._findings = {number: Finding(number) for number in INVARIANTS}
        self._completed: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._over: set[str] = set()
        self._used: dict[str, float] = {}
        self._uncommitted = 0
        self._unexplained = Lasting()
        self._remark(1, UNSEEN)
        self._remark(2, "The server's room has no cap, or was never looked at.")
        self._remark(
            3, "Commits in flight cannot be seen from outside, only how many turns are committed."
        )
        self._remark(4, "The server did not list its sessions.")
        self._remark(6, UNSEEN)
        self._remark(
            7, "Whom the server's hooks delay cannot be seen from outside, and it is not drained."
        )

    def _remark(self, number: int, text: str) -> None:
        self._findings[number].remark = text

    def _look(self, number: int, held: bool, violation: str) -> None:
        self._findings[number].seen += 1
        if not held:
            self._findings[number].violation(violation)

    def answered(self, name: str, at: float, problem: str | None) -> None:
        """A request is over. `problem`: there was no answer, because of this."""
        if self._may_have_expired(name, at):  # and then this was the first turn of another session
            self._completed.pop(name, None)
            self._turns.pop(name, None)
        self._used[name] = at
        self._look(5, problem is None, f"{at:.1f} s: the request of {name} had no answer: {problem}")

    def _may_have_expired(self, name: str, at: float) -> bool:
        """Whether it was unused for so long that the server may have closed it; without a store it then
        begins at no turns."""
        return self.session_ttl is not None and at - self._used.get(name, at) >= self.session_ttl

    def completed(self, name: str) -> None:
        """A turn was completed."""
        if name not in self._over:
            self._completed[name] = self._completed.get(name, 0) + 1

    def ended(self, name: str) -> None:
        """A session is to end. When that happens, and what comes after it by the same name, is not known
        here: nothing more is said about it."""
        self._over.add(name)
        self._completed.pop(name, None)
        self._turns.pop(name, None)

    def no_metrics(self, reason: str) -> None:
        """The metrics cannot be seen."""
        self._remark(2, reason)

    def metrics(self, metrics: Metrics, at: float) -> bool:
        """A look at the metrics. All gauges of one are of the same moment. True: there are agents that
        nothing explains yet: look again soon."""
        cached = metrics.whole("greenroom_sessions", state="cached")
        cap = metrics.whole("greenroom_session_cap")
        if cached is None or cap is None:
            return False
        # Whoever is in a turn, or is being built or let go, is what may stand beyond the cap.
        in_turn = metrics.whole("greenroom_sessions", state="in_turn") or 0
        busy = metrics.whole("greenroom_sessions", state="busy") or 0
        text = f"{at:.1f} s: {cached} agents with a cap of {cap}, {in_turn} in a turn and {busy} busy"
        stayed = self._unexplained.see(cached - cap - in_turn - busy)
        self._look(2, not stayed, text)
        self._remark(2, "")
        return stayed is False

    def session(self, name: str, told: Mapping[str, Any], at: float) -> None:
        """What the server says of a session: `turns` and `uncommitted`."""
        turns, uncommitted = int(told["turns"]), int(told["uncommitted"])
        before = self._turns.get(name, 0)
        if name in self._over or self._may_have_expired(name, at):
            return
        self._look(
            3,
            turns >= before and 0 <= uncommitted <= turns,
            f"{at:.1f} s: {name} had {before} turns, and now {turns}, {uncommitted} of them uncommitted",
        )
        self._turns[name] = turns

    def last_session(self, name: str, told: Mapping[str, Any], at: float) -> None:
        """The same, when no turn runs any more."""
        self.session(name, told, at)
        self._uncommitted += int(told["uncommitted"]) > 0

    def not_told(self, reason: str) -> None:
        """The server did not list its sessions."""
        self._remark(4, reason)

    def all_told(self, at: float) -> None:
        """The server has listed its sessions."""
        for name, completed in self._completed.items():
            if self._may_have_expired(name, at):
                continue
            turns = self._turns.get(name, 0)
            text = f"{at:.1f} s: {completed} turns of {name} were completed, the server knows of {turns}"
            self._look(4, turns >= completed, text)
        left = (
            f"{self._uncommitted:,} sessions had uncommitted turns at the end."
            if self._uncommitted
            else ""
        )
        self._remark(4, left)

    def checks(self) -> tuple[Check, ...]:
        """All promises, also those that cannot be seen."""
        return tuple(finding.check() for finding in self._findings.values())
