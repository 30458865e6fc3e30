"""The agents of a session: built, handed in, adopted, interrupted, torn down, each perhaps late.

What comes late names an incarnation that belongs to nobody any more.
"""

from __future__ import annotations

import dataclasses
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import text_of
from greenroom.actors.ledger.coherence import Remembered
from greenroom.actors.session._callers import Callers
from greenroom.actors.session.hooks import forget_transcript
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
    ResourcesClosed,
    SessionEnded,
    TeardownEnded,
    UseSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.actors.ledger._ledger import Ledger
    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.machine import effects as effects_of
    from greenroom.actors.session.machine.effects import Effect
    from greenroom.messages import AdoptAgent

__all__ = ["Agents"]

logger = logging.getLogger("greenroom.actors")


class Agents:
    """Has agents built and torn down, and hears what became of it. Made anew whenever it is needed."""

    __slots__ = ("_actor", "_context", "_ledger", "_state")

    def __init__(
        self, actor: Actor, context: RoomContext, state: SessionState, ledger: Ledger | None
    ) -> None:
        self._actor = actor
        self._context = context
        self._state = state
        self._ledger = ledger

    @property
    def _callers(self) -> Callers:
        return Callers(self._actor, self._context, self._state)

    @property
    def _slow_work(self) -> SlowWork:
        return SlowWork(self._context, self._state.key, self._actor.actor_ref)

    # Builds.

    def build(self, effect: effects_of.Build) -> None:
        """Build an agent: on its caller's thread, on a worker or on a loop."""
        state, turn, actor_ref = self._state, effect.turn, self._actor.actor_ref

        def use_settings(method: str, *args: Any) -> Any:
            return actor_ref.ask(UseSettings(method=method, args=args))

        if state.resources is None:
            state.resources = Resources(state.key)
        context = BuildContext(
            key=state.key,
            session_id=turn.session_id,
            spec=turn.spec,
            settings=Settings(state.key, use_settings),
            store=None if self._ledger is None else self._ledger.store_for_agents(),
            resources=state.resources,
        )
        held = state.hold(effect.incarnation, None, turn.session_id)
        held.loop = turn.loop
        if state.ledger is not None:
            held.remembered = Remembered(turn.session_id)
            held.remembered.remember(turn.session_id, state.ledger.seen)
        waiter = self._callers.of(turn)
        if waiter is not None and turn.here:
            here = BuildHere(incarnation=effect.incarnation, context=context)
            self._callers.have_built(waiter, here)
            return
        caller = copy_context() if waiter is None or waiter.context is None else waiter.context
        # The context variables of whoever wants the turn, and not of whoever ended the one before.
        caller.copy().run(self._slow_work.build, effect.incarnation, context, turn.loop)

    def build_ended(self, message: BuildEnded) -> list[Effect]:
        """A build is over, in time or late."""
        state = self._state
        machine = state.machine
        self._callers.hear_builder(message.turn)
        if message.turn is not None and message.incarnation == state.handed_in:
            return []  # its caller was struck, could not know that it is here, and hands it in again
        if message.error is None and machine.is_ours(message.incarnation):
            # It was built twice: the second one is a late agent, with a number of its own.
            machine.incarnations += 1
            message = dataclasses.replace(message, incarnation=machine.incarnations)
        wanted = message.incarnation == machine.building
        recovers = message.incarnation in dict(machine.recoveries)
        turn = machine.next_turn
        effects: list[Effect] = []
        if message.error is None:
            held = state.agents.get(message.incarnation) or state.hold(
                message.incarnation, message.agent, state.session_id or state.key
            )
            held.agent, held.weight, held.seconds = message.agent, message.weight, message.seconds
        elif wanted or recovers:
            self._note_build_failure(message, message.error)
            if recovers:
                effects = self._recovered(message.incarnation, state.last_error)
            elif turn is not None:
                self._callers.refuse_build(turn, message.error)
        if not wanted and not recovers and message.returned:
            what = "and is let go" if message.error is None else "with an error"
            logger.warning("%s: a build that was given up came back late, %s", self._actor, what)
        if wanted and turn is None:
            state.card.idle_since = self._actor.runtime.clock()
        succeeded = message.error is None
        if message.turn is not None:
            state.handed_in = message.incarnation
        return effects + machine.built(
            message.incarnation, succeeded=succeeded, returned=message.returned
        )

    def _note_build_failure(self, message: BuildEnded, error: BaseException) -> None:
        state = self._state
        state.forget_agent(message.incarnation)
        state.last_error = f"build: {text_of(error)}"
        logger.warning("%s: its agent could not be built: %s", self._actor, text_of(error))
        self._context.tell_supervisor(
            BuildFailure(
                key=state.key, incarnation=message.incarnation, error=error, seconds=message.seconds
            )
        )

    def build_lost(self, lost: effects_of.Build | BuildEnded, error: BaseException) -> list[Effect]:
        """Nobody will tell how this build has ended: it has failed."""
        state, machine, incarnation = self._state, self._state.machine, lost.incarnation
        effects: list[Effect] = []
        if incarnation in dict(machine.recoveries):
            effects = self._recovered(incarnation, text_of(error))
        effects += machine.built(incarnation, succeeded=False)
        held = state.agents.get(incarnation)
        if held is not None and isinstance(lost, BuildEnded) and lost.error is None:
            held.agent = lost.agent
            effects += machine.built(incarnation, succeeded=True)  # as one that comes late, it is let go
        else:
            state.forget_agent(incarnation)
        return effects

    def _recovered(self, incarnation: int, problem: str | None) -> list[Effect]:
        """An agent that was built to recover a session id has done so, or could not."""
        return [] if self._ledger is None else self._ledger.recovered(incarnation, problem)

    def insert(self, effect: effects_of.Insert) -> None:
        """An agent has come into its place."""
        held = self._state.agents[effect.incarnation]
        self._state.card.used = self._actor.runtime.tick()  # also if nobody wants it any more
        self._context.tell_supervisor(
            AgentBuilt(
                key=self._state.key,
                incarnation=effect.incarnation,
                session_id=held.session_id,
                reason=effect.reason,
                adopted=held.adopted,
                seconds=held.seconds,
            )
        )

    def adopt(self, message: AdoptAgent) -> list[Effect] | None:
        """An agent was built elsewhere. `None`: there is no place for it now."""
        state = self._state
        held = state.agents.get(state.machine.agent)
        if held is not None and held.agent is message.agent and state.machine.turn is None:
            # It is here already: it only counts as built from something else.
            state.machine.signature = message.signature
            return []
        adopted = state.machine.adopt(message.signature)
        if adopted is None:
            return None
        incarnation, effects = adopted
        held = state.hold(incarnation, message.agent, message.session_id)
        held.weight, held.adopted, held.loop = message.weight or 0, True, message.loop
        if state.ledger is not None:
            held.remembered = Remembered(message.session_id)  # and nothing known of it yet
        state.session_id = message.session_id
        state.card.used = self._actor.runtime.tick()
        state.card.idle_since = None
        return effects

    # Their end.

    def tear_down(self, effect: effects_of.TearDown) -> list[Effect]:
        """Call the hooks of a release or a close, if there are any."""
        state = self._state
        held = state.agents[effect.incarnation]
        what = "closed" if effect.close else "released"
        logger.info("%s: its agent is %s: %s", self._actor, what, effect.reason)
        hooks = self._context.hooks.farewell(held.agent, close=effect.close)
        effects: list[Effect] = []
        if hooks:
            self._slow_work.tear_down(effect.incarnation, held, hooks, close=effect.close)
        else:
            forget_transcript(held.agent)
            ended = TeardownEnded(incarnation=effect.incarnation, errors=(), seconds=0.0)
            effects = self.torn_down(ended)
        state.forget_agent(effect.incarnation)
        return effects

    def teardown_lost(self, effect: effects_of.TearDown, error: BaseException) -> list[Effect]:
        """Nobody will call these hooks."""
        self._state.forget_agent(effect.incarnation)
        errors = (("close" if effect.close else "release", error),)
        return self.torn_down(TeardownEnded(incarnation=effect.incarnation, errors=errors, seconds=0.0))

    def torn_down(self, message: TeardownEnded) -> list[Effect]:
        """The hooks of a release or a close were called."""
        machine = self._state.machine
        departure = machine.departure(message.incarnation)
        if departure is None:
            return []  # its time was over before
        for hook, error in message.errors:
            self._hook_failed(message.incarnation, hook, departure.reason, error)
        event = AgentClosed if departure.close else AgentReleased
        self._context.tell_supervisor(
            event(
                key=self._state.key,
                incarnation=message.incarnation,
                reason=departure.reason,
                seconds=message.seconds,
            )
        )
        effects = machine.torn_down(message.incarnation)
        if departure.reason is Reason.RECOVERY:
            problem = self._state.last_error or "it could not be committed"
            effects += self._recovered(message.incarnation, problem if departure.in_vain else None)
        return effects

    def interrupt(self, effect: effects_of.Interrupt) -> None:
        """Tell an agent to stop what it does."""
        held = self._state.agents.get(effect.incarnation)
        hook = None if held is None else self._context.hooks.find(held.agent, "interrupt")
        if held is None or hook is None:
            return
        key, incarnation, room = self._state.key, effect.incarnation, self._context

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

        self._slow_work.interrupt(hook, held.loop, failed)

    # What outlives them: the resources of a session.

    def end_session(self, effect: effects_of.EndSession) -> None:
        """Settings and resources are not for the next session."""
        state = self._state
        if state.ended is None:
            state.ended = {}
        state.ended[effect.number] = state.resources
        state.resources = state.settings = None

    def close_resources(self, effect: effects_of.CloseResources) -> Iterable[Effect]:
        """The last agent of an ended session is gone."""
        state = self._state
        resources = (state.ended or {}).pop(effect.number, None)
        state.ended = state.ended or None
        closers = [] if resources is None else resources.take_all()
        if not closers:
            return state.machine.resources_closed(effect.number)
        self._slow_work.close_resources(effect.number, closers)
        return ()

    def resources_closed(self, message: ResourcesClosed) -> list[Effect]:
        """So are its resources."""
        machine = self._state.machine
        reasons = {ended.number: ended.reason for ended in machine.ended}
        reason = reasons.get(message.number, Reason.EXPLICIT)
        for name, error in message.errors:
            self._hook_failed(0, f"resource {name}", reason, error)
        return machine.resources_closed(message.number)

    def session_over(self, effect: effects_of.SessionOver) -> None:
        """Nothing is left of it."""
        self._context.tell_supervisor(SessionEnded(key=self._state.key, reason=effect.reason))

    def _hook_failed(self, incarnation: int, hook: str, reason: Reason, error: BaseException) -> None:
        state, text = self._state, text_of(error)
        state.last_error = f"{hook}: {text}"
        if state.drain is not None:
            state.problem = f"{hook}: {text}"
        logger.warning("%s: %s() raised when it was let go (%s): %s", self._actor, hook, reason, text)
        self._context.tell_supervisor(
            HookFailure(key=state.key, incarnation=incarnation, hook=hook, reason=reason, error=error)
        )
