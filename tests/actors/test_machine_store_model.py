"""The machine with a store, beside a model of a session, of its ledger, and of another room.

The machine plays the shell, the store writer and the world. The ledger is two rows: who has the session
id, under which epoch, and how many of its turns are completed, intended and committed. The other room
takes a session id whenever it likes, also in the middle of a turn or a commit; what was asked of the
store is answered some time later. At the end of each run everything that is under way comes to its end,
and nothing may be left.
"""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom.actors.session.machine import CommitState, Mode, Phase, Place, SessionMachine
from greenroom.actors.session.machine.effects import (
    HIT,
    RESTED,
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    Effect,
    EndSession,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Insert,
    Interrupt,
    Pause,
    Record,
    Recorded,
    Refusal,
    Refuse,
    Retain,
    SessionOver,
    TearDown,
    TurnOver,
)
from greenroom.actors.session.machine.rules import settle
from greenroom.messages import BeginTurn, Reason
from tests.actors.machine_play import snapshot

MOST_WAITING = 3
SESSION_IDS = ["s", "s", "r"]
US, OTHER = "us", "other"


@dataclass(slots=True)
class Row:
    """What the ledger has of a session id."""

    holder: str | None = None
    epoch: int = 0
    generation: int = 0
    intended: int = 0
    committed: int = 0

    def take(self) -> None:
        """This room has it now."""
        if self.holder != US:
            self.holder = US
            self.epoch += 1


@dataclass(slots=True)
class Account:
    """What this room believes of it."""

    epoch: int
    generation: int


@dataclass(slots=True, eq=False)
class Done:
    """A completed turn that is uncommitted."""

    owner: int | None
    session_id: str | None
    number: int
    epoch: int
    piece: int = 0
    """Which commit was begun for it. 0: none."""

    def alike(self, other: Done) -> bool:
        return (self.owner, self.session_id, self.epoch) == (other.owner, other.session_id, other.epoch)


