"""The inputs of a session's machine: one method for each thing that can happen.

Pure: no threads, clocks, I/O or logging. Each method returns the effects that follow, in order, and the
session actor performs them. Agents are known by their incarnation number, turns by the object that asked
for them. What comes late or twice names an agent or a turn that is not there any more, and changes
nothing.

`begin` and `end` come first, and their warm cases first in them: a turn on the idle agent, with nothing
else to do. These make their calls first and then only assign fields, with no call in between: CPython
delivers signals at calls and backward jumps only, so a signal handler's exception finds the turn begun
(or ended and counted), or nothing changed at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from greenroom.actors._machine.data import NOTHING, Deferred, Departure, Ending, SessionData
from greenroom.actors._machine.effects import (
    HIT,
    RESTED,
    AnswerRelease,
    CommitGaveUp,
    Effect,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Interrupt,
    Pause,
    Record,
    Recorded,
    Refusal,
    Refuse,
    SessionOver,
    TurnOver,
    Warm,
)
from greenroom.actors._machine.rules import (
    commit_failed,
    depart,
    disown,
    grant,
    let_go,
    move_commit,
    move_departure,
    move_mode,
    move_place,
    put_in_place,
    retry_departures,
    seat,
    serve,
    settle,
)
from greenroom.actors._machine.states import (
    AT_REST,
    CommitInput,
    CommitState,
    DepartureInput,
    Mode,
    ModeInput,
    Place,
    PlaceInput,
)
from greenroom.messages import Reason

if TYPE_CHECKING:
    from greenroom.actors._machine.effects import Turn

__all__ = ["SessionMachine"]

IDLE, IN_TURN, OPEN = Place.IDLE, Place.IN_TURN, Mode.OPEN

REFUSALS = {
    Mode.FAILED: Refusal.FAILED,
    Mode.DRAINING: Refusal.CLOSED,
    Mode.ABANDONED: Refusal.CLOSED,
}
"""Why a turn does not begin in such a mode."""


class SessionMachine(SessionData):
    """The turns and agents of one session."""

    __slots__ = ()

    # Turns.

    def begin(
        self, turn: Turn, most_waiting: int, *, entered: bool = False
    ) -> Literal[Warm.HIT] | list[Effect]:
        """A turn is wanted. `entered`: the store need not be asked."""
        if self.place is IDLE and self.mode is OPEN and (entered or not self.has_store):
            signature = turn.signature
            if signature is None or signature == self.signature:
                self.turn = turn
                self.place = IN_TURN
                return HIT
        return self._begin(turn, most_waiting)

    def end(
        self, turn: Turn, *, completed: bool, discard: bool, recorded: bool = False
    ) -> Literal[Warm.RESTED] | list[Effect] | None:
        """A turn is given back. `None` if it was before. `recorded`: the store need not be told."""
        if turn is not self.turn or self.place is not IN_TURN:
            return None
        if self.has_store and not recorded:
            self.ending = Ending(completed, discard)
            move_place(self, PlaceInput.RECORD)
            return [Record(turn, completed)]
        if completed:
            generations = self.generations
            segment, segments = generations.prepare(self.agent)
            generation = generations.generation + 1
            segment.last = generation
            generations.segments = segments
            generations.generation = generation
        self.turn = None
        self.place = IDLE
        if not (discard or self.deferred or self.waiting or self.flush_to or self.departures):
            return RESTED
        if discard:
            self._defer(Reason.DISCARD)
        return settle(self, [TurnOver(turn)])

    def _begin(self, turn: Turn, most_waiting: int) -> list[Effect]:
        if self.place in AT_REST and self.mode is OPEN:
            effects: list[Effect] = []
            serve(self, turn, effects)
            return settle(self, effects)
        refusal = self._refusal(turn, most_waiting)
        if refusal is not None:
            return [Refuse(turn, refusal)]
        self.waiting = (*self.waiting, turn)
        return []

    def _refusal(self, turn: Turn, most_waiting: int) -> Refusal | None:
        if self.mode is not OPEN:
            return REFUSALS[self.mode]
        if any(self.turn is held for held in turn.held):
            return Refusal.SELF
        if turn.reject:
            return Refusal.BUSY
        return Refusal.OVERLOADED if len(self.waiting) >= most_waiting else None

    def _defer(self, reason: Reason) -> None:
        """The agent is not for the next turn. If the session is to be ended, that comes first."""
        if self.deferred is None or not self.deferred.close:
            self.deferred = Deferred(reason, at_once=True)

    def withdraw(self, turn: Turn) -> list[Effect]:
        """The turn is not wanted any more, however far it has come."""
        if turn is not self.turn:
            self._leave_line(turn)
            return []
        effects = self.end(turn, completed=False, discard=False)
        return [TurnOver(turn)] if effects is RESTED else effects or []

    def expire(self, turn: Turn) -> list[Effect]:
        """A turn has waited long enough. If it has begun meanwhile, it has not waited in vain."""
        return [Refuse(turn, Refusal.TIMEOUT)] if self._leave_line(turn) else []

    def _leave_line(self, turn: Turn) -> bool:
        """Take a turn out of the line. False if it does not wait."""
        if turn is self.next_turn:
            self.next_turn = None
            if self.waiting and self._serves_as_well(turn, self.waiting[0]):
                self.next_turn, self.waiting = self.waiting[0], self.waiting[1:]
                if self.place is Place.ENTERING and self.fits(self.next_turn):
                    self.leaving = None
            return True
        before, self.waiting = self.waiting, tuple(t for t in self.waiting if t is not turn)
        return len(self.waiting) < len(before)

    def _serves_as_well(self, turn: Turn, other: Turn) -> bool:
        """Whether what is being done for this turn is just what that other one needs."""
        if self.has_store and other.session_id != turn.session_id:
            return False  # the store was asked for that one only
        return self.place is Place.ENTERING or self.fits(other)

    # The store.

    def entered(self, verdict: Entry) -> list[Effect]:
        """The store has answered for the next turn."""
        turn = self.next_turn
        if self.place is Place.ENTERING and verdict is Entry.HELD and turn and not turn.reject:
            self.enter_tries += 1
            return [EnterLater(self.enter_tries)]
        effects: list[Effect] = []
        if not self._stop_entering():
            return effects
        if turn is None:
            pass
        elif verdict is Entry.HELD:
            effects.append(Refuse(turn, Refusal.ELSEWHERE))
        elif verdict is Entry.AWAY:
            effects.append(Refuse(turn, Refusal.STORE))
        else:
            if verdict is Entry.STALE and self.agent:
                let_go(self, Reason.COHERENCE, effects)
            seat(self, turn, effects)
        return settle(self, effects)

    def enter_again(self) -> list[Effect]:
        """The pause is over after which the store is asked again."""
        if self.place is Place.ENTERING and self.next_turn is not None:
            return [Enter(self.next_turn)]
        return settle(self, []) if self._stop_entering() else []

    def _stop_entering(self) -> bool:
        """The place is again what it was before. False if no turn is entering."""
        if self.place is not Place.ENTERING:
            return False
        self.next_turn, self.enter_tries = None, 0
        move_place(self, PlaceInput.STOP)
        if self.agent:
            move_place(self, PlaceInput.ADOPT)
        if self.leaving is not None:
            move_place(self, PlaceInput.LEAVE)
        return True

    def recorded(
        self, outcome: Recorded, session_id: str | None = None, token: int = 0, epoch: int = 0
    ) -> list[Effect]:
        """The store has answered for the turn that has ended, number `token` of its session id."""
        turn, ending = self.turn, self.ending
        if turn is None or ending is None:
            return []
        self.turn = self.ending = None
        move_place(self, PlaceInput.RECORDED)
        if outcome is Recorded.LOST:
            disown(self, session_id, epoch)
            self._defer(Reason.COHERENCE)
        else:
            if ending.completed:
                self.generations.complete(self.agent, session_id, token, epoch)
            if ending.discard:
                self._defer(Reason.DISCARD)
        return settle(self, [TurnOver(turn)])

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
        disown(self, session_id, epoch)
        return settle(self, [])

    def recover(self, session_id: str) -> int:
        """What was resumed is to be committed by an agent that is built only for that: its number."""
        self.incarnations += 1
        self.recoveries = {**self.recoveries, self.incarnations: session_id}
        return self.incarnations

    # Builds.

    def built(self, incarnation: int, *, succeeded: bool, returned: bool = True) -> list[Effect]:
        """A build is over. One that was given up before has built for no turn.

        `returned` is false for one that is given up now, and may still come back with an agent.
        """
        if returned:
            self.late_builds = tuple(late for late in self.late_builds if late != incarnation)
        elif incarnation == self.building or incarnation in self.recoveries:
            self.late_builds = (*self.late_builds, incarnation)
        if incarnation != self.building:
            return self._built_for_no_turn(incarnation, succeeded=succeeded)
        turn, reason = self.next_turn, self.last_reason
        self.next_turn, self.building = None, 0
        effects: list[Effect] = []
        if succeeded:
            move_place(self, PlaceInput.BUILT)
            put_in_place(self, incarnation, effects)
            if turn is not None:
                grant(self, turn)
                effects.append(Grant(turn, reused=False, reason=reason))
        else:
            move_place(self, PlaceInput.STOP)
            if turn is not None:
                effects.append(Refuse(turn, Refusal.BUILD))
        return settle(self, effects)

    def _built_for_no_turn(self, incarnation: int, *, succeeded: bool) -> list[Effect]:
        """It is let go at once, or when it has committed what it was built for."""
        recovered = self.recoveries.get(incarnation)
        if recovered is not None:
            self.recoveries = {n: s for n, s in self.recoveries.items() if n != incarnation} or NOTHING
        if not succeeded:
            return []
        why = Reason.DISCARD
        if recovered is not None:
            why = Reason.RECOVERY
            self.generations.take_over(incarnation, recovered)
        effects: list[Effect] = []
        depart(self, Departure(incarnation, why, self.draining, self.session), effects)
        return settle(self, effects)

    def adopt(self, signature: str | None) -> tuple[int, list[Effect]] | None:
        """An agent was built elsewhere. `None` if the session is busy; else its incarnation."""
        if self.place not in AT_REST or self.mode is not OPEN:
            return None
        effects: list[Effect] = []
        if self.agent:
            let_go(self, Reason.EXPLICIT, effects)
        self.incarnations += 1
        self.signature = signature
        move_place(self, PlaceInput.ADOPT)
        put_in_place(self, self.incarnations, effects)
        return self.agent, settle(self, effects)

    # Letting go.

    def release(self, reason: Reason) -> list[Effect]:
        """The supervisor asks for the agent: yes, if it is idle."""
        if self.place is not IDLE:
            return [AnswerRelease(False)]
        self.deferred = Deferred(reason)
        return settle(self, [AnswerRelease(True)])

    def evict(self) -> list[Effect] | None:
        """The gateway wants the agent out: now, or when its turn ends. `None` if there is none."""
        if self.place is Place.EMPTY:
            return None
        if self.place is not Place.LEAVING:
            self.deferred = self.deferred or Deferred(Reason.EXPLICIT)
        return settle(self, [])

    def close(self, reason: Reason, *, interrupt: bool) -> list[Effect]:
        """The session is to end: now, or when its turn ends."""
        self.deferred = Deferred(reason, close=True)
        in_turn = interrupt and self.turn is not None
        return settle(self, [Interrupt(self.agent)] if in_turn else [])

    def torn_down(self, incarnation: int) -> list[Effect]:
        """The hooks of a departure were called."""
        departure, effects = self.departure(incarnation), list[Effect]()
        if departure is None or not move_departure(self, departure, DepartureInput.TORN_DOWN, effects):
            return effects
        traceless = self.generations.generation == self.session_began
        if departure.session == self.session and traceless and not self.agent:
            self.remembered = False  # it came and went, and nothing was completed
        return settle(self, effects)

    def resources_closed(self, number: int) -> list[Effect]:
        """Nothing is left of an ended session."""
        ended = self.ended.get(number)
        if ended is None or not ended.closing:
            return []
        self.ended = {n: other for n, other in self.ended.items() if n != number} or NOTHING
        return settle(self, [SessionOver(number, ended.reason)])

    # Commits.

    def flush(self) -> list[Effect]:
        """Everything that is completed now is to be committed, as far as an agent answers for it."""
        if self.mode is Mode.ABANDONED:
            return [CommitGaveUp()] if self.generations.dirty else []
        self.flush_to = self.generations.generation
        return settle(self, [])

    def offer(self, incarnation: int) -> None:
        """Here is an agent for turns that none of ours completed."""
        # What was completed elsewhere has no other. What was resumed has an agent coming, and comes
        # second.
        segment = self.generations.next or next(iter(self.generations.segments), None)
        if segment is not None and segment.owner is None:
            segment.owner = incarnation
            self._keep_for_commits(incarnation)

    def complete_elsewhere(self, incarnation: int | None) -> int:
        """A turn was completed outside of the room."""
        self.remembered = True
        if incarnation is not None:
            self._keep_for_commits(incarnation)
        return self.generations.complete(incarnation)

    def _keep_for_commits(self, incarnation: int) -> None:
        held = incarnation == self.agent or self.departure(incarnation) is not None
        if not held and incarnation not in self.commit_only:
            self.commit_only = (*self.commit_only, incarnation)

    def start_commit(self) -> list[Effect] | None:
        """The commit in flight is about to call its hook: `None` says it may. Else it must not now,
        because a turn has begun since it was sent on its way, or its time is over."""
        segment = self.generations.in_flight
        if segment is None:
            return []
        in_turn = self.turn is not None and segment.owner == self.agent
        if not in_turn and move_commit(self, CommitInput.START):
            return None
        self._put_off_commit()
        return settle(self, [Pause(self.tries)] if self.retained else [])

    def _put_off_commit(self) -> None:
        self.generations.put_off_commit()
        move_commit(self, CommitInput.END)
        self.try_again = False

    def committed(self, *, succeeded: bool) -> list[Effect]:
        """The commit in flight is over, in time or late."""
        effects: list[Effect] = []
        if not move_commit(self, CommitInput.END):
            return effects
        self.generations.end_commit(succeeded)
        try_again, self.try_again = self.try_again, False
        if succeeded:
            self.tries = 0
            self.commit_only = tuple(filter(self.generations.owes, self.commit_only))
            retry_departures(self, effects)  # it works again
        elif not try_again:
            commit_failed(self, effects)
        return settle(self, effects)

    def commit_lost(self) -> list[Effect]:
        """The commit in flight came too late: another room has the session id, and answers for it."""
        segment, effects = self.generations.in_flight, list[Effect]()
        if segment is None or segment.session_id is None:
            return effects
        self._put_off_commit()
        disown(self, segment.session_id, segment.epoch)
        if self.place in AT_REST and segment.owner == self.agent:
            self._defer(Reason.COHERENCE)
        retry_departures(self, effects)  # those that waited behind it
        return settle(self, effects)

    def commit_stuck(self) -> list[Effect]:
        """The commit in flight has had its time. It stays the one in flight: two never overlap."""
        effects: list[Effect] = []
        if move_commit(self, CommitInput.TIME_OUT):
            commit_failed(self, effects)
        return settle(self, effects)

    def retry(self) -> list[Effect]:
        """The pause after a failed commit is over."""
        effects: list[Effect] = []
        if self.commit is not CommitState.STUCK:
            retry_departures(self, effects)
        return settle(self, effects)

    # The end.

    def fail(self) -> list[Effect]:
        """Begin no turn until the session is ended: its actor failed too often."""
        return self._refuse_all() if move_mode(self, ModeInput.FAIL) else []

    def drain(self) -> list[Effect]:
        """Begin no turn any more. What runs may end; everything else is committed and closed."""
        if not move_mode(self, ModeInput.DRAIN):
            return []
        effects = self._refuse_all()
        reason = Reason.SHUTDOWN if self.deferred is None else self.deferred.reason
        self.deferred = Deferred(reason, close=True)
        self.flush_to = self.generations.generation
        self.try_again = self.commit is not CommitState.NONE
        if self.commit is not CommitState.STUCK:
            retry_departures(self, effects)
        return settle(self, effects)

    def force(self) -> list[Effect]:
        """The running turn has had its time: it is over. (One that is being recorded is over already:
        `recorded` says what became of it.)"""
        effects: list[Effect] = []
        turn = self.turn
        if turn is not None and move_place(self, PlaceInput.END):
            self.turn = None
            effects += [TurnOver(turn), Interrupt(self.agent)]
        elif not self._stop_entering():
            return effects
        self.deferred = Deferred(Reason.SHUTDOWN, close=True)
        return settle(self, effects)

    def abandon(self) -> list[Effect]:
        """Commits have had their time: what leaves is closed without them."""
        effects: list[Effect] = []
        if not move_mode(self, ModeInput.ABANDON):
            return effects
        move_commit(self, CommitInput.TIME_OUT)
        if self.flush_to:
            self.flush_to = 0
            effects.append(CommitGaveUp())
        return settle(self, effects)

    def _refuse_all(self) -> list[Effect]:
        why = REFUSALS[self.mode]
        refused = self.waiting if self.next_turn is None else (self.next_turn, *self.waiting)
        self.next_turn, self.waiting = None, ()
        return [Refuse(turn, why) for turn in refused]
