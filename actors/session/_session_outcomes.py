"""The session actor, third layer: what becomes of its slow work.

Everything here may come late: after its time, after the agent was let go, after the session was ended.
The incarnation or the attempt that it names then belongs to nobody any more.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import BuildFailed, LostOwnership
from greenroom.actors.session._session_base import text_of
from greenroom.actors.session._session_effects import SessionEffects
from greenroom.actors.session.machine import CommitState
from greenroom.actors.session.machine import effects as effects_of
from greenroom.messages import (
    AgentClosed,
    AgentReleased,
    BeginTurn,
    BuildEnded,
    BuildFailure,
    CommitEnded,
    CommitFailure,
    CommitStuck,
    CommitSucceeded,
    ExpireSession,
    GiveBackTurn,
    HookFailure,
    Reason,
    ReleaseAgent,
    ReleaseAnswered,
    ResourcesClosed,
    RetryCommit,
    StartCommit,
    TeardownEnded,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from greenroom.actors.session._session_state import Account
    from greenroom.actors.session.lifecycle import Segment
    from greenroom.actors.session.machine.effects import Effect

__all__ = ["SessionOutcomes"]

logger = logging.getLogger("greenroom.actors")

GRACE = 0.5
"""How many seconds after the deadline of a drain its last commits have."""


class SessionOutcomes(SessionEffects):
    """Hears how builds, commits, releases and closes ended."""

    def _build_ended(self, message: BuildEnded) -> None:
        state = self._state
        stage = state.stage
        self._hear_the_builder(message)
        known = state.tenants.get(message.incarnation)
        if known is not None and message.agent is not None and known.agent is message.agent:
            self._perform(())  # it was handed in twice
            return
        if message.error is None and self._is_ours(message.incarnation):
            # It was built twice: the second one is a late agent, with a number of its own.
            stage.incarnations += 1
            message = dataclasses.replace(message, incarnation=stage.incarnations)
        wanted = message.incarnation == stage.building
        rescuer = message.incarnation in dict(stage.recoveries)
        turn = stage.next_turn
        effects: list[Effect] = []
        if message.error is None:
            tenant = state.tenants.get(message.incarnation) or self._tenant(
                message.incarnation, message.agent, state.session_id or self._key
            )
            tenant.agent, tenant.weight, tenant.seconds = message.agent, message.weight, message.seconds
        elif wanted or rescuer:
            state.forget_tenant(message.incarnation)
            state.last_error = f"build: {text_of(message.error)}"
            logger.warning("%s: its agent could not be built: %s", self, text_of(message.error))
            self._event(
                BuildFailure(
                    key=self._key,
                    incarnation=message.incarnation,
                    error=message.error,
                    seconds=message.seconds,
                )
            )
            if rescuer:
                effects = self._rescuer_gone(message.incarnation, state.last_error)
            elif turn is not None:
                self._refuse_build(turn, message.error)
        if not wanted and not rescuer and message.returned:
            what = "and is let go" if message.error is None else "with an error"
            logger.warning("%s: a build that was given up came back late, %s", self, what)
        if wanted and turn is None:
            state.card.idle_since = self.runtime.clock()
        succeeded = message.error is None
        effects += stage.built(message.incarnation, succeeded=succeeded, returned=message.returned)
        self._perform(effects)

    def _hear_the_builder(self, message: BuildEnded) -> None:
        """From here on the agent is this actor's business, whatever happens: who brought it may go,
        unless it is the caller of the turn, which waits for that now."""
        waiter = None
        if message.turn is not None:
            waiter = (self._state.waiters or {}).get(message.turn)
        if waiter is None or waiter.reply is not None or message.turn is None:
            self.defer_reply().set(None)
            return
        waiter.reply = self.defer_reply()
        if waiter.refusal is not None:
            self._forget_waiter(message.turn)
            self._answer(waiter, waiter.refusal)

    def _rescuer_gone(self, incarnation: int, problem: str | None) -> list[Effect]:
        """An agent that was built to recover a session id has done so, or could not."""
        return []

    def _refuse_build(self, turn: BeginTurn, error: BaseException) -> None:
        msg = (
            f"{self}: its agent could not be built: {text_of(error)}. Nothing was cached; the next turn "
            "tries again"
        )
        failure = BuildFailed(msg, self._key)
        failure.__cause__ = error
        self._refuse_with(turn, failure)

    def _start_commit(self, message: StartCommit) -> bool:
        state = self._state
        if message.attempt != state.attempt or state.stage.generations.in_flight is None:
            return False
        put_off = state.stage.start_commit()
        if put_off is None:
            return True
        self._perform(put_off)
        return False

    def _commit_ended(self, message: CommitEnded) -> None:
        self._perform(self._committed(message))

    def _committed(self, message: CommitEnded) -> list[Effect]:
        state = self._state
        stage = state.stage
        segment = stage.generations.in_flight
        if segment is None or message.attempt != state.attempt:
            return []
        if isinstance(message.error, LostOwnership):
            return self._commit_lost(segment, message.error)
        owner = segment.owner or 0
        before = stage.generations.committed
        stuck = stage.commit is CommitState.STUCK  # which was its failure
        if message.error is not None and not stuck:
            self._note_commit_failure(owner, message.error, message.seconds)
        effects = stage.committed(succeeded=message.error is None)
        if message.error is None:
            generations = stage.generations
            self._note_committed(segment)
            if state.last_error is not None and state.last_error.startswith("commit"):
                state.last_error = None
            self._event(
                CommitSucceeded(
                    key=self._key,
                    incarnation=owner,
                    turns=generations.committed - before,
                    generation=generations.committed,
                    seconds=message.seconds,
                )
            )
            if not self._is_ours(owner) and not generations.owes(owner):
                state.forget_tenant(owner)
        return effects

    def _note_committed(self, segment: Segment) -> None:
        account = None
        if self._state.ledger is not None and segment.session_id is not None:
            account = self._state.ledger.accounts.get(segment.session_id)
        if account is not None:
            account.committed = max(account.committed, segment.token)

    def _commit_lost(self, segment: Segment, error: LostOwnership) -> list[Effect]:
        """It is not this room's business any more: whoever waits for it is told."""
        state = self._state
        state.last_error = text_of(error)
        self._commit_gave_up(effects_of.CommitGaveUp())
        before = state.stage.generations.dirty
        effects = state.stage.commit_lost()
        account = None if state.ledger is None else state.ledger.accounts.get(segment.session_id or "")
        if account is not None and account.epoch == segment.epoch:
            self._close_account(account)
            self._disclaim(account.session_id)
            self._say_lost(account, before - state.stage.generations.dirty)
        return effects

    def _close_account(self, account: Account) -> None:
        """Another room has it now."""

    def _disclaim(self, session_id: str) -> None:
        """Make sure that the store does not think this room had a session id."""

    def _say_lost(self, account: Account, turns: int) -> None:
        """Tell that another room has a session id now."""

    def _commit_stuck(self, message: CommitStuck) -> None:
        state = self._state
        segment, stuck = state.stage.generations.in_flight, state.stage.commit is CommitState.STUCK
        if segment is not None and message.attempt == state.attempt and not stuck:
            self._note_commit_failure(segment.owner or 0, message.error, 0.0)
            if state.drain is not None and self.runtime.clock() >= state.drain.deadline:
                state.forced = True  # whichever comes first, this or that it is abandoned
            self._perform(state.stage.commit_stuck())

    def _note_commit_failure(self, owner: int, error: BaseException, seconds: float) -> None:
        state = self._state
        state.last_error = state.problem = f"commit: {text_of(error)}"
        logger.warning(
            "%s: %s uncommitted turns could not be committed (%s). They are kept, with their agent",
            self,
            state.stage.generations.dirty,
            text_of(error),
        )
        self._event(
            CommitFailure(
                key=self._key,
                incarnation=owner,
                error=error,
                tries=state.stage.tries + 1,
                seconds=seconds,
            )
        )

    def _is_ours(self, incarnation: int) -> bool:
        """Whether it is in its place or leaving. If not, it was only there for a commit."""
        stage = self._state.stage
        return incarnation == stage.agent or stage.departure(incarnation) is not None

    def _teardown_ended(self, message: TeardownEnded) -> None:
        self._perform(self._torn_down(message))

    def _torn_down(self, message: TeardownEnded) -> list[Effect]:
        stage = self._state.stage
        departure = stage.departure(message.incarnation)
        if departure is None:
            return []  # its time was over before
        for hook, error in message.errors:
            self._hook_failed(message.incarnation, hook, departure.reason, error)
        event = AgentClosed if departure.close else AgentReleased
        self._event(
            event(
                key=self._key,
                incarnation=message.incarnation,
                reason=departure.reason,
                seconds=message.seconds,
            )
        )
        effects = stage.torn_down(message.incarnation)
        if departure.reason is Reason.RECOVERY:
            problem = self._state.last_error or "it could not be committed"
            effects += self._rescuer_gone(message.incarnation, problem if departure.in_vain else None)
        return effects

    def _resources_closed(self, message: ResourcesClosed) -> None:
        stage = self._state.stage
        reasons = {ended.number: ended.reason for ended in stage.ended}
        reason = reasons.get(message.number, Reason.EXPLICIT)
        for name, error in message.errors:
            self._hook_failed(0, f"resource {name}", reason, error)
        self._perform(stage.resources_closed(message.number))

    def _hook_failed(self, incarnation: int, hook: str, reason: Reason, error: BaseException) -> None:
        text = text_of(error)
        self._state.last_error = f"{hook}: {text}"
        if self._state.drain is not None:
            self._state.problem = f"{hook}: {text}"
        logger.warning("%s: %s() raised when it was let go (%s): %s", self, hook, reason, text)
        self._event(
            HookFailure(key=self._key, incarnation=incarnation, hook=hook, reason=reason, error=error)
        )

    def _take_for_failed(self, left_out: Any, error: BaseException) -> list[Effect]:
        """A message or an effect was left out, because the actor failed on it again and again. Nobody
        else will tell how that slow work has ended, or that a turn has: it counts as failed."""
        state, stage = self._state, self._state.stage
        match left_out:
            case effects_of.Build() | BuildEnded():
                return self._build_lost(left_out, error)
            case effects_of.Commit():
                return self._outcome_lost(state.attempt, error)
            case CommitEnded():
                return self._outcome_lost(left_out.attempt, error)
            case effects_of.CommitGaveUp():
                self._commit_gave_up(left_out)
            case effects_of.TearDown():
                incarnation, hook = left_out.incarnation, "close" if left_out.close else "release"
                state.forget_tenant(incarnation)
                failed = TeardownEnded(incarnation=incarnation, errors=((hook, error),), seconds=0.0)
                return self._torn_down(failed)
            case TeardownEnded():
                return self._torn_down(left_out)
            case effects_of.CloseResources() | ResourcesClosed():
                return stage.resources_closed(left_out.number)
            case ReleaseAgent() | ExpireSession():
                state.answer = ReleaseAnswered(key=self._key, number=left_out.number, accepted=False)
            case WithdrawTurn():
                return stage.withdraw(left_out.turn)
            case GiveBackTurn():
                return stage.withdraw(left_out.end.turn)
            case _:
                pass
        return []

    def _build_lost(self, left_out: effects_of.Build | BuildEnded, error: BaseException) -> list[Effect]:
        state, stage, incarnation = self._state, self._state.stage, left_out.incarnation
        effects: list[Effect] = []
        if incarnation in dict(stage.recoveries):
            effects = self._rescuer_gone(incarnation, text_of(error))
        effects += stage.built(incarnation, succeeded=False)
        tenant = state.tenants.get(incarnation)
        if tenant is not None and isinstance(left_out, BuildEnded) and left_out.error is None:
            tenant.agent = left_out.agent
            effects += stage.built(incarnation, succeeded=True)  # as one that comes late, it is let go
        else:
            state.forget_tenant(incarnation)
        return effects

    def _outcome_lost(self, attempt: int, error: BaseException) -> list[Effect]:
        segment = self._state.stage.generations.in_flight
        if segment is None or attempt != self._state.attempt:
            return []
        self._note_commit_failure(segment.owner or 0, error, 0.0)
        return self._state.stage.committed(succeeded=False)

    def _retry_commit(self, _: RetryCommit) -> None:
        self._state.retry_timer = None
        self._perform(self._state.stage.retry())
