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
agent still knows its transcript (else it is let go first). What it has of turns that nobody here
completed is *resumed*: the next agent commits them, or one that is built for nothing else (`recover`).
What another room has taken over is *lost*: nobody here commits it any more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from greenroom.actors._stage_exits import ENTERING, Ending, Leaver, StageExits, Wish
from greenroom.actors.effects import (
    HIT,
    RESTED,
    Build,
    CommitGaveUp,
    Effect,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Insert,
    Interrupt,
    Record,
    Recorded,
    Refusal,
    Refuse,
    TurnOver,
    Wait,
)
from greenroom.messages import Reason

if TYPE_CHECKING:
    from greenroom.messages import BeginTurn

__all__ = ["Leaver", "Stage", "Wish"]


class Stage(StageExits):
    """The turns and agents of one session."""

    __slots__ = ()

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

    def begin_now(self, turn: object, signature: str | None) -> bool:
        """Begin a turn on the agent that is there, if that is all there is to do."""
        if (
            self.turn is None
            and self.agent
            and not self.building
            and self.leaving is None
            and not self.draining
            and not self.failed
            and (signature is None or signature == self.signature)
        ):
            self.turn = turn  # type: ignore[assignment]  # a name for the turn, and nothing else
            return True
        return False

    def end_now(self, turn: object, completed: bool) -> int | None:
        """End a turn, if that is all there is to do: the generation. Else `None`."""
        put_off = self._wish or self.waiting or self.flush_to or self.leavers or self.draining
        if turn is not self.turn or put_off or self.recording is not None:
            return None
        generations = self.generations
        if completed:
            generations.complete(self.agent)
        self.turn = None
        return generations.generation

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
        """The store has answered for the turn that has ended, number `token` of its session id."""
        effects: list[Effect] = []
        turn, ending = self.turn, self.recording
        if turn is None or ending is None:
            return effects
        self.turn = self.recording = None
        effects.append(TurnOver(turn))
        if outcome is Recorded.LOST:
            self._lose(session_id, epoch, effects)
            if not self.draining and not (self._wish is not None and self._wish.close):
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

    def recover(self, session_id: str) -> int:
        """What was resumed is to be committed by an agent that is built for nothing else: its number."""
        self.incarnations += 1
        self.rescuers = {**(self.rescuers or {}), self.incarnations: session_id}
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
            rescued = (self.rescuers or {}).pop(incarnation, None)
            self.rescuers = self.rescuers or None
            if succeeded:
                self._built_for_no_turn(incarnation, rescued, effects)
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

    def _built_for_no_turn(self, incarnation: int, rescued: str | None, effects: list[Effect]) -> None:
        """It is let go at once, or when it has committed what it was built for."""
        why = Reason.DISCARD
        if rescued is not None:
            why = Reason.RECOVERY
            self.generations.take_over(incarnation, rescued)
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

    def release(self, reason: Reason) -> list[Effect] | None:
        """The supervisor asks for the agent. `None`: there is none to be had, or it is in a turn."""
        if not self.agent or self.in_use or self.leaving is not None:
            return None
        effects: list[Effect] = []
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
        """The running turn has had its time: it is over. (One that is being recorded is over already:
        `recorded` says what became of it.)"""
        effects: list[Effect] = []
        if self.turn is not None and self.recording is None:
            turn, self.turn = self.turn, None
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
            if self._fits(turn):
                self.leaving = None  # a release is called off: the agent is wanted
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
                if self.entering and self._fits(self.builder):
                    self.leaving = None
            return True
        before = len(self.waiting or ())
        self.waiting = deque(other for other in self.waiting or () if other is not turn) or None
        return len(self.waiting or ()) < before

    def _serves_as_well(self, other: BeginTurn, turn: BeginTurn) -> bool:
        """Whether what is being done for this turn is just what that other one needs."""
        if self.checked and other.session_id != turn.session_id:
            return False  # the store was asked for that one only
        return self.entering or self._fits(other)

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
