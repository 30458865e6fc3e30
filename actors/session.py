"""The session actor: the one authority on its session. A shell around `stage.py`, which decides.

A message goes to the stage, which returns effects; each effect is performed here: answer a caller, send
slow work on its way, tell the supervisor. After every message but the two of a warm turn the supervisor
is told the session's standing, if that has changed: the whole of it, so that a notice that is lost to
a crash, or comes twice, does no harm.

What if the actor crashes? Everything it knows is in one `SessionState`, which the supervisor hands to
the next incarnation of the actor, together with the message that was not handled. Effects that were
decided and not performed are in there too, and come first. Timers are set anew. The mailbox, deferred
replies, and slow work under way are untouched by a restart: they know the reference, which stays.
"""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors._calls import check_wait
from greenroom.actors._machine import CommitState, Mode, Place
from greenroom.actors._machine import effects as effects_of
from greenroom.actors._machine.effects import HIT, RESTED, Refusal
from greenroom.actors._session_recovery import SessionRecovery
from greenroom.actors._session_state import Waiter
from greenroom.actors.coherence import Remembered
from greenroom.actors.errors import SessionBusy
from greenroom.actors.holding import held_around
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
    ReportStanding,
    ResourcesClosed,
    RetryCommit,
    RetryRecord,
    SessionDisclaimed,
    SessionFailure,
    SessionRow,
    StartCommit,
    StoreAnswered,
    TeardownEnded,
    TurnEnded,
    TurnGranted,
    TurnRecorded,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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
        state.sent = None
        for turn, waiter in (state.waiters or {}).items():
            self._set_timer(waiter, ExpireTurn(turn=turn))
        for request, waiter in (state.committers or {}).items():
            self._set_timer(waiter, ExpireCommit(request=request))
        if state.ledger is not None:
            self._ask_the_store_again(state.ledger)
        if state.stage.retained:
            self._pause(effects_of.Pause(state.stage.tries))
        redo, struck = state.redo, state.struck
        self._perform(())
        if self._failed is not None:
            self._event(SessionFailure(key=self._key, error=self._failed))
            self._perform(state.stage.fail())
            self._answer_for_what_was_left_out()
        failed = self._failed is not None or state.stage.mode is Mode.FAILED
        if state.ledger is not None and failed:
            self._give_up_answers(state.ledger)
        if redo is not None:
            state.redo, state.struck = redo, struck  # it may be what the actor fails on
            self.on_receive(redo)

    def _answer_for_what_was_left_out(self) -> None:
        """Refuse every turn that still waits here: the stage knows nothing of it any more."""
        state = self._state
        stage = state.stage
        if stage.place is Place.ENTERING:
            self._perform(stage.enter_again())
        elif stage.building and stage.building not in state.tenants:
            self._perform(stage.built(stage.building, succeeded=False))
        for turn in list(state.waiters or ()):
            self._refuse(effects_of.Refuse(turn, Refusal.FAILED))
            self._perform(stage.withdraw(turn))

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    # The warm way: a turn on the agent that is there, and nothing else to do.

    def _begin_turn(self, turn: BeginTurn) -> TurnGranted | None:
        state, board = self._state, self._board
        stage = state.stage
        entered = state.ledger is not None and self._enters_at_once(turn)
        effects = stage.begin(turn, board.policy.max_waiting, entered=entered)
        if effects is HIT:
            state.used = next(board.uses)
            state.session_id = turn.session_id
            state.sent = None
            tenant = state.tenants[stage.agent]
            self._leave(tenant.reused)
            granted = tenant.granted
            if granted is None:
                tenant.granted = granted = TurnGranted(
                    agent=tenant.agent, reused=True, rebuild_reason=None
                )
            return granted
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
            state.idle_since = now = self._board.runtime.clock()
            state.sent = None
            self._leave(
                TurnEnded(
                    key=self._key,
                    dirty=generations.generation > generations.committed,
                    idle_since=now,
                    weight=state.tenants[incarnation].weight,
                )
            )
            return generations.generation
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
        effects = self._state.stage.withdraw(message.turn)
        self._forget_waiter(message.turn)
        self._perform(effects)

    def _expire_turn(self, message: ExpireTurn) -> None:
        self._perform(self._state.stage.expire(message.turn))

    def _release_agent(self, message: ReleaseAgent) -> None:
        self._perform(self._state.stage.release(message.reason))

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

    def _expire_session(self, _: ExpireSession) -> None:
        state, ttl = self._state, self._board.policy.session_ttl
        state.answer = False
        stage, since = state.stage, state.idle_since
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
            state.used = next(self._board.uses)
            state.idle_since = None
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
        resting = stage.turn is None and state.idle_since is not None
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
            idle_seconds=self.runtime.clock() - (state.idle_since or 0.0) if resting else None,
            weight=0 if tenant is None else tenant.weight,
            last_reason=stage.last_reason,
            last_error=state.last_error,
            holder=self._holder(),
            standing=self._standing(),
        )
        self._perform(())
        return row

    def _report_standing(self, _: ReportStanding) -> None:
        self._state.sent = None
        self._perform(())

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
        state.idle_since = self.runtime.clock()
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
        ReportStanding: _report_standing,
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
