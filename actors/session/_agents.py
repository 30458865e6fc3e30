"""The agents of a session: built, handed in, adopted, interrupted, torn down, each perhaps late.

What comes late names an incarnation that belongs to nobody any more. Each function returns the effects
that follow, if there are any.
"""

from __future__ import annotations

import dataclasses
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import text_of
from greenroom.actors.ledger.coherence import Remembered
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.session import _callers as callers
from greenroom.actors.session.hooks import forget_transcript
from greenroom.actors.session.machine.effects import Refusal
from greenroom.actors.session.resources import BuildContext, Resources, Settings
from greenroom.actors.session.slow_work import SlowWork
from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    BuildEnded,
    BuildFailure,
    BuildHere,
    HookFailure,
    Reason,
    SessionEnded,
    TeardownEnded,
    UseSettings,
)

if TYPE_CHECKING:
    from greenroom.actors.session._session import Session
    from greenroom.actors.session._session_state import HeldAgent
    from greenroom.actors.session.machine import effects as effects_of
    from greenroom.messages import AdoptAgent

logger = get_log("greenroom.actors")

Effects = list[Any]


def slow_work(session: Session, incarnation: int = 0) -> SlowWork:
    """What sends slow work on its way, of this agent if one is given."""
    recovers = session._state.machine.recovers(incarnation)
    return SlowWork(session._context, session._state.key, session.actor_ref, recovers=recovers)


# Builds.


def build(session: Session, effect: effects_of.Build) -> None:
    """Build an agent: on its caller's thread, on a worker or on a loop."""
    state, turn, ledger = session._state, effect.turn, session._ledger()
    actor_ref, session_id = session.actor_ref, state.machine.id_of(turn, state.key)

    def use_settings(method: str, *args: Any) -> Any:
        return actor_ref.ask(UseSettings(method=method, args=args))

    if state.resources is None:
        state.resources = Resources(state.key)
    context = BuildContext(
        key=state.key,
        session_id=session_id,
        spec=turn.spec,
        given=turn.given,
        settings=Settings(state.key, use_settings),
        store=None if ledger is None else ledger.store_for_agents(),
        resources=state.resources,
    )
    held = state.held(effect.incarnation) or state.hold(effect.incarnation, None, session_id)
    held.loop = turn.loop
    if state.ledger is not None:
        held.remembered = Remembered(session_id)
        held.remembered.remember(session_id, state.ledger.seen)
    waiter = callers.waiter_of(state, turn)
    if waiter is not None and turn.here:
        here = BuildHere(incarnation=effect.incarnation, context=context)
        callers.have_built(session, waiter, here)
        return
    caller = copy_context() if waiter is None or waiter.context is None else waiter.context
    # The context variables of whoever wants the turn, and not of whoever ended the one before.
    work = slow_work(session, effect.incarnation)
    caller.copy().run(work.build, effect.incarnation, context, turn)


def build_ended(session: Session, message: BuildEnded) -> Effects:
    """A build is over, in time or late."""
    state, machine = session._state, session._state.machine
    callers.hear_builder(session, message.turn)
    if message.unclaimed is not None:
        message.unclaimed.clear()
    if message.turn is not None and message.incarnation == state.handed_in:
        return []  # its caller was struck, could not know that it is here, and hands it in again
    if message.error is None and machine.is_ours(message.incarnation):
        # It was built twice: the second one is a late agent, with a number of its own.
        machine.incarnations += 1
        message = dataclasses.replace(message, incarnation=machine.incarnations)
    incarnation, turn = message.incarnation, machine.next_turn
    wanted = incarnation == machine.building
    recovers = not wanted and incarnation in dict(machine.recoveries)
    effects: Effects = []
    if message.error is None:
        held = state.held(incarnation) or state.hold(incarnation, message.agent, state.current_id)
        held.agent, held.weight, held.seconds = message.agent, message.weight, message.seconds
        if not wanted:
            _tell_built(session, held)  # it comes late, and goes at once; or it is there to recover
        held.bound = held.loop if session._context.is_bound(message.agent) else None
    elif wanted or recovers:
        _note_build_failure(session, message, message.error)
        if recovers:
            effects = _recovered(session, incarnation, state.last_error)
        elif turn is not None:
            callers.refuse(session, turn, Refusal.BUILD, message.error)
    if not wanted and not recovers and message.returned:
        what = "and is let go" if message.error is None else "with an error"
        logger.warning(
            "%s: a build that was given up came back late, %s", session, what, exc_info=message.error
        )
    if wanted and turn is None:
        state.card.idle_since = session.runtime.clock()
    if message.turn is not None:
        state.handed_in = incarnation
    succeeded = message.error is None
    return [*effects, *machine.built(incarnation, succeeded=succeeded, returned=message.returned)]


def _note_build_failure(session: Session, message: BuildEnded, error: BaseException) -> None:
    state = session._state
    state.forget_agent(message.incarnation)
    state.last_error = f"build: {text_of(error)}"
    logger.warning("%s: its agent could not be built: %s", session, text_of(error), exc_info=error)
    session._context.tell_supervisor(
        BuildFailure(
            key=state.key, incarnation=message.incarnation, error=error, seconds=message.seconds
        )
    )


def build_lost(session: Session, lost: BuildEnded, error: BaseException) -> Effects:
    """The actor fails on what this build has ended with: it has failed. Its agent, if there is one, is
    one that comes late."""
    failed = dataclasses.replace(lost, agent=None, error=error, turn=None)
    effects = build_ended(session, failed)
    if lost.error is None:
        effects += build_ended(session, dataclasses.replace(lost, turn=None))
    return effects


