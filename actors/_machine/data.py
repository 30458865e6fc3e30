"""What the machine of a session knows: its four states, what belongs to them, and what others can see.

Collections are replaced, never changed in place, and the empty ones are shared: most sessions of a room
are known and have none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors._machine.states import CommitState, Mode, Phase, Place
from greenroom.actors.lifecycle import Generations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.actors._machine.effects import Turn
    from greenroom.messages import Reason

__all__ = ["Deferred", "Departure", "Ended", "Ending", "SessionData"]

NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(slots=True)
class Departure:
    """An agent on its way out."""

    incarnation: int
    reason: Reason
    close: bool
    """Whether it is closed. Else it is released."""

    session: int
    """The number of the session that it belongs to."""

    phase: Phase = Phase.COMMITTING
    in_vain: bool = False
    """It was built to commit what was resumed, and goes without having done so."""


class Deferred(NamedTuple):
    """A release or close that takes effect when the place is at rest."""

    reason: Reason
    close: bool = False
    at_once: bool = False
    """The agent goes even if a turn that it fits could call the release off."""


class Ending(NamedTuple):
    """How a turn was given back."""

    completed: bool
    discard: bool


class Ended(NamedTuple):
    """A session that was ended, and is not over yet."""

    reason: Reason
    closing: bool = False
    """Its agents are gone, and its resources are being closed."""


class SessionData:
    """What the machine of a session knows."""

    __slots__ = (
        "agent",
        "building",
        "commit",
        "commit_only",
        "deferred",
        "departures",
        "ended",
        "ending",
        "enter_tries",
        "flush_to",
        "generations",
        "has_store",
        "incarnations",
        "last_reason",
        "late_builds",
        "leaving",
        "mode",
        "next_turn",
        "place",
        "recoveries",
        "remembered",
        "session",
        "session_began",
        "signature",
        "tries",
        "try_again",
        "turn",
        "waiting",
    )

    def __init__(self, *, has_store: bool = False) -> None:
        self.has_store = has_store
        """There is a store, which is asked before a turn begins and told when it has ended."""
        self.place = Place.EMPTY
        self.commit = CommitState.NONE
        self.mode = Mode.OPEN
        self.departures: tuple[Departure, ...] = ()

        # Turns.
        self.turn: Turn | None = None
        """The turn that runs, or is being recorded."""
        self.ending: Ending | None = None
        """How the turn has ended that is being recorded."""
        self.next_turn: Turn | None = None
        """The turn that the store is asked about, or that an agent is built for. `None` if it was
        withdrawn meanwhile."""
        self.enter_tries = 0
        """How often the store was asked in vain about the next turn."""
        self.waiting: tuple[Turn, ...] = ()

        # Agents.
        self.agent = 0
        """The incarnation in its place. 0: none."""
        self.signature: str | None = None
        """Of the agent in its place, or of the one being built."""
        self.leaving: Reason | None = None
        """Why the agent in its place is to be released when it has committed."""
        self.deferred: Deferred | None = None
        self.building = 0
        """The incarnation that is being built for the next turn. 0: none."""
        self.incarnations = 0
        self.last_reason: Reason | None = None
        """Why the last agent went, if the session goes on."""
        self.late_builds: tuple[int, ...] = ()
        """Builds that were given up and have not come back: their agents will have to be let go."""
        self.recoveries: Mapping[int, str] = NOTHING
        """Agents that are being built only to commit what was resumed of a session id."""
        self.commit_only: tuple[int, ...] = ()
        """Agents that were never in the place, and have turns to commit."""

        # Commits.
        self.generations = Generations()
        self.flush_to = 0
        """Everything up to this generation is to be committed now."""
        self.tries = 0
        """How many commits have failed since the last that succeeded."""
        self.try_again = False
        """The commit in flight was sent before the drain, which tries once more if it fails."""

        # Sessions under this key.
        self.session = 0
        """The number of this one: how many have ended before it."""
        self.session_began = 0
        """The generation at which this one began."""
        self.remembered = False
        """There was an agent, or a completed turn, since this one began."""
        self.ended: Mapping[int, Ended] = NOTHING

    # What can be seen.

    @property
    def busy(self) -> bool:
        """Whether a build, commit, release or close is under way."""
        return bool(
            self.place is Place.ENTERING
            or self.place is Place.BUILDING
            or self.recoveries
            or self.commit is CommitState.SENT
            or self.commit is CommitState.STARTED
            or any(departure.phase is not Phase.RETAINED for departure in self.departures)
            or any(ended.closing for ended in self.ended.values())
        )

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more, ever."""
        return self.mode is Mode.DRAINING or self.mode is Mode.ABANDONED

    @property
    def in_use(self) -> bool:
        """Whether the agent in its place is in a turn, or about to be."""
        return self.turn is not None or (self.place is Place.ENTERING and self.agent != 0)

    @property
    def rests(self) -> bool:
        """Whether its agent is idle, and there is nothing to do."""
        to_do = self.flush_to or self.departures or self.recoveries or self.draining
        return self.place is Place.IDLE and self.commit is CommitState.NONE and not to_do

    @property
    def retained(self) -> int:
        """How many agents are kept only for a commit that failed."""
        return sum(departure.phase is Phase.RETAINED for departure in self.departures)

    @property
    def forgettable(self) -> bool:
        """Whether there is nothing to do and nothing to remember."""
        committing = self.commit is CommitState.SENT or self.commit is CommitState.STARTED
        if (
            self.place is not Place.EMPTY
            or self.departures
            or self.ended
            or self.recoveries
            or committing
        ):
            return False
        return self.draining or not (
            self.remembered or self.mode is Mode.FAILED or self.generations.dirty or self.late_builds
        )

    @property
    def unused(self) -> bool:
        """Whether nothing has happened since the last session of this key was ended."""
        return self.place is Place.EMPTY and not self.remembered and self.mode is not Mode.FAILED

    @property
    def state(self) -> str:
        """One word, or two, for people."""
        if self.mode is Mode.FAILED:
            return "failed"
        if self.place is Place.RECORDING:
            return "in turn"
        if self.place is not Place.EMPTY:
            return str(self.place.value)
        if self.departures:
            return "retained" if self.retained == len(self.departures) else "leaving"
        return "closing" if self.ended else "known"

    def departure(self, incarnation: int) -> Departure | None:
        """The departure of this agent, if it is on its way out."""
        return next((d for d in self.departures if d.incarnation == incarnation), None)

    def fits(self, turn: Turn) -> bool:
        """Whether the agent that is there, or being built, is what the turn asks for."""
        return turn.signature is None or turn.signature == self.signature
