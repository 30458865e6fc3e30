"""Why a session is as it is, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        return "\n".join([f"{self.key}: {self.state}", *(f"  {sentence}" for sentence in self.why)])


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
        why = ("There is no such session. Its next turn begins one, and builds an agent.", *ledger)
        return Explanation(key=key, known=False, state="unknown", why=why, session=None)
    sentences = [STATES.get(row.state) or _about_agent(row, policy.idle_ttl)]
    if key in cached:
        sentences.append(_about_order(cached.index(key) + 1, len(cached), policy.cap))
    sentences += _about_work(row)
    if row.holder is not None and row.holder != owner:
        sentences.append(f"{row.holder}, another room, was last seen in a turn of it.")
    sentences += ledger
    if row.last_error is not None:
        sentences.append(f"The last thing that went wrong: {row.last_error}.")
    if draining:
        sentences.append("The room is being drained: no turn begins any more.")
    return Explanation(key=key, known=True, state=row.state, why=tuple(sentences), session=row)


def _about_agent(row: SessionRow, idle_ttl: float | None) -> str:
    if not row.cached:
        last = "" if row.last_reason is None else f" The last one was let go: {row.last_reason}."
        return f"It has no agent in memory; its next turn builds one.{last}"
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
    """A sentence for each session id of the key that is held, or has uncommitted turns."""
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
            f"In the store, {row.session_id!r} is held by {who}, and {work} uncommitted{gave_up}."
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
            f"{row.retained} of its agents are kept only until their turns are committed; that is tried "
            "again and again."
        )
    if row.waiting:
        sentences.append(f"{row.waiting} turns wait for it.")
    return sentences
