"""The inputs of a session's machine: one method for each thing that can happen.

Pure: no threads, clocks, I/O or logging. Each method returns the effects that follow, in order, and the
session actor performs them. Agents are known by their incarnation number, turns by the object that asked
for them. What comes late or twice names an agent or a turn that is not there any more, or finds the
machine in a state that does not know it, and changes nothing.

`begin` and `end` come first, and their warm cases first in them: a turn on the idle agent, with nothing
else to do. These make their calls first and then only assign fields, with no call in between: CPython
delivers signals at calls and backward jumps only, so a signal handler's exception finds the turn begun
(or ended and counted), or nothing changed at all.
"""

from __future__ import annotations

from typing import Literal

from greenroom.actors.session.machine import effects as do
from greenroom.actors.session.machine import rules
from greenroom.actors.session.machine.data import Deferred, Departure, SessionData
from greenroom.actors.session.machine.effects import (
    HIT,
    RESTED,
    Effect,
    Entry,
    Recorded,
    Refusal,
    Turn,
    Warm,
)
from greenroom.actors.session.machine.rules import settle
from greenroom.actors.session.machine.states import COMMIT, MODE, PLACE, CommitState, Mode, Place
from greenroom.messages import Reason

__all__ = ["SessionMachine"]

IDLE, IN_TURN, RECORDING, OPEN = Place.IDLE, Place.IN_TURN, Place.RECORDING, Mode.OPEN

NOT_ENTERED = {Entry.HELD: Refusal.ELSEWHERE, Entry.AWAY: Refusal.STORE}


