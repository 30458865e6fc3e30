"""The cache supervisor: order and bounds. A shell around `eviction.py` and `drain.py`, which decide.

It never takes an agent away and never runs a hook. It asks a session to release, and counts the session
until that has answered. What it knows of sessions they have told it: the whole standing each time, never
a difference, so that nothing is wrong for long.

What if it crashes? The keeper starts the next incarnation with the counters, the listeners, the drain
and whoever waits for an answer. The order is not handed over: the sessions are asked, and until all have
told, nobody is evicted.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, ClassVar, cast

from greenroom.actors import RestartPolicy
from greenroom.actors._calls import check_wait
from greenroom.actors._session_state import SessionState
from greenroom.actors.errors import RoomClosed
from greenroom.actors.policy import Policy
from greenroom.actors.session import Session
from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    AgentRetained,
    AgentReused,
    BooksClosed,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
    Configure,
    CountAgents,
    DrainDeadline,
    DrainReport,
    DrainRoom,
    Event,
    GetPosition,
    GetStats,
    HasAgent,
    HookFailure,
    Listen,
    ListKeys,
    ListListeners,
    MemoryGivenBack,
    OpenSession,
    OwnershipLost,
    RecoveryFailure,
    ReleaseAnswered,
    RenewLeases,
    ReportStanding,
    RoomStats,
    SessionChanged,
    SessionDrained,
    SessionEnded,
    SessionFailure,
    SessionRecovered,
    SessionStopped,
    SettleRoom,
    Standing,
    StopListening,
    StoreFailure,
    SweepRoom,
    TurnEnded,
)
from greenroom.supervisor._drain import SupervisorDrain
from greenroom.supervisor._state import COUNTED
from greenroom.supervisor.announcer import Announcer

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef
    from greenroom.messages import ChildFailed

__all__ = ["CacheSupervisor"]

logger = logging.getLogger("greenroom.supervisor")


class CacheSupervisor(SupervisorDrain):
    """Holds the sessions of a room to its policy."""

    # Life.

    def on_start(self) -> None:
        """Set the timers; after a restart, ask the sessions how they are."""
        self._set_sweeper()
        if not self._restarted:
            return
        logger.warning("The supervisor was restarted: it asks %s sessions", len(self._board.directory))
        state = self._state
        for key, ref in list(self._board.directory.items()):
            if not self._deliver(ref, ReportStanding()):
                del self._board.directory[key]
                self._answers_no_more(key)
            else:
                self._recovering.add(key)
        if state.drain is not None and state.report is None:
            self._set_drain_timers(state.drain)
        elif state.report is not None and not state.books_closed:
            self._close_books()
        if state.redo is not None:
            self.on_receive(state.redo)
            state.redo = None
        self._recovered()

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
        if session.todo is None and failure.message is not None:
            session.redo = failure.message
        left_out = session.strike(RestartPolicy().limit)
        if again and not left_out:
            restarts[key] = past
            self._state.counters["restarts"] += 1
        else:
            restarts.pop(key, None)
            logger.error(
                "Session %r fails again and again and takes no turn any more until it is ended with "
                "room.end(). The last failure was %r",
                key,
                failure.exception,
            )
            # In its state, for the next incarnation may fail before it has acted on it.
            session.failure = failure.exception
        self.restart_child(failure, self._board, key, session)

    # Recovery: after a restart, when all sessions have told.

    def _recovered(self) -> None:
        if self._restarted and not self._recovering:
            self._restarted = False
            # Whoever has told its standing has answered before what it was asked before.
            for key in list(self._state.asked):
                self._answers_no_more(key)
            self._residents.reorder(self._uses)
            self._uses.clear()
            self._hold_bounds()
            self._look_whether_settled()

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        if message.__class__ in (AgentReused, TurnEnded):
            return self.on_left(message)
        result = self._handlers[message.__class__](self, message)
        self._board.pressed = self._pressed()
        return result

    def on_left(self, message: Any) -> None:
        """Hear of a warm turn."""
        if message.__class__ is AgentReused:
            self._agent_reused(message)
        else:
            self._turn_ended(message)

    def _pressed(self) -> bool:
        """Tell whether a warm turn may have to be acted on, so that sessions must not let it wait."""
        state, cap = self._state, self._board.policy.cap
        over_cap = cap is not None and len(self._residents) > cap
        waited_for = state.hit_listeners or state.settling or self._restarted
        return bool(over_cap or self._budget is not None or waited_for)

    # From sessions: the warm way.

    def _agent_reused(self, message: AgentReused) -> None:
        state = self._state
        state.counters["hits"] += 1
        self._residents.use(message.key)
        if state.hit_listeners:
            self._announce(message)

    def _turn_ended(self, message: TurnEnded) -> None:
        key = message.key
        self._residents.rest(key, message.idle_since, message.weight)
        if message.dirty:
            self._dirty.add(key)
        else:
            self._dirty.discard(key)
        board = self._board
        if board.policy.session_ttl is not None:
            self._last_use[key] = message.idle_since
        if board.pressed:
            self._hold_bounds()

    # From sessions: all else.

    def _session_changed(self, message: SessionChanged) -> None:
        key, standing = message.key, message.standing
        if key not in self._board.directory:
            return  # it has stopped since
        if standing.cached:
            entered = self._residents.enter(
                key, in_turn=standing.in_turn, since=standing.idle_since, weight=standing.weight
            )
            if entered:
                self._shed(key)  # should it have been leaving: that was called off
        else:
            self._residents.leave(key)
        self._note(key, standing)
        if self._recovering:
            self._uses[key] = standing.used
            self._recovering.discard(key)
            self._recovered()
        self._hold_bounds()
        self._look_whether_settled()

    def _release_answered(self, message: ReleaseAnswered) -> None:
        self._residents.answered(message.key)
        self._answered(message.key, accepted=message.accepted)
        if not message.accepted:
            self._shed(message.key)
        self._look_whether_settled()

    def _session_stopped(self, message: SessionStopped) -> None:
        key = message.key
        if self._board.directory.get(key) is not message.ref:
            return
        del self._board.directory[key]
        self._forget(key)
        self._recovered()
        self._look_whether_settled()

    def _forget(self, key: str) -> None:
        self._residents.leave(key)
        self._note(key, Standing())
        self._expiry.forget(key)
        self._last_use.pop(key, None)
        self._unseen.discard(key)
        self._uses.pop(key, None)
        self._recovering.discard(key)
        self._state.restarts.pop(key, None)
        self._answers_no_more(key)
        self._shed(key)
        if self._state.drain is not None:
            self._state.drain.gone(key)
            self._look_whether_drained()

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
        board = self._board
        ref = board.directory.get(message.key)
        if ref is not None and ref.is_alive():
            return ref
        if board.draining:
            msg = (
                f"session {message.key!r} begins no turn any more: the room is drained, or being drained"
            )
            raise RoomClosed(msg, message.key)
        if ref is not None:
            self._forget(message.key)
        ref = self.start_child(Session, board, message.key)
        board.directory[message.key] = ref
        return ref

    def _configure(self, message: Configure) -> Policy:
        unknown = sorted(set(message.changes) - set(Policy.names()))
        if unknown:
            msg = f"no such setting: {', '.join(unknown)}. There are: {', '.join(Policy.names())}"
            raise TypeError(msg)
        board = self._board
        old, new = board.policy, dataclasses.replace(board.policy, **message.changes)
        self._budget = self._resolve_budget(new)
        board.policy = new
        if new.sweep_every != old.sweep_every:
            self._set_sweeper()
        if new.session_ttl is not None and old.session_ttl is None:
            self._unseen.update(board.directory)
            for ref in list(board.directory.values()):
                self._deliver(ref, ReportStanding())
        if new.lease_ttl != old.lease_ttl and board.clerk is not None:
            self._deliver(board.clerk, RenewLeases())
        logger.info("The policy is now %s", new)
        self._hold_bounds()
        self._sweep_idle()
        self._look_whether_settled()
        return new

    # What gateways call through a proxy, when they want the actor itself.

    def sweep(self) -> int:
        """Release what is idle now. See `Greenroom.sweep`."""
        return cast("int", self.on_receive(SweepRoom()))

    def stats(self) -> RoomStats:
        """Count. See `Greenroom.stats`."""
        return cast("RoomStats", self.on_receive(GetStats()))

    def keys(self) -> tuple[str, ...]:
        """The sessions with an agent, least recently used first."""
        return self._residents.keys()

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
        CountAgents: SupervisorDrain._count_agents,
        DrainDeadline: SupervisorDrain._drain_deadline,
        DrainRoom: SupervisorDrain._drain_room,
        GetPosition: SupervisorDrain._get_position,
        GetStats: SupervisorDrain._get_stats,
        HasAgent: SupervisorDrain._has_agent,
        HookFailure: _event,
        ListKeys: SupervisorDrain._list_keys,
        ListListeners: SupervisorDrain._list_listeners,
        OwnershipLost: _event,
        RecoveryFailure: _event,
        SessionRecovered: _event,
        StoreFailure: _event,
        BooksClosed: SupervisorDrain._books_closed,
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
        StopListening: SupervisorDrain._stop_listening,
        SweepRoom: SupervisorDrain._sweep_room,
    }
