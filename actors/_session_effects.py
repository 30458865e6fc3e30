"""The session actor, second layer: it performs what the machine has decided."""

from __future__ import annotations

import logging
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors._bound_store import BoundStore
from greenroom.actors._machine import effects as effects_of
from greenroom.actors._session_base import SessionBase, text_of
from greenroom.actors.coherence import Remembered
from greenroom.actors.hooks import forget_transcript
from greenroom.actors.lifecycle import Generation
from greenroom.actors.resources import BuildContext, Resources, Settings
from greenroom.messages import (
    AgentBuilt,
    AgentRetained,
    CommitEnded,
    HookFailure,
    IntendCommit,
    Reason,
    RecordCommit,
    ReleaseAnswered,
    ReportStanding,
    RetryCommit,
    SessionChanged,
    SessionEnded,
    TeardownEnded,
    TurnGranted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors._machine.effects import Effect
    from greenroom.actors._session_state import LedgerState

__all__ = ["SessionEffects"]

logger = logging.getLogger("greenroom.actors")

GRACE = 0.65
"""How many seconds after the deadline of a drain its last commits have. By then they were abandoned."""


class SessionEffects(SessionBase):
    """Answers callers, sends slow work on its way, sets timers, tells the supervisor."""

    def _perform(self, effects: Iterable[Effect], *, quietly: bool = False) -> None:
        """Do what was decided, tell the supervisor what has changed, and stop if nothing is left.
        (`quietly`: nothing has that it need know.)

        An effect is taken off the list after it was performed. If one raises, it and the rest are still
        to be done: by the next incarnation of the actor, or, if whoever asked is told of the exception
        and the actor lives on, with the next message, which is sent here.
        """
        state = self._state
        state.redo = None  # the message that led here is handled: what is left of it is in the list
        if state.todo is None:
            state.todo = deque()
        todo = state.todo
        todo.extend(effects)
        try:
            while todo:
                self.runtime.fault_point("effect")
                effect = todo[0]
                more = self._performers[effect.__class__](self, effect)
                todo.popleft()
                if more:
                    todo.extend(more)
        except BaseException:
            self.actor_ref.tell(ReportStanding())
            raise
        state.todo = state.struck = None
        if quietly:
            return
        self._answer_committers()
        if state.ledger is not None:
            self._tidy_accounts(state.ledger)
        standing = self._standing()
        if standing.blank:
            self._retire()  # which says all there is to say
            self._send_answers()
            self.stop_now()
            return
        if standing != state.sent:
            state.sent = standing
            self._tell(SessionChanged(key=self._key, standing=standing))
        if state.answer is not None:
            # Behind the standing: at no moment does it look as if nothing were under way.
            self._tell(ReleaseAnswered(key=self._key, accepted=state.answer))
            state.answer = None
        self._send_answers()
        if not standing.cached and not standing.busy and not state.stage.late_builds:
            # There may be very many like this: nothing is kept that can be made again.
            state.sent = None
            state.resources = state.resources or None

    def _tidy_accounts(self, ledger: LedgerState) -> None:
        """Let go of session ids that are not in use. The layer that talks to the store does it."""

    def _grant(self, effect: effects_of.Grant) -> None:
        state = self._state
        stage = state.stage
        waiter = self._forget_waiter(effect.turn)
        state.used = next(self._board.uses)
        state.session_id = effect.turn.session_id
        if effect.reused:
            self._tell(state.tenants[stage.agent].reused)
        granted = TurnGranted(
            agent=state.tenants[stage.agent].agent,
            reused=effect.reused,
            rebuild_reason=effect.reason,
        )
        if waiter is not None:
            self._answer(waiter, granted, effect.turn)

    def _refuse(self, effect: effects_of.Refuse) -> None:
        waiter = self._forget_waiter(effect.turn)
        if waiter is not None:
            self._answer(waiter, self._error(effect.why, effect.turn))

    def _turn_over(self, effect: effects_of.TurnOver) -> None:
        self._state.idle_since = self.runtime.clock()

    def _build(self, effect: effects_of.Build) -> None:
        state, turn = self._state, effect.turn
        if state.resources is None:
            state.resources = Resources(self._key)
        context = BuildContext(
            key=self._key,
            session_id=turn.session_id,
            spec=turn.spec,
            settings=Settings(self._key, self._ask_settings),
            store=self._store_for_agents(),
            resources=state.resources,
        )
        tenant = self._tenant(effect.incarnation, None, turn.session_id)
        tenant.loop = turn.loop
        if state.ledger is not None:
            tenant.remembered = Remembered(turn.session_id)
            tenant.remembered.remember(turn.session_id, state.ledger.sight)
        waiter = (state.waiters or {}).get(turn)
        caller = copy_context() if waiter is None or waiter.context is None else waiter.context
        # The context variables of whoever wants the turn, and not of whoever ended the one before.
        caller.copy().run(self._errands().build, effect.incarnation, context, turn.loop)

    def _store_for_agents(self) -> Any:
        books, ledger = self._board.books, self._state.ledger
        if books is None or ledger is None:
            return None
        return BoundStore(books.store, self._key, ledger.fences) if books.ledger else books.store

    def _insert(self, effect: effects_of.Insert) -> None:
        tenant = self._state.tenants[effect.incarnation]
        self._event(
            AgentBuilt(
                key=self._key,
                incarnation=effect.incarnation,
                session_id=tenant.session_id,
                reason=effect.reason,
                adopted=tenant.adopted,
                seconds=tenant.seconds,
            )
        )

    def _commit(self, effect: effects_of.Commit) -> None:
        state, board = self._state, self._board
        state.attempt += 1
        tenant = state.tenants[effect.owner]
        token = Generation(effect.generation, effect.session_id)
        hook = board.hooks.find_commit(tenant.agent, token)
        if hook is None and effect.session_id is None:
            self.actor_ref.tell(CommitEnded(attempt=state.attempt, error=None, seconds=0.0))
            return
        timeout = board.policy.commit_timeout
        if state.drain is not None:
            left = max(state.drain.deadline + GRACE - self.runtime.clock(), 0.01)
            timeout = left if timeout is None else min(timeout, left)
        self._errands().commit(
            state.attempt, hook or _nothing_to_call, timeout, tenant.loop, self._entry(effect)
        )

    def _entry(self, effect: effects_of.Commit) -> tuple[IntendCommit, RecordCommit] | None:
        """What the ledger is told, before and after."""
        if effect.session_id is None:
            return None
        return (
            IntendCommit(session_id=effect.session_id, epoch=effect.epoch, generation=effect.generation),
            RecordCommit(session_id=effect.session_id, epoch=effect.epoch, generation=effect.generation),
        )

    def _commit_gave_up(self, _: effects_of.CommitGaveUp) -> None:
        committers, self._state.committers = self._state.committers, None
        for waiter in (committers or {}).values():
            self._answer_commit(waiter, self._state.last_error or "nobody could be asked to commit")

    def _retain(self, effect: effects_of.Retain) -> None:
        self._event(AgentRetained(key=self._key, incarnation=effect.incarnation, reason=effect.reason))

    def _pause(self, effect: effects_of.Pause) -> None:
        state = self._state
        if state.retry_timer is not None:
            state.retry_timer.cancel()
        pause = self._board.policy.pause_after(effect.tries)
        spread = self.runtime.random.uniform(0.75, 1.25)
        state.retry_timer = self.call_later(pause * spread, RetryCommit())

    def _tear_down(self, effect: effects_of.TearDown) -> None:
        state = self._state
        tenant = state.tenants[effect.incarnation]
        what = "closed" if effect.close else "released"
        logger.info("%s: its agent is %s: %s", self, what, effect.reason)
        hooks = self._board.hooks.farewell(tenant.agent, close=effect.close)
        if hooks:
            self._errands().tear_down(effect.incarnation, tenant, hooks, close=effect.close)
        else:
            forget_transcript(tenant.agent)
            self.actor_ref.tell(TeardownEnded(incarnation=effect.incarnation, errors=(), seconds=0.0))
        state.forget_tenant(effect.incarnation)

    def _interrupt(self, effect: effects_of.Interrupt) -> None:
        tenant = self._state.tenants.get(effect.incarnation)
        hook = None if tenant is None else self._board.hooks.find(tenant.agent, "interrupt")
        if tenant is None or hook is None:
            return
        key, incarnation, tell = self._key, effect.incarnation, self._tell

        def failed(error: BaseException) -> None:
            logger.warning("session %r: interrupt() raised: %s", key, text_of(error))
            tell(
                HookFailure(
                    key=key,
                    incarnation=incarnation,
                    hook="interrupt",
                    reason=Reason.EXPLICIT,
                    error=error,
                )
            )

        self._errands().interrupt(hook, tenant.loop, failed)

    def _end_session(self, effect: effects_of.EndSession) -> None:
        state = self._state
        if state.ended is None:
            state.ended = {}
        state.ended[effect.number] = state.resources
        state.resources = state.settings = None

    def _close_resources(self, effect: effects_of.CloseResources) -> Iterable[Effect]:
        state = self._state
        resources = (state.ended or {}).pop(effect.number, None)
        state.ended = state.ended or None
        closers = [] if resources is None else resources.take_all()
        if not closers:
            return state.stage.resources_closed(effect.number)
        self._errands().close_resources(effect.number, closers)
        return ()

    def _session_over(self, effect: effects_of.SessionOver) -> None:
        self._event(SessionEnded(key=self._key, reason=effect.reason))

    def _answer_release(self, effect: effects_of.AnswerRelease) -> None:
        self._state.answer = effect.accepted

    _performers: ClassVar[dict[type, Callable[[Any, Any], Iterable[Effect] | None]]] = {
        effects_of.AnswerRelease: _answer_release,
        effects_of.Build: _build,
        effects_of.CloseResources: _close_resources,
        effects_of.Commit: _commit,
        effects_of.CommitGaveUp: _commit_gave_up,
        effects_of.EndSession: _end_session,
        effects_of.Grant: _grant,
        effects_of.Insert: _insert,
        effects_of.Interrupt: _interrupt,
        effects_of.SessionOver: _session_over,
        effects_of.Pause: _pause,
        effects_of.Refuse: _refuse,
        effects_of.Retain: _retain,
        effects_of.TearDown: _tear_down,
        effects_of.TurnOver: _turn_over,
    }


def _nothing_to_call() -> None:
    """An agent without a commit hook has nothing to extract: its turns are committed as they are."""
