"""The commits of a session: asked for, sent on their way one at a time, ended, stuck, tried again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import LostOwnership, text_of
from greenroom.actors.session._callers import Callers
from greenroom.actors.session.lifecycle import Generation
from greenroom.actors.session.machine import CommitState
from greenroom.actors.session.slow_work import SlowWork
from greenroom.messages import (
    AgentRetained,
    CallLedger,
    CommitEnded,
    CommitFailure,
    CommitStuck,
    CommitSucceeded,
    RetryCommit,
)

if TYPE_CHECKING:
    from greenroom.actors.ledger._ledger import Ledger
    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.lifecycle import Segment
    from greenroom.actors.session.machine import effects as effects_of
    from greenroom.actors.session.machine.effects import Effect
    from greenroom.messages import CommitSession, StartCommit

__all__ = ["Commits"]

logger = logging.getLogger("greenroom.actors")

GRACE = 0.65
"""How many seconds after the deadline of a drain its last commits have. By then they were abandoned."""

IN_OWN_TURN = "this very caller is in the turn: what is completed is committed when it ends"


class Commits:
    """Has agents commit, and hears what became of it. Made anew whenever it is needed."""

    __slots__ = ("_actor", "_context", "_ledger", "_state")

    def __init__(
        self, actor: Actor, context: RoomContext, state: SessionState, ledger: Ledger | None
    ) -> None:
        self._actor = actor
        self._context = context
        self._state = state
        self._ledger = ledger

    # Asked for.

    def why_not(self, message: CommitSession) -> str | None:
        """Why a commit that is asked for cannot be waited for. `None`: it can."""
        machine = self._state.machine
        generations = machine.generations
        if not generations.dirty:
            return "there is nothing to commit"
        if machine.commit is CommitState.STUCK:
            return "the commit in flight is stuck; the turns stay uncommitted until it comes back"
        if generations.in_flight is not None and not message.wait:
            return "a commit is in flight"
        if machine.turn is None:
            return None
        if any(machine.turn is held for held in message.held):
            return IN_OWN_TURN
        if not message.wait and generations.owes(machine.agent):
            return "the session is in a turn"
        return None

    def offer(self, agent: Any) -> None:
        """Here is an agent for turns that none of ours completed."""
        machine = self._state.machine
        if not machine.generations.dirty or machine.generations.in_flight is not None:
            return
        known = self._number_of(agent)
        if known is None and machine.generations.next_owner is None:
            known = self._take_in(agent)
        if known is not None:
            machine.offer(known)

    def complete_elsewhere(self, agent: Any) -> int:
        """A turn was completed outside of the room."""
        state = self._state
        known = None if agent is None else self._number_of(agent) or self._take_in(agent)
        state.card.idle_since = self._actor.runtime.clock()
        return state.machine.complete_elsewhere(known)

    def _number_of(self, agent: Any) -> int | None:
        return next((i for i, held in self._state.agents.items() if held.agent is agent), None)

    def _take_in(self, agent: Any) -> int:
        """Give an agent a number that is not in the room: it is there for commits only."""
        state = self._state
        state.machine.incarnations += 1
        state.hold(state.machine.incarnations, agent, state.session_id or state.key)
        return state.machine.incarnations

    # On their way.

    def commit(self, effect: effects_of.Commit) -> list[Effect]:
        """Have the owner of the oldest turns commit them."""
        state, context = self._state, self._context
        state.attempt += 1
        held = state.agents[effect.owner]
        token = Generation(effect.generation, effect.session_id)
        hook = context.hooks.find_commit(held.agent, token)
        if hook is None and effect.session_id is None:
            return self.ended(CommitEnded(attempt=state.attempt, error=None, seconds=0.0))
        timeout = context.policy.commit_timeout
        if state.drain is not None:
            left = max(state.drain.deadline + GRACE - self._actor.runtime.clock(), 0.01)
            timeout = left if timeout is None else min(timeout, left)
        SlowWork(context, state.key, self._actor.actor_ref).commit(
            state.attempt, hook or _nothing_to_call, timeout, held.loop, _entry(effect)
        )
        return []

    def start(self, message: StartCommit) -> tuple[bool, list[Effect]]:
        """The commit in flight is about to call its hook. Whether it may, and what follows if not."""
        state = self._state
        if message.attempt != state.attempt or state.machine.generations.in_flight is None:
            return False, []
        put_off = state.machine.start_commit()
        return put_off is None, put_off or []

    def ended(self, message: CommitEnded) -> list[Effect]:
        """A commit is over, in time or late."""
        state = self._state
        machine = state.machine
        segment = machine.generations.in_flight
        if segment is None or message.attempt != state.attempt:
            return []
        if isinstance(message.error, LostOwnership):
            return self._lost(segment, message.error)
        if message.error is None:
            return self._succeeded(segment, message.seconds)
        if machine.commit is not CommitState.STUCK:  # that it is stuck was its failure
            self._note_failure(segment, message.error, message.seconds)
        return machine.committed(succeeded=False)

    def _succeeded(self, segment: Segment, seconds: float) -> list[Effect]:
        state, owner = self._state, segment.owner or 0
        generations = state.machine.generations
        before = generations.committed
        effects = state.machine.committed(succeeded=True)
        if self._ledger is not None:
            self._ledger.committed(segment)
        if state.last_error is not None and state.last_error.startswith("commit"):
            state.last_error = None
        self._context.tell_supervisor(
            CommitSucceeded(
                key=state.key,
                incarnation=owner,
                turns=generations.committed - before,
                generation=generations.committed,
                seconds=seconds,
            )
        )
        if not state.machine.is_ours(owner) and not generations.owes(owner):
            state.forget_agent(owner)
        return effects

    def _lost(self, segment: Segment, error: LostOwnership) -> list[Effect]:
        """It is not this room's business any more: whoever waits for it is told."""
        state = self._state
        state.last_error = text_of(error)
        self.gave_up()
        before = state.machine.generations.dirty
        effects = state.machine.commit_lost()
        if self._ledger is not None:
            self._ledger.commit_lost(segment, before - state.machine.generations.dirty)
        return effects

    def stuck(self, message: CommitStuck) -> list[Effect]:
        """A commit is still running after its time."""
        state = self._state
        segment, stuck = state.machine.generations.in_flight, state.machine.commit is CommitState.STUCK
        if segment is None or message.attempt != state.attempt or stuck:
            return []
        self._note_failure(segment, message.error, 0.0)
        if state.drain is not None and self._actor.runtime.clock() >= state.drain.deadline:
            state.forced = True  # whichever comes first, this or that it is abandoned
        return state.machine.commit_stuck()

    def outcome_lost(self, attempt: int, error: BaseException) -> list[Effect]:
        """Nobody will tell how this commit has ended: it has failed."""
        segment = self._state.machine.generations.in_flight
        if segment is None or attempt != self._state.attempt:
            return []
        self._note_failure(segment, error, 0.0)
        return self._state.machine.committed(succeeded=False)

    def gave_up(self, _: effects_of.CommitGaveUp | None = None) -> None:
        """Those who wait for a commit are told that it failed."""
        Callers(self._actor, self._context, self._state).give_up_commits()

    def _note_failure(self, segment: Segment, error: BaseException, seconds: float) -> None:
        state = self._state
        state.last_error = state.problem = f"commit: {text_of(error)}"
        logger.warning(
            "%s: %s uncommitted turns could not be committed (%s). They are kept, with their agent",
            self._actor,
            state.machine.generations.dirty,
            text_of(error),
        )
        self._context.tell_supervisor(
            CommitFailure(
                key=state.key,
                incarnation=segment.owner or 0,
                error=error,
                tries=state.machine.tries + 1,
                seconds=seconds,
            )
        )

    # Later.

    def retain(self, effect: effects_of.Retain) -> None:
        """An agent on its way out is kept for a commit that failed."""
        self._context.tell_supervisor(
            AgentRetained(key=self._state.key, incarnation=effect.incarnation, reason=effect.reason)
        )

    def pause(self, effect: effects_of.Pause) -> None:
        """Try again after a pause."""
        state, runtime = self._state, self._actor.runtime
        if state.retry_timer is not None:
            state.retry_timer.cancel()
        pause = self._context.policy.pause_after(effect.tries) * runtime.random.uniform(0.75, 1.25)
        state.retry_timer = self._actor.call_later(pause, RetryCommit())

    def retry(self, _: RetryCommit) -> list[Effect]:
        """The pause is over."""
        self._state.retry_timer = None
        return self._state.machine.retry()


def _entry(effect: effects_of.Commit) -> tuple[CallLedger[bool], CallLedger[bool]] | None:
    """What the ledger is told, before and after."""
    if effect.session_id is None:
        return None
    values = {"epoch": effect.epoch, "generation": effect.generation}
    return (
        CallLedger(verb="intend", session_id=effect.session_id, values=values),
        CallLedger(verb="commit", session_id=effect.session_id, values=values),
    )


def _nothing_to_call() -> None:
    """An agent without a commit hook has nothing to extract: its turns are committed as they are."""
