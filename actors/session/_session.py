"""The session actor: the one authority on its session. A shell around `stage.py`, which decides.

A message goes to the stage, which returns effects; each effect is performed here: answer a caller, send
slow work on its way, tell the supervisor. After every message the session writes its card, whole, and
tells the supervisor to look at it if that has to know: a notice that is lost to a crash, or comes twice,
does no harm. A warm turn is no message: it takes one short step at either end.

What if the actor crashes? Everything it knows is in one `SessionState`, which the supervisor hands to
the next incarnation of the actor. That sets timers anew, and goes on with the effects that were decided
and not performed, or with the message that was not handled (`Actor.do()`). The mailbox, deferred
replies, and slow work under way are untouched by a restart: they know the reference, which stays.
"""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors.errors import SessionBusy
from greenroom.actors.ledger.coherence import Remembered
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.session._session_recovery import SessionRecovery
from greenroom.actors.session._session_state import Answer, Waiter
from greenroom.actors.session.holding import held_around
from greenroom.actors.session.machine import CommitState, Mode, Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import HIT, RESTED, Refusal
from greenroom.messages import (
    AbandonSession,
    AdoptAgent,
    BeginTurn,
    BuildEnded,
    CloseSession,
    CommitEnded,
    CommitOutcome,
    CommitSession,
    CommitStuck,
    CompleteElsewhere,
    DescribeSession,
    DrainSession,
    EndTurn,
    EnterAgain,
    EvictAgent,
    ExpireCommit,
    ExpireSession,
    ExpireTurn,
    ForceSession,
    GiveBackTurn,
    HandedOver,
    LeasePinned,
    LeaseTaken,
    LookAtLease,
    Reason,
    RecoverSession,
    ReleaseAgent,
    ReleaseAnswered,
    ResourcesClosed,
    RetryCommit,
    RetryRecord,
    SessionDisclaimed,
    SessionFailure,
    SessionRow,
    StartCommit,
    StoreAnswered,
    TeardownEnded,
    TurnGranted,
    TurnRecorded,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.session.machine.effects import Effect

__all__ = ["Session"]

logger = logging.getLogger("greenroom.actors")


class Session(SessionRecovery):
    """One chat session: its agent, its turns, its generations, its resources and settings."""

    # Restarts.

    def on_start(self) -> None:
        """After a restart: set the timers anew, and go on where the last incarnation stopped."""
        if not self._restarted:
            return
        state = self._state
        for turn, waiter in (state.waiters or {}).items():
            if waiter.reply is None:
                self._have_it_given_up(waiter)
            else:
                self._set_timer(waiter, ExpireTurn(turn=turn))
        for request, waiter in (state.committers or {}).items():
            self._set_timer(waiter, ExpireCommit(request=request))
        if state.ledger is not None:
            self._ask_the_store_again(state.ledger)
        if state.stage.retained:
            self._pause(effects_of.Pause(state.stage.tries))
        failed = state.failing is not None or state.stage.mode is Mode.FAILED
        if state.failing is not None:
            self._event(SessionFailure(key=self._key, error=state.failing))
            effects = self._fail(state.failing)
            state.failing = state.left_out = None
            self._perform(effects)
        if state.ledger is not None and failed:
            self._give_up_answers(state.ledger)

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Begin no turn until the session is ended: what is left out may be what others wait for."""
        state = self._state
        state.failing, state.left_out = exception, dropped
        answers, state.answers = state.answers or (), None
        for answer in (dropped, *answers):
            if isinstance(answer, Answer):
                answer.reply.set_exception(self._error(Refusal.FAILED))
                if answer.turn is not None:
                    self.actor_ref.tell(WithdrawTurn(turn=answer.turn))

    def _fail(self, error: BaseException) -> list[Effect]:
        """Take no turn any more. Refuse every turn that still waits here, and take what was left out,
        which may have been the end of something, for failed."""
        state, stage = self._state, self._state.stage
        effects = [*stage.fail()]
        if state.left_out is not None:
            effects += self._take_for_failed(state.left_out, error)
        if stage.place is Place.ENTERING:
            effects += stage.enter_again()
        elif stage.building and stage.building not in state.tenants:
            effects += stage.built(stage.building, succeeded=False)
        for turn in list(state.waiters or ()):
            self._refuse_with(turn, self._error(Refusal.FAILED, turn))
            effects += stage.withdraw(turn)
        return effects

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    # The warm steps: a turn on the agent that is there, and nothing else to do. No message, no notice;
    # the caller's thread runs them with the mailbox's baton in hand (`Mailbox.step`).

    def begin_now(self, asked: tuple[object, str | None, str]) -> Any:
        """Begin a turn, and return the agent. `None`: it takes more than that."""
        state, board = self._state, self._board
        stage = state.stage
        if not board.warm:
            return None
        number = board.runtime.tick()
        name, signature, session_id = asked
        if not stage.begin_now(name, signature):
            return None
        card = state.card
        agent = state.tenants[stage.agent].agent
        state.session_id = session_id
        card.used = number
        card.in_turn = True
        card.hits += 1
        return agent

    def end_now(self, given_back: tuple[object, bool]) -> int | None:
        """End a turn, and return the generation. `None`: it takes more than that."""
        state, runtime = self._state, self._board.runtime
        stage, card = state.stage, state.card
        if card.owes is not None or not self._board.warm:
            return None
        tick, clock = runtime.tick, runtime.clock
        now = clock()
        number = now if tick is clock else tick()
        name, completed = given_back
        generation = stage.end_now(name, completed)
        if generation is None:
            return None
        card.used = number
        card.idle_since = now
        card.dirty = generation > stage.generations.committed
        card.in_turn = False
        return generation

    # The same by message, and what takes more.

    def _begin_turn(self, turn: BeginTurn) -> TurnGranted | None:
        state, board = self._state, self._board
        stage = state.stage
        entered = state.ledger is not None and self._enters_at_once(turn)
        effects = stage.begin(turn, board.policy.max_waiting, entered=entered)
        if effects is HIT:
            state.card.used = self.runtime.tick()
            state.session_id = turn.session_id
            self._note_hit(stage.agent)
            self._publish()
            agent = state.tenants[stage.agent].agent
            return TurnGranted(agent=agent, reused=True, rebuild_reason=None)
        timeout = turn.timeout
        due = None if timeout is None else self.runtime.clock() + timeout
        if state.waiters is None:
            state.waiters = {}
        state.waiters[turn] = waiter = Waiter(self.defer_reply(), copy_context(), due)
        self._perform(effects)
        if turn in (state.waiters or ()):
            self._set_timer(waiter, ExpireTurn(turn=turn))
        return None

    def _end_turn(self, message: EndTurn) -> int | None:
        state = self._state
        stage = state.stage
        incarnation = stage.agent
        effects = stage.end(
            message.turn,
            completed=message.completed,
            discard=message.discard is not None,
            recorded=state.ledger is not None and self._ends_at_once(message.turn),
        )
        if effects is None:
            logger.warning(
                "%s: a turn was given back that was over before, and changes nothing: it was given back "
                "twice, or its session was closed by force",
                self,
            )
            return None
        if message.weight is not None and incarnation in state.tenants:
            state.tenants[incarnation].weight = message.weight
        generations = stage.generations
        if effects is RESTED:
            effects = [effects_of.TurnOver(message.turn)]
        if stage.place is Place.RECORDING and state.ledger is not None:
            # Whoever ran the turn goes on when it is in the store.
            state.ledger.ender = self.defer_reply()
            self._perform(effects, quietly=True)
            return None
        generation = generations.generation
        if message.discard is not None:
            logger.info("%s: its agent is discarded after the turn: %s", self, message.discard)
        self._perform(effects)
        return generation

    # All others.

    def _give_back_turn(self, message: GiveBackTurn) -> None:
        stage = self._state.stage
        if stage.turn is message.end.turn and stage.place is Place.IN_TURN:
            self._end_turn(message.end)

    def _withdraw_turn(self, message: WithdrawTurn) -> None:
        stage, turn = self._state.stage, message.turn
        waiter = self._forget_waiter(turn)
        if waiter is not None and waiter.reply is None and stage.next_turn is turn:
            self._state.forget_tenant(stage.building)
            self._perform(stage.not_built())
        else:
            self._perform(stage.withdraw(turn))

    def _expire_turn(self, message: ExpireTurn) -> None:
        self._perform(self._state.stage.expire(message.turn))

    def _release_agent(self, message: ReleaseAgent) -> None:
        state, card = self._state, self._state.card
        effects = None
        if message.cutoff is not None:
            wanted = card.idle_since is not None and card.idle_since < message.cutoff
        else:
            wanted = message.seen in (None, card.used)
        if wanted:
            effects = state.stage.release(message.reason)
        # One that was used since is not what the supervisor took it for: it looks again, at once.
        held = wanted and state.stage.in_use
        if held:
            card.owes = card.used
        state.answer = ReleaseAnswered(
            key=self._key, number=message.number, accepted=effects is not None, held=held
        )
        self._perform(effects or ())

    def _evict_agent(self, _: EvictAgent) -> bool:
        effects = self._state.stage.evict()
        self._perform(effects or ())
        return effects is not None

    def _close_session(self, message: CloseSession) -> bool:
        state = self._state
        if state.stage.unused and not state.settings and not state.resources:
            self._perform(())
            return False
        self._perform(state.stage.close(message.reason, interrupt=message.interrupt))
        return True

    def _expire_session(self, message: ExpireSession) -> None:
        state, ttl = self._state, self._board.policy.session_ttl
        state.answer = ReleaseAnswered(key=self._key, number=message.number, accepted=False)
        stage, since = state.stage, state.card.idle_since
        unused = ttl is not None and (since is None or self.runtime.clock() - since > ttl)
        if unused and stage.at_rest:
            self._close_session(CloseSession(interrupt=False, reason=Reason.SESSION_EXPIRED))
        else:
            self._perform(())  # it was used since the supervisor looked

    def _adopt_agent(self, message: AdoptAgent) -> None:
        state = self._state
        tenant = state.tenants.get(state.stage.agent)
        if tenant is not None and tenant.agent is message.agent and state.stage.turn is None:
            # It is here already: it only counts as built from something else.
            state.stage.signature = message.signature
            return
        adopted = state.stage.adopt(message.signature)
        if adopted is None:
            self._refuse_adoption()
        else:
            incarnation, effects = adopted
            tenant = self._tenant(incarnation, message.agent, message.session_id)
            tenant.weight, tenant.adopted, tenant.loop = message.weight or 0, True, message.loop
            if state.ledger is not None:
                tenant.remembered = Remembered(message.session_id)  # and nothing known of it yet
            state.session_id = message.session_id
            state.card.used = self.runtime.tick()
            state.card.idle_since = None
            self._perform(effects)

    def _refuse_adoption(self) -> None:
        if self._state.stage.draining:
            raise self._error(Refusal.CLOSED)
        if self._state.stage.mode is Mode.FAILED:
            raise self._error(Refusal.FAILED)
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
        stage = state.stage
        tenant = state.tenants.get(stage.agent)
        resting = stage.turn is None and state.card.idle_since is not None
        account = self._account_shown()
        row = SessionRow(
            key=self._key,
            session_id=state.session_id,
            state=stage.state,
            cached=bool(stage.agent) and stage.leaving is None,
            incarnation=stage.agent,
            generation=stage.generations.generation if account is None else account.generation,
            committed=stage.generations.committed if account is None else account.committed,
            waiting=self._waiting(),
            retained=stage.retained,
            idle_seconds=self.runtime.clock() - (state.card.idle_since or 0.0) if resting else None,
            weight=0 if tenant is None else tenant.weight,
            last_reason=stage.last_reason,
            last_error=state.last_error,
            holder=self._holder(),
            busy=stage.busy,
            used=state.card.used,
            empty=self._nothing_to_remember(),
        )
        self._perform(())
        return row

    # Commits.

    def _commit_session(self, message: CommitSession) -> CommitOutcome | None:
        state = self._state
        stage = state.stage
        generations = stage.generations
        left = generations.dirty
        if message.agent is not None and left and generations.in_flight is None:
            self._offer(message.agent)
        note = self._why_not_commit(message)
        if note is not None:
            self._perform(())
            return CommitOutcome(left=left, note=note)
        if state.committers is None:
            state.committers = {}
        due = None if message.timeout is None else self.runtime.clock() + message.timeout
        state.committers[message] = waiter = Waiter(
            self.defer_reply(),
            None,
            due,
            target=generations.generation,
            before=generations.extracted,
            disowned=generations.disowned,
        )
        self._perform(stage.flush())
        if message in (state.committers or ()):
            self._set_timer(waiter, ExpireCommit(request=message))
        return None

    def _why_not_commit(self, message: CommitSession) -> str | None:
        stage = self._state.stage
        generations = stage.generations
        if not generations.dirty:
            return "there is nothing to commit"
        if stage.commit is CommitState.STUCK:
            return "the commit in flight is stuck; the turns stay uncommitted until it comes back"
        if generations.in_flight is not None and not message.wait:
            return "a commit is in flight"
        if stage.turn is None:
            return None
        if any(stage.turn is held for held in message.held):
            self._perform(stage.flush())
            return "this very caller is in the turn: what is completed is committed when it ends"
        if not message.wait and generations.owes(stage.agent):
            return "the session is in a turn"
        return None

    def _offer(self, agent: Any) -> None:
        state = self._state
        known = next((i for i, t in state.tenants.items() if t.agent is agent), None)
        if known is None and state.stage.generations.next_owner is None:
            known = self._take_in(agent)
        if known is not None:
            state.stage.offer(known)

    def _take_in(self, agent: Any) -> int:
        """Give an agent a number that is not in the room: it is there for commits only."""
        state = self._state
        state.stage.incarnations += 1
        self._tenant(state.stage.incarnations, agent, state.session_id or self._key)
        return state.stage.incarnations

    def _complete_elsewhere(self, message: CompleteElsewhere) -> int:
        state = self._state
        known: int | None = None
        if message.agent is not None:
            known = next((i for i, t in state.tenants.items() if t.agent is message.agent), None)
            known = known or self._take_in(message.agent)
        state.card.idle_since = self.runtime.clock()
        generation = state.stage.complete_elsewhere(known)
        self._perform(())
        return generation

    def _expire_commit(self, message: ExpireCommit) -> None:
        waiter = (self._state.committers or {}).pop(message.request, None)
        if waiter is not None:
            self._answer_commit(waiter, "it took longer than the caller would wait, and goes on")
        self._perform(())

    # Drain.

    def _drain_session(self, message: DrainSession) -> None:
        state = self._state
        if state.drain is None:
            state.drain = message
            state.drained_from = state.stage.generations.extracted
            state.problem = None
            self._perform(state.stage.drain())

    def _force_session(self, _: ForceSession) -> None:
        self._give_up_recording("the room was drained before the store had answered")
        if self._state.stage.turn is not None:
            self._state.forced = True
            self._state.problem = "its turn was still running at the deadline"
            logger.warning("%s: its turn was still running at the deadline of the drain", self)
        self._perform(self._state.stage.force())

    def _abandon_session(self, _: AbandonSession) -> None:
        if self._state.stage.generations.in_flight is not None:
            self._state.forced = True
            self._state.problem = "its commit was still running at the deadline"
        self._perform(self._state.stage.abandon())

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
        dirty = self._state.stage.generations.dirty > 0
        self._perform(())
        return dirty

    def describe(self) -> SessionRow:
        """Say how the session is."""
        return self._describe_session(DescribeSession())

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        AbandonSession: _abandon_session,
        AdoptAgent: _adopt_agent,
        BeginTurn: _begin_turn,
        BuildEnded: SessionRecovery._build_ended,
        CloseSession: _close_session,
        CommitEnded: SessionRecovery._commit_ended,
        CommitSession: _commit_session,
        CommitStuck: SessionRecovery._commit_stuck,
        CompleteElsewhere: _complete_elsewhere,
        DescribeSession: _describe_session,
        DrainSession: _drain_session,
        EndTurn: _end_turn,
        EnterAgain: SessionRecovery._enter_again,
        EvictAgent: _evict_agent,
        ExpireCommit: _expire_commit,
        ExpireSession: _expire_session,
        ExpireTurn: _expire_turn,
        ForceSession: _force_session,
        GiveBackTurn: _give_back_turn,
        HandedOver: SessionRecovery._handed_over,
        LeasePinned: SessionRecovery._lease_pinned,
        LeaseTaken: SessionRecovery._lease_taken,
        LookAtLease: SessionRecovery._look_at_lease,
        RecoverSession: SessionRecovery._recover_session,
        ReleaseAgent: _release_agent,
        ResourcesClosed: SessionRecovery._resources_closed,
        RetryCommit: SessionRecovery._retry_commit,
        RetryRecord: SessionRecovery._retry_record,
        SessionDisclaimed: SessionRecovery._session_disclaimed,
        StartCommit: SessionRecovery._start_commit,
        StoreAnswered: SessionRecovery._store_answered,
        TeardownEnded: SessionRecovery._teardown_ended,
        TurnRecorded: SessionRecovery._turn_recorded,
        UseSettings: _use_settings,
        WithdrawTurn: _withdraw_turn,
    }
