"""What a stage decides: its effects, one class for each thing that the shell can be asked to do.

Plain data: an effect says what is to be done, and to whom, never how. `stage.py` returns effects in the
order in which they are to be performed, and `_session_effects.py` has one method for each class. Agents
are named by their incarnation, turns by the request that asked for them, ended sessions by their number
(the "life").

    turns           Grant, Wait, Refuse (a Refusal says why), TurnOver
    the store       Enter, EnterLater, Record
    agents          Build, Insert, Interrupt, TearDown
    commits         Commit, CommitGaveUp, Retain (a leaver, whose Phase says how far it has come), Pause
    sessions        EndLife, CloseResources, LifeOver: once for each life, in this order

Nearly every turn begins with `HIT` and ends with `RESTED`: nothing is to be done but what whoever asked
does himself, and no object is made to say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from greenroom.messages import BeginTurn, Reason

__all__ = [
    "Build",
    "CloseResources",
    "Commit",
    "CommitGaveUp",
    "Effect",
    "EndLife",
    "Enter",
    "EnterLater",
    "Entry",
    "Grant",
    "HIT",
    "Insert",
    "Interrupt",
    "LifeOver",
    "Pause",
    "Phase",
    "RESTED",
    "Record",
    "Recorded",
    "Refusal",
    "Refuse",
    "Retain",
    "TearDown",
    "TurnOver",
    "Wait",
]


class Phase(Enum):
    """How far a leaver has come."""

    COMMITTING = "committing"
    RETAINED = "retained"
    TEARING = "tearing"


class Refusal(Enum):
    """Why a turn does not begin."""

    BUSY = "busy"
    SELF = "self"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    BUILD = "build"
    CLOSED = "closed"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"
    STORE = "store"


class Entry(Enum):
    """What the store said when a turn was to begin."""

    FRESH = "fresh"
    """Go on: the session is ours, and the agent, if there is one, knows its transcript."""

    STALE = "stale"
    """The session is ours, but the agent does not know all of its transcript."""

    HELD = "held"
    """Another room is in a turn of it."""

    AWAY = "away"
    """The store cannot be reached, and nothing is known of the session."""


class Recorded(Enum):
    """What the store said when a turn had ended."""

    DONE = "done"
    NOT_NOW = "not now"
    """It could not be reached: the turn counts, and is recorded later."""

    LOST = "lost"
    """Another room has taken the session over: the turn does not count."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The turn begins, with the agent that is in its place."""

    turn: BeginTurn
    reused: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Wait:
    """The turn waits."""

    turn: BeginTurn


@dataclass(frozen=True, slots=True)
class Refuse:
    """The turn does not begin."""

    turn: BeginTurn
    why: Refusal


@dataclass(frozen=True, slots=True)
class TurnOver:
    """The turn has ended."""

    turn: BeginTurn


@dataclass(frozen=True, slots=True)
class Enter:
    """Ask the store whether this turn may begin, and whether the agent is still good for it."""

    turn: BeginTurn


@dataclass(frozen=True, slots=True)
class EnterLater:
    """Ask again after a pause, which grows with the tries."""

    tries: int


@dataclass(frozen=True, slots=True)
class Record:
    """Have the store record that this turn has ended."""

    turn: BeginTurn
    completed: bool


@dataclass(frozen=True, slots=True)
class Build:
    """Build this incarnation, for this turn."""

    turn: BeginTurn
    incarnation: int


@dataclass(frozen=True, slots=True)
class Insert:
    """An agent has come into its place."""

    incarnation: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Have the owner commit everything up to this generation."""

    owner: int
    generation: int
    session_id: str | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class CommitGaveUp:
    """Whoever waits for a commit waits in vain: it failed, or nobody could be asked."""


@dataclass(frozen=True, slots=True)
class Retain:
    """A leaver is kept for a commit that failed."""

    incarnation: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Pause:
    """Try to commit again after a pause, which grows with the tries."""

    tries: int


@dataclass(frozen=True, slots=True)
class TearDown:
    """Call the hooks of a release or close, and forget the agent."""

    incarnation: int
    close: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Tell the agent to stop what it does."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class EndLife:
    """The session is over: what settings and resources it has are not for the next one."""

    life: int


@dataclass(frozen=True, slots=True)
class CloseResources:
    """The last agent of an ended session is gone."""

    life: int


@dataclass(frozen=True, slots=True)
class LifeOver:
    """Nothing is left of an ended session."""

    life: int
    reason: Reason


Effect: TypeAlias = (
    Grant
    | Wait
    | Refuse
    | TurnOver
    | Enter
    | EnterLater
    | Record
    | Build
    | Insert
    | Commit
    | CommitGaveUp
    | Retain
    | Pause
    | TearDown
    | Interrupt
    | EndLife
    | CloseResources
    | LifeOver
)

HIT: tuple[Effect, ...] = ()
"""What `begin()` returns (this very object) if the turn begins at once on the agent that is there, and
nothing else is to be done: nearly every turn. Compare with `is`."""

RESTED: list[Effect] = []
"""The same for `end()`: the agent is back in its place, and nothing else is to be done."""
