"""The cache supervisor: order and bounds. A shell around `eviction.py` and `drain.py`, which decide.

It never takes an agent away and never runs a hook. It asks a session to release, and counts the session
until that has answered. What it knows of sessions it reads on their cards, when it matters; sessions
tell it when they got an agent or let it go, and nothing of a warm turn.

What if it crashes? The root supervisor starts the next incarnation with the counters, the listeners, the
drain and whoever waits for an answer. The order is read from the cards.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from greenroom.actors import RestartPolicy
from greenroom.actors.errors import RoomClosed
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.session import Session
from greenroom.actors.session._session_state import SessionState
from greenroom.actors.session.card import Card, cached_keys
from greenroom.actors.session.policy import Policy
from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    AgentRetained,
    AgentReused,
    Answered,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
    Configure,
    CountAgents,
    DrainDeadline,
    DrainReport,
    DrainRoom,
    Event,
    GetStats,
    GoOnSweeping,
    HoldBounds,
    HookFailure,
    Listen,
    ListListeners,
    MemoryGivenBack,
    OpenSession,
    OwnershipLost,
    Reason,
    RecoveryFailure,
    ReleaseAgent,
    ReleaseAnswered,
    RenewLeases,
    RoomStats,
    SessionChanged,
    SessionDrained,
    SessionEnded,
    SessionFailure,
    SessionRecovered,
    SessionStopped,
    SettleRoom,
    SettleSoon,
    StopListening,
    StoreFailure,
    SweepRoom,
)
from greenroom.supervisor._books import count_cards
from greenroom.supervisor._drain import SupervisorDrain
from greenroom.supervisor._state import COUNTED
from greenroom.supervisor.announcer import Announcer

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef, Future
    from greenroom.messages import ChildFailed

__all__ = ["CacheSupervisor"]

logger = logging.getLogger("greenroom.supervisor")

T = TypeVar("T")


class CacheSupervisor(SupervisorDrain):
    """Holds the sessions of a room to its policy."""

    # Life.

    def on_start(self) -> None:
        """Set the timers; after a restart, learn from the cards how the sessions are."""
        self._set_sweeper()
        self._say_whether_warm()
        if not self._restarted:
            return
        context, state, now = self._context, self._state, self.runtime.clock()
        logger.warning("The supervisor was restarted: it reads %s cards", len(context.cards))
        for key, card in list(context.cards.items()):
            if card.cached and card.ref.is_alive():  # else word of its end is on its way
                self._residents.enter(key, card, now)
        self._watch_expiry()
        # What was asked may not have been sent. Behind whatever was, this is refused, as nothing was
        # ever seen like that; its answer is the last, and then it is known that there are no others.
        for key in list(state.asked):
            self._send_request(key, ReleaseAgent(number=self._number(key), reason=Reason.IDLE, seen=-1))
        if state.drain is not None and state.report is None:
            self._set_drain_timers(state.drain)
        elif state.report is not None and not state.books_closed:
            self._close_books()
        # As a message: should it be what we fail on, it is dropped in the end, and does not come again
        # with every restart.
        self._looking = True
        self.actor_ref.tell(HoldBounds())

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart a session with all that it held; too often, and it takes no turn until it is ended."""
        state: Any = failure.state
        if isinstance(state, SessionState):
            self._restart_session(failure, state)
        elif issubclass(failure.ref.actor_class, Announcer) and state is not None:
            self.restart_child(failure, *state)
        else:
            self.give_up_child(failure)

    def _restart_session(self, failure: ChildFailed, session: SessionState) -> None:
        key = session.key
        restarts = self._state.restarts
        again, past = RestartPolicy().decide(restarts.get(key, ()), self.runtime.clock())
        if again:
            restarts[key] = past
            self._state.counters["restarts"] += 1
        else:
            restarts.pop(key, None)
            session.failing = failure.exception
            logger.error(
                "Session %r failed %s times in a short time and takes no turn any more until it is "
                "ended with room.end(). The last failure was %r",
                key,
                len(past) + 1,
                failure.exception,
            )
        self.restart_child(failure, self._context, key, session.card, session, replay=True)

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    # From sessions.

    def _agent_reused(self, message: AgentReused) -> None:
        if self._state.hit_listeners:
            self._announce(message)

    def _session_changed(self, message: SessionChanged) -> None:
        key = message.key
        card = self._context.cards.get(key)
        if card is None:
            return  # it has stopped since
        if not card.cached:
            self._residents.leave(key)
        else:
            if self._residents.enter(key, card, self.runtime.clock()):
                self._shed(key)  # should it have been leaving: that was called off
            self._residents.rested(key, card)
        self._hold_bounds()
        self._look_whether_settled(key)

    def _release_answered(self, message: ReleaseAnswered) -> None:
        key, card = message.key, self._context.cards.get(message.key)
        self._answered(key, message.number, accepted=message.accepted)
        if message.accepted:
            self._residents.leave(key)
        elif card is not None:
            self._residents.answered(key, card, held=message.held)
            self._shed(key)
        self._hold_bounds()
        self._look_whether_settled(key)

    def _session_stopped(self, message: SessionStopped) -> None:
        key = message.key
        card = self._context.cards.get(key)
        if card is not None and card.ref is message.ref:
            self._forget(key)

    def _forget(self, key: str) -> None:
        card = self._context.cards.pop(key)
        self._state.counters["hits"] += card.hits
        self._residents.leave(key)
        self._expiry.drop(key)
        self._state.restarts.pop(key, None)
        self._answers_no_more(key)
        self._shed(key)
        if self._state.drain is not None:
            self._state.drain.gone(key)
            self._look_whether_drained()
        self._look_whether_settled(key)

    def _event(self, event: Event) -> None:
        """Count what happened, and pass it on."""
        state = self._state
        counter = COUNTED.get(event.__class__)
        if counter is not None:
            state.counters[counter] += 1
        if isinstance(event, AgentBuilt):
            state.counters["rebuilds"] += event.reason is not None
            state.counters["adopted"] += event.adopted
            state.counters["builds"] -= event.adopted
        elif isinstance(event, (AgentReleased, AgentClosed)):
            state.reasons[event.reason.value] += 1
            self._shed(event.key)
        elif isinstance(event, AgentRetained):
            self._shed(event.key)  # it will not give its memory back soon
        if state.listeners:
            self._announce(event)

    # The room.

    def _open_session(self, message: OpenSession) -> ActorRef[Session]:
        context, key = self._context, message.key
        card = context.cards.get(key)
        if card is not None and card.ref.is_alive():
            return card.ref
        if context.draining:
            msg = f"session {key!r} begins no turn any more: the room is drained, or being drained"
            raise RoomClosed(msg, key)
        if card is not None:
            self._forget(key)
        card = Card()
        card.ref = self.start_child(Session, context, key, card)
        card.mailbox = card.ref.actor_inbox
        context.cards[key] = card
        if context.policy.session_ttl is not None:
            self._expiry.put(key, self.runtime.clock())
        return card.ref

    def _configure(self, message: Configure) -> Policy:
        unknown = sorted(set(message.changes) - set(Policy.names()))
        if unknown:
            msg = f"no such setting: {', '.join(unknown)}. There are: {', '.join(Policy.names())}"
            raise TypeError(msg)
        context = self._context
        old, new = context.policy, dataclasses.replace(context.policy, **message.changes)
        self._budget = self._resolve_budget(new)
        context.policy = new
        self._say_whether_warm()
        if new.sweep_every != old.sweep_every:
            self._set_sweeper()
        if new.session_ttl is not None and old.session_ttl is None:
            self._watch_expiry()
        if new.lease_ttl != old.lease_ttl and context.writer is not None:
            self._deliver(context.writer, RenewLeases())
        logger.info("The policy is now %s", new)
        self._hold_bounds()
        if self._sweep_idle():
            self.actor_ref.tell(SweepRoom())
        self._look_whether_settled()
        return new

    # What gateways call through a proxy, when they want the actor itself.

    def sweep(self) -> int:
        """Release what is idle now. See `Greenroom.sweep`."""
        return cast("int", self.on_receive(SweepRoom()))

    def stats(self) -> RoomStats:
        """Count. See `Greenroom.stats`."""
        return self._on_a_worker(count_cards, self._get_stats(GetStats()))

    def keys(self) -> tuple[str, ...]:
        """The sessions with an agent, least recently used first."""
        return self._on_a_worker(cached_keys, self._context.cards)

    def _on_a_worker(self, count: Callable[..., T], what: Any) -> T:
        """Answer with what is counted on a worker: it would be too long for a handler."""
        reply = self.defer_reply()

        def answer(done: Future[T]) -> None:
            try:
                reply.set(done.get())
            except BaseException as error:
                reply.set_exception(error)

        self.runtime.submit(count, what, name="count").on_done(answer)
        return cast("T", None)  # it comes later

    def configure(self, /, **changes: Any) -> Policy:
        """Change the policy. See `Greenroom.configure`."""
        return cast("Policy", self.on_receive(Configure(changes=changes)))

    def settle(self) -> bool:
        """Answer when nothing is under way. See `Greenroom.settle`."""
        return cast("bool", self.on_receive(SettleRoom()))

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room. See `Greenroom.drain`."""
        check_wait("the deadline of a drain", deadline)
        return cast("DrainReport", self.on_receive(DrainRoom(deadline=deadline)))

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        AgentBuilt: _event,
        AgentClosed: _event,
        AgentReleased: _event,
        AgentRetained: _event,
        BuildFailure: _event,
        CommitFailure: _event,
        CommitSucceeded: _event,
        Configure: _configure,
        AgentReused: _agent_reused,
        CountAgents: SupervisorDrain._count_agents,
        DrainDeadline: SupervisorDrain._drain_deadline,
        DrainRoom: SupervisorDrain._drain_room,
        GetStats: SupervisorDrain._get_stats,
        GoOnSweeping: SupervisorDrain._sweep_on,
        HoldBounds: SupervisorDrain._go_on_holding,
        HookFailure: _event,
        ListListeners: SupervisorDrain._list_listeners,
        OwnershipLost: _event,
        RecoveryFailure: _event,
        SessionRecovered: _event,
        StoreFailure: _event,
        Answered: SupervisorDrain._books_closed,
        Listen: SupervisorDrain._listen,
        MemoryGivenBack: SupervisorDrain._memory_given_back,
        OpenSession: _open_session,
        ReleaseAnswered: _release_answered,
        SessionChanged: _session_changed,
        SessionDrained: SupervisorDrain._session_drained,
        SessionEnded: _event,
        SessionFailure: _event,
        SessionStopped: _session_stopped,
        SettleRoom: SupervisorDrain._settle_room,
        SettleSoon: SupervisorDrain._settle_soon,
        StopListening: SupervisorDrain._stop_listening,
        SweepRoom: SupervisorDrain._sweep_room,
    }
