"""Why a session is as it is, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.actors import Policy
    from greenroom.messages import SessionRow

__all__ = ["Explanation", "Position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a session stands in the order of use."""

    cached: int
    cap: int | None
    place: int | None
    """1 is the least recently used. `None`: it has no agent."""


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
    position: Position,
    policy: Policy,
    draining: bool,
    owner: str | None = None,
    stored: Sequence[Any] = (),
) -> Explanation:
    """Put what session, supervisor and store know into sentences. `owner` is what this room is called in
    the store, `stored` the key's session ids there."""
    ledger = _about_ledger(stored, owner)
    if row is None:
        why = ("There is no such session. Its next turn begins one, and builds an agent.", *ledger)
        return Explanation(key=key, known=False, state="unknown", why=why, session=None)
    sentences = [*_about_agent(row, policy), *_about_order(position), *_about_work(row)]
    if row.holder is not None and row.holder != owner:
        sentences.append(f"{row.holder}, another room, was last seen in a turn of it.")
    sentences += ledger
    if row.last_error is not None:
        sentences.append(f"The last thing that went wrong: {row.last_error}.")
    if draining:
        sentences.append("The room is being drained: no turn begins any more.")
    return Explanation(key=key, known=True, state=row.state, why=tuple(sentences), session=row)


def _about_agent(row: SessionRow, policy: Policy) -> list[str]:
    if row.state == "failed":
        return ["Its actor failed too often. It takes no turn until it is ended with room.end()."]
    if row.state == "in turn":
        return ["Its agent is in a turn, and cannot be released or closed until that ends."]
    if row.state == "entering":
        return ["Its next turn is about to begin: the store is being asked whether it may."]
    if row.state == "building":
        return ["Its agent is being built."]
    if not row.cached:
        last = "" if row.last_reason is None else f" The last one was let go: {row.last_reason}."
        return [f"It has no agent in memory; its next turn builds one.{last}"]
    if row.idle_seconds is None:
        return ["Its agent was adopted and not used since: no activity is known, so no sweep finds it."]
    if policy.idle_ttl is None:
        return [f"Its agent has been idle for {row.idle_seconds:.0f} s. There is no idle_ttl."]
    left = policy.idle_ttl - row.idle_seconds
    until = f"in {left:.0f} s" if left > 0 else "at the next sweep"
    return [f"Its agent has been idle for {row.idle_seconds:.0f} s. It is released {until} (idle_ttl)."]


def _about_order(position: Position) -> list[str]:
    if position.place is None:
        return []
    where = f"It is number {position.place} of {position.cached} in the order of use"
    if position.cap is None:
        return [f"{where}; there is no cap."]
    beyond = position.place <= position.cached - position.cap
    return [f"{where}; the cap is {position.cap}{': it is beyond it' if beyond else ''}."]


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
