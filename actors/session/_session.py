"""The session actor: the one authority on its session. A shell around `machine`, which decides.

A message goes to the machine, which returns effects; each effect is performed: answer a caller, send
slow work on its way, tell the supervisor. Which handler a message has, and who performs an effect, is in
the tables at the end. After every message the session writes its card, whole, and tells the supervisor
to look at it if that has to know: a notice that is lost to a crash, or comes twice, does no harm. A warm
turn is no message: it takes one short step at either end.

Its parts are given what they need, and return effects; they never call the session:

    callers     who waits for a turn or a commit, and what they are told
    agents      builds and teardowns
    commits     what is committed, and what became of it
    ledger      what exists only with a store; else `None`

What if the actor crashes? Everything it knows is in one `SessionState`, which the supervisor hands to
the next incarnation of the actor. That sets timers anew, and goes on with the effects that were decided
and not performed, or with the message that was not handled (`Actor.do()`). The mailbox, deferred
replies, and slow work under way are untouched by a restart: they know the reference, which stays.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from greenroom.actors.errors import SessionBusy
from greenroom.actors.ledger._ledger import Ledger
from greenroom.actors.runtime._actor import Actor
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.session._agents import Agents
from greenroom.actors.session._callers import Callers
from greenroom.actors.session._commits import IN_OWN_TURN, Commits
from greenroom.actors.session._session_state import Answer, SessionState
from greenroom.actors.session.holding import held_around
from greenroom.actors.session.machine import Mode, Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import HIT, RESTED, Refusal
from greenroom.messages import (
    AbandonSession,
    AdoptAgent,
    AgentReused,
    Answered,
    BeginTurn,
    BuildEnded,
    CallLedger,
    CloseSession,
    CommitEnded,
    CommitOutcome,
    CommitSession,
    CommitStuck,
    CompleteElsewhere,
    DescribeSession,
    DrainSession,
    EndTurn,
    EnterStore,
    EvictAgent,
    ExpireCommit,
    ExpireSession,
    ExpireTurn,
    ForceSession,
    GiveBackTurn,
    Reason,
    RecordTurn,
    RecoverSession,
    ReleaseAgent,
    ReleaseAnswered,
    ResourcesClosed,
    RetryCommit,
    SessionChanged,
    SessionDrained,
    SessionFailure,
    SessionRow,
    SessionStopped,
    StartCommit,
    TeardownEnded,
    TurnGranted,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.machine.effects import Effect

__all__ = ["Session"]

logger = logging.getLogger("greenroom.actors")


class Tell:
    """An effect of the actor itself: tell the supervisor how the session is, and answer callers."""


class Stop:
    """An effect of the actor itself: nothing is left."""


TELL, STOP = Tell(), Stop()


P = TypeVar("P")


def heard_by(
    part: Callable[[Session], P], method: Callable[[P, Any], Iterable[Any]]
) -> Callable[[Session, Any], None]:
    """Have a message handled by a part of the session."""

    def handle(session: Session, message: Any) -> None:
        session._perform(method(part(session), message))

    return handle


def done_by(
    part: Callable[[Session], P], method: Callable[[P, Any], Iterable[Any] | None]
) -> Callable[[Session, Any], Iterable[Any] | None]:
    """Have an effect performed by a part of the session."""

    def perform(session: Session, effect: Any) -> Iterable[Any] | None:
        return method(part(session), effect)

    return perform


class Session(Actor):
    """One chat session: its agent, its turns, its generations, its resources and settings."""

    def __init__(
        self,
        context: RoomContext,
        key: str,
        card: Card,
        state: SessionState | None = None,
    ) -> None:
        """Begin a session, or go on with the state that another incarnation of the actor left."""
        super().__init__()
        self._context = context
        self._key = key
        self._restarted = state is not None
        if state is None:
            state = SessionState(key, card, None if context.books is None else context.books.owner)
        self._state = state

    def __str__(self) -> str:
        return f"session {self._key!r}"

    # Its parts, made when they are needed: there may be a million sessions.

    def _callers(self) -> Callers:
        return Callers(self, self._context, self._state)

    def _agents(self) -> Agents:
        return Agents(self, self._context, self._state, self._ledger())

    def _commits(self) -> Commits:
        return Commits(self, self._context, self._state, self._ledger())

    def _ledger(self) -> Ledger | None:
        return None if self._state.ledger is None else self._ledger_there_is()

    def _ledger_there_is(self) -> Ledger:
        known, books = self._state.ledger, self._context.books
        assert known is not None
        assert books is not None
        return Ledger(self, self._context, self._state, known, books)

    # Restarts.

    def hand_over(self) -> SessionState:
        """Everything."""
        return self._state

    def on_start(self) -> None:
        """After a restart: set the timers anew, and go on where the last incarnation stopped."""
        if not self._restarted:
            return
        state, ledger = self._state, self._ledger()
        self._callers().set_timers_again()
        if ledger is not None:
            ledger.go_on()
        if state.machine.retained:
            self._commits().pause(effects_of.Pause(state.machine.tries))
        failed = state.failing is not None or state.machine.mode is Mode.FAILED
        if state.failing is not None:
            self._context.tell_supervisor(SessionFailure(key=self._key, error=state.failing))
            effects = self._fail(state.failing)
            state.failing = state.left_out = None
            self._perform(effects)
        if ledger is not None and failed:
            self._perform(ledger.give_up_answers())

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Begin no turn until the session is ended: what is left out may be what others wait for."""
        state = self._state
        state.failing, state.left_out = exception, dropped
        answers, state.answers = state.answers or (), None
        for answer in (dropped, *answers):
            if isinstance(answer, Answer):
                answer.reply.set_exception(self._callers().error(Refusal.FAILED))
                if answer.turn is not None:
                    self.actor_ref.tell(WithdrawTurn(turn=answer.turn))

    def _fail(self, error: BaseException) -> list[Effect]:
        """Take no turn any more. Refuse every turn that still waits here, and take what was left out,
        which may have been the end of something, for failed."""
        state, machine, callers = self._state, self._state.machine, self._callers()
        effects = [*machine.fail()]
        if state.left_out is not None:
            effects += self._take_for_failed(state.left_out, error)
        if machine.place is Place.ENTERING:
            effects += machine.enter_again()
        elif machine.building and machine.building not in state.agents:
            effects += machine.built(machine.building, succeeded=False)
        for turn in list(state.waiters or ()):
            callers.refuse(turn, callers.error(Refusal.FAILED, turn))
            effects += machine.withdraw(turn)
        return effects

    def _take_for_failed(self, left_out: Any, error: BaseException) -> list[Effect]:
        """A message or an effect was left out, because the actor failed on it again and again. Nobody
        else will tell how that slow work has ended, or that a turn has: it counts as failed."""
        state, machine = self._state, self._state.machine
        match left_out:
            case effects_of.Build() | BuildEnded():
                return self._agents().build_lost(left_out, error)
            case effects_of.Commit():
                return self._commits().outcome_lost(state.attempt, error)
            case CommitEnded():
                return self._commits().outcome_lost(left_out.attempt, error)
            case effects_of.CommitGaveUp():
                self._callers().give_up_commits()
            case effects_of.TearDown():
                return self._agents().teardown_lost(left_out, error)
            case TeardownEnded():
                return self._agents().torn_down(left_out)
            case effects_of.CloseResources() | ResourcesClosed():
                return machine.resources_closed(left_out.number)
            case ReleaseAgent() | ExpireSession():
                state.answer = ReleaseAnswered(key=self._key, number=left_out.number, accepted=False)
            case WithdrawTurn():
                return machine.withdraw(left_out.turn)
            case GiveBackTurn():
                return machine.withdraw(left_out.end.turn)
            case _:
                pass
        return []

    # Messages and effects.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    def _answered(self, message: Answered) -> None:
        self._answers[message.request.__class__](self, message)

    def _perform(self, effects: Iterable[Any], *, quietly: bool = False) -> None:
        """Do what was decided, tell the supervisor what has changed, and stop if nothing is left.
        (`quietly`: nothing has that it need know.) All of that survives a crash: see `Actor.do()`."""
        self.do(effects if quietly else (*effects, TELL))

    def perform(self, effect: Any) -> Iterable[Any] | None:
        """Do one thing."""
        return self._performers[effect.__class__](self, effect)

    def _tell_the_supervisor(self, _: Tell) -> Iterable[Any]:
        """Tell what has changed; then it is time for the answers."""
        state, ledger = self._state, self._ledger()
        if state.committers:
            self._callers().answer_committed()
        requests = () if ledger is None else ledger.tidy()
        changed = self._publish()
        nothing_left = self._nothing_to_remember()
        answer, state.answer = state.answer, None
        answers, state.answers = state.answers or (), None
        if nothing_left:
            self._retire()  # which says all there is to say
            return (*requests, *answers, STOP)
        if changed and not (answer is not None and answer.accepted):
            self._context.tell_supervisor(SessionChanged(key=self._key))
        if answer is not None and answer.held and state.card.owes is None:
            # We failed before we could say that we are held, and the turn was over when we went on: what
            # we owe is told just above. Held from now on, we would owe nothing, and stay held.
            answer = dataclasses.replace(answer, held=False)
        if answer is not None:
            # Behind the card: at no moment does it look as if nothing were under way.
            self._context.tell_supervisor(answer)
        if not state.card.cached and not state.card.busy and not state.machine.late_builds:
            # There may be very many like this: nothing is kept that can be made again.
            state.resources = state.resources or None
        return (*requests, *answers)

    def _waiting(self) -> int:
        machine = self._state.machine
        return len(machine.waiting) + (machine.next_turn is not None)

    def _publish(self) -> bool:
        """Write the card, and tell whether the supervisor should look at it."""
        state = self._state
        machine, card = state.machine, state.card
        was_cached, was_busy, was_in_turn = card.cached, card.busy, card.in_turn
        held = state.agents.get(machine.agent)
        card.cached = bool(machine.agent) and machine.leaving is None
        card.in_turn = machine.in_use
        card.dirty = machine.generations.dirty > 0
        card.waiting = self._waiting()
        card.retained = machine.retained
        card.busy = machine.busy
        card.weight = 0 if held is None else held.weight
        card.failed = machine.mode is Mode.FAILED
        card.unrecorded = state.ledger is not None and state.ledger.accounts.unrecorded
        turn_over = was_in_turn and not card.in_turn
        owed = card.owes is not None and not (card.in_turn and card.used == card.owes)
        if owed:
            card.owes = None
        return (
            owed
            or card.cached is not was_cached
            or (turn_over and self._context.weighing)
            or (was_busy and not card.busy and self._context.settling)
        )

    def _nothing_to_remember(self) -> bool:
        state = self._state
        machine, ledger = state.machine, state.ledger
        if not machine.forgettable:
            return False
        if machine.draining:
            return True
        return not (ledger is not None and ledger.under_way) and not (state.settings or state.resources)

    def _retire(self) -> None:
        """Tell the supervisor that nothing is left."""
        state = self._state
        if state.drain is not None:
            left = state.machine.generations.dirty
            self._context.tell_supervisor(
                SessionDrained(
                    key=self._key,
                    committed=state.machine.generations.extracted > state.drained_from and not left,
                    left=left,
                    abandoned=state.forced,
                    problem=state.problem,
                )
            )
        self._context.tell_supervisor(SessionStopped(key=self._key, ref=self.actor_ref))

    def _end_actor(self, _: Stop) -> None:
        self.stop_now()

    def _send_answer(self, effect: Answer) -> None:
        if isinstance(effect.answer, BaseException):
            effect.reply.set_exception(effect.answer)
        elif not effect.reply.set(effect.answer) and effect.turn is not None:
            # Whoever wanted the turn is gone, and so is the way to say so.
            self.actor_ref.tell(WithdrawTurn(turn=effect.turn))

    # The warm steps: a turn on the agent that is there, and nothing else to do. No message, no notice;
    # the caller's thread runs them with the mailbox's baton in hand (`Mailbox.step`).

    def begin_now(self, asked: tuple[object, str | None, str]) -> Any:
        """Begin a turn, and return the agent. `None`: it takes more than that."""
        state, context = self._state, self._context
        machine = state.machine
        if not context.warm:
            return None
        number = context.runtime.tick()
        name, signature, session_id = asked
        if not machine.begin_now(name, signature):
            return None
        card = state.card
        agent = state.agents[machine.agent].agent
        state.session_id = session_id
        card.used = number
        card.in_turn = True
        card.hits += 1
        return agent

    def end_now(self, given_back: tuple[object, bool]) -> int | None:
        """End a turn, and return the generation. `None`: it takes more than that."""
        state, runtime = self._state, self._context.runtime
        machine, card = state.machine, state.card
        if card.owes is not None or not self._context.warm:
            return None
        tick, clock = runtime.tick, runtime.clock
        now = clock()
        number = now if tick is clock else tick()
        name, completed = given_back
        generation = machine.end_now(name, completed)
        if generation is None:
            return None
        card.used = number
        card.idle_since = now
        card.dirty = generation > machine.generations.committed
        card.in_turn = False
        return generation

    # The same by message, and what takes more.

    def _begin_turn(self, turn: BeginTurn) -> TurnGranted | None:
        state, context = self._state, self._context
        machine = state.machine
        ledger = self._ledger()
        entered = ledger is not None and ledger.enters_at_once(turn)
        effects = machine.begin(turn, context.policy.max_waiting, entered=entered)
        if effects is HIT:
            state.card.used = self.runtime.tick()
            state.session_id = turn.session_id
            self._note_hit()
            self._publish()
            agent = state.agents[machine.agent].agent
            return TurnGranted(agent=agent, reused=True, rebuild_reason=None)
        callers = self._callers()
        callers.wait_for_turn(turn)
        self._perform(effects)
        callers.limit_turn(turn)
        return None

    def _note_hit(self) -> None:
        """A turn found its agent. A listener may want to hear of it."""
        self._state.card.hits += 1
        if self._context.hits:
            agent = self._state.machine.agent
            self._context.tell_supervisor(AgentReused(key=self._key, incarnation=agent))

    def _grant(self, effect: effects_of.Grant) -> None:
        state = self._state
        machine = state.machine
        if machine.turn is not effect.turn or machine.place is not Place.IN_TURN:
            return  # the session has failed since that was decided, and refuses it
        state.card.used = self.runtime.tick()
        state.session_id = effect.turn.session_id
        if effect.reused:
            self._note_hit()
        granted = TurnGranted(
            agent=state.agents[machine.agent].agent,
            reused=effect.reused,
            rebuild_reason=effect.reason,
        )
        self._callers().grant(effect.turn, granted)

    def _refuse(self, effect: effects_of.Refuse) -> None:
        callers = self._callers()
        callers.refuse(effect.turn, callers.error(effect.why, effect.turn))

    def _end_turn(self, message: EndTurn) -> int | None:
        state = self._state
        machine, ledger = state.machine, self._ledger()
        incarnation = machine.agent
        effects = machine.end(
            message.turn,
            completed=message.completed,
            discard=message.discard is not None,
            recorded=ledger is not None and ledger.ends_at_once(message.turn),
        )
        if effects is None:
            logger.warning(
                "%s: a turn was given back that was over before, and changes nothing: it was given back "
                "twice, or its session was closed by force",
                self,
            )
            return None
        if message.weight is not None and incarnation in state.agents:
            state.agents[incarnation].weight = message.weight
        if effects is RESTED:
            effects = [effects_of.TurnOver(message.turn)]
        if machine.place is Place.RECORDING and state.ledger is not None:
            # Whoever ran the turn goes on when it is in the store.
            state.ledger.ender = self.defer_reply()
            self._perform(effects, quietly=True)
            return None
        generation = machine.generations.generation
        if message.discard is not None:
            logger.info("%s: its agent is discarded after the turn: %s", self, message.discard)
        self._perform(effects)
        return generation

    def _turn_over(self, effect: effects_of.TurnOver) -> None:
        self._state.card.used = self.runtime.tick()
        self._state.card.idle_since = self.runtime.clock()

    def _give_back_turn(self, message: GiveBackTurn) -> None:
        machine = self._state.machine
        if machine.turn is message.end.turn and machine.place is Place.IN_TURN:
            self._end_turn(message.end)

    def _withdraw_turn(self, message: WithdrawTurn) -> None:
        machine, turn = self._state.machine, message.turn
        waiter = self._callers().forget(turn)
        if waiter is not None and waiter.reply is None and machine.next_turn is turn:
            self._state.forget_agent(machine.building)
            self._perform(machine.not_built())
        else:
            self._perform(machine.withdraw(turn))

    def _expire_turn(self, message: ExpireTurn) -> None:
        self._perform(self._state.machine.expire(message.turn))

    # All others.

    def _release_agent(self, message: ReleaseAgent) -> None:
        state, card = self._state, self._state.card
        effects = None
        if message.cutoff is not None:
            wanted = card.idle_since is not None and card.idle_since < message.cutoff
        else:
            wanted = message.seen in (None, card.used)
        if wanted:
            effects = state.machine.release(message.reason)
        # One that was used since is not what the supervisor took it for: it looks again, at once.
        held = wanted and state.machine.in_use
        if held:
            card.owes = card.used
        state.answer = ReleaseAnswered(
            key=self._key, number=message.number, accepted=effects is not None, held=held
        )
        self._perform(effects or ())

    def _evict_agent(self, _: EvictAgent) -> bool:
        effects = self._state.machine.evict()
        self._perform(effects or ())
        return effects is not None

    def _close_session(self, message: CloseSession) -> bool:
        state = self._state
        if state.machine.unused and not state.settings and not state.resources:
            self._perform(())
            return False
        self._perform(state.machine.close(message.reason, interrupt=message.interrupt))
        return True

    def _expire_session(self, message: ExpireSession) -> None:
        state, ttl = self._state, self._context.policy.session_ttl
        state.answer = ReleaseAnswered(key=self._key, number=message.number, accepted=False)
        machine, since = state.machine, state.card.idle_since
        unused = ttl is not None and (since is None or self.runtime.clock() - since > ttl)
        if unused and machine.at_rest:
            self._close_session(CloseSession(interrupt=False, reason=Reason.SESSION_EXPIRED))
        else:
            self._perform(())  # it was used since the supervisor looked

    def _adopt_agent(self, message: AdoptAgent) -> None:
        effects = self._agents().adopt(message)
        if effects is not None:
            self._perform(effects)
            return
        if self._state.machine.draining:
            raise self._callers().error(Refusal.CLOSED)
        if self._state.machine.mode is Mode.FAILED:
            raise self._callers().error(Refusal.FAILED)
        msg = (
            f"{self} is in a turn, or its agent is being built: no other agent can be adopted now. "
            "Do it when the turn is over"
        )
        raise SessionBusy(msg, self._key)

    def _use_settings(self, message: UseSettings) -> Any:
        state = self._state
        settings = {} if state.settings is None else state.settings
        try:
            return getattr(settings, message.method)(*message.args)
        finally:
            state.settings = settings or None
            self._perform(())

    def _describe_session(self, _: DescribeSession) -> SessionRow:
        state = self._state
        machine = state.machine
        held, ledger = state.agents.get(machine.agent), self._ledger()
        resting = machine.turn is None and state.card.idle_since is not None
        account = None if ledger is None else ledger.shown()
        row = SessionRow(
            key=self._key,
            session_id=state.session_id,
            state=machine.state,
            cached=bool(machine.agent) and machine.leaving is None,
            incarnation=machine.agent,
            generation=machine.generations.generation if account is None else account.generation,
            committed=machine.generations.committed if account is None else account.committed,
            waiting=self._waiting(),
            retained=machine.retained,
            idle_seconds=self.runtime.clock() - (state.card.idle_since or 0.0) if resting else None,
            weight=0 if held is None else held.weight,
            last_reason=machine.last_reason,
            last_error=state.last_error,
            holder=None if ledger is None else ledger.holder(),
            busy=machine.busy,
            used=state.card.used,
            empty=self._nothing_to_remember(),
        )
        self._perform(())
        return row

    def look_at_ledger(self) -> None:
        """The time has come for something that the session does only with a store."""
        self._perform(self._ledger_there_is().look())

    # Commits.

    def _commit_session(self, message: CommitSession) -> CommitOutcome | None:
        machine, commits, callers = self._state.machine, self._commits(), self._callers()
        left = machine.generations.dirty
        if message.agent is not None:
            commits.offer(message.agent)
        note = commits.why_not(message)
        if note is not None:
            self._perform(machine.flush() if note is IN_OWN_TURN else ())
            return CommitOutcome(left=left, note=note)
        callers.wait_for_commit(message)
        self._perform(machine.flush())
        callers.limit_commit(message)
        return None

    def _start_commit(self, message: StartCommit) -> bool:
        may, effects = self._commits().start(message)
        if effects:
            self._perform(effects)
        return may

    def _complete_elsewhere(self, message: CompleteElsewhere) -> int:
        generation = self._commits().complete_elsewhere(message.agent)
        self._perform(())
        return generation

    def _expire_commit(self, message: ExpireCommit) -> None:
        self._callers().expire_commit(message.request)
        self._perform(())

    # Drain.

    def _drain_session(self, message: DrainSession) -> None:
        state = self._state
        if state.drain is None:
            state.drain = message
            state.drained_from = state.machine.generations.extracted
            state.problem = None
            self._perform(state.machine.drain())

    def _force_session(self, _: ForceSession) -> None:
        state, ledger = self._state, self._ledger()
        why = "the room was drained before the store had answered"
        if ledger is not None:
            self._perform(ledger.give_up_recording(why))
        if state.machine.turn is not None:
            state.forced = True
            state.problem = "its turn was still running at the deadline"
            logger.warning("%s: its turn was still running at the deadline of the drain", self)
        self._perform(state.machine.force())

    def _abandon_session(self, _: AbandonSession) -> None:
        if self._state.machine.generations.in_flight is not None:
            self._state.forced = True
            self._state.problem = "its commit was still running at the deadline"
        self._perform(self._state.machine.abandon())

    # What gateways call through a proxy, when they want the actor itself.

    def commit(self, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit every dirty segment. See `Greenroom.commit`."""
        check_wait("timeout", timeout)
        return self._commit_session(CommitSession(wait=wait, timeout=timeout, held=held_around()))  # type: ignore[return-value]  # deferred

    def evict(self) -> bool:
        """Release the agent. See `Greenroom.evict`."""
        return self._evict_agent(EvictAgent())

    def end(self, *, interrupt: bool = False) -> bool:
        """End the session. See `Greenroom.end`."""
        return self._close_session(CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT))

    def complete(self, agent: Any = None) -> int:
        """Count a turn that was run elsewhere, by `agent`. Returns the new generation."""
        return self._complete_elsewhere(CompleteElsewhere(agent=agent))

    def has_uncommitted(self) -> bool:
        """Tell whether completed turns are uncommitted."""
        dirty = self._state.machine.generations.dirty > 0
        self._perform(())
        return dirty

    def describe(self) -> SessionRow:
        """Say how the session is."""
        return self._describe_session(DescribeSession())

    # Who handles what.

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        AbandonSession: _abandon_session,
        AdoptAgent: _adopt_agent,
        Answered: _answered,
        BeginTurn: _begin_turn,
        BuildEnded: heard_by(_agents, Agents.build_ended),
        CloseSession: _close_session,
        CommitEnded: heard_by(_commits, Commits.ended),
        CommitSession: _commit_session,
        CommitStuck: heard_by(_commits, Commits.stuck),
        CompleteElsewhere: _complete_elsewhere,
        DescribeSession: _describe_session,
        DrainSession: _drain_session,
        EndTurn: _end_turn,
        EvictAgent: _evict_agent,
        ExpireCommit: _expire_commit,
        ExpireSession: _expire_session,
        ExpireTurn: _expire_turn,
        ForceSession: _force_session,
        GiveBackTurn: _give_back_turn,
        RecoverSession: heard_by(_ledger_there_is, Ledger.recover),
        ReleaseAgent: _release_agent,
        ResourcesClosed: heard_by(_agents, Agents.resources_closed),
        RetryCommit: heard_by(_commits, Commits.retry),
        StartCommit: _start_commit,
        TeardownEnded: heard_by(_agents, Agents.torn_down),
        UseSettings: _use_settings,
        WithdrawTurn: _withdraw_turn,
    }

    _answers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        CallLedger: heard_by(_ledger_there_is, Ledger.called),
        EnterStore: heard_by(_ledger_there_is, Ledger.entered),
        RecordTurn: heard_by(_ledger_there_is, Ledger.recorded),
    }

    # Who performs what.

    _performers: ClassVar[dict[type, Callable[[Any, Any], Iterable[Any] | None]]] = {
        effects_of.Build: done_by(_agents, Agents.build),
        effects_of.CloseResources: done_by(_agents, Agents.close_resources),
        effects_of.Commit: done_by(_commits, Commits.commit),
        effects_of.CommitGaveUp: done_by(_commits, Commits.gave_up),
        effects_of.EndSession: done_by(_agents, Agents.end_session),
        effects_of.Enter: done_by(_ledger_there_is, Ledger.enter),
        effects_of.EnterLater: done_by(_ledger_there_is, Ledger.enter_later),
        effects_of.Grant: _grant,
        effects_of.Insert: done_by(_agents, Agents.insert),
        effects_of.Interrupt: done_by(_agents, Agents.interrupt),
        effects_of.Pause: done_by(_commits, Commits.pause),
        effects_of.Record: done_by(_ledger_there_is, Ledger.record),
        effects_of.Refuse: _refuse,
        effects_of.Retain: done_by(_commits, Commits.retain),
        effects_of.SessionOver: done_by(_agents, Agents.session_over),
        effects_of.TearDown: done_by(_agents, Agents.tear_down),
        effects_of.TurnOver: _turn_over,
        Answer: _send_answer,
        Stop: _end_actor,
        Tell: _tell_the_supervisor,
        **dict.fromkeys(_answers, done_by(_ledger_there_is, Ledger.ask)),  # what is asked of the store
    }
