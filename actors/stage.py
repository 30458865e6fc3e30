"""Who is on stage: the turns and agents of one session, as a state machine.

Pure: no threads, clocks, I/O or logging. Every method takes what happened and returns what is to be done
about it, as effects; `session.py` is the shell that does it. Agents are known by their incarnation
number, turns by the request that asked for them. Something late, or something that comes twice, names
an incarnation or a turn that is not there any more, and changes nothing.

The place of the agent (at most one incarnation at a time):

                 begin              built                 end
    EMPTY ───────────────> BUILDING ─────> IN TURN <────────────> IDLE
      ^                       │ failed         ^        begin      │ release, uncommitted turns
      │<──────────────────────┘                └────────────────┐  v
      │                                 begin: called off       └─ LEAVING, still whole
      │<─────────────── committed, or nothing to commit ───────────┘
      │
      └─ the agent is a *leaver* now. There is no way back; the place is free for the next incarnation

A leaver (any number of them; each gets exactly one release or close):

    COMMITTING ── its turns are committed ──> TEARING ── hooks called ──> forgotten
      │    ^                                    ^
      │    └── the pause is over ──┐            │ drain: committed or not
      └── the commit failed ──> RETAINED ───────┘

A release that may be called off (idle, capacity, memory, evict) leaves the agent in its place while its
commit runs; one that may not (another spec, discard, close) makes it a leaver at once. Turns wait for
neither: the next incarnation is built beside what leaves. Commits are one at a time for the session,
oldest first. A commit's hook is called only while its owner is not in a turn, so that it never sees half
of one: when it is sent on its way, and again at the last moment, on the worker (`start_commit`). A turn
that begins after that does not wait for it, and is not covered by it.

With a store (`checked`), a turn has two more steps, in which the place is in use and its agent idle:

                begin                   the store answers
    IDLE, EMPTY ──────> ENTERING ──────────────────────────> as above: IN TURN, or BUILDING
                         │     ^ held by another room: again after a pause
                         └─────┘
                end                     the store answers
    IN TURN ──────> RECORDING ─────────────────────────────> IDLE; LOST: the agent is let go

The store says whether the session is this room's (else the turn waits, or is refused) and whether the
agent still knows its transcript (else it is let go first). What it has of turns that nobody here completed
is *resumed*: the next agent commits them, or one that is built for nothing else (`recover`). What another
room has taken over is *lost*: nobody here commits it any more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from greenroom.actors.effects import (
    HIT,
    RESTED,
    AnswerRelease,
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    Effect,
    EndLife,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Insert,
    Interrupt,
    LifeOver,
    Pause,
    Phase,
    Record,
    Recorded,
    Refusal,
    Refuse,
    Retain,
    TearDown,
    TurnOver,
    Wait,
)
from greenroom.actors.lifecycle import Generations
from greenroom.messages import Reason

if TYPE_CHECKING:
    from greenroom.messages import BeginTurn

__all__ = ["Leaver", "Stage", "Wish"]

ENTERING = -1
"""In the place of the incarnation that is being built: the store is being asked first."""


@dataclass(slots=True)
class Leaver:
    """An agent on its way out."""

    reason: Reason
    close: bool
    life: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done when the turn ends."""

    reason: Reason
    close: bool


class Ending(NamedTuple):
    """How a turn was given back."""

    completed: bool
    discard: bool


