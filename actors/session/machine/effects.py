"""What the machine decides: its effects, one class for each thing that the shell can be asked to do.

Plain tuples, which are quick to make: an effect says what to do, and to which agent or turn, never how.
The machine returns effects in the order in which to perform them; the session has a performer for each
class. Agents are named by their incarnation, turns by the object that asked for them, and the sessions
that followed each other under one key by their number.

    turns           Grant, Refuse (a Refusal says why), TurnOver
    the store       Enter (an Entry answers it), EnterLater, Record (a Recorded answers it)
    agents          Build, Insert, Interrupt, Retain, TearDown
    commits         Commit, CommitGaveUp, Pause
    sessions        EndSession, CloseResources, SessionOver: once for each session, in this order

Nearly every turn begins with `HIT` and ends with `RESTED`, and has no effect: the caller does the rest.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from greenroom.messages import BeginTurn, Reason

__all__ = ["HIT", "RESTED", "Effect", "Entry", "Recorded", "Refusal", "Turn", "Warm"]


Turn: TypeAlias = "BeginTurn"
"""A turn is the very object that asked for it. The machine compares it by identity, and reads its
`signature`, `session_id`, `reject` and `held`."""


class Refusal(Enum):
    """Why a turn does not begin."""

    BUSY = "busy"
    SELF = "self"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    BUILDING = "building"
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


class Grant(NamedTuple):
    """The turn begins, with the agent that is in its place."""

    turn: Turn
    reused: bool
    reason: Reason | None


class Refuse(NamedTuple):
    """The turn does not begin."""

    turn: Turn
    why: Refusal


class TurnOver(NamedTuple):
    """The turn has ended."""

    turn: Any


class Enter(NamedTuple):
    """Ask the store whether this turn may begin, and whether the agent is still good for it."""

    turn: Turn


class EnterLater(NamedTuple):
    """Ask again after a pause, which grows with the tries."""

    tries: int


class Record(NamedTuple):
    """Have the store record that this turn has ended."""

    turn: Any
    completed: bool


class Build(NamedTuple):
    """Build this incarnation, for this turn."""

    turn: Turn
    incarnation: int


class Insert(NamedTuple):
    """An agent has come into its place."""

    incarnation: int
    reason: Reason | None


class Commit(NamedTuple):
    """Have the owner commit everything up to this generation."""

    owner: int
    generation: int
    session_id: str | None = None
    epoch: int = 0


class CommitGaveUp(NamedTuple):
    """Tell those who wait for a commit that it failed, or that no agent could be asked."""


class Retain(NamedTuple):
    """An agent on its way out is kept for a commit that failed."""

    incarnation: int
    reason: Reason


class Pause(NamedTuple):
    """Try to commit again after a pause, which grows with the tries."""

    tries: int


class TearDown(NamedTuple):
    """Call the hooks of a release or close, and forget the agent."""

    incarnation: int
    close: bool
    reason: Reason


class Interrupt(NamedTuple):
    """Tell the agent to stop what it does."""

    incarnation: int


class EndSession(NamedTuple):
    """The session has ended: its settings and resources are not for the next one."""

    number: int


class CloseResources(NamedTuple):
    """Close the resources of an ended session: its last agent is gone."""

    number: int


class SessionOver(NamedTuple):
    """Nothing is left of an ended session."""

    number: int
    reason: Reason


Effect: TypeAlias = tuple[Any, ...]
"""What is to be done: one of these."""


class Warm(Enum):
    """The answers to a turn that has no effect. Compare with `is`."""

    HIT = "the turn has begun, on the agent that was idle"
    RESTED = "the turn has ended, and the agent is idle again"


HIT: Final = Warm.HIT
RESTED: Final = Warm.RESTED