class StoreMachine(RuleBasedStateMachine):
    """One session."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = SessionMachine(has_store=True)
        self.rows = {session_id: Row() for session_id in SESSION_IDS}
        self.accounts: dict[str, Account] = {}
        # Turns: each waits in the line, has the place, or has met its fate.
        self.line: list[BeginTurn] = []
        self.current: BeginTurn | None = None
        self.fates: dict[BeginTurn, str] = {}
        # What was asked of the store.
        self.asking: str | None = None
        """The session id for which a turn is to begin."""
        self.pause_before_asking = False
        self.entered: str | None = None
        """The session id that the store said yes to last."""
        self.recording: bool | None = None
        """Whether the turn that the store is being told of was completed."""
        # Agents.
        self.place = 0
        self.held: set[int] = set()
        self.builds: set[int] = set()
        self.late_builds: set[int] = set()
        self.recoveries: dict[str, int] = {}
        """Session ids that are being recovered, and by which agent."""
        self.recovery_builds: set[int] = set()
        self.tearing: set[int] = set()
        self.torn: list[int] = []
        self.agents: list[int] = []
        # Generations.
        self.pending: list[Done] = []
        self.generation = 0
        self.in_flight: Commit | None = None
        self.flying: list[Done] = []
        self.stuck = self.started = False
        self.pieces = 0
        self.tokens: dict[int, int] = {}
        self.flushing: list[Done] = []
        """What somebody wants to be committed."""
        self.pausing = False
        # The end.
        self.lives = 0
        self.closing: set[int] = set()
        self.over: set[int] = set()
        self.draining = self.forced = self.abandoned = False
        self.unsettled = False
        """A turn has an owner since, and was not asked for: a commit that was wanted can begin."""

    # The shell.

    def perform(self, effects: list[Effect] | tuple[Effect, ...]) -> None:
        for effect in effects:
            getattr(self, f"on_{type(effect).__name__}")(effect)
        if self.machine.agent != self.place:
            assert self.machine.agent == 0
            assert self.current is None, "C4: taken away in a turn"
            self.place = 0
        self.flushing = [done for done in self.flushing if done in self.pending]

    def on_Enter(self, effect: Enter) -> None:
        assert self.current is None
        assert self.asking is None
        assert not self.builds
        assert effect.turn is self.line[0], "T3: first come, first served"
        self.asking = effect.turn.session_id

    def on_EnterLater(self, effect: EnterLater) -> None:
        assert effect.tries > 0
        self.pause_before_asking = True

    def on_Record(self, effect: Record) -> None:
        assert effect.turn is self.current
        assert self.recording is None
        self.recording = effect.completed

    def on_Grant(self, effect: Grant) -> None:
        assert self.current is None, "two turns at once"
        assert effect.turn is self.line.pop(0), "T3: first come, first served"
        assert effect.turn.session_id == self.entered, "the store was not asked"
        assert effect.turn.signature in (None, self.machine.signature)
        assert self.machine.agent in self.held
        assert not self.draining
        self.current = effect.turn
        if effect.reused:
            self.hand_to(self.machine.agent)

    def hand_to(self, owner: int, session_id: str | None = None) -> None:
        """What was resumed has an owner now."""
        for done in self.pending:
            if done.owner is None and done.session_id is not None:
                done.owner = owner if session_id in (None, done.session_id) else None

    def on_Refuse(self, effect: Refuse) -> None:
        self.line.remove(effect.turn)
        self.note(effect.turn, f"refused: {effect.why.value}")

    def note(self, turn: BeginTurn, fate: str) -> None:
        assert turn not in self.fates, "one fate a turn"
        self.fates[turn] = fate

    def on_TurnOver(self, effect: TurnOver) -> None:
        if self.current is not None and effect.turn is self.current:
            self.note(effect.turn, "over")
            self.current = None

    def on_Build(self, effect: Build) -> None:
        assert not self.builds, "one build at a time"
        assert not self.machine.agent, "two agents in one place"
        assert effect.turn is self.line[0]
        assert effect.turn.session_id == self.entered, "the store was not asked"
        self.builds.add(effect.incarnation)

    def on_Insert(self, effect: Insert) -> None:
        assert effect.incarnation in self.held
        self.place = effect.incarnation
        self.hand_to(effect.incarnation)

    def on_Commit(self, effect: Commit) -> None:
        assert self.in_flight is None, "G8: one commit at a time"
        assert effect.owner in self.held, "its owner is torn down"
        assert not (self.machine.turn and effect.owner == self.machine.agent), "its owner is in a turn"
        assert not self.abandoned, "D2: none begins any more"
        segment, due = self.machine.generations.in_flight, self.due()
        assert segment is not None
        assert due is not None, "nobody answers for it"
        end = segment.last - self.machine.generations.committed
        run, rest = self.pending[due:end], self.pending[end:]
        first = run[0]
        assert first.owner in (None, effect.owner), "G5: oldest first, by its own owner"
        self.flying = run
        for done in run:
            done.owner = effect.owner
        assert all(done.alike(first) and done.piece == first.piece for done in run)
        assert (effect.session_id, effect.epoch) == (first.session_id, first.epoch)
        assert effect.generation == (run[-1].number or segment.last)
        if first.piece:
            assert effect.generation == self.tokens[first.piece], "G4: another token than before"
            assert all(done.piece != first.piece for done in rest)
        else:
            assert not (rest and rest[0].alike(first) and not rest[0].piece), "G2"
            self.begin_piece(run)
        self.in_flight, self.stuck, self.started = effect, False, False

    def due(self) -> int | None:
        """Which of the pending turns is committed next."""
        for at, done in enumerate(self.pending):
            if self.can_be_committed(done):
                return at
        return None

    def can_be_committed(self, done: Done) -> bool:
        """G5, G6: not if it was resumed, and nobody answers yet for it, or for what came before it."""
        if done.session_id is None:
            return True
        older = self.pending[: self.pending.index(done) + 1]
        return all(other.owner for other in older if other.session_id == done.session_id)

    def begin_piece(self, run: list[Done]) -> None:
        if run and run[0].session_id is not None:
            self.pieces += 1
            self.tokens[self.pieces] = run[-1].number
            for done in run:
                done.piece = self.pieces

    def on_CommitGaveUp(self, effect: CommitGaveUp) -> None:
        self.flushing.clear()

    def on_Retain(self, effect: Retain) -> None:
        assert effect.incarnation in self.held
        assert effect.reason is not Reason.RECOVERY
        assert not self.draining

    def on_Pause(self, effect: Pause) -> None:
        self.pausing = True

    def on_TearDown(self, effect: TearDown) -> None:
        assert effect.incarnation in self.held, "torn down twice"
        assert not (self.current and effect.incarnation == self.place), "C4: in a turn"
        owed = any(done.owner == effect.incarnation for done in self.pending)
        recovers = effect.reason is Reason.RECOVERY
        assert not owed or self.draining or recovers, "C8: commit first"
        departure = self.machine.departure(effect.incarnation)
        assert departure is not None
        assert departure.in_vain == (owed and recovers)
        if recovers:
            self.leave_to_nobody(effect.incarnation)
        self.held.remove(effect.incarnation)
        self.tearing.add(effect.incarnation)
        self.torn.append(effect.incarnation)

    def leave_to_nobody(self, agent: int) -> None:
        """The agent in the place takes it over, unless it has left its place before."""
        for done in self.pending:
            done.owner = None if done.owner == agent else done.owner
        if self.machine.agent == self.place != 0 or self.place in self.owners():
            self.hand_to(self.place)

    def owners(self) -> set[int | None]:
        """Who has, in the machine's books, something that is nobody's in ours."""
        generations, owners, start = self.machine.generations, set[int | None](), 0
        for segment in generations.segments:
            end = segment.last - generations.committed
            owners |= {segment.owner for done in self.pending[start:end] if done.owner is None}
            start = end
        return owners

    def on_Interrupt(self, effect: Interrupt) -> None:
        assert effect.incarnation == self.place

    def on_EndSession(self, effect: EndSession) -> None:
        assert effect.number == self.lives
        self.lives += 1

    def on_CloseResources(self, effect: CloseResources) -> None:
        assert effect.number not in self.closing | self.over
        departures = self.machine.departures
        assert all(departure.session != effect.number for departure in departures), (
            "S2: agents before resources"
        )
        self.closing.add(effect.number)

    def on_SessionOver(self, effect: SessionOver) -> None:
        self.over.add(effect.number)

    # The ledger.

    def open_account(self, session_id: str) -> bool:
        """As the session does when it has taken a session id. Tells whether others completed turns."""
        row, account = self.rows[session_id], self.accounts.get(session_id)
        row.take()
        if account is not None and account.epoch == row.epoch:
            return False
        moved = account is not None and account.generation != row.generation
        if account is not None:
            self.lose(session_id)
        self.accounts[session_id] = Account(row.epoch, row.generation)
        self.machine.resume(
            session_id,
            row.epoch,
            generation=row.generation,
            committed=row.committed,
            intended=row.intended,
        )
        resumed = [
            Done(None, session_id, number, row.epoch)
            for number in range(row.committed + 1, row.generation + 1)
        ]
        self.begin_piece([done for done in resumed if done.number <= row.intended])
        self.pending += resumed
        self.generation += len(resumed)
        return moved

    def disown(self, session_id: str, epoch: int) -> None:
        self.pending = [
            done
            for done in self.pending
            if done.session_id != session_id or done.epoch > epoch or done in self.flying
        ]

    def lose(self, session_id: str) -> None:
        account = self.accounts.pop(session_id)
        self.disown(session_id, account.epoch)
        self.perform(self.machine.lose(session_id, account.epoch))

    def is_ours(self, session_id: str, epoch: int) -> bool:
        row = self.rows[session_id]
        return (row.holder, row.epoch) == (US, epoch)

    @rule(
        session_id=st.sampled_from(SESSION_IDS),
        completes=st.integers(0, 3),
        intends=st.booleans(),
        commits=st.booleans(),
        goes=st.booleans(),
    )
    def another_room_takes_it(
        self, session_id: str, completes: int, intends: bool, commits: bool, goes: bool
    ) -> None:
        row = self.rows[session_id]
        row.holder, row.epoch = OTHER, row.epoch + 1
        if commits:
            row.intended = row.committed = row.generation
        row.generation += completes
        if intends and row.intended <= row.committed:
            row.intended = row.generation
        row.holder = None if goes else OTHER

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def the_loss_is_heard_of(self, data: st.DataObject) -> None:
        session_id = data.draw(st.sampled_from(sorted(self.accounts)))
        if not self.is_ours(session_id, self.accounts[session_id].epoch):
            self.lose(session_id)

    def in_use(self, session_id: str) -> bool:
        turn = self.current or (self.line[0] if self.line else None)
        return turn is not None and turn.session_id == session_id

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def an_account_is_closed(self, data: st.DataObject) -> None:
        """Nothing depends on it, or nobody here can commit what is uncommitted of it."""
        session_id = data.draw(st.sampled_from(sorted(self.accounts)))
        if self.in_use(session_id) or session_id in self.recoveries or self.place or self.builds:
            return
        generations = self.machine.generations
        done_with = generations.nobodys(session_id) or not generations.owed_for(session_id)
        if done_with and self.machine.place is not Place.ENTERING:
            self.free(session_id)

    def free(self, session_id: str) -> None:
        row, epoch = self.rows[session_id], self.accounts[session_id].epoch
        if self.is_ours(session_id, epoch):
            row.holder = None
        self.lose(session_id)

    # Before a turn.

    @rule(
        signature=st.sampled_from([None, "a", "a", "b"]),
        session_id=st.sampled_from(SESSION_IDS),
        reject=st.sampled_from([False, False, False, True]),
        at_once=st.booleans(),
    )
    def begin(self, signature: str | None, session_id: str, reject: bool, at_once: bool) -> None:
        turn = BeginTurn(
            spec=None,
            signature=signature,
            session_id=session_id,
            reject=reject,
            timeout=None,
            held=(),
            loop=None,
        )
        machine = self.machine
        free = machine.at_rest and machine.mode is Mode.OPEN
        at_once = at_once and free and bool(self.place) and session_id in self.accounts
        waiting = len(machine.waiting)
        self.line.append(turn)
        effects = machine.begin(turn, MOST_WAITING, entered=at_once)
        if effects is HIT:
            assert at_once
            assert self.line == [turn], "T3: nobody is overtaken"
            self.line.clear()
            self.current, self.entered = turn, session_id
            return
        self.perform(effects)
        if free:
            assert self.asking == session_id
        else:
            refused = self.draining or machine.mode is Mode.FAILED or reject or waiting >= MOST_WAITING
            assert (turn in self.fates) == bool(refused)

    @precondition(lambda self: self.machine.at_rest and not self.draining)
    @rule(session_id=st.sampled_from(SESSION_IDS), at_once=st.booleans(), discard=st.booleans())
    def a_whole_turn(self, session_id: str, at_once: bool, discard: bool) -> None:
        """Begin, build if need be, complete and record, with nothing between."""
        self.begin("a", session_id, reject=False, at_once=at_once)
        if self.asking is not None:
            self.the_store_answers("yes")
        if self.builds:
            self.build_ends("built")
        if self.current is not None:
            self.end(completed=True, discard=discard and at_once)
            self.the_store_records(reached=True)

    @precondition(lambda self: self.asking is not None)
    @rule(answer=st.sampled_from(["yes", "yes", "yes", "stale", "held", "away"]))
    def the_store_answers(self, answer: str) -> None:
        session_id, self.asking = self.asking, None
        assert session_id is not None
        verdict = Entry.FRESH
        if answer == "away":
            verdict = Entry.FRESH if session_id in self.accounts else Entry.AWAY
        elif answer == "held" and self.rows[session_id].holder == OTHER:
            verdict = Entry.HELD
        elif self.open_account(session_id) or answer == "stale":
            verdict = Entry.STALE
        if verdict in (Entry.FRESH, Entry.STALE):
            self.entered = session_id
        turn = self.machine.next_turn
        before = self.machine.agent
        self.perform(self.machine.entered(verdict))
        if verdict is Entry.STALE and turn is not None:
            assert not (before and self.machine.agent == before), "H2"
        if verdict is Entry.AWAY and turn is not None:
            assert self.fates[turn] == "refused: store"
        if verdict is Entry.HELD and turn is not None and turn.reject:
            assert self.fates[turn] == "refused: elsewhere"

    @precondition(lambda self: self.pause_before_asking)
    @rule()
    def the_store_is_asked_again(self) -> None:
        self.pause_before_asking = False
        self.perform(self.machine.enter_again())

    # After a turn.

    @precondition(lambda self: self.current is not None and self.recording is None)
    @rule(completed=st.sampled_from([True, True, False]), discard=st.sampled_from([False, False, True]))
    def end(self, completed: bool, discard: bool) -> None:
        assert self.current is not None
        turn = self.current
        effects = self.machine.end(turn, completed=completed, discard=discard)
        assert effects is not None
        assert effects is not RESTED
        assert effects == [Record(turn, completed)]
        self.perform(effects)
        before = snapshot(self.machine)
        assert self.machine.end(turn, completed=not completed, discard=True) == effects
        assert self.machine.withdraw(turn) == effects
        assert snapshot(self.machine) == before, "T8"

    @precondition(lambda self: self.recording is not None)
    @rule(reached=st.sampled_from([True, True, False]))
    def the_store_records(self, reached: bool) -> None:
        assert self.current is not None
        turn, completed, self.recording = self.current, self.recording, None
        session_id = turn.session_id or ""
        account = self.accounts.get(session_id)
        ours = account is not None and self.is_ours(session_id, account.epoch)
        outcome = Recorded.NOT_NOW if not reached else Recorded.DONE if ours else Recorded.LOST
        if outcome is Recorded.LOST:
            if account is not None:
                self.disown(session_id, account.epoch)
                del self.accounts[session_id]
        elif completed:
            self.count_turn(session_id, account)
            if reached and account is not None:
                self.rows[session_id].generation = account.generation
        if account is None:
            effects = self.machine.recorded(outcome)
        else:
            effects = self.machine.recorded(outcome, session_id, account.generation, account.epoch)
        self.perform(effects)
        assert turn in self.fates
        assert outcome is not Recorded.LOST or not self.place
        before = snapshot(self.machine)
        assert self.machine.recorded(outcome) == []
        assert self.machine.end(turn, completed=True, discard=True) is None, "T8"
        assert self.machine.withdraw(turn) == self.machine.expire(turn) == []
        assert snapshot(self.machine) == before

    def count_turn(self, session_id: str, account: Account | None) -> None:
        self.generation += 1
        if account is None:
            self.pending.append(Done(self.place, None, 0, 0))
        else:
            account.generation += 1
            self.pending.append(Done(self.place, session_id, account.generation, account.epoch))

    # Whoever waits may leave.

    @precondition(lambda self: self.line or (self.current and self.recording is None))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        in_turn = [] if self.current is None or self.recording is not None else [self.current]
        turn = data.draw(st.sampled_from([*self.line, *in_turn]))
        if turn is self.current:
            effects = self.machine.withdraw(turn)
            assert effects == [Record(turn, completed=False)]
            self.perform(effects)
        else:
            self.line.remove(turn)
            self.note(turn, "withdrawn")
            assert self.machine.withdraw(turn) == []

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.line))
        effects = self.machine.expire(turn)
        assert effects == [Refuse(turn, Refusal.BUILDING if self.builds else Refusal.TIMEOUT)]
        self.perform(effects)

    # Builds.

    @precondition(lambda self: self.builds)
    @rule(outcome=st.sampled_from(["built", "built", "built", "failed", "given up"]))
    def build_ends(self, outcome: str) -> None:
        self.a_build_ends(self.builds.pop(), outcome)

    def a_build_ends(self, incarnation: int, outcome: str) -> None:
        if outcome == "built":
            self.held.add(incarnation)
            self.agents.append(incarnation)
        elif outcome == "given up":
            self.late_builds.add(incarnation)
        self.perform(
            self.machine.built(incarnation, succeeded=outcome == "built", returned=outcome != "given up")
        )

    @precondition(lambda self: self.late_builds)
    @rule(succeeded=st.booleans(), data=st.data())
    def late_build_ends(self, succeeded: bool, data: st.DataObject) -> None:
        incarnation = data.draw(st.sampled_from(sorted(self.late_builds)))
        self.late_builds.remove(incarnation)
        self.a_build_ends(incarnation, "built" if succeeded else "failed")
        assert (incarnation in self.tearing) == succeeded

    @rule(signature=st.sampled_from([None, "a", "b"]))
    def adopt(self, signature: str | None) -> None:
        before = snapshot(self.machine)
        adopted = self.machine.adopt(signature)
        if adopted is None:
            assert not self.machine.at_rest or self.machine.mode is not Mode.OPEN
            assert snapshot(self.machine) == before
            return
        incarnation, effects = adopted
        self.held.add(incarnation)
        self.agents.append(incarnation)
        self.perform(effects)
        assert self.place == incarnation

    # Recoveries.

    @rule(session_id=st.sampled_from(SESSION_IDS))
    def recover(self, session_id: str) -> None:
        row = self.rows[session_id]
        if session_id in self.accounts or session_id in self.recoveries or row.holder == OTHER:
            return
        self.open_account(session_id)
        if self.machine.generations.nobodys(session_id) and not self.draining:
            incarnation = self.machine.recover(session_id)
            assert incarnation not in self.agents
            self.recoveries[session_id] = incarnation
            self.recovery_builds.add(incarnation)

    @precondition(lambda self: not self.draining)
    @rule(session_id=st.sampled_from(SESSION_IDS), intends=st.booleans(), built=st.booleans())
    def another_room_leaves_some(self, session_id: str, intends: bool, built: bool) -> None:
        """It completes turns and goes, and they are to be recovered here, with nothing between."""
        self.another_room_takes_it(session_id, 2, intends, commits=False, goes=True)
        if session_id in self.accounts:
            self.lose(session_id)
        self.recover(session_id)
        if built and self.recoveries.get(session_id) in self.recovery_builds:
            self.end_recovery_build(self.recoveries[session_id], "built")

    @precondition(lambda self: self.recovery_builds)
    @rule(outcome=st.sampled_from(["built", "built", "failed", "given up"]), data=st.data())
    def recovery_agent_is_built(self, outcome: str, data: st.DataObject) -> None:
        incarnation = data.draw(st.sampled_from(sorted(self.recovery_builds)))
        self.end_recovery_build(incarnation, outcome)

    def end_recovery_build(self, incarnation: int, outcome: str) -> None:
        self.recovery_builds.remove(incarnation)
        session_id = next(name for name, number in self.recoveries.items() if number == incarnation)
        if outcome == "built":
            self.hand_to(incarnation, session_id)
        self.a_build_ends(incarnation, outcome)
        assert incarnation not in dict(self.machine.recoveries)
        if outcome != "built":
            self.recovery_ends(session_id, succeeded=False)

    def recovery_ends(self, session_id: str, *, succeeded: bool) -> None:
        del self.recoveries[session_id]
        if not succeeded and session_id in self.accounts and not self.in_use(session_id):
            self.free(session_id)

    # Letting go.

    @rule(reason=st.sampled_from([Reason.IDLE, Reason.CAPACITY]))
    def release(self, reason: Reason) -> None:
        entering = self.asking is not None or self.pause_before_asking
        may = self.place and not self.current and not entering and self.machine.leaving is None
        before = snapshot(self.machine)
        effects = self.machine.release(reason)
        assert (effects is not None) == bool(may)
        assert may or snapshot(self.machine) == before
        self.perform(effects or [])

    @rule()
    def evict(self) -> None:
        there = not self.machine.at_rest or bool(self.place)
        effects = self.machine.evict()
        assert (effects is not None) == there
        self.perform(effects or [])

    @rule(interrupt=st.booleans())
    def close(self, interrupt: bool) -> None:
        later = not self.machine.at_rest
        runs = interrupt and self.current is not None and self.recording is None
        effects = self.machine.close(Reason.EXPLICIT, interrupt=interrupt)
        assert not later or effects == ([Interrupt(self.place)] if runs else [])
        self.perform(effects)

    @precondition(lambda self: self.tearing)
    @rule(data=st.data())
    def teardown_ends(self, data: st.DataObject) -> None:
        self.tear(data.draw(st.sampled_from(sorted(self.tearing))))

    def tear(self, incarnation: int) -> None:
        self.tearing.remove(incarnation)
        departure = self.machine.departure(incarnation)
        assert departure is not None
        self.perform(self.machine.torn_down(incarnation))
        for session_id, agent in list(self.recoveries.items()):
            if agent == incarnation:
                assert departure.reason is Reason.RECOVERY, "nobody would hear of it"
                self.recovery_ends(session_id, succeeded=not departure.in_vain)

    @precondition(lambda self: self.closing)
    @rule(data=st.data())
    def resources_are_closed(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(sorted(self.closing)))
        self.closing.remove(life)
        self.perform(self.machine.resources_closed(life))

    # Commits.

    @precondition(lambda self: self.pending and not self.stuck)
    @rule()
    def flush(self) -> None:
        # Avoided: a flush may be over while something of it is left that nobody answers for.
        self.flushing = [done for done in self.pending if self.can_be_committed(done)]
        self.perform(self.machine.flush())

    @rule(known=st.booleans())
    def complete_elsewhere(self, known: bool) -> None:
        who = self.place if known and self.place else None
        self.generation += 1
        self.pending.append(Done(who, None, 0, 0))
        assert self.machine.complete_elsewhere(who) == self.generation

    @precondition(lambda self: self.in_flight is not None and not self.started)
    @rule()
    def commit_starts(self) -> None:
        assert self.in_flight is not None
        in_turn = self.current is not None and self.in_flight.owner == self.place
        effects = self.machine.start_commit()
        assert (effects is None) == (not in_turn and not self.stuck)
        if effects is None:
            self.started = True
            self.intend(self.in_flight)
        else:
            self.in_flight, self.flying, self.stuck = None, [], False
            self.perform(effects)

    def intend(self, commit: Commit) -> None:
        if commit.session_id is not None and self.is_ours(commit.session_id, commit.epoch):
            row = self.rows[commit.session_id]
            assert row.intended in (row.committed, commit.generation) or row.intended < row.committed
            row.intended = commit.generation

    @precondition(lambda self: self.started)
    @rule(succeeded=st.booleans())
    def commit_ends(self, succeeded: bool) -> None:
        assert self.in_flight is not None
        commit, self.in_flight = self.in_flight, None
        run, self.flying = self.flying, []
        self.stuck = self.started = False
        if commit.session_id is not None and not self.is_ours(commit.session_id, commit.epoch):
            self.commit_is_lost(commit.session_id, commit.epoch)
            return
        if succeeded:
            self.pending = [done for done in self.pending if done not in run]
            if commit.session_id is not None:
                row = self.rows[commit.session_id]
                assert row.committed < commit.generation, "committed twice"
                row.committed = commit.generation
        else:
            self.pausing = False
        self.perform(self.machine.committed(succeeded=succeeded))
        if self.in_flight is None:
            before = snapshot(self.machine)
            assert self.machine.committed(succeeded=succeeded) == self.machine.commit_stuck() == []
            assert self.machine.start_commit() == self.machine.commit_lost() == []
            assert snapshot(self.machine) == before

    def commit_is_lost(self, session_id: str, epoch: int) -> None:
        self.disown(session_id, epoch)
        self.perform(self.machine.commit_lost())
        account = self.accounts.get(session_id)
        if account is not None and account.epoch == epoch:
            del self.accounts[session_id]
        assert all(done.session_id != session_id or done.epoch > epoch for done in self.pending)

    @precondition(lambda self: self.in_flight is not None and not self.stuck)
    @rule()
    def commit_gets_stuck(self) -> None:
        self.stuck = True
        self.perform(self.machine.commit_stuck())
        assert not self.flushing

    @precondition(lambda self: self.pausing)
    @rule()
    def retry(self) -> None:
        self.pausing = False
        self.perform(self.machine.retry())

    # The end.

    @precondition(lambda self: self.machine.mode is not Mode.FAILED and len(self.fates) > 3)
    @rule()
    def fail(self) -> None:
        self.perform(self.machine.fail())
        assert not self.line

    @precondition(lambda self: not self.draining and len(self.fates) > 4)
    @rule()
    def drain(self) -> None:
        self.draining = True
        self.perform(self.machine.drain())
        assert not self.line

    @precondition(lambda self: self.draining and not self.forced)
    @rule()
    def force(self) -> None:
        self.forced = True
        if self.recording is not None:
            before = snapshot(self.machine)
            assert self.machine.force() == []
            assert snapshot(self.machine) == before, "G9: it was given back in time"
            self.the_store_records(reached=False)  # as the session does
        self.perform(self.machine.force())
        self.asking, self.pause_before_asking = None, False
        assert self.current is None

    @precondition(lambda self: self.forced and not self.abandoned)
    @rule()
    def abandon(self) -> None:
        self.abandoned = True
        self.stuck = self.in_flight is not None
        self.perform(self.machine.abandon())
        assert not self.flushing
        phases = {departure.phase for departure in self.machine.departures}
        assert phases <= {Phase.TEARING}

    # What always holds.

    def expected_place(self) -> Place:
        if self.current is not None:
            return Place.IN_TURN if self.recording is None else Place.RECORDING
        if self.asking is not None or self.pause_before_asking:
            return Place.ENTERING
        if self.builds or not self.place:
            return Place.BUILDING if self.builds else Place.EMPTY
        return Place.IDLE if self.machine.leaving is None else Place.LEAVING

    def commit_state(self) -> CommitState:
        if self.in_flight is None:
            return CommitState.NONE
        if self.stuck:
            return CommitState.STUCK
        return CommitState.STARTED if self.started else CommitState.SENT

    @invariant()
    def the_books_agree(self) -> None:
        machine, generations = self.machine, self.machine.generations
        assert machine.turn is self.current
        assert machine.completes == self.recording or self.recording is None
        assert machine.agent == self.place
        assert {machine.building} - {0} == self.builds
        assert machine.place is self.expected_place()
        assert set(dict(machine.recoveries)) == self.recovery_builds
        assert set(machine.late_builds) == self.late_builds
        assert [*([machine.next_turn] if machine.next_turn else []), *(machine.waiting)] == self.line
        assert generations.generation == self.generation
        assert 0 <= generations.committed <= generations.generation
        assert generations.dirty == len(self.pending)
        assert (generations.in_flight is not None) == (self.in_flight is not None)
        assert machine.commit is self.commit_state()
        assert {ended.number for ended in machine.ended if ended.closing} == self.closing
        assert machine.session == self.lives

    @invariant()
    def the_segments_are_the_pending_turns(self) -> None:
        start, rest = self.machine.generations.committed, self.pending
        for segment in self.machine.generations.segments:
            count, start = segment.last - start, segment.last
            assert count > 0
            run, rest = rest[:count], rest[count:]
            assert all(done.alike(run[0]) and done.piece == run[0].piece for done in run)
            assert (segment.owner, segment.session_id) == (run[0].owner, run[0].session_id)
            assert (segment.token, segment.epoch) == (run[-1].number, run[-1].epoch)
        assert not rest

    @invariant()
    def one_thing_at_a_time_has_the_place(self) -> None:
        entering = self.asking is not None or self.pause_before_asking
        assert (self.current is not None) + bool(self.builds) + entering <= 1
        assert not (self.asking is not None and self.pause_before_asking)
        assert self.current is None or self.place, "a turn without an agent"

    @invariant()
    def the_rules_have_nothing_left_to_do(self) -> None:
        before = snapshot(self.machine)
        assert self.unsettled or settle(self.machine, []) == []
        assert self.unsettled or snapshot(self.machine) == before

    @invariant()
    def each_agent_is_in_one_place(self) -> None:
        departures = {d.incarnation: d.phase for d in self.machine.departures}
        tearing = {number for number, phase in departures.items() if phase is Phase.TEARING}
        assert tearing == self.tearing
        assert self.held == (set(departures) - tearing) | ({self.place} - {0})
        assert self.place not in departures
        assert len(self.torn) == len(set(self.torn))

    @invariant()
    def what_is_known_here_is_in_the_ledger(self) -> None:
        """Of a session id that is this room's: everything uncommitted is pending here."""
        for session_id, account in self.accounts.items():
            row = self.rows[session_id]
            if self.is_ours(session_id, account.epoch):
                numbers = [
                    done.number
                    for done in self.pending
                    if (done.session_id, done.epoch) == (session_id, account.epoch)
                ]
                assert numbers == list(range(row.committed + 1, account.generation + 1))

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        under_way = bool(self.in_flight and not self.stuck)
        comes = under_way or self.current is not None
        phases = {departure.phase for departure in self.machine.departures}
        assert not self.flushing or comes
        assert self.machine.leaving is None or under_way
        if Phase.COMMITTING in phases:
            assert comes or (self.draining and self.in_flight)
        if Phase.RETAINED in phases:
            assert self.in_flight or self.pausing
        if self.line:
            assert self.current or self.builds or self.machine.place is Place.ENTERING

    @invariant()
    def what_can_be_seen_is_true(self) -> None:
        machine = self.machine
        phases = [departure.phase for departure in machine.departures]
        working = (
            self.builds
            or self.recovery_builds
            or self.closing
            or self.tearing
            or machine.place is Place.ENTERING
        )
        committing = self.in_flight is not None and not self.stuck
        assert machine.busy == bool(working or committing or Phase.COMMITTING in phases)
        assert machine.in_use == bool(self.current or (machine.place is Place.ENTERING and self.place))
        if machine.forgettable:
            assert not any(
                [self.current, self.line, machine.place is Place.ENTERING, self.builds, self.place]
            )
            assert not any([self.tearing, self.recovery_builds])
            assert self.draining or not self.pending

    # Everything comes to its end.

    def teardown(self) -> None:
        if not self.draining:
            self.drain()
        if self.current is not None and self.recording is None:
            self.end(completed=True, discard=False)
        for _ in range(200):
            self.the_books_agree()
            self.each_agent_is_in_one_place()
            self.nobody_waits_in_vain()
            if not self.something_ends():
                break
        assert self.machine.forgettable
        assert self.over == set(range(self.lives))
        assert sorted(self.torn) == sorted(self.agents), "S1, S2: each agent once"
        assert not self.line
        assert not self.flushing
        assert not self.recoveries

    def something_ends(self) -> bool:
        if self.asking is not None:
            self.the_store_answers("held")
        elif self.pause_before_asking:
            self.the_store_is_asked_again()
        elif self.recording is not None:
            self.the_store_records(reached=True)
        elif self.builds:
            self.build_ends("built")
        elif self.recovery_builds:
            self.end_recovery_build(min(self.recovery_builds), "built")
        elif self.in_flight is not None and not self.started:
            self.commit_starts()
        elif self.in_flight is not None:
            self.commit_ends(succeeded=len(self.pending) % 3 != 1)
        elif self.tearing:
            self.tear(min(self.tearing))
        elif self.closing:
            self.perform(self.machine.resources_closed(self.closing.pop()))
        elif self.pausing:
            self.retry()
        else:
            return False
        return True


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
