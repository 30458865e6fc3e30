"""What the machine of a session knows: its four states, what belongs to them, and what others can see.

Collections are tuples, which are replaced: the empty ones cost nothing, and most sessions of a room have
no others. What few sessions have a use for is `Rare`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors.session.generations import Generations
from greenroom.actors.session.machine.rare import HasRare, Rare
from greenroom.actors.session.machine.states import CommitState, Mode, Phase, Place
from greenroom.messages import Reason

if TYPE_CHECKING:
    from greenroom.actors.session.machine.effects import Turn

__all__ = ["Deferred", "Departure", "Ended", "RareData", "SessionData"]


@dataclass(slots=True, eq=False)
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

    conversation: str | None = None
    """The conversation that begins when the session has ended. `None`: whichever is current then."""


@dataclass(slots=True, eq=False)
class Ended:
    """A session that was ended, and is not over yet."""

    number: int
    reason: Reason
    closing: bool = False
    """Its agents are gone, and its resources are being closed."""


class RareData(HasRare):
    """What the machines of few sessions know, or all of them for a moment only."""

    __slots__ = ()

    enter_tries: Rare[int] = Rare(0)
    """How often the store was asked in vain about the next turn."""

    late_builds: Rare[tuple[int, ...]] = Rare(())
    """Builds that were given up and have not come back: their agents will have to be let go."""

    recoveries: Rare[tuple[tuple[int, str], ...]] = Rare(())
    """Agents that are being built only to commit what was resumed, and the session id of that."""

    commit_only: Rare[tuple[int, ...]] = Rare(())
    """Agents that were never in the place, and have turns to commit."""

    tries: Rare[int] = Rare(0)
    """How many commits have failed since the last that succeeded."""

    try_again: Rare[bool] = Rare(False)
    """The commit in flight was sent before the drain, which tries once more if it fails."""

    session: Rare[int] = Rare(0)
    """The number of the session: how many have ended before it under this key."""

    session_began: Rare[int] = Rare(0)
    """The generation at which it began."""

    ended: Rare[tuple[Ended, ...]] = Rare(())
    """Those that have ended before it, and are not over yet."""


@dataclass(slots=True, eq=False)
class SessionData(RareData):
    """What the machine of a session knows."""

    has_store: bool = False
    """There is a store, which is asked before a turn begins and told when it has ended."""

    place: Place = Place.EMPTY
    commit: CommitState = CommitState.NONE
    mode: Mode = Mode.OPEN
    departures: tuple[Departure, ...] = ()

    # Turns.

    turn: Any = None
    """The turn that runs, or is being recorded: its name. `None`: none."""

    completes: bool = False
    """Whether the turn that is being recorded counts as completed."""

    next_turn: Turn | None = None
    """The turn that the store is asked about, or that an agent is built for. `None` if it was withdrawn
    meanwhile."""

    waiting: tuple[Turn, ...] = ()
    conversation: str | None = None
    """The current conversation of the key: its session id. `None`: the key itself, or, where a store
    remembers it, not known yet. It changes only when no turn is at the place."""

    # Agents.

    agent: int = 0
    """The incarnation in its place. 0: none."""

    signature: str | None = None
    """Of the agent in its place, or of the one being built."""

    leaving: Reason | None = None
    """Why the agent in its place is to be released when it has committed."""

    deferred: Deferred | None = None
    building: int = 0
    """The incarnation that is being built for the next turn. 0: none."""

    incarnations: int = 0
    last_reason: Reason | None = None
    """Why the last agent went, if the session goes on."""

    # Commits.

    generations: Generations = field(default_factory=Generations)
    flush_to: int = 0
    """Everything up to this generation is to be committed now."""

    remembered: bool = False
    """There was an agent, or a completed turn, since the session began."""

    # What can be seen.

    @property
    def at_rest(self) -> bool:
        """Whether nothing is done for a turn at the place, so that the next one may begin."""
        return self.place is Place.EMPTY or self.place is Place.IDLE or self.place is Place.LEAVING

    @property
    def committing(self) -> bool:
        """Whether a commit is in flight and may still come back in time."""
        return self.commit is CommitState.SENT or self.commit is CommitState.STARTED

    @property
    def busy(self) -> bool:
        """Whether a build, commit, release or close is under way."""
        if self.place is Place.ENTERING or self.place is Place.BUILDING or self.committing:
            return True
        if self.departures and self.retained < len(self.departures):
            return True
        if self.rare is None:
            return False
        return bool(self.recoveries) or any(ended.closing for ended in self.ended)

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more, ever."""
        return self.mode is Mode.DRAINING or self.mode is Mode.ABANDONED

    @property
    def in_use(self) -> bool:
        """Whether the agent in its place is in a turn, or about to be."""
        return self.turn is not None or (self.place is Place.ENTERING and self.agent != 0)

    @property
    def retained(self) -> int:
        """How many agents are kept only for a commit that failed."""
        departures = self.departures
        return sum(d.phase is Phase.RETAINED for d in departures) if departures else 0

    @property
    def forgettable(self) -> bool:
        """Whether there is nothing to do and nothing to remember."""
        if self.place is not Place.EMPTY or self.departures or self.committing:
            return False
        if self.ended or self.recoveries:
            return False
        to_remember = not self.unused or self.generations.dirty or self.late_builds
        return self.draining or not to_remember

    @property
    def next_conversation(self) -> str | None:
        """The conversation that begins when the running turn is over. `None`: this one goes on."""
        return None if self.deferred is None else self.deferred.conversation

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

    def id_of(self, turn: Any, key: str) -> str:
        """The session id of the turn at the place, whichever kind of name it has."""
        named = turn[1] if turn.__class__ is tuple else turn.session_id
        return named or self.conversation or key

    def departure(self, incarnation: int) -> Departure | None:
        """The departure of this agent, if it is on its way out."""
        return next((d for d in self.departures if d.incarnation == incarnation), None)

    def recovers(self, incarnation: int) -> bool:
        """Whether it is there only to commit what was resumed, or is being built for that."""
        departure = self.departure(incarnation)
        if departure is not None:
            return departure.reason is Reason.RECOVERY
        return self.rare is not None and incarnation in dict(self.recoveries)

    def is_ours(self, incarnation: int) -> bool:
        """Whether it is in its place or leaving. If not, it was only there for a commit."""
        return incarnation == self.agent or self.departure(incarnation) is not None

    def fits(self, turn: Turn) -> bool:
        """Whether the agent that is there, or being built, is what the turn asks for."""
        return turn.signature is None or turn.signature == self.signature
