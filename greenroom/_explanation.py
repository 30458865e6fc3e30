"""Why a session is as it is, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.messages import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.actors import Policy
    from greenroom.messages import SessionRow

__all__ = ["Explanation", "explain"]

STATES = {
    "failed": "Its actor failed too often. It takes no turn until it is ended with room.end().",
    "in turn": "Its agent is in a turn, and cannot be released or closed until that ends.",
    "entering": "Its next turn is about to begin: the store is being asked whether it may.",
    "building": "Its agent is being built.",
}
"""What is said of a session that is in one of these. In any other it depends on its agent."""

REASONS: dict[Reason, str] = {
    **{reason: str(reason) for reason in Reason},
    Reason.IDLE: "it was idle for too long",
    Reason.CAPACITY: "the room was over its cap",
    Reason.MEMORY: "the room was over its memory budget",
    Reason.SPEC: "a turn came with another spec",
    Reason.COHERENCE: "another process wrote to the session",
    Reason.EXPLICIT: "on request",
    Reason.DISCARD: "its turn discarded it",
}
"""Why an agent was released, in words."""


DRAINING = "The room is being drained, or is closed: no turn begins any more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a session is live or not, what keeps it, and what is uncommitted. `str()` tells it."""

    key: str
    known: bool
    state: str
    why: tuple[str, ...]
    """Sentences."""

    session: SessionRow | None
    """The figures behind them. `None` for a key without a session."""

    def __str__(self) -> str:
        state = "no agent" if self.state == "known" else self.state
        return "\n".join([f"{self.key}: {state}", *(f"  {sentence}" for sentence in self.why)])


def explain(
    key: str,
    row: SessionRow | None,
    *,
    cached: Sequence[str],
    policy: Policy,
    draining: bool,
    owner: str | None,
    stored: Sequence[Any],
) -> Explanation:
    """Put what session, supervisor and store know into sentences.

    `cached` are the keys that have an agent, least recently used first. `owner` is what this room is
    called in the store, `stored` the key's session ids there.
    """
    ledger = _about_ledger(stored, owner)
    if row is None:
        ahead = DRAINING if draining else "Its next turn begins one, and builds an agent."
        why = (f"There is no such session. {ahead}", *ledger)
        return Explanation(key=key, known=False, state="unknown", why=why, session=None)
    sentences = [STATES.get(row.state) or _about_agent(row, policy.idle_ttl, draining=draining)]
    if key in cached:
        sentences.append(_about_order(cached.index(key) + 1, len(cached), policy.cap))
    sentences += _about_work(row)
    if row.holder is not None and row.holder != owner:
        sentences.append(f"{row.holder}, another room, was last seen in a turn of it.")
    sentences += ledger
    if row.last_error is not None:
        sentences.append(f"The last thing that went wrong: {row.last_error}.")
    if draining:
        sentences.append(DRAINING)
    return Explanation(key=key, known=True, state=row.state, why=tuple(sentences), session=row)


def _about_agent(row: SessionRow, idle_ttl: float | None, *, draining: bool) -> str:
    if not row.cached:
        ahead = "" if draining else "; its next turn builds one"
        last = (
            "" if row.last_reason is None else f" The last one was released: {REASONS[row.last_reason]}."
        )
        return f"It has no agent in memory{ahead}.{last}"
    if row.idle_seconds is None:
        return "Its agent was adopted and not used since: no activity is known, so no sweep finds it."
    idle = f"Its agent has been idle for {row.idle_seconds:.0f} s."
    if idle_ttl is None:
        return f"{idle} There is no idle_ttl."
    left = idle_ttl - row.idle_seconds
    until = f"in {left:.0f} s" if left > 0 else "at the next sweep"
    return f"{idle} It is released {until} (idle_ttl)."


def _about_order(place: int, cached: int, cap: int | None) -> str:
    where = f"It is number {place} of {cached} in the order of use"
    if cap is None:
        return f"{where}; there is no cap."
    return f"{where}; the cap is {cap}{': it is beyond it' if place <= cached - cap else ''}."


def _about_ledger(stored: Sequence[Any], owner: str | None) -> list[str]:
    """A sentence for each session id of the key that has an owner, or uncommitted turns."""
    sentences: list[str] = []
    for row in stored:
        holder = getattr(row, "owner", None)
        dirty = getattr(row, "generation", 0) - getattr(row, "committed", 0)
        if holder is None and not dirty:
            continue
        who = "nobody" if holder is None else "this room" if holder == owner else holder
        work = f"{dirty} of its {row.generation} turns are" if dirty else "none of its turns is"
        gave_up = f"; recovering it was given up: {row.problem}" if getattr(row, "dead", False) else ""
        sentences.append(
            f"In the store, {row.session_id!r} is owned by {who}, and {work} uncommitted{gave_up}."
        )
    return sentences


def _about_work(row: SessionRow) -> list[str]:
    sentences: list[str] = []
    dirty = row.generation - row.committed
    if dirty:
        sentences.append(
            f"{dirty} of its {row.generation} completed turns are not committed (since {row.committed})."
        )
    if row.retained:
        sentences.append(
            f"{row.retained} of its agents are retained until their turns, whose commit failed, are "
            "committed; that is retried."
        )
    if row.waiting:
        waited, lasted = row.waited_seconds, row.turn_seconds
        first = "" if waited is None else f", the first for {waited:.0f} s"
        running = "" if lasted is None else f" The running turn began {lasted:.0f} s ago."
        sentences.append(f"{row.waiting} turns wait for it{first}.{running}")
    return sentences