class SessionMachine(SessionData):
    """The turns and agents of one session."""

    __slots__ = ()

    # Turns: the warm cases.

    def begin_now(self, turn: object, signature: str | None) -> bool:
        """Begin a turn on the idle agent. False: it takes more than that, and nothing has changed."""
        fits = signature is None or signature == self.signature
        if not fits or self.place is not IDLE or self.mode is not OPEN:
            return False
        self.turn = turn
        self.place = IN_TURN
        return True

    def end_now(self, turn: object, completed: bool) -> int | None:
        """End a turn and make its agent idle. Returns the generation; `None`: it takes more than that,
        and nothing has changed."""
        if turn is not self.turn or self.place is not IN_TURN:
            return None
        if self.deferred or self.waiting or self.flush_to or self.departures:
            return None
        generations = self.generations
        generation, agent = generations.generation, self.agent
        if completed:
            segments = generations.segments
            segment = segments[-1] if segments else None
            if (
                segment is None
                or segment.owner != agent
                or segment is generations.in_flight
                or segment.session_id is not None
            ):
                segment, segments = generations.prepare(agent)
            generation += 1
            segment.last = generation
            generations.segments = segments
            generations.generation = generation
        self.turn = None
        self.place = IDLE
        return generation

    def record_now(self, turn: object, completed: bool) -> bool:
        """End a turn, which the store is to be told. False: it is not running."""
        if turn is not self.turn or self.place is not IN_TURN:
            return False
        self.completes = completed
        self.place = RECORDING
        return True

    def recorded_now(self, turn: object, session_id: str, token: int, epoch: int) -> bool:
        """The store knows of the end of a turn, number `token` of its session id: its agent is idle.
        False: it takes more than that, and nothing has changed."""
        if turn is not self.turn or self.place is not RECORDING:
            return False
        if self.deferred or self.waiting or self.flush_to or self.departures:
            return False
        if self.completes:
            generations = self.generations
            segment, segments = generations.prepare(self.agent, session_id, epoch)
            segment.token = token
            segment.last = generation = generations.generation + 1
            generations.segments = segments
            generations.generation = generation
        self.turn = None
        self.place = IDLE
        return True

    # Turns: all cases.

    def begin(
        self, turn: Turn, most_waiting: int, *, entered: bool = False
    ) -> Literal[Warm.HIT] | list[Effect]:
        """A turn is wanted. `entered`: the store need not be asked."""
        if (entered or not self.has_store) and self.begin_now(turn, turn.signature):
            return HIT
        refusal = self._refusal(turn, most_waiting)
        if refusal is not None:
            return [do.Refuse(turn, refusal)]
        self.waiting = (*self.waiting, turn)
        return settle(self, [])

    def end(
        self, turn: object, *, completed: bool, discard: bool, recorded: bool = False
    ) -> Literal[Warm.RESTED] | list[Effect] | None:
        """A turn is given back. `None` if it was before. `recorded`: the store need not be told. One
        that is being recorded is recorded once more: its caller may not have come to it."""
        if turn is not self.turn or self.place is not IN_TURN:
            recording = turn is self.turn and self.place is RECORDING
            return [do.Record(turn, self.completes)] if recording else None
        told = recorded or not self.has_store
        if told and not discard and self.end_now(turn, completed) is not None:
            return RESTED
        if not told:
            self.place = PLACE["record"][self.place]
            self.completes = completed
            if discard:
                self._defer(Reason.DISCARD)
            return [do.Record(turn, completed)]
        if completed:
            self.generations.complete(self.agent)
        self.turn = None
        self.place = PLACE["end"][self.place]
        if discard:
            self._defer(Reason.DISCARD)
        return settle(self, [do.TurnOver(turn)])

    def _refusal(self, turn: Turn, most_waiting: int) -> Refusal | None:
        """Why the turn does not begin, and does not wait, either."""
        if self.mode is not OPEN:
            return Refusal.FAILED if self.mode is Mode.FAILED else Refusal.CLOSED
        if self.at_rest:
            return None
        running = self.turn if self.place is IN_TURN else None  # one that is being recorded is over
        if any(held is running or held is self.next_turn for held in turn.held):
            return Refusal.SELF
        if turn.reject:
            return Refusal.BUSY
        return Refusal.OVERLOADED if len(self.waiting) >= most_waiting else None

    def _defer(self, reason: Reason, *, close: bool = False) -> None:
        """The agent is not for the next turn. If the session is to be ended anyway, that is enough."""
        if self.deferred is None or not self.deferred.close:
            self.deferred = Deferred(reason, close, at_once=True)

    def withdraw(self, turn: object) -> list[Effect]:
        """The turn is not wanted any more, however far it has come."""
        if turn is not self.turn:
            self._leave_line(turn)
            return []
        effects = self.end(turn, completed=False, discard=False)
        return [do.TurnOver(turn)] if effects is RESTED else effects or []

    def expire(self, turn: Turn) -> list[Effect]:
        """A turn has waited long enough. If it has begun meanwhile, it has not waited in vain."""
        why = Refusal.BUILDING if self.place is Place.BUILDING else Refusal.TIMEOUT
        return [do.Refuse(turn, why)] if self._leave_line(turn) else []

    def _leave_line(self, turn: object) -> bool:
        """Take a turn out of the line. False if it does not wait."""
        if self.next_turn is not None and turn is self.next_turn:
            turn, self.next_turn = self.next_turn, None
            if self.waiting and self._serves_as_well(turn, self.waiting[0]):
                self.next_turn, self.waiting = self.waiting[0], self.waiting[1:]
                rules.call_off_release(self, self.next_turn)
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
        effects: list[Effect] = []
        turn = self.next_turn
        if self.place is not Place.ENTERING:
            return effects
        if verdict is Entry.HELD and turn is not None and not turn.reject:
            self.enter_tries += 1
            return [do.EnterLater(self.enter_tries)]
        self._stop_entering()
        if turn is not None and verdict in NOT_ENTERED:
            effects.append(do.Refuse(turn, NOT_ENTERED[verdict]))
        elif turn is not None:
            if verdict is Entry.STALE and self.agent:
                rules.let_go(self, Reason.COHERENCE, effects)
            rules.seat(self, turn, effects)
        return settle(self, effects)

    def renewed(self, conversation: str) -> list[Effect]:
        """The store says that the key has another conversation than was known: the next turn is one of
        that, and what was begun here for the old one ends."""
        turn, known = self.next_turn, self.conversation is not None
        self._stop_entering()
        if turn is not None:
            self.waiting = (turn, *self.waiting)
        if known:
            return self.close(Reason.COHERENCE, conversation=conversation)
        self.conversation = conversation
        return settle(self, [])

    def enter_again(self) -> list[Effect]:
        """The pause is over after which the store is asked again."""
        if self.place is not Place.ENTERING:
            return []
        if self.next_turn is not None:
            return [do.Enter(self.next_turn)]
        self._stop_entering()
        return settle(self, [])

    def _stop_entering(self) -> None:
        """The place is again what it was before."""
        self.place = PLACE["stop"][self.place]
        self.next_turn, self.enter_tries = None, 0
        if self.agent:
            self.place = PLACE["fill"][self.place]
        if self.leaving is not None:
            self.place = PLACE["leave"][self.place]

    def recorded(
        self, outcome: Recorded, session_id: str | None = None, token: int = 0, epoch: int = 0
    ) -> list[Effect]:
        """The store has answered for the turn that has ended, number `token` of its session id."""
        turn = self.turn
        if turn is None or self.place not in PLACE["recorded"]:
            return []
        self.place = PLACE["recorded"][self.place]
        self.turn = None
        if outcome is Recorded.LOST:
            if session_id is not None:
                rules.disown(self, session_id, epoch)
            self._defer(Reason.COHERENCE)
        elif self.completes:
            self.generations.complete(self.agent, session_id, token, epoch)
        return settle(self, [do.TurnOver(turn)])

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
        rules.disown(self, session_id, epoch)
        return settle(self, [])

    def recover(self, session_id: str) -> int:
        """What was resumed is to be committed by an agent that is built only for that: its number."""
        self.incarnations += 1
        self.recoveries = (*self.recoveries, (self.incarnations, session_id))
        return self.incarnations

    # Builds.

    def not_built(self) -> list[Effect]:
        """The caller of the next turn was to build its agent, and does not want it any more."""
        self.next_turn = None
        return self.built(self.building, succeeded=False)

    def built(self, incarnation: int, *, succeeded: bool, returned: bool = True) -> list[Effect]:
        """A build is over. One that was given up before has built for no turn.

        `returned` is false for one that is given up now, and may still come back with an agent.
        """
        if returned and self.late_builds:
            self.late_builds = tuple(late for late in self.late_builds if late != incarnation)
        elif not returned and (incarnation == self.building or incarnation in dict(self.recoveries)):
            self.late_builds = (*self.late_builds, incarnation)
        if not incarnation or incarnation != self.building:
            return self._built_for_no_turn(incarnation, succeeded=succeeded)
        effects: list[Effect] = []
        turn, reason = self.next_turn, self.last_reason
        self.next_turn, self.building = None, 0
        if succeeded:
            rules.put_in_place(self, incarnation, effects)
            if turn is not None:
                rules.grant(self, turn, effects, reused=False, reason=reason)
        else:
            self.place = PLACE["stop"][self.place]
            if turn is not None:
                effects.append(do.Refuse(turn, Refusal.BUILD))
        return settle(self, effects)

    def _built_for_no_turn(self, incarnation: int, *, succeeded: bool) -> list[Effect]:
        """It is let go at once, or when it has committed what it was built for."""
        recovered = dict(self.recoveries).get(incarnation)
        self.recoveries = tuple(other for other in self.recoveries if other[0] != incarnation)
        if not succeeded:
            return []
        if recovered is not None:
            self.generations.take_over(incarnation, recovered)
        reason = Reason.DISCARD if recovered is None else Reason.RECOVERY
        effects: list[Effect] = []
        rules.depart(self, Departure(incarnation, reason, self.draining, self.session), effects)
        return settle(self, effects)

    def adopt(self, signature: str | None) -> tuple[int, list[Effect]] | None:
        """An agent was built elsewhere. `None` if the session is busy; else its incarnation."""
        if not self.at_rest or self.mode is not OPEN:
            return None
        effects: list[Effect] = []
        if self.agent:
            rules.let_go(self, Reason.EXPLICIT, effects)
        self.incarnations += 1
        self.signature = signature
        rules.put_in_place(self, self.incarnations, effects)
        return self.agent, settle(self, effects)

    # Letting go.

    def release(self, reason: Reason) -> list[Effect] | None:
        """The supervisor asks for the agent. `None`: it is not idle."""
        if self.place is not IDLE:
            return None
        self.deferred = Deferred(reason)
        return settle(self, [])

    def evict(self) -> list[Effect] | None:
        """The gateway wants the agent out: now, or when its turn ends. `None` if there is none."""
        if self.place is Place.EMPTY:
            return None
        if self.place is not Place.LEAVING:
            self.deferred = self.deferred or Deferred(Reason.EXPLICIT)
        return settle(self, [])

    def close(
        self, reason: Reason, *, interrupt: bool = False, conversation: str | None = None
    ) -> list[Effect]:
        """The session is to end, and this conversation to begin: now, or when its turn ends."""
        conversation = conversation or self.next_conversation
        self.deferred = Deferred(reason, close=True, conversation=conversation)
        return settle(self, self.interrupt() if interrupt else [])

    def interrupt(self) -> list[Effect]:
        """The turn is to end soon, if one runs."""
        return [do.Interrupt(self.agent)] if self.place is IN_TURN else []

    def spoil(self, reason: Reason) -> list[Effect]:
        """The agent is of no use to another turn: it goes now, or when its turn ends."""
        self._defer(reason)
        return settle(self, [])

    def torn_down(self, incarnation: int) -> list[Effect]:
        """The hooks of a departure were called."""
        departure, effects = self.departure(incarnation), list[Effect]()
        if departure is None or not rules.move_departure(self, departure, "torn down", effects):
            return effects
        self.departures = tuple(other for other in self.departures if other is not departure)
        traceless = self.generations.generation == self.session_began
        if departure.session == self.session and traceless and not self.agent:
            self.remembered = False  # it came and went, and nothing was completed
        return settle(self, effects)

    def resources_closed(self, number: int) -> list[Effect]:
        """Nothing is left of an ended session."""
        ended = next((ended for ended in self.ended if ended.number == number and ended.closing), None)
        if ended is None:
            return []
        self.ended = tuple(other for other in self.ended if other is not ended)
        return settle(self, [do.SessionOver(number, ended.reason)])

    # Commits.

    def flush(self) -> list[Effect]:
        """Everything that is completed now is to be committed, as far as an agent answers for it."""
        if self.mode is Mode.ABANDONED:
            return [do.CommitGaveUp()] if self.generations.dirty else []
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
        if not self.is_ours(incarnation) and incarnation not in self.commit_only:
            self.commit_only = (*self.commit_only, incarnation)

    def start_commit(self) -> list[Effect] | None:
        """The commit in flight is about to call its hook: `None` says it may. Else it must not now,
        because a turn has begun since it was sent on its way, or its time is over."""
        segment = self.generations.in_flight
        if segment is None:
            return []
        in_turn = self.turn is not None and segment.owner == self.agent
        if not in_turn and self.commit in COMMIT["start"]:
            self.commit = COMMIT["start"][self.commit]
            return None
        self._put_off_commit()
        return settle(self, [do.Pause(self.tries)] if self.retained else [])

    def _put_off_commit(self) -> None:
        self.commit = COMMIT["end"][self.commit]
        self.generations.put_off_commit()
        self.try_again = False

    def committed(self, *, succeeded: bool) -> list[Effect]:
        """The commit in flight is over, in time or late."""
        effects: list[Effect] = []
        if self.commit not in COMMIT["end"]:
            return effects
        self.commit = COMMIT["end"][self.commit]
        self.generations.end_commit(succeeded)
        try_again, self.try_again = self.try_again, False
        if succeeded:
            self.tries = 0
            self.commit_only = tuple(filter(self.generations.owes, self.commit_only))
            rules.retry_departures(self)  # it works again
        elif not try_again:
            rules.commit_failed(self, effects)
        return settle(self, effects)

    def commit_lost(self) -> list[Effect]:
        """The commit in flight came too late: another room has the session id, and answers for it."""
        segment = self.generations.in_flight
        if segment is None or segment.session_id is None:
            return []
        self._put_off_commit()
        rules.disown(self, segment.session_id, segment.epoch)
        if self.at_rest and segment.owner == self.agent:
            self._defer(Reason.COHERENCE)
        rules.retry_departures(self)  # those that waited behind it
        return settle(self, [])

    def commit_stuck(self) -> list[Effect]:
        """The commit in flight has had its time. It stays the one in flight: two never overlap."""
        effects: list[Effect] = []
        if self.commit in COMMIT["time out"]:
            self.commit = COMMIT["time out"][self.commit]
            rules.commit_failed(self, effects)
        return settle(self, effects)

    def retry(self) -> list[Effect]:
        """The pause after a failed commit is over."""
        rules.retry_departures(self)
        return settle(self, [])

    # The end.

    def fail(self) -> list[Effect]:
        """Begin no turn until the session is ended: its actor failed too often."""
        return self._refuse_all(Refusal.FAILED) if self._change_mode("fail") else []

    def drain(self) -> list[Effect]:
        """Begin no turn any more. What runs may end; everything else is committed and closed."""
        if not self._change_mode("drain"):
            return []
        effects = self._refuse_all(Refusal.CLOSED)
        self._defer(Reason.SHUTDOWN, close=True)
        self.flush_to = self.generations.generation
        self.try_again = self.commit is not CommitState.NONE
        rules.retry_departures(self)
        return settle(self, effects)

    def force(self) -> list[Effect]:
        """The running turn has had its time: it is over. (One that is being recorded is over already:
        `recorded` says what became of it.)"""
        effects: list[Effect] = []
        turn = self.turn
        if turn is not None and self.place is IN_TURN:
            self.place = PLACE["end"][self.place]
            self.turn = None
            effects += [do.TurnOver(turn), do.Interrupt(self.agent)]
        elif self.place is Place.ENTERING:
            self._stop_entering()
        else:
            return effects
        self.deferred = Deferred(Reason.SHUTDOWN, close=True)
        return settle(self, effects)

    def abandon(self) -> list[Effect]:
        """Commits have had their time: what leaves is closed without them."""
        if not self._change_mode("abandon"):
            return []
        self.commit = COMMIT["time out"].get(self.commit, self.commit)
        effects: list[Effect] = [do.CommitGaveUp()] if self.flush_to else []
        self.flush_to = 0
        return settle(self, effects)

    def _change_mode(self, given: str) -> bool:
        """False if the mode does not know such an input."""
        known = self.mode in MODE[given]
        self.mode = MODE[given].get(self.mode, self.mode)
        return known

    def _refuse_all(self, why: Refusal) -> list[Effect]:
        refused = self.waiting if self.next_turn is None else (self.next_turn, *self.waiting)
        self.next_turn, self.waiting = None, ()
        return [do.Refuse(turn, why) for turn in refused]
