"""The stage, first layer: agents on their way out, and the commits that they wait for.

Pure, like all of it; `stage.py` has the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from greenroom.actors.effects import (
    CloseResources,
    Commit,
    CommitGaveUp,
    Effect,
    EndLife,
    LifeOver,
    Pause,
    Phase,
    Retain,
    TearDown,
)
from greenroom.actors.lifecycle import Generations
from greenroom.messages import Reason

if TYPE_CHECKING:
    from collections import deque

    from greenroom.messages import BeginTurn

__all__ = ["ENTERING", "Ending", "Leaver", "StageExits", "Wish"]

ENTERING = -1
"""In the place of the incarnation that is being built: the store is being asked first."""


@dataclass(slots=True)
class Leaver:
    """An agent on its way out."""

    reason: Reason
    close: bool
    life: int
    phase: Phase
    in_vain: bool = False
    """It was built to commit what was resumed, and goes without having done so."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done when the turn ends."""

    reason: Reason
    close: bool


class Ending(NamedTuple):
    """How a turn was given back."""

    completed: bool
    discard: bool


class StageExits:
    """What is on stage, and how it leaves."""

    __slots__ = (
        "_wish",
        "abandoned",
        "agent",
        "builder",
        "building",
        "checked",
        "closing",
        "draining",
        "ending",
        "entries",
        "failed",
        "flush_to",
        "generations",
        "guests",
        "incarnations",
        "known",
        "last_reason",
        "late",
        "leavers",
        "leaving",
        "life",
        "life_began",
        "recording",
        "rescuers",
        "signature",
        "started",
        "stuck",
        "tries",
        "try_again",
        "turn",
        "waiting",
    )

    def __init__(self, *, checked: bool = False) -> None:
        self.checked = checked
        """There is a store, which is asked before a turn begins and after it has ended."""
        self.generations = Generations()
        self.turn: BeginTurn | None = None
        self.waiting: deque[BeginTurn] | None = None
        self.agent = 0
        """The incarnation in its place. 0: none."""
        self.signature: str | None = None
        """Of the agent in its place, or of the one being built."""
        self.building = 0
        self.builder: BeginTurn | None = None
        """The turn that is being built for. `None` if it was withdrawn meanwhile."""
        self.entries = 0
        """How often the store was asked in vain for the turn that is to begin."""
        self.recording: Ending | None = None
        """How the turn has ended that the store is being told of."""
        self.rescuers: dict[int, str] | None = None
        """Agents that are being built for nothing but to commit what was resumed of a session id."""
        self.late: frozenset[int] | None = None
        """Builds that were given up and have not come back: their agents will have to be let go."""
        self.leaving: Reason | None = None
        self.leavers: dict[int, Leaver] | None = None
        self.incarnations = 0
        self.last_reason: Reason | None = None
        self.known = False
        """There was an agent, or a completed turn, since the session began."""
        self.life = 0
        """How many sessions have ended under this key."""
        self.life_began = 0
        """The generation at which this one began."""
        self.guests: frozenset[int] | None = None
        """Agents that were never in the place, and are known for commits only."""
        self.ending: dict[int, Reason] | None = None
        self.closing = 0
        """How many ended sessions have their resources closed right now."""
        self.flush_to = 0
        """Somebody wants everything up to this generation committed."""
        self.started = False
        """The hook of the commit in flight is being called."""
        self.stuck = False
        """The commit in flight has had its time and has not come back."""
        self.tries = 0
        self.try_again = False
        """The commit in flight was sent before the drain, which tries once more if it fails."""
        self.draining = False
        self.abandoned = False
        """The drain has had its time for commits: none begins any more."""
        self.failed = False
        self._wish: Wish | None = None

    # What can be seen.

    @property
    def busy(self) -> bool:
        """Whether a build, commit, release or close is under way."""
        committing = self.generations.in_flight is not None and not self.stuck
        tearing = any(leaver.phase is not Phase.RETAINED for leaver in (self.leavers or {}).values())
        return bool(self.building or self.rescuers or committing or tearing or self.closing)

    @property
    def entering(self) -> bool:
        """Whether the store is being asked for a turn that is to begin."""
        return self.building == ENTERING

    @property
    def in_use(self) -> bool:
        """Whether the agent in its place is in a turn, or about to be."""
        return self.turn is not None or (self.entering and bool(self.agent))

    @property
    def rests(self) -> bool:
        """Whether its agent is idle, and there is nothing to do and nobody waits."""
        if not self.agent or self.leaving is not None or self.turn is not None or self.building:
            return False
        put_off = self.waiting or self.flush_to or self.leavers or self.rescuers or self.draining
        return not put_off and self.generations.in_flight is None

    @property
    def retained(self) -> int:
        """How many agents are kept only for a commit that failed."""
        return sum(leaver.phase is Phase.RETAINED for leaver in (self.leavers or {}).values())

    @property
    def blank(self) -> bool:
        """Whether there is nothing to do and nothing to remember."""
        if self.agent or self.building or self.turn or self.waiting or self.leavers or self.ending:
            return False
        if self.rescuers:
            return False
        if self.generations.in_flight is not None and not self.stuck:
            return False
        return self.draining or not (self.known or self.failed or self.generations.dirty or self.late)

    @property
    def unused(self) -> bool:
        """Whether nothing has happened since the last session of this key was ended."""
        present = self.agent or self.building or self.turn or self.waiting
        return not (present or self.known or self.failed)

    @property
    def state(self) -> str:
        """One word, or two, for people."""
        if self.failed:
            return "failed"
        if self.turn is not None:
            return "in turn"
        if self.building:
            return "entering" if self.entering else "building"
        if self.agent:
            return "idle" if self.leaving is None else "leaving"
        if self.leavers:
            return "retained" if self.retained == len(self.leavers) else "leaving"
        return "closing" if self.ending else "known"

    # Leaving.

    def torn_down(self, incarnation: int) -> list[Effect]:
        """The hooks of a leaver were called."""
        effects: list[Effect] = []
        leaver = (self.leavers or {}).pop(incarnation, None)
        if leaver is not None:
            self.leavers = self.leavers or None
            traceless = self.generations.generation == self.life_began
            if leaver.life == self.life and traceless and not self.agent:
                self.known = False  # it came and went, and nothing was completed
            self._close_resources_of(leaver.life, effects)
        return effects

    def resources_closed(self, life: int) -> list[Effect]:
        """Nothing is left of an ended session."""
        reason = (self.ending or {}).pop(life, None)
        if reason is None:
            return []
        self.ending = self.ending or None
        self.closing -= 1
        return [LifeOver(life, reason)]

    # Commits.

    def flush(self) -> list[Effect]:
        """Somebody wants everything that is completed now to be committed. (As far as somebody answers
        for it: what was resumed and is nobody's yet is seen to by others.)"""
        effects: list[Effect] = []
        if self.abandoned:
            return [CommitGaveUp()] if self.generations.dirty else effects
        self.flush_to = self.generations.generation
        self._pump(effects)
        return effects

    def offer(self, incarnation: int) -> None:
        """Here is somebody for turns that no agent of ours completed."""
        # What was completed elsewhere has nobody else. What was resumed has somebody coming, and comes
        # second.
        segment = self.generations.next or next(iter(self.generations.segments), None)
        if segment is not None and segment.owner is None:
            segment.owner = incarnation
            self._take_in(incarnation)

    def complete_elsewhere(self, incarnation: int | None) -> int:
        """A turn was completed outside of the room."""
        self.known = True
        if incarnation is not None:
            self._take_in(incarnation)
        return self.generations.complete(incarnation)

    def start_commit(self) -> list[Effect] | None:
        """The commit in flight is about to call its hook: `None` says it may. Else it must not now,
        because a turn has begun since it was sent on its way, or its time is over."""
        segment = self.generations.in_flight
        if segment is None:
            return []
        in_turn = self.turn is not None and segment.owner == self.agent
        if not in_turn and not self.stuck:
            self.started = True
            return None
        self.generations.put_off_commit()
        self.stuck = self.try_again = False
        return [Pause(self.tries)] if self.retained else []

    def committed(self, *, succeeded: bool) -> list[Effect]:
        """The commit in flight is over, in time or late."""
        effects: list[Effect] = []
        if self.generations.in_flight is None:
            return effects
        self.generations.end_commit(succeeded)
        self.started = self.stuck = False
        try_again, self.try_again = self.try_again, False
        if succeeded:
            self.tries = 0
            if self.guests is not None:
                self.guests = frozenset(filter(self.generations.owes, self.guests)) or None
            self._let_the_committed_go(effects)
            effects.extend(self.retry())  # it works again
        elif not try_again:
            self._commit_failed(effects)
        self._pump(effects)
        return effects

    def commit_lost(self) -> list[Effect]:
        """The commit in flight came too late: another room has the session id, and answers for it."""
        effects: list[Effect] = []
        segment = self.generations.in_flight
        if segment is None or segment.session_id is None:
            return effects
        self.generations.put_off_commit()
        self.started = self.stuck = self.try_again = False
        self._lose(segment.session_id, segment.epoch, effects)
        if self.agent and not self.in_use and segment.owner == self.agent:
            self._let_go(Reason.COHERENCE, close=False, effects=effects)
        effects.extend(self.retry())  # whoever waited behind it
        return effects

    def commit_stuck(self) -> list[Effect]:
        """The commit in flight has had its time. It stays the one in flight: two never overlap."""
        effects: list[Effect] = []
        if self.generations.in_flight is not None and not self.stuck:
            self.stuck = True
            self._commit_failed(effects)
        return effects

    def retry(self) -> list[Effect]:
        """The pause after a failed commit is over."""
        effects: list[Effect] = []
        if self.stuck:
            return effects
        for leaver in (self.leavers or {}).values():
            if leaver.phase is Phase.RETAINED:
                leaver.phase = Phase.COMMITTING
        self._pump(effects)
        return effects

    # How it is done.

    def _release(self, reason: Reason, effects: list[Effect]) -> None:
        if self.generations.owes(self.agent) and not self.stuck:
            self.leaving = reason
            self._pump(effects)
        else:
            self._let_go(reason, close=False, effects=effects)

    def _let_go(self, reason: Reason, *, close: bool, effects: list[Effect]) -> None:
        incarnation, self.agent, self.leaving = self.agent, 0, None
        self.last_reason = None if close else reason
        self._add_leaver(incarnation, reason, close=close, effects=effects)

    def _add_leaver(
        self, incarnation: int, reason: Reason, *, close: bool, effects: list[Effect]
    ) -> None:
        if self.leavers is None:
            self.leavers = {}
        leaver = Leaver(reason, close, self.life, Phase.COMMITTING)
        self.leavers[incarnation] = leaver
        if not self.generations.owes(incarnation) or self.abandoned:
            self._tear_down(incarnation, leaver, effects)
        elif self.stuck:
            self._retain(incarnation, leaver, effects)

    def _tear_down(self, incarnation: int, leaver: Leaver, effects: list[Effect]) -> None:
        leaver.phase = Phase.TEARING
        if leaver.reason is Reason.RECOVERY:
            # What it has not committed is for another try: the ledger has it.
            leaver.in_vain = self.generations.owes(incarnation)
            self.generations.leave_to_nobody(incarnation)
            if self.agent:
                self.generations.take_over(self.agent)
        effects.append(TearDown(incarnation, leaver.close, leaver.reason))

    def _tear_down_all(self, effects: list[Effect]) -> None:
        for incarnation, leaver in (self.leavers or {}).items():
            if leaver.phase is not Phase.TEARING:
                self._tear_down(incarnation, leaver, effects)

    def _retain(self, incarnation: int, leaver: Leaver, effects: list[Effect]) -> None:
        if self.draining or leaver.reason is Reason.RECOVERY:
            self._tear_down(incarnation, leaver, effects)  # there will be no other try, or none by it
        else:
            leaver.phase = Phase.RETAINED
            effects.append(Retain(incarnation, leaver.reason))

    def _close(self, reason: Reason, effects: list[Effect]) -> None:
        """End the session. The next turn begins another one, whatever is still leaving."""
        life = self.life
        if self.agent:
            self._let_go(reason, close=True, effects=effects)
        for leaver in (self.leavers or {}).values():
            if leaver.life == life and leaver.phase is not Phase.TEARING:
                leaver.close = True
                if leaver.reason is not Reason.RECOVERY:
                    leaver.reason = reason
        if self.ending is None:
            self.ending = {}
        self.ending[life] = reason
        self.life += 1
        self.life_began = self.generations.generation
        self.known = self.failed = False
        self.last_reason = None
        effects.append(EndLife(life))
        self._close_resources_of(life, effects)

    def _close_resources_of(self, life: int, effects: list[Effect]) -> None:
        ended = life in (self.ending or ())
        if ended and all(leaver.life != life for leaver in (self.leavers or {}).values()):
            self.closing += 1
            effects.append(CloseResources(life))

    def _take_in(self, incarnation: int) -> None:
        if incarnation != self.agent and incarnation not in (self.leavers or ()):
            self.guests = (self.guests or frozenset()) | {incarnation}

    def _committer(self) -> int:
        """Who would commit the oldest turns. 0: nobody can."""
        owner = self.generations.next_owner
        leavers = (self.leavers or {}).items()
        staying = [number for number, leaver in leavers if leaver.phase is not Phase.TEARING]
        able = [*([self.agent] if self.agent else []), *staying]
        if owner is None:
            return able[0] if able else 0
        return owner if owner in able or owner in (self.guests or ()) else 0

    def _owner_in_turn(self) -> bool:
        return self.turn is not None and self._committer() == self.agent

    def _committing_is_wanted(self) -> bool:
        if self.generations.committed >= self.flush_to:
            self.flush_to = 0
        leavers = (self.leavers or {}).values()
        return bool(
            self.flush_to
            or self.leaving is not None
            or any(leaver.phase is Phase.COMMITTING for leaver in leavers)
        )

    def _pump(self, effects: list[Effect]) -> None:
        """Begin the next commit, if one is wanted and none is in flight."""
        generations = self.generations
        if generations.in_flight is not None or not generations.dirty or self.abandoned:
            return
        if not self._committing_is_wanted() or self._owner_in_turn():
            return
        committer = self._committer()
        segment = generations.begin_commit(committer) if committer else None
        if segment is None:
            self._commit_failed(effects)  # there is nobody who could
        else:
            generation = segment.token or segment.last
            effects.append(Commit(committer, generation, segment.session_id, segment.epoch))

    def _lose(self, session_id: str | None, epoch: int, effects: list[Effect]) -> None:
        if session_id is not None:
            gone = self.generations.disown(session_id, epoch)
            if self.flush_to:
                # They may have been among those that were to be committed, or come after them.
                self.flush_to = min(self.flush_to + gone, self.generations.generation)
        self._let_the_committed_go(effects)

    def _let_the_committed_go(self, effects: list[Effect]) -> None:
        if self.leaving is not None and not self.generations.owes(self.agent):
            self._let_go(self.leaving, close=False, effects=effects)
        for incarnation, leaver in (self.leavers or {}).items():
            if leaver.phase is not Phase.TEARING and not self.generations.owes(incarnation):
                self._tear_down(incarnation, leaver, effects)

    def _commit_failed(self, effects: list[Effect]) -> None:
        """Everything that waited for the commit waits no more; what was leaving is retained."""
        self.tries += 1
        self.flush_to = 0
        effects.append(CommitGaveUp())
        if self.leaving is not None:
            self._let_go(self.leaving, close=False, effects=effects)
        for incarnation, leaver in (self.leavers or {}).items():
            if leaver.phase is Phase.COMMITTING or (self.draining and leaver.phase is Phase.RETAINED):
                self._retain(incarnation, leaver, effects)
        if self.retained and not self.stuck:
            effects.append(Pause(self.tries))
