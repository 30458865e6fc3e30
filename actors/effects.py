"""What a stage decides: its effects, one class for each thing that the shell can be asked to do.

Plain data: an effect says what is to be done, and to whom, never how. `stage.py` returns effects in the
order in which they are to be performed, and `_session_effects.py` has one method for each class. Agents
are named by their incarnation, turns by the request that asked for them, ended sessions by their number
(the "life").

    turns           Grant, Wait, Refuse (a Refusal says why), TurnOver
    agents          Build, Insert, Interrupt, TearDown
    commits         Commit, CommitGaveUp, Retain (a leaver, whose Phase says how far it has come), Pause
    sessions        EndLife, CloseResources, LifeOver: once for each life, in this order
    the supervisor  AnswerRelease

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
    "AnswerRelease",
    "Build",
    "CloseResources",
    "Commit",
    "CommitGaveUp",
    "Effect",
    "EndLife",
    "Grant",
    "HIT",
    "Insert",
    "Interrupt",
    "LifeOver",
    "Pause",
    "Phase",
    "RESTED",
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


@dataclass(frozen=True, slots=True)
class AnswerRelease:
    """Answer the supervisor."""

    accepted: bool


Effect: TypeAlias = (
    Grant
    | Wait
    | Refuse
    | TurnOver
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
    | AnswerRelease
)

HIT: tuple[Effect, ...] = ()
"""What `begin()` returns (this very object) if the turn begins at once on the agent that is there, and
nothing else is to be done: nearly every turn. Compare with `is`."""

RESTED: list[Effect] = []
"""The same for `end()`: the agent is back in its place, and nothing else is to be done."""
