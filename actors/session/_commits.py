"""The commits of a session: asked for, sent on their way one at a time, ended, stuck, tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import LostOwnership, text_of
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.session import _callers as callers
from greenroom.actors.session._agents import slow_work
from greenroom.actors.session.generations import Generation
from greenroom.actors.session.machine import CommitState
from greenroom.messages import (
    AgentRetained,
    Call,
    CallLedger,
    CommitEnded,
    CommitFailure,
    CommitSucceeded,
)

if TYPE_CHECKING:
    from greenroom.actors.session._session import Session
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.generations import Segment
    from greenroom.actors.session.machine import effects as effects_of
    from greenroom.messages import CommitSession

logger = get_log("greenroom.actors")

GRACE = 0.65
"""How many seconds after the deadline of a drain its last commits have. By then they were abandoned."""

IN_OWN_TURN = "this very caller is in the turn: what is completed is committed when it ends"

Effects = list[Any]

# Asked for.


def why_not(state: SessionState, message: CommitSession) -> str | None:
    """Why a commit that is asked for cannot be waited for. `None`: it can."""
    machine, generations = state.machine, state.machine.generations
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


def offer(state: SessionState, agent: Any) -> None:
    """Here is an agent for turns that none of ours completed."""
    generations = state.machine.generations
    if not generations.dirty or generations.in_flight is not None:
        return
    known = _number_of(state, agent)
    if known is None and generations.next_owner is None:
        known = take_in(state, agent)
    if known is not None:
        state.machine.offer(known)


def take_in(state: SessionState, agent: Any) -> int:
    """The number of an agent. One that is not in the room gets one: it is there for commits only."""
    known = _number_of(state, agent)
    if known is None:
        state.machine.incarnations += 1
        known = state.machine.incarnations
        state.hold(known, agent, state.current_id)
    return known


def _number_of(state: SessionState, agent: Any) -> int | None:
    return next((held.incarnation for held in state.agents if held.agent is agent), None)


# On their way.


def commit(session: Session, effect: effects_of.Commit) -> Effects:
    """Have the owner of the oldest turns commit them."""
    state, context = session._state, session._context
    state.attempt += 1
    held = state.held(effect.owner)
    assert held is not None
    token = Generation(effect.generation, effect.session_id)
    hook = context.hooks.find_commit(held.agent, token)
    if hook is None and effect.session_id is None:
        return ended(session, CommitEnded(attempt=state.attempt))
    timeout = context.policy.commit_timeout
    if state.deadline is not None:
        left = max(state.deadline + GRACE - session.runtime.clock(), 0.01)
        timeout = left if timeout is None else min(timeout, left)
    slow_work(session, effect.owner).commit(
        state.attempt, hook or _nothing_to_call, timeout, held.loop, _entry(effect)
    )
    return []


def ended(session: Session, message: CommitEnded) -> Effects:
    """A commit is over, in time or late, or is stuck."""
    state, machine = session._state, session._state.machine
    segment, error = machine.generations.in_flight, message.error
    if segment is None or message.attempt != state.attempt:
        return []
    if error is None:
        return _succeeded(session, segment, message.seconds)
    if isinstance(error, LostOwnership):
        return _lost(session, segment, error)
    was_stuck = machine.commit is CommitState.STUCK  # which was its failure
    if not was_stuck:
        _note_failure(session, segment, error, message.seconds)
    if message.returned:
        return machine.committed(succeeded=False)
    if was_stuck:
        return []
    if state.deadline is not None and session.runtime.clock() >= state.deadline:
        state.forced = True  # whichever comes first, this or that it is abandoned
    return machine.commit_stuck()


def _succeeded(session: Session, segment: Segment, seconds: float) -> Effects:
    state, owner, ledger = session._state, segment.owner or 0, session._ledger()
    generations = state.machine.generations
    before = generations.committed
    effects = state.machine.committed(succeeded=True)
    if ledger is not None:
        ledger.committed(segment)
    if state.last_error is not None and state.last_error.startswith("commit"):
        state.last_error = None
    session._context.tell_supervisor(
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


def _lost(session: Session, segment: Segment, error: LostOwnership) -> Effects:
    """It is not this room's business any more: whoever waits for it is told."""
    state, ledger = session._state, session._ledger()
    state.last_error = text_of(error)
    callers.give_up_commits(session)
    before = state.machine.generations.dirty
    effects = state.machine.commit_lost()
    if ledger is not None:
        ledger.commit_lost(segment, before - state.machine.generations.dirty)
    return effects


def _note_failure(session: Session, segment: Segment, error: BaseException, seconds: float) -> None:
    state = session._state
    state.last_error = state.problem = f"commit: {text_of(error)}"
    logger.warning(
        "%s: %s uncommitted turns could not be committed (%s). They are kept, with their agent",
        session,
        state.machine.generations.dirty,
        text_of(error),
    )
    session._context.tell_supervisor(
        CommitFailure(
            key=state.key,
            incarnation=segment.owner or 0,
            error=error,
            tries=state.machine.tries + 1,
            seconds=seconds,
        )
    )


# Later.


def retain(session: Session, effect: effects_of.Retain) -> None:
    """An agent on its way out is kept for a commit that failed."""
    session._context.tell_supervisor(
        AgentRetained(key=session._state.key, incarnation=effect.incarnation, reason=effect.reason)
    )


def pause(session: Session, effect: effects_of.Pause) -> None:
    """Try again after a pause."""
    state = session._state
    if state.retry_timer is not None:
        state.retry_timer.cancel()
    pause = session._context.policy.pause_after(effect.tries)
    spread = session.runtime.random.uniform(0.75, 1.25)
    state.retry_timer = session.call_later(pause * spread, Call(session._retry_commit))


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
