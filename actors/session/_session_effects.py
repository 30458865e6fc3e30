"""The session actor, second layer: it performs what the machine has decided."""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors.ledger._bound_store import BoundStore
from greenroom.actors.ledger.coherence import Remembered
from greenroom.actors.runtime._errors import WorkTimedOut
from greenroom.actors.session._session_base import SessionBase, text_of
from greenroom.actors.session._session_state import Answer
from greenroom.actors.session.hooks import forget_transcript
from greenroom.actors.session.lifecycle import Generation
from greenroom.actors.session.machine import Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.resources import BuildContext, Resources, Settings
from greenroom.messages import (
    AgentBuilt,
    AgentRetained,
    AgentReused,
    BuildEnded,
    BuildHere,
    CommitEnded,
    HookFailure,
    IntendCommit,
    Reason,
    RecordCommit,
    RetryCommit,
    SessionChanged,
    SessionEnded,
    TeardownEnded,
    TurnGranted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.session._session_state import LedgerState, Waiter
    from greenroom.actors.session.machine.effects import Effect
    from greenroom.messages import BeginTurn

__all__ = ["SessionEffects"]

logger = logging.getLogger("greenroom.actors")

GRACE = 0.65
"""How many seconds after the deadline of a drain its last commits have. By then they were abandoned."""


class Tell:
    """An effect of the actor itself: tell the supervisor how the session is, and answer callers."""


class Stop:
    """An effect of the actor itself: nothing is left."""


TELL, STOP = Tell(), Stop()


class SessionEffects(SessionBase):
    """Answers callers, sends slow work on its way, sets timers, tells the supervisor."""

    def _perform(self, effects: Iterable[Effect], *, quietly: bool = False) -> None:
        """Do what was decided, tell the supervisor what has changed, and stop if nothing is left.
        (`quietly`: nothing has that it need know.) All of that survives a crash: see `Actor.do()`."""
        self.do(effects if quietly else (*effects, TELL))

    def perform(self, effect: Any) -> Iterable[Any] | None:
        """Do one thing."""
        return self._performers[effect.__class__](self, effect)

    def _tell_the_supervisor(self, _: Tell) -> Iterable[Any]:
        """Tell what has changed; then it is time for the answers."""
        state = self._state
        self._answer_committers()
        if state.ledger is not None:
            self._tidy_accounts(state.ledger)
        changed = self._publish()
        nothing_left = self._nothing_to_remember()
        answer, state.answer = state.answer, None
        answers, state.answers = state.answers or (), None
        if nothing_left:
            self._retire()  # which says all there is to say
            return (*answers, STOP)
        if changed and not (answer is not None and answer.accepted):
            self._tell(SessionChanged(key=self._key))
        if answer is not None:
            # Behind the card: at no moment does it look as if nothing were under way.
            self._tell(answer)
        if not state.card.cached and not state.card.busy and not state.stage.late_builds:
            # There may be very many like this: nothing is kept that can be made again.
            state.resources = state.resources or None
        return answers

    def _end_actor(self, _: Stop) -> None:
        self.stop_now()

    def _tidy_accounts(self, ledger: LedgerState) -> None:
        """Let go of session ids that are not in use. The layer that talks to the store does it."""

    def _grant(self, effect: effects_of.Grant) -> None:
        state = self._state
        stage = state.stage
        if stage.turn is not effect.turn or stage.place is not Place.IN_TURN:
            return  # the session has failed since that was decided, and refuses it
        waiter = self._forget_waiter(effect.turn)
        state.card.used = self.runtime.tick()
        state.session_id = effect.turn.session_id
        if effect.reused:
            self._note_hit(stage.agent)
        granted = TurnGranted(
            agent=state.tenants[stage.agent].agent,
            reused=effect.reused,
            rebuild_reason=effect.reason,
        )
        if waiter is not None:
            self._answer(waiter, granted, effect.turn)

    def _note_hit(self, incarnation: int) -> None:
        """A turn found its agent. A listener may want to hear of it."""
        self._state.card.hits += 1
        if self._board.hits:
            self._event(AgentReused(key=self._key, incarnation=incarnation))

    def _refuse(self, effect: effects_of.Refuse) -> None:
        self._refuse_with(effect.turn, self._error(effect.why, effect.turn))

    def _refuse_with(self, turn: BeginTurn, error: BaseException) -> None:
        waiter = (self._state.waiters or {}).get(turn)
        if waiter is not None and waiter.reply is None:
            waiter.refusal = waiter.refusal or error  # it hears when it has built
        elif waiter is not None:
            self._forget_waiter(turn)
            self._answer(waiter, error)

    def _turn_over(self, effect: effects_of.TurnOver) -> None:
        self._state.card.used = self.runtime.tick()
        self._state.card.idle_since = self.runtime.clock()

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
        if waiter is not None and turn.here:
            self._have_it_built(waiter, BuildHere(incarnation=effect.incarnation, context=context))
            return
        caller = copy_context() if waiter is None or waiter.context is None else waiter.context
        # The context variables of whoever wants the turn, and not of whoever ended the one before.
        caller.copy().run(self._errands().build, effect.incarnation, context, turn.loop)

    def _have_it_built(self, waiter: Waiter, here: BuildHere) -> None:
        """Its caller waits for the agent anyway, and builds it: no thread need be woken."""
        self._answer(waiter, here)
        waiter.reply, waiter.builds = None, here.incarnation
        self._have_it_given_up(waiter)

    def _have_it_given_up(self, waiter: Waiter) -> None:
        """Should its caller take too long to build."""
        timeout = self._board.policy.build_timeout
        if timeout is not None:
            late = _given_up(waiter.builds, timeout)
            waiter.timer = self.call_later(timeout, late)

    def _store_for_agents(self) -> Any:
        books, ledger = self._board.books, self._state.ledger
        if books is None or ledger is None:
            return None
        return BoundStore(books.store, self._key, ledger.fences) if books.ledger else books.store

    def _insert(self, effect: effects_of.Insert) -> None:
        tenant = self._state.tenants[effect.incarnation]
        self._state.card.used = self.runtime.tick()  # also if nobody wants it any more
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

    def _commit(self, effect: effects_of.Commit) -> Iterable[Effect]:
        state, board = self._state, self._board
        state.attempt += 1
        tenant = state.tenants[effect.owner]
        token = Generation(effect.generation, effect.session_id)
        hook = board.hooks.find_commit(tenant.agent, token)
        if hook is None and effect.session_id is None:
            return self._committed(CommitEnded(attempt=state.attempt, error=None, seconds=0.0))
        timeout = board.policy.commit_timeout
        if state.drain is not None:
            left = max(state.drain.deadline + GRACE - self.runtime.clock(), 0.01)
            timeout = left if timeout is None else min(timeout, left)
        self._errands().commit(
            state.attempt, hook or _nothing_to_call, timeout, tenant.loop, self._entry(effect)
        )
        return ()

    def _entry(self, effect: effects_of.Commit) -> tuple[IntendCommit, RecordCommit] | None:
        """What the ledger is told, before and after."""
        if effect.session_id is None:
            return None
        return (
            IntendCommit(session_id=effect.session_id, epoch=effect.epoch, generation=effect.generation),
            RecordCommit(session_id=effect.session_id, epoch=effect.epoch, generation=effect.generation),
        )

    if TYPE_CHECKING:

        def _committed(self, message: CommitEnded) -> list[Effect]:
            """What a commit has come to."""

        def _torn_down(self, message: TeardownEnded) -> list[Effect]:
            """What letting an agent go has come to."""

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

    def _tear_down(self, effect: effects_of.TearDown) -> Iterable[Effect]:
        state = self._state
        tenant = state.tenants[effect.incarnation]
        what = "closed" if effect.close else "released"
        logger.info("%s: its agent is %s: %s", self, what, effect.reason)
        hooks = self._board.hooks.farewell(tenant.agent, close=effect.close)
        more: Iterable[Effect] = ()
        if hooks:
            self._errands().tear_down(effect.incarnation, tenant, hooks, close=effect.close)
        else:
            forget_transcript(tenant.agent)
            ended = TeardownEnded(incarnation=effect.incarnation, errors=(), seconds=0.0)
            more = self._torn_down(ended)
        state.forget_tenant(effect.incarnation)
        return more

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

    _performers: ClassVar[dict[type, Callable[[Any, Any], Iterable[Any] | None]]] = {
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
        Answer: SessionBase._send_answer,
        Stop: _end_actor,
        Tell: _tell_the_supervisor,
    }


def _given_up(incarnation: int, timeout: float) -> BuildEnded:
    msg = f"build() was still running after {timeout} seconds. An agent that comes late is released"
    return BuildEnded(
        incarnation=incarnation,
        agent=None,
        error=WorkTimedOut(msg),
        weight=0,
        seconds=timeout,
        returned=False,
    )


def _nothing_to_call() -> None:
    """An agent without a commit hook has nothing to extract: its turns are committed as they are."""
