"""The machine beside a model of a session: hypothesis chooses what happens, and when slow work ends.

The machine plays the shell and the world: it performs every effect in a few plain collections, keeps the
books of turns, agents and generations itself, and compares. At the end of each run everything that is
under way comes to its end, and nothing may be left.
"""

from __future__ import annotations

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
    Grant,
    Insert,
    Interrupt,
    Pause,
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
RELEASES = [Reason.IDLE, Reason.CAPACITY, Reason.MEMORY]


class MachineBesideModel(RuleBasedStateMachine):
    """One session."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = SessionMachine()
        # Turns: each waits in the line, has the place, or has met its fate.
        self.line: list[BeginTurn] = []
        self.current: BeginTurn | None = None
        self.fates: dict[BeginTurn, str] = {}
        # Agents.
        self.place = 0
        self.held: set[int] = set()
        """Whose object the shell holds: built or adopted or taken in, and not torn down."""
        self.builds: set[int] = set()
        self.late_builds: set[int] = set()
        """Builds that were given up, and may still return."""
        self.tearing: set[int] = set()
        self.torn: list[int] = []
        self.agents: list[int] = []
        self.strangers: set[int] = set()
        """Agents that are known for their commits only."""
        # Generations, oldest first, with the owner of each; how many of them are committed.
        self.owners: list[int | None] = []
        self.committed = 0
        self.in_flight: Commit | None = None
        self.stuck = self.started = False
        self.committers: list[int] = []
        """Up to which generation somebody waits for a commit."""
        self.pausing = False
        # Sessions that ended under the key.
        self.lives = 0
        self.closing: set[int] = set()
        self.over: set[int] = set()
        self.draining = self.forced = self.abandoned = False
        self.unsettled = False
        """A turn was given an owner, and was not asked for since: a commit that is wanted can begin."""
        self.sent_before = False
        """The commit in flight was sent before the drain."""

    # The shell.

    def perform(self, effects: list[Effect] | tuple[Effect, ...]) -> None:
        for effect in effects:
            getattr(self, f"on_{type(effect).__name__}")(effect)
        self.committers = [target for target in self.committers if target > self.committed]

    def on_Grant(self, effect: Grant) -> None:
        assert self.current is None, "two turns at once"
        assert effect.turn is self.line.pop(0), "T3: first come, first served"
        assert self.place in self.held
        assert effect.turn.signature in (None, self.machine.signature)
        assert not self.draining
        assert effect.reason is None or not effect.reused
        self.current = effect.turn

    def on_Refuse(self, effect: Refuse) -> None:
        self.line.remove(effect.turn)
        self.note(effect.turn, f"refused: {effect.why.value}")

    def note(self, turn: BeginTurn, fate: str) -> None:
        assert turn not in self.fates, "one fate a turn"
        self.fates[turn] = fate

    def on_TurnOver(self, effect: TurnOver) -> None:
        """The rules keep these books: a turn that only rested has no such effect."""
        if self.current is not None and self.current is effect.turn:  # force()
            self.note(effect.turn, "forced")
            self.current = None

    def on_Build(self, effect: Build) -> None:
        assert not self.builds, "one build at a time"
        assert not self.place, "two agents in one place"
        assert effect.turn is self.line[0]
        assert effect.incarnation not in (*self.agents, *self.strangers)
        self.builds.add(effect.incarnation)

    def on_Insert(self, effect: Insert) -> None:
        assert not self.place
        assert effect.incarnation in self.held
        self.place = effect.incarnation

    def on_Commit(self, effect: Commit) -> None:
        assert self.in_flight is None, "G8: one commit at a time"
        assert effect.owner in self.held, "its owner is torn down"
        assert not (self.current and effect.owner == self.place), "its owner is in a turn"
        pending = self.owners[self.committed :]
        if pending[0] is None:  # G6
            for number, owner in enumerate(pending, self.committed):
                if owner is not None:
                    break
                self.owners[number] = effect.owner
        run = next(
            (n for n, o in enumerate(self.owners[self.committed :]) if o != effect.owner),
            len(self.owners) - self.committed,
        )
        assert run, "G5: oldest first, by its own owner"
        assert effect.generation == self.committed + run, "G2: everything that is the owner's"
        assert not self.abandoned, "D2: none begins any more"
        self.in_flight, self.stuck, self.started, self.sent_before = effect, False, False, False

    def on_CommitGaveUp(self, effect: CommitGaveUp) -> None:
        self.committers.clear()

    def on_Retain(self, effect: Retain) -> None:
        assert effect.incarnation in self.held
        assert not self.draining
        if self.place == effect.incarnation:
            self.place = 0

    def on_Pause(self, effect: Pause) -> None:
        assert effect.tries > 0
        self.pausing = True

    def on_TearDown(self, effect: TearDown) -> None:
        assert effect.incarnation in self.held, "torn down twice"
        assert not (self.current and effect.incarnation == self.place), "C4: in a turn"
        owed = effect.incarnation in self.owners[self.committed :]
        assert not owed or self.draining, "C8: commit first"
        if self.place == effect.incarnation:
            self.place = 0
        self.held.remove(effect.incarnation)
        self.tearing.add(effect.incarnation)
        self.torn.append(effect.incarnation)

    def on_Interrupt(self, effect: Interrupt) -> None:
        assert effect.incarnation == self.place

    def on_EndSession(self, effect: EndSession) -> None:
        assert effect.number == self.lives
        self.lives += 1

    def on_CloseResources(self, effect: CloseResources) -> None:
        assert effect.number < self.lives
        assert effect.number not in self.closing | self.over
        departures = self.machine.departures
        assert all(departure.session != effect.number for departure in departures), (
            "S2: agents before resources"
        )
        self.closing.add(effect.number)

    def on_SessionOver(self, effect: SessionOver) -> None:
        self.over.add(effect.number)

    def sync_place(self) -> None:
        """An agent that became a departure is not in its place any more."""
        if self.machine.agent == 0:
            self.place = 0

    # Turns.

    @rule(
        signature=st.sampled_from([None, "a", "a", "b"]),
        reject=st.sampled_from([False, False, False, True]),
        inside=st.booleans(),
    )
    def begin(self, signature: str | None, reject: bool, inside: bool) -> None:
        turn = BeginTurn(
            spec=None,
            signature=signature,
            session_id="s",
            reject=reject,
            timeout=None,
            held=(self.current,) if inside and self.current is not None else (),
            loop=None,
        )
        free = (
            self.current is None
            and not self.builds
            and not self.draining
            and self.machine.mode is not Mode.FAILED
        )
        waiting = len(self.line) - (self.machine.next_turn is not None)
        own = self.current is not None and inside
        self.line.append(turn)
        before = self.machine.agent
        effects = self.machine.begin(turn, MOST_WAITING)
        if effects is HIT:
            assert free
            assert self.place
            assert self.line == [turn], "T3: nobody is overtaken"
            self.line.clear()
            self.current = turn
        else:
            if before and self.machine.agent != before:
                self.place = 0
            self.perform(effects)
            if not free:
                refused = (
                    self.draining
                    or self.machine.mode is Mode.FAILED
                    or own
                    or reject
                    or waiting >= MOST_WAITING
                )
                assert (turn in self.fates) == refused

    @precondition(lambda self: self.current is not None)
    @rule(completed=st.booleans(), discard=st.sampled_from([False, False, True]))
    def end(self, completed: bool, discard: bool) -> None:
        assert self.current is not None
        turn, self.current = self.current, None
        self.note(turn, "ended")
        if completed:
            self.owners.append(self.place)
        effects = self.machine.end(turn, completed=completed, discard=discard)
        assert effects is not None
        if effects is RESTED:
            effects = []
            assert self.machine.place is Place.IDLE
            assert not self.line
            assert not self.machine.departures
        if self.machine.agent != self.place:
            self.place = 0
        self.perform(effects)

    @precondition(lambda self: self.fates)
    @rule(data=st.data())
    def end_again(self, data: st.DataObject) -> None:
        """T8"""
        turn = data.draw(st.sampled_from(list(self.fates)))
        before = snapshot(self.machine)
        assert self.machine.end(turn, completed=True, discard=True) is None
        assert self.machine.withdraw(turn) == []
        assert self.machine.expire(turn) == []
        assert snapshot(self.machine) == before

    @precondition(lambda self: self.line or self.current)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        turns = self.line if self.current is None else [*self.line, self.current]
        turn = data.draw(st.sampled_from(turns))
        if turn is self.current:
            self.current = None
        else:
            self.line.remove(turn)
        self.note(turn, "withdrawn")
        effects = self.machine.withdraw(turn)
        if self.machine.agent != self.place:
            self.place = 0
        self.perform(effects)

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.line))
        effects = self.machine.expire(turn)
        assert effects == [Refuse(turn, Refusal.BUILDING if self.builds else Refusal.TIMEOUT)]
        self.perform(effects)

    @precondition(lambda self: self.current)
    @rule()
    def expire_what_has_begun(self) -> None:
        assert self.current is not None
        before = snapshot(self.machine)
        assert self.machine.expire(self.current) == []
        assert snapshot(self.machine) == before

    # Builds.

    @precondition(lambda self: self.builds)
    @rule(outcome=st.sampled_from(["built", "built", "built", "failed", "given up"]))
    def build_ends(self, outcome: str) -> None:
        incarnation = self.builds.pop()
        if outcome == "built":
            self.held.add(incarnation)
            self.agents.append(incarnation)
        elif outcome == "given up":
            self.late_builds.add(incarnation)
        returned = outcome != "given up"
        self.perform_at_place(
            self.machine.built(incarnation, succeeded=outcome == "built", returned=returned)
        )

    @precondition(lambda self: self.late_builds)
    @rule(succeeded=st.booleans(), data=st.data())
    def late_build_ends(self, succeeded: bool, data: st.DataObject) -> None:
        incarnation = data.draw(st.sampled_from(sorted(self.late_builds)))
        self.late_builds.remove(incarnation)
        if succeeded:
            self.held.add(incarnation)
            self.agents.append(incarnation)
        before = snapshot(self.machine)
        effects = self.machine.built(incarnation, succeeded=succeeded)
        if succeeded:
            let_go, *more = effects
            assert let_go == TearDown(incarnation, self.draining, Reason.DISCARD)
            # Then what could be committed before, and was not: somebody was offered in the middle of a
            # turn, or the drain found a commit stuck that had not begun, and was put off.
            assert not more or self.current is not None or self.draining
            assert [type(effect) for effect in more] in ([], [Commit], [CommitGaveUp])
        else:
            assert effects == []
            assert snapshot(self.machine) == {**before, "late_builds": sorted(self.late_builds)}
        self.perform(effects)

    def perform_at_place(self, effects: list[Effect]) -> None:
        """Perform the effects of an input after which another agent may be in its place."""
        for effect in effects:
            if isinstance(effect, (Build, Insert)):
                self.place = 0
            self.perform([effect])
        self.perform([])
        self.sync_place()

    @rule(signature=st.sampled_from([None, "a", "b"]))
    def adopt(self, signature: str | None) -> None:
        before = snapshot(self.machine)
        adopted = self.machine.adopt(signature)
        if adopted is None:
            assert self.current or self.builds or self.draining or self.machine.mode is Mode.FAILED
            assert snapshot(self.machine) == before
            return
        incarnation, effects = adopted
        self.held.add(incarnation)
        self.agents.append(incarnation)
        self.perform_at_place(effects)
        assert self.place == incarnation

    # Letting go.

    @rule(reason=st.sampled_from(RELEASES))
    def release(self, reason: Reason) -> None:
        may = self.place and not self.current and self.machine.leaving is None
        before = snapshot(self.machine)
        effects = self.machine.release(reason)
        assert (effects is not None) == bool(may)
        assert may or snapshot(self.machine) == before
        self.perform_at_place(effects or [])

    @rule()
    def evict(self) -> None:
        there = bool(self.current or self.builds or self.place)
        effects = self.machine.evict()
        assert (effects is not None) == there
        self.perform_at_place(effects or [])

    @rule()
    def spoil(self) -> None:
        self.perform_at_place(self.machine.spoil(Reason.LOOP_CLOSED))
        assert self.current or self.builds or not self.place

    @rule(interrupt=st.booleans())
    def close(self, interrupt: bool) -> None:
        later = bool(self.current or self.builds)
        effects = self.machine.close(Reason.EXPLICIT, interrupt=interrupt)
        if later:
            expected = [Interrupt(self.place)] if interrupt and self.current else []
            assert effects == expected
        self.perform_at_place(effects)

    @precondition(lambda self: self.tearing)
    @rule(data=st.data())
    def teardown_ends(self, data: st.DataObject) -> None:
        incarnation = data.draw(st.sampled_from(sorted(self.tearing)))
        self.tearing.remove(incarnation)
        self.perform(self.machine.torn_down(incarnation))
        before = snapshot(self.machine)
        assert self.machine.torn_down(incarnation) == []
        assert snapshot(self.machine) == before

    @precondition(lambda self: self.closing)
    @rule(data=st.data())
    def resources_are_closed(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(sorted(self.closing)))
        self.closing.remove(life)
        effects = self.machine.resources_closed(life)
        assert [effect.number for effect in effects if isinstance(effect, SessionOver)] == [life]
        self.perform(effects)

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def resources_are_closed_again(self, data: st.DataObject) -> None:
        """After its time was over, the work may come to its end all the same."""
        before = snapshot(self.machine)
        assert self.machine.resources_closed(data.draw(st.sampled_from(sorted(self.over)))) == []
        assert snapshot(self.machine) == before

    # Commits.

    @precondition(lambda self: self.committed < len(self.owners) and not self.stuck)
    @rule()
    def flush(self) -> None:
        self.committers.append(len(self.owners))
        self.perform(self.machine.flush())

    @rule(data=st.data())
    def complete_elsewhere(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from([None, None, *sorted(self.held), -1]))
        if who == -1:
            who = self.take_in()
        self.owners.append(who)
        assert self.machine.complete_elsewhere(who) == len(self.owners)

    def take_in(self) -> int:
        """As the session does: a number for an agent that was never in the room."""
        self.machine.incarnations += 1
        self.strangers.add(self.machine.incarnations)
        self.held.add(self.machine.incarnations)
        return self.machine.incarnations

    @precondition(lambda self: self.in_flight is None and self.committed < len(self.owners))
    @rule(known=st.booleans(), data=st.data())
    def offer(self, known: bool, data: st.DataObject) -> None:
        """G6"""
        who = data.draw(st.sampled_from(sorted(self.held))) if known and self.held else self.take_in()
        before = snapshot(self.machine)
        self.machine.offer(who)
        self.unsettled = True
        if self.owners[self.committed] is not None:
            assert snapshot(self.machine) == before
        for number in range(self.committed, len(self.owners)):
            if self.owners[number] is not None:
                break
            self.owners[number] = who

    @precondition(lambda self: self.in_flight is not None and not self.started)
    @rule()
    def commit_starts(self) -> None:
        """The last moment before the hook: has a turn begun meanwhile?"""
        assert self.in_flight is not None
        in_turn = self.current is not None and self.in_flight.owner == self.place
        may = not in_turn and not self.stuck
        effects = self.machine.start_commit()
        assert (effects is None) == may
        if effects is None:
            assert self.in_flight.owner in self.held, "its owner is torn down"
            self.started = True
        else:
            self.in_flight, self.stuck, self.sent_before = None, False, False
            pause, *more = effects if self.machine.retained else [None, *effects]
            assert pause is None or pause == Pause(self.machine.tries)
            assert [type(effect) for effect in more] in ([], [Commit], [CommitGaveUp])
            self.perform(effects)

    @precondition(lambda self: self.in_flight is not None)
    @rule(succeeded=st.booleans())
    def commit_ends(self, succeeded: bool) -> None:
        assert self.in_flight is not None
        commit, self.in_flight, self.stuck, self.started = self.in_flight, None, False, False
        sent_before, self.sent_before = self.sent_before, False
        if succeeded:
            self.committed = commit.generation
            if commit.owner in self.strangers and commit.owner not in self.owners[self.committed :]:
                self.strangers.remove(commit.owner)
                self.held.remove(commit.owner)
        else:
            self.pausing = False  # whatever was set before is set anew, if it is needed
        effects = self.machine.committed(succeeded=succeeded)
        self.perform_at_place(effects)
        if self.draining and not succeeded:
            again = commit.owner in [effect.owner for effect in effects if isinstance(effect, Commit)]
            assert sent_before or not again, "D1: once more, if it was sent before the drain"
            assert again or not self.departures_that_stay(), "D1: closed, committed or not"

    @precondition(lambda self: self.in_flight is None and not self.unsettled)
    @rule(succeeded=st.booleans())
    def a_commit_ends_that_is_not_in_flight(self, succeeded: bool) -> None:
        before = snapshot(self.machine)
        assert self.machine.committed(succeeded=succeeded) == self.machine.commit_stuck() == []
        assert self.machine.start_commit() == []
        assert snapshot(self.machine) == before

    def departures_that_stay(self) -> list[int]:
        departures = self.machine.departures
        return [d.incarnation for d in departures if d.phase is not Phase.TEARING]

    @precondition(lambda self: self.in_flight is not None and not self.stuck)
    @rule()
    def commit_gets_stuck(self) -> None:
        self.stuck = True
        self.perform_at_place(self.machine.commit_stuck())
        assert not self.committers
        before = snapshot(self.machine)
        assert self.machine.commit_stuck() == self.machine.retry() == []
        assert snapshot(self.machine) == before

    @precondition(lambda self: self.pausing)
    @rule()
    def retry(self) -> None:
        self.pausing = False
        self.perform(self.machine.retry())

    # The end.

    @precondition(lambda self: self.machine.mode is not Mode.FAILED and len(self.fates) > 2)
    @rule()
    def fail(self) -> None:
        self.perform(self.machine.fail())
        assert not self.line

    @precondition(lambda self: not self.draining and len(self.fates) > 3)
    @rule()
    def drain(self) -> None:
        self.draining = True
        self.sent_before = self.in_flight is not None
        self.perform_at_place(self.machine.drain())
        assert not self.line
        before = snapshot(self.machine)
        assert self.machine.drain() == []
        assert snapshot(self.machine) == before

    @precondition(lambda self: self.draining and not self.forced)
    @rule()
    def force(self) -> None:
        self.forced = True
        self.perform_at_place(self.machine.force())
        assert self.current is None

    @precondition(lambda self: self.forced and not self.abandoned)
    @rule()
    def abandon(self) -> None:
        self.abandoned = True
        self.stuck = self.in_flight is not None
        self.perform(self.machine.abandon())
        assert not self.committers
        assert not self.departures_that_stay()

    # What always holds.

    def expected_place(self) -> Place:
        if self.current is not None:
            return Place.IN_TURN
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
        assert machine.place is self.expected_place()
        assert machine.agent == self.place
        assert {machine.building} - {0} == self.builds
        assert set(machine.late_builds) == self.late_builds
        assert [*([machine.next_turn] if machine.next_turn else []), *(machine.waiting)] == self.line
        assert generations.generation == len(self.owners)
        assert generations.committed == self.committed <= generations.generation
        assert generations.dirty == len(self.owners) - self.committed
        segments: list[int | None] = []
        for segment in generations.segments:
            segments += [segment.owner] * (segment.last - self.committed - len(segments))
        assert segments == self.owners[self.committed :]
        assert (generations.in_flight is not None) == (self.in_flight is not None)
        assert machine.commit is self.commit_state()
        assert {ended.number for ended in machine.ended if ended.closing} == self.closing
        assert machine.session == self.lives

    @invariant()
    def the_rules_have_nothing_left_to_do(self) -> None:
        before = snapshot(self.machine)
        assert self.unsettled or settle(self.machine, []) == []
        assert self.unsettled or snapshot(self.machine) == before

    @invariant()
    def each_agent_is_in_one_place(self) -> None:
        departures = {d.incarnation: d.phase for d in self.machine.departures}
        assert self.place not in departures
        tearing = {number for number, phase in departures.items() if phase is Phase.TEARING}
        assert tearing == self.tearing
        staying = {self.place} - {0}
        assert self.held - self.strangers - staying == (set(departures) - tearing) - self.strangers
        assert len(self.torn) == len(set(self.torn))

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """Whoever waits for a commit waits for one that is under way, or for the end of a turn."""
        under_way = bool(self.in_flight and not self.stuck)
        comes = under_way or self.current is not None
        phases = {departure.phase for departure in self.machine.departures}
        assert not self.committers or comes
        assert self.machine.leaving is None or under_way
        if Phase.COMMITTING in phases:
            assert comes or (self.draining and self.in_flight)
        if Phase.RETAINED in phases:
            assert self.in_flight or self.pausing
        if self.line:
            assert self.current or self.builds

    @invariant()
    def what_can_be_seen_is_true(self) -> None:
        machine = self.machine
        phases = [departure.phase for departure in machine.departures]
        committing = self.in_flight is not None and not self.stuck
        working = bool(self.builds or committing or self.closing or self.tearing)
        assert machine.busy == (working or Phase.COMMITTING in phases)
        assert machine.retained == phases.count(Phase.RETAINED)
        if machine.forgettable:
            assert self.current is None
            assert not any([self.line, self.builds, self.place, self.tearing])
            assert self.draining or self.committed == len(self.owners)
            assert self.draining or not self.late_builds
            assert self.draining or machine.mode is not Mode.FAILED

    # Everything comes to its end.

    def teardown(self) -> None:
        if not self.draining:
            self.drain()
        if self.current is not None:
            self.end(completed=True, discard=False)
        for _ in range(100):
            self.the_books_agree()
            self.each_agent_is_in_one_place()
            self.nobody_waits_in_vain()
            if not self.something_ends():
                break
        assert self.machine.forgettable
        assert self.over == set(range(self.lives))
        assert sorted(self.torn) == sorted(self.agents), "S1, S2: each agent once"
        assert not self.line
        assert not self.committers

    def something_ends(self) -> bool:
        if self.builds:
            incarnation = self.builds.pop()
            self.held.add(incarnation)
            self.agents.append(incarnation)
            self.perform_at_place(self.machine.built(incarnation, succeeded=True))
        elif self.in_flight is not None:
            self.commit_ends(succeeded=self.committed % 3 != 1)
        elif self.tearing:
            self.perform(self.machine.torn_down(self.tearing.pop()))
        elif self.closing:
            self.perform(self.machine.resources_closed(self.closing.pop()))
        elif self.pausing:
            self.retry()
        else:
            return False
        return True


TestMachine = MachineBesideModel.TestCase
TestMachine.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