class Stage:
    """The turns and agents of one session."""

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
        self.rescuers: frozenset[int] | None = None
        """Agents that are being built for nothing but to commit what was resumed."""
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

    # Turns.

    def begin(
        self, turn: BeginTurn, most_waiting: int, *, entered: bool = False
    ) -> tuple[Effect, ...] | list[Effect]:
        """Somebody wants a turn. `entered`: the store need not be asked."""
        if self.turn is None and not self.building and not self.draining and not self.failed:
            # Nobody waits either: whoever ends a turn or a build serves the next.
            if (
                self.agent
                and self.leaving is None
                and (entered or not self.checked)
                and self._fits(turn)
            ):
                self.turn = turn
                return HIT
            effects: list[Effect] = []
            self._serve(turn, effects)
            return effects
        refusal = self._refusal(turn, most_waiting)
        if refusal is not None:
            return [Refuse(turn, refusal)]
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(turn)
        return [Wait(turn)]

    def end(
        self, turn: BeginTurn, *, completed: bool, discard: bool, recorded: bool = False
    ) -> list[Effect] | None:
        """A turn is given back. `None` if it was before. `recorded`: the store need not be told."""
        if turn is not self.turn or self.recording is not None:
            return None
        if self.checked and not recorded:
            self.recording = Ending(completed, discard)
            return [Record(turn, completed)]
        self.turn = None
        if completed:
            self.generations.complete(self.agent)
        put_off = self._wish or self.waiting or self.flush_to or self.leavers
        if not put_off and not discard and not self.draining:
            return RESTED
        effects: list[Effect] = [TurnOver(turn)]
        self._after_turn(discard, effects)
        return effects

    def withdraw(self, turn: BeginTurn) -> list[Effect]:
        """Whoever wanted this turn has left, at whatever point."""
        if turn is not self.turn:
            self._leave_queue(turn)
            return []
        effects = self.end(turn, completed=False, discard=False)
        return [TurnOver(turn)] if effects is RESTED else effects or []

    def expire(self, turn: BeginTurn) -> list[Effect]:
        """A turn has waited long enough. If it has begun meanwhile, it has not waited in vain."""
        return [Refuse(turn, Refusal.TIMEOUT)] if self._leave_queue(turn) else []

    # The store.

    def entered(self, verdict: Entry) -> list[Effect]:
        """The store has answered for the turn that is to begin."""
        effects: list[Effect] = []
        if not self.entering:
            return effects
        turn = self.builder
        if verdict is Entry.HELD and turn is not None and not turn.reject:
            self.entries += 1
            return [EnterLater(self.entries)]
        self._stop_entering()
        if turn is None:
            self._after_turn(False, effects)
        elif verdict is Entry.HELD or verdict is Entry.AWAY:
            why = Refusal.ELSEWHERE if verdict is Entry.HELD else Refusal.STORE
            effects.append(Refuse(turn, why))
            self._after_turn(False, effects)
        else:
            if verdict is Entry.STALE and self.agent:
                self._let_go(Reason.COHERENCE, close=False, effects=effects)
            self._seat(turn, effects)
        return effects

    def enter_again(self) -> list[Effect]:
        """The pause is over, after which the store is to be asked again."""
        if not self.entering:
            return []
        if self.builder is not None:
            return [Enter(self.builder)]
        effects: list[Effect] = []
        self._stop_entering()
        self._after_turn(False, effects)
        return effects

    def recorded(
        self, outcome: Recorded, session_id: str | None = None, token: int = 0, epoch: int = 0
    ) -> list[Effect]:
        """The store has answered for the turn that has ended: it was number `token` of its session id."""
        effects: list[Effect] = []
        turn, ending = self.turn, self.recording
        if turn is None or ending is None:
            return effects
        self.turn = self.recording = None
        effects.append(TurnOver(turn))
        if outcome is Recorded.LOST:
            self._lose(session_id, epoch, effects)
            if self.agent:
                self._let_go(Reason.COHERENCE, close=False, effects=effects)
        elif ending.completed:
            self.generations.complete(self.agent, session_id, token, epoch)
        self._after_turn(ending.discard, effects)
        return effects

    def resume(
        self, session_id: str, epoch: int, *, generation: int, committed: int, intended: int
    ) -> None:
        """The session id is ours now, with what its ledger says. The next agent in its place answers for
        what is uncommitted."""
        self.generations.resume(
            session_id, epoch, generation=generation, committed=committed, intended=intended
        )

    def lose(self, session_id: str, epoch: int) -> list[Effect]:
        """Another room has had the session id since, and answers for what was uncommitted here."""
        effects: list[Effect] = []
        self._lose(session_id, epoch, effects)
        self._pump(effects)
        return effects

    def recover(self) -> int:
        """What was resumed is to be committed by an agent that is built for nothing else: its number."""
        self.incarnations += 1
        self.rescuers = (self.rescuers or frozenset()) | {self.incarnations}
        return self.incarnations

    # Builds.

    def built(self, incarnation: int, *, succeeded: bool, returned: bool = True) -> list[Effect]:
        """A build is over. One that was given up before has built for nobody.

        `returned` is false for one that is given up now, and may still come back with an agent.
        """
        effects: list[Effect] = []
        late = self.late or frozenset()
        if returned:
            self.late = (late - {incarnation}) or None
        elif incarnation == self.building or incarnation in (self.rescuers or ()):
            self.late = late | {incarnation}
        if incarnation != self.building:
            if succeeded:
                self._built_for_no_turn(incarnation, effects)
            self.rescuers = (self.rescuers or frozenset()) - {incarnation} or None
            return effects
        turn, self.builder, self.building = self.builder, None, 0
        if not succeeded:
            if turn is not None:
                effects.append(Refuse(turn, Refusal.BUILD))
            self._after_turn(False, effects)
            return effects
        self._put_in_place(incarnation, effects)
        reason, self.last_reason = self.last_reason, None
        if turn is not None and not self.draining:
            self.turn = turn
            effects.append(Grant(turn, reused=False, reason=reason))
        else:
            self._after_turn(False, effects)
        return effects

    def _built_for_no_turn(self, incarnation: int, effects: list[Effect]) -> None:
        """It is let go at once: when it has committed what it was built for, or for nobody, too late."""
        why = Reason.DISCARD
        if incarnation in (self.rescuers or ()):
            why = Reason.RECOVERY
            self.generations.take_over(incarnation)
        self._add_leaver(incarnation, why, close=self.draining, effects=effects)
        self._pump(effects)

    def adopt(self, signature: str | None) -> tuple[int, list[Effect]] | None:
        """An agent was built elsewhere. `None` if the session is busy; else its incarnation."""
        if self.turn is not None or self.building or self.draining or self.failed:
            return None
        effects: list[Effect] = []
        if self.agent:
            self._let_go(Reason.EXPLICIT, close=False, effects=effects)
        self.incarnations += 1
        self.signature = signature
        self._put_in_place(self.incarnations, effects)
        self.last_reason = None
        self._pump(effects)
        return self.incarnations, effects

    # Letting go.

    def release(self, reason: Reason) -> list[Effect]:
        """The supervisor asks for the agent: yes, unless it is in a turn."""
        if not self.agent or self.in_use or self.leaving is not None:
            return [AnswerRelease(False)]
        effects: list[Effect] = [AnswerRelease(True)]
        self._release(reason, effects)
        return effects

    def evict(self) -> list[Effect] | None:
        """The gateway wants the agent out: now, or when its turn ends. `None` if there is none."""
        effects: list[Effect] = []
        if self.turn is not None or self.building:
            self._wish = self._wish or Wish(Reason.EXPLICIT, close=False)
        elif self.agent and self.leaving is None:
            self._release(Reason.EXPLICIT, effects)
        elif not self.agent:
            return None
        return effects

    def close(self, reason: Reason, *, interrupt: bool) -> list[Effect]:
        """The session is to end: now, or when its turn ends."""
        effects: list[Effect] = []
        if self.turn is not None or self.building:
            self._wish = Wish(reason, close=True)
            if interrupt and self.turn is not None:
                effects.append(Interrupt(self.agent))
        else:
            self._close(reason, effects)
            self._pump(effects)
        return effects

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
        """Somebody wants everything that is completed now to be committed."""
        effects: list[Effect] = []
        if self.abandoned:
            return [CommitGaveUp()] if self.generations.dirty else effects
        self.flush_to = self.generations.generation
        self._pump(effects)
        return effects

    def offer(self, incarnation: int) -> None:
        """Here is somebody for turns that no agent of ours completed."""
        segments = self.generations.segments
        if segments and segments[0].owner is None:
            segments[0].owner = incarnation
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
        if self.generations.in_flight is None:
            return []
        if not self._owner_in_turn() and not self.stuck:
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
        self._pump(effects)
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

    # The end.

    def fail(self) -> list[Effect]:
        """Begin no turn until the session is ended: its actor failed too often."""
        self.failed = True
        effects: list[Effect] = []
        self._refuse_all(Refusal.FAILED, effects)
        return effects

    def drain(self) -> list[Effect]:
        """Begin no turn any more. What runs may end; everything else is committed and closed."""
        effects: list[Effect] = []
        if self.draining:
            return effects
        self.draining = True
        self.try_again = self.generations.in_flight is not None
        self._refuse_all(Refusal.CLOSED, effects)
        if self.turn is None and not self.building:
            self._close(Reason.SHUTDOWN, effects)
        self.flush_to = self.generations.generation
        effects.extend(self.retry())
        return effects

    def force(self) -> list[Effect]:
        """The running turn has had its time: it is over."""
        effects: list[Effect] = []
        if self.turn is not None:
            turn, self.turn = self.turn, None
            self.recording = None
            effects += [TurnOver(turn), Interrupt(self.agent)]
            self._close(Reason.SHUTDOWN, effects)
            self._pump(effects)
        elif self.entering:
            self._stop_entering()
            self._close(Reason.SHUTDOWN, effects)
            self._pump(effects)
        return effects

    def abandon(self) -> list[Effect]:
        """Commits have had their time: what leaves is closed without them."""
        effects: list[Effect] = []
        self.stuck = self.generations.in_flight is not None
        self.abandoned = True
        if self.flush_to:
            self.flush_to = 0
            effects.append(CommitGaveUp())
        self._tear_down_all(effects)
        return effects

    # How it is done.

    def _fits(self, turn: BeginTurn) -> bool:
        return turn.signature is None or turn.signature == self.signature

    def _refusal(self, turn: BeginTurn, most_waiting: int) -> Refusal | None:
        if self.draining:
            return Refusal.CLOSED
        if self.failed:
            return Refusal.FAILED
        if any(self.turn is held for held in turn.held):
            return Refusal.SELF
        if turn.reject:
            return Refusal.BUSY
        return Refusal.OVERLOADED if len(self.waiting or ()) >= most_waiting else None

    def _serve(self, turn: BeginTurn, effects: list[Effect]) -> None:
        """Nothing else is going on: it is this turn's turn."""
        if self.checked:
            self.building = ENTERING
            self.builder = turn
            effects.append(Enter(turn))
        else:
            self._seat(turn, effects)

    def _stop_entering(self) -> None:
        self.builder, self.building, self.entries = None, 0, 0

    def _seat(self, turn: BeginTurn, effects: list[Effect]) -> None:
        """Give the turn the agent that is there, or begin to build one."""
        if self.agent and self._fits(turn):
            self.generations.take_over(self.agent)
            self.leaving = None
            self.turn = turn
            effects.append(Grant(turn, reused=True, reason=None))
            return
        if self.agent:
            self._let_go(Reason.SPEC, close=False, effects=effects)
        self.incarnations += 1
        self.building = self.incarnations
        self.builder = turn
        self.signature = turn.signature
        effects.append(Build(turn, self.building))
        self._pump(effects)

    def _after_turn(self, discard: bool, effects: list[Effect]) -> None:
        """The place is not in use: do what was put off, then serve the next."""
        wish, self._wish = self._wish, None
        if self.draining or (wish is not None and wish.close):
            self._close(Reason.SHUTDOWN if wish is None else wish.reason, effects)
        elif self.agent and discard:
            self._let_go(Reason.DISCARD, close=False, effects=effects)
        elif self.agent and wish is not None and self.waiting:
            # It takes effect now, although somebody waits who could call it off.
            self._let_go(wish.reason, close=False, effects=effects)
        elif self.agent and wish is not None:
            self._release(wish.reason, effects)
        if self.waiting:
            self._serve(self.waiting.popleft(), effects)
        self._pump(effects)

    def _leave_queue(self, turn: BeginTurn) -> bool:
        """Take a turn out of the queue. False if it does not wait."""
        if turn is self.builder:
            self.builder = None
            if self.waiting and self._serves_as_well(self.waiting[0], turn):
                self.builder = self.waiting.popleft()
            return True
        before = len(self.waiting or ())
        self.waiting = deque(other for other in self.waiting or () if other is not turn) or None
        return len(self.waiting or ()) < before

    def _serves_as_well(self, other: BeginTurn, turn: BeginTurn) -> bool:
        """Whether what is being done for this turn is just what that other one needs."""
        return other.session_id == turn.session_id if self.entering else self._fits(other)

    def _refuse_all(self, why: Refusal, effects: list[Effect]) -> None:
        refused = [] if self.builder is None else [self.builder]
        refused += self.waiting or ()
        self.builder, self.waiting = None, None
        effects.extend(Refuse(turn, why) for turn in refused)

    def _put_in_place(self, incarnation: int, effects: list[Effect]) -> None:
        self.agent = incarnation
        self.generations.take_over(incarnation)
        self.known = True
        effects.append(Insert(incarnation, self.last_reason))

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
        if not self.generations.owes(incarnation):
            self._tear_down(incarnation, leaver, effects)
        elif self.stuck:
            self._retain(incarnation, leaver, effects)

    def _tear_down(self, incarnation: int, leaver: Leaver, effects: list[Effect]) -> None:
        leaver.phase = Phase.TEARING
        effects.append(TearDown(incarnation, leaver.close, leaver.reason))

    def _tear_down_all(self, effects: list[Effect]) -> None:
        for incarnation, leaver in (self.leavers or {}).items():
            if leaver.phase is not Phase.TEARING:
                self._tear_down(incarnation, leaver, effects)

    def _retain(self, incarnation: int, leaver: Leaver, effects: list[Effect]) -> None:
        if leaver.reason is Reason.RECOVERY:
            # It was here for this commit only. The ledger has the turns, and another try is made later.
            self.generations.leave_to_nobody(incarnation)
            self._tear_down(incarnation, leaver, effects)
        elif self.draining:
            self._tear_down(incarnation, leaver, effects)  # there will be no other try
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
                leaver.close, leaver.reason = True, reason
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
            self.generations.disown(session_id, epoch)
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