def _recovered(session: Session, incarnation: int, problem: str | None) -> Effects:
    """An agent that was built to recover a session id has done so, or could not."""
    ledger = session._ledger()
    return [] if ledger is None else ledger.recovered(incarnation, problem)


def insert(session: Session, effect: effects_of.Insert) -> None:
    """An agent has come into its place."""
    state = session._state
    held = state.held(effect.incarnation)
    assert held is not None
    state.card.used = session.runtime.tick()  # also if nobody wants it any more
    _tell_built(session, held, effect.reason)


def _tell_built(session: Session, held: HeldAgent, reason: Reason | None = None) -> None:
    session._context.tell_supervisor(
        AgentBuilt(
            key=session._state.key,
            incarnation=held.incarnation,
            session_id=held.session_id,
            reason=reason,
            adopted=held.adopted,
            seconds=held.seconds,
        )
    )


def adopt(session: Session, message: AdoptAgent) -> Effects | None:
    """An agent was built elsewhere. `None`: there is no place for it now."""
    state, machine = session._state, session._state.machine
    if machine.agent and state.here.agent is message.agent and machine.turn is None:
        # It is here already: it only counts as built from something else.
        machine.signature = message.signature
        return []
    adopted = machine.adopt(message.signature)
    if adopted is None:
        return None
    incarnation, effects = adopted
    session_id = message.session_id or machine.conversation
    held = state.hold(incarnation, message.agent, session_id or state.key)
    held.weight, held.adopted, held.loop = message.weight or 0, True, message.loop
    held.bound = held.loop if session._context.is_bound(message.agent) else None
    if state.ledger is not None:
        held.remembered = Remembered(session_id)  # and nothing known of it yet
    state.session_id = message.session_id
    state.card.used = session.runtime.tick()
    state.card.idle_since = None
    return effects


# Their end.


def tear_down(session: Session, effect: effects_of.TearDown) -> Effects:
    """Call the hooks of a release or a close, if there are any."""
    state, incarnation = session._state, effect.incarnation
    held = state.held(incarnation)
    assert held is not None
    what = "closed" if effect.close else "released"
    logger.info("%s: its agent is %s: %s", session, what, effect.reason)
    hooks = session._context.hooks.farewell(held.agent, close=effect.close)
    effects: Effects = []
    if hooks:
        slow_work(session, incarnation).tear_down(held, hooks, close=effect.close)
    else:
        forget_transcript(held.agent)
        effects = torn_down(session, TeardownEnded(incarnation=incarnation))
    state.forget_agent(incarnation)
    return effects


def torn_down(session: Session, message: TeardownEnded) -> Effects:
    """The hooks of a release or a close were called, or the resources of a session are closed."""
    state, machine, incarnation = session._state, session._state.machine, message.incarnation
    if not incarnation:
        return _resources_closed(session, message)
    departure = machine.departure(incarnation)
    if departure is None:
        return []  # its time was over before
    _note_hook_failures(session, message, departure.reason)
    event = AgentClosed if departure.close else AgentReleased
    session._context.tell_supervisor(
        event(key=state.key, incarnation=incarnation, reason=departure.reason, seconds=message.seconds)
    )
    effects = machine.torn_down(incarnation)
    if departure.reason is Reason.RECOVERY:
        problem = state.last_error or "it could not be committed"
        effects += _recovered(session, incarnation, problem if departure.in_vain else None)
    return effects


def interrupt(session: Session, effect: effects_of.Interrupt) -> None:
    """Tell an agent to stop what it does."""
    key, incarnation, room = session._state.key, effect.incarnation, session._context
    held = session._state.held(incarnation)
    found = None if held is None else room.hooks.find(held.agent, "interrupt")
    if held is None or found is None:
        return

    def failed(error: BaseException) -> None:
        logger.warning("session %r: interrupt() raised: %s", key, text_of(error))
        room.tell_supervisor(
            HookFailure(
                key=key,
                incarnation=incarnation,
                hook="interrupt",
                reason=Reason.EXPLICIT,
                error=error,
            )
        )

    slow_work(session).interrupt(found[1], held.loop, failed)


# What outlives them: the resources of a session.


def end_session(session: Session, effect: effects_of.EndSession) -> None:
    """Settings and resources are not for the next session."""
    state = session._state
    state.ended = {**(state.ended or {}), effect.number: state.resources}
    state.resources = state.settings = None


def close_resources(session: Session, effect: effects_of.CloseResources) -> Effects:
    """The last agent of an ended session is gone."""
    state = session._state
    ended = dict(state.ended or {})
    resources = ended.pop(effect.number, None)
    state.ended = ended or None
    closers = [] if resources is None else resources.take_all()
    if not closers:
        return state.machine.resources_closed(effect.number)
    slow_work(session).close_resources(effect.number, closers)
    return []


def _resources_closed(session: Session, message: TeardownEnded) -> Effects:
    machine = session._state.machine
    reasons = {ended.number: ended.reason for ended in machine.ended}
    _note_hook_failures(session, message, reasons.get(message.number, Reason.EXPLICIT))
    return machine.resources_closed(message.number)


def session_over(session: Session, effect: effects_of.SessionOver) -> None:
    """Nothing is left of it."""
    session._context.tell_supervisor(SessionEnded(key=session._state.key, reason=effect.reason))


def _note_hook_failures(session: Session, message: TeardownEnded, reason: Reason) -> None:
    state = session._state
    for hook, error in message.errors:
        text = text_of(error)
        state.last_error = f"{hook}: {text}"
        if state.deadline is not None:
            state.problem = state.last_error
        logger.warning(
            "%s: %s() raised when its agent was released or closed (%s): %s", session, hook, reason, text
        )
        session._context.tell_supervisor(
            HookFailure(
                key=state.key, incarnation=message.incarnation, hook=hook, reason=reason, error=error
            )
        )
