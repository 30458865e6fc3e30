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
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from greenroom.actors import Actor, RestartPolicy, RuntimeClosed
from greenroom.actors._session_state import SessionState
from greenroom.actors.errors import RoomClosed
from greenroom.actors.policy import Policy
from greenroom.actors.session import Session
from greenroom.messages import (
    AbandonSession,
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    AgentRetained,
    AgentReused,
    BuildFailure,
    CloseSession,
    CommitFailure,
    CommitSucceeded,
    Configure,
    CountAgents,
    DrainDeadline,
    DrainReport,
    DrainRoom,
    DrainSession,
    Event,
    ForceSession,
    GetPosition,
    GetStats,
    HasAgent,
    HookFailure,
    Listen,
    ListKeys,
    MemoryGivenBack,
    OpenSession,
    Position,
    Reason,
    ReleaseAgent,
    ReleaseAnswered,
    ReportStanding,
    RoomStats,
    SessionChanged,
    SessionDrained,
    SessionEnded,
    SessionFailure,
    SessionStopped,
    SettleRoom,
    Standing,
    StopListening,
    SweepRoom,
    TurnEnded,
)
from greenroom.supervisor._meter import budget_bytes, give_back, memory_limit
from greenroom.supervisor.announcer import Announcer
from greenroom.supervisor.drain import ABANDON, FORCE, STAGES, DrainBooks
from greenroom.supervisor.eviction import Expiry, MemoryBound, Residents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors import ActorRef, Reply, Timer
    from greenroom.actors.board import Board
    from greenroom.messages import ChildFailed

__all__ = ["CacheSupervisor", "SupervisorState"]

logger = logging.getLogger("greenroom.supervisor")

COUNTED: dict[type[Event], str] = {
    AgentBuilt: "builds",
    AgentReused: "hits",
    AgentReleased: "releases",
    AgentClosed: "closes",
    CommitSucceeded: "commits",
    CommitFailure: "commit_failures",
    BuildFailure: "build_failures",
    HookFailure: "hook_failures",
    SessionEnded: "sessions_ended",
}
"""Which counter an event is for."""


class Sweep:
    """A sweep that waits for the answers of those it asked."""

    __slots__ = ("pending", "released", "reply")

    def __init__(self, reply: Reply, pending: Iterable[str]) -> None:
        self.reply = reply
        self.pending = set(pending)
        self.released = 0

    def answered(self, key: str, *, accepted: bool) -> bool:
        """Note an answer. True if it was the last."""
        if key not in self.pending:
            return False
        self.pending.discard(key)
        self.released += accepted
        if self.pending:
            return False
        self.reply.set(self.released)
        return True


class SupervisorState:
    """What outlives a crash of the supervisor. The order of sessions does not: it is asked for."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.listeners: dict[int, ActorRef[Announcer]] = {}
        self.listener_numbers = 0
        self.restarts: dict[str, tuple[float, ...]] = {}
        self.settling: list[Reply] = []
        self.sweeps: list[Sweep] = []
        self.asked: dict[str, Reason] = {}
        """Who was asked to release, and has not answered."""
        self.drain: DrainBooks | None = None
        self.draining: list[Reply] = []
        self.report: DrainReport | None = None
        self.redo: Any = None


class CacheSupervisor(Actor):
    """Holds the sessions of a room to its policy."""

    def __init__(
        self, board: Board, meter: Callable[[], int], state: SupervisorState | None = None
    ) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        self._board = board
        self._meter = meter
        self._recovering: set[str] = set()
        self._restarted = state is not None
        self._state = SupervisorState() if state is None else state
        self._residents = Residents()
        self._memory = MemoryBound()
        self._giving_back = False
        self._budget = self._resolve_budget(board.policy)
        self._expiry = Expiry()
        self._last_use: dict[str, float] = {}
        """When each session was last active, for those that may expire."""
        self._uses: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._busy: set[str] = set()
        self._broken: set[str] = set()
        self._waiting: dict[str, int] = {}
        self._retained: dict[str, int] = {}
        self._warned = False
        self._sweeper: Timer | None = None

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
                self._settle_answer(key, accepted=False)
            else:
                self._recovering.add(key)
        if state.drain is not None and state.report is None:
            self._set_drain_timers(state.drain)
        if state.redo is not None:
            self.on_receive(state.redo)
            state.redo = None
        self._recovered()

    def hand_over(self) -> SupervisorState:
        """What the next incarnation cannot learn from the sessions."""
        return self._state

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart a session with all that it held; too often, and it takes no turn until it is ended."""
        state: Any = failure.state
        if isinstance(state, SessionState):
            self._restart_session(failure, state)
        elif issubclass(failure.ref.actor_class, Announcer) and state is not None:
            number = next((n for n, r in self._state.listeners.items() if r == failure.ref), 0)
            logger.error("Listener %s failed, and is called again", number)
            self.restart_child(failure, failure.ref.actor_inbox.actor._callback, state)  # type: ignore[attr-defined]  # one of ours
        else:
            self.give_up_child(failure)

    def _restart_session(self, failure: ChildFailed, session: SessionState) -> None:
        key = session.key
        restarts = self._state.restarts
        again, past = RestartPolicy().decide(restarts.get(key, ()), self.runtime.clock())
        if session.todo is None and failure.message is not None:
            session.redo = failure.message
        session.strike(RestartPolicy().limit)
        if again:
            restarts[key] = past
            self._state.counters["restarts"] += 1
            self.restart_child(failure, self._board, key, session)
        else:
            restarts.pop(key, None)
            logger.error(
                "Session %r failed %s times in a short time and takes no turn any more until it is "
                "ended with room.end(). The last failure was %r",
                key,
                len(past) + 1,
                failure.exception,
            )
            self.restart_child(failure, self._board, key, session, failure.exception)

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        kind = message.__class__
        result = self._handlers[kind](self, message)
        if kind is not AgentReused and kind is not TurnEnded:
            self._board.pressed = self._pressed()
        return result

    def _pressed(self) -> bool:
        """Tell whether a warm turn may have to be acted on, so that sessions must not let it wait."""
        state, cap = self._state, self._board.policy.cap
        over_cap = cap is not None and len(self._residents) > cap
        waited_for = state.listeners or state.settling or self._restarted
        return bool(over_cap or self._budget is not None or waited_for)

    # From sessions: the warm way.

    def _agent_reused(self, message: AgentReused) -> None:
        state = self._state
        state.counters["hits"] += 1
        self._residents.use(message.key)
        if state.listeners:
            self._announce(message)

    def _turn_ended(self, message: TurnEnded) -> None:
        key = message.key
        self._residents.rest(key, message.idle_since, message.weight)
        if message.dirty:
            self._dirty.add(key)
        else:
            self._dirty.discard(key)
        policy = self._board.policy
        if policy.session_ttl is not None:
            self._last_use[key] = message.idle_since
        if self._budget is not None or (policy.cap is not None and len(self._residents) > policy.cap):
            self._hold_bounds()

    # From sessions: all else.

    def _session_changed(self, message: SessionChanged) -> None:
        key, standing = message.key, message.standing
        if key not in self._board.directory:
            return  # it has stopped since
        if standing.cached:
            self._residents.enter(
                key, in_turn=standing.in_turn, since=standing.idle_since, weight=standing.weight
            )
        else:
            self._residents.leave(key)
        self._note(key, standing)
        if self._recovering:
            self._uses[key] = standing.used
            self._recovering.discard(key)
            self._recovered()
        self._hold_bounds()
        self._look_whether_settled()

    def _note(self, key: str, standing: Standing) -> None:
        _put(self._dirty, key, standing.dirty)
        _put(self._busy, key, standing.busy)
        _put(self._broken, key, standing.failed)
        _count(self._waiting, key, standing.waiting)
        _count(self._retained, key, standing.retained)
        if self._board.policy.session_ttl is not None:
            now = self.runtime.clock()
            self._last_use[key] = now if standing.idle_since is None else standing.idle_since
            self._expiry.watch(key, now)

    def _release_answered(self, message: ReleaseAnswered) -> None:
        self._residents.answered(message.key)
        self._settle_answer(message.key, accepted=message.accepted)
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
        self._uses.pop(key, None)
        self._recovering.discard(key)
        self._state.restarts.pop(key, None)
        self._settle_answer(key, accepted=False)
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
            for ref in list(board.directory.values()):
                self._deliver(ref, ReportStanding())
        logger.info("The policy is now %s", new)
        self._hold_bounds()
        self._sweep_idle()
        self._look_whether_settled()
        return new

    def _resolve_budget(self, policy: Policy) -> int | None:
        budget = policy.memory_budget
        return None if budget is None else budget_bytes(budget, memory_limit())

    def _sweep_room(self, _: SweepRoom) -> int | None:
        self._sweep_expired()
        asked = [key for key in self._sweep_idle() if key in self._state.asked]
        self._hold_bounds()
        if not asked:
            return 0
        self._state.sweeps.append(Sweep(self.defer_reply(), asked))
        return None

    def _sweep_idle(self) -> tuple[str, ...]:
        if self._recovering:
            return ()
        idle = self._residents.idle(self.runtime.clock(), self._board.policy.idle_ttl)
        self._ask(idle, Reason.IDLE)
        return idle

    def _sweep_expired(self) -> None:
        ttl = self._board.policy.session_ttl
        if ttl is None:
            return
        now = self.runtime.clock()
        for key in self._expiry.due(now, ttl):
            ref = self._board.directory.get(key)
            if ref is None:
                continue
            last = self._last_use.get(key, now)
            if now - last <= ttl or key in self._waiting or self._residents.is_in_turn(key):
                self._expiry.watch(key, max(last, now - ttl))
            else:
                self._expiry.watch(key, now)  # should it refuse, it is looked at again
                self._deliver(ref, CloseSession(interrupt=False, reason=Reason.SESSION_EXPIRED))

    def _list_keys(self, _: ListKeys) -> tuple[str, ...]:
        return self._residents.keys()

    def _count_agents(self, _: CountAgents) -> int:
        return len(self._residents)

    def _has_agent(self, message: HasAgent) -> bool:
        return message.key in self._residents

    def _get_position(self, message: GetPosition) -> Position:
        return Position(
            cached=len(self._residents),
            cap=self._board.policy.cap,
            place=self._residents.place(message.key),
        )

    def _get_stats(self, _: GetStats) -> RoomStats:
        state, cap, cached = self._state, self._board.policy.cap, len(self._residents)
        runtime = self.runtime.stats()
        return RoomStats(
            cached=cached,
            cap=cap,
            over_cap=0 if cap is None else max(0, cached - cap),
            known=len(self._board.directory),
            in_turn=self._residents.in_turn,
            waiting=sum(self._waiting.values()),
            dirty=len(self._dirty),
            retained=sum(self._retained.values()),
            busy=len(self._busy),
            failed=len(self._broken),
            weight=self._residents.weight,
            reasons=MappingProxyType(dict(state.reasons)),
            events_dropped=sum(self._dropped(ref) for ref in state.listeners.values()),
            workers=runtime.workers,
            workers_busy=runtime.workers_busy,
            work_queued=runtime.work_queued,
            workers_lost=runtime.workers_lost,
            stuck=runtime.stuck,
            draining=self._board.draining,
            **{name: state.counters[name] for name in _COUNTERS},
        )

    # Bounds.

    def _hold_bounds(self) -> None:
        """Ask whoever is beyond the cap, or beyond the memory budget."""
        if self._recovering or self._board.draining:
            return
        cap = self._board.policy.cap
        beyond = self._residents.beyond(cap)
        self._ask(beyond.ask, Reason.CAPACITY)
        if cap is not None and len(self._residents) <= cap:
            self._warned = False
        elif beyond.held and not self._warned:
            self._warned = True
            logger.warning(
                "%s agents are cached, %s more than the cap of %s: %s of the least recently used are in "
                "a turn and stay until it ends. Raise the cap if this lasts",
                len(self._residents),
                len(self._residents) - (cap or 0),
                cap,
                beyond.held,
            )
        if self._budget is not None:
            self._look_at_memory(self._budget)

    def _look_at_memory(self, budget: int) -> None:
        policy = self._board.policy
        weighed = policy.weigh is not None
        ask = self._memory.look(
            self._residents,
            used=self._residents.weight if weighed else self._meter(),
            budget=budget,
            relief=policy.memory_relief,
            batch=policy.memory_batch,
            weighed=weighed,
        )
        if ask:
            logger.info(
                "Memory is above its budget of %s bytes: %s agents are released", budget, len(ask)
            )
        self._ask(ask, Reason.MEMORY)

    def _shed(self, key: str) -> None:
        """An agent is gone, or stays. Behind the last of those that were shed, memory is given back."""
        if not self._memory.gone(key) or self._giving_back:
            return
        try:
            given = self.runtime.submit(give_back, name="give memory back")
        except RuntimeClosed:
            return
        self._giving_back = True
        self.pipe_to_self(given, lambda _: MemoryGivenBack(), lambda _: MemoryGivenBack())

    def _memory_given_back(self, _: MemoryGivenBack) -> None:
        self._giving_back = False
        self._hold_bounds()
        self._look_whether_settled()

    def _ask(self, keys: Iterable[str], reason: Reason) -> None:
        for key in keys:
            self._state.asked[key] = reason
            ref = self._board.directory.get(key)
            if ref is None or not self._deliver(ref, ReleaseAgent(reason=reason)):
                self._settle_answer(key, accepted=False)

    def _settle_answer(self, key: str, *, accepted: bool) -> None:
        state = self._state
        if state.asked.pop(key, None) is not None and state.sweeps:
            state.sweeps = [s for s in state.sweeps if not s.answered(key, accepted=accepted)]

    # Recovery: after a restart, when all sessions have told.

    def _recovered(self) -> None:
        if self._restarted and not self._recovering:
            self._restarted = False
            # Whoever has told its standing has answered before what it was asked before.
            for key in list(self._state.asked):
                self._settle_answer(key, accepted=False)
            self._residents.reorder(self._uses)
            self._uses.clear()
            self._hold_bounds()
            self._look_whether_settled()

    # Settling.

    def _settle_room(self, _: SettleRoom) -> bool | None:
        self._state.settling.append(self.defer_reply())
        self._look_whether_settled()
        return None

    def _look_whether_settled(self) -> None:
        state = self._state
        if not state.settling or self._busy or state.asked or self._recovering or self._giving_back:
            return
        settling, state.settling = state.settling, []
        for reply in settling:
            reply.set(True)

    # Drain.

    def _drain_room(self, message: DrainRoom) -> DrainReport | None:
        state, board = self._state, self._board
        if state.report is not None:
            return state.report
        state.draining.append(self.defer_reply())
        if state.drain is None:
            board.draining = True
            now = self.runtime.clock()
            state.drain = DrainBooks(board.directory, now, now + message.deadline)
            logger.info("Draining %s sessions, for %s s at most", len(board.directory), message.deadline)
            self._set_drain_timers(state.drain)
            self._tell_pending(DrainSession(deadline=state.drain.deadline))
            self._look_whether_drained()
        return None

    def _set_drain_timers(self, drain: DrainBooks) -> None:
        left = drain.deadline - self.runtime.clock()
        for stage, after in STAGES.items():
            self.call_later(max(0.0, left + after), DrainDeadline(stage=stage))

    def _tell_pending(self, message: Any) -> None:
        """Tell everybody who is still to be heard of. From one that has stopped, word is on its way."""
        pending = () if self._state.drain is None else sorted(self._state.drain.pending)
        for ref in filter(None, map(self._board.directory.get, pending)):
            self._deliver(ref, message)

    def _drain_deadline(self, message: DrainDeadline) -> None:
        if self._state.drain is None or self._state.report is not None:
            return
        if message.stage == FORCE:
            self._tell_pending(ForceSession())
            self._look_whether_drained()
        elif message.stage == ABANDON:
            self._tell_pending(AbandonSession())
            self._look_whether_drained()
        else:
            self._report(self._state.drain)

    def _session_drained(self, message: SessionDrained) -> None:
        if self._state.drain is not None:
            self._state.drain.drained(message)
            self._look_whether_drained()

    def _look_whether_drained(self) -> None:
        drain = self._state.drain
        if drain is not None and not drain.pending and self._state.report is None:
            self._report(drain)

    def _report(self, drain: DrainBooks) -> None:
        state = self._state
        state.report = report = drain.report(self.runtime.clock())
        for key, problem in report.problems.items():
            logger.error("Session %r was not drained cleanly: %s", key, problem)
        logger.info(
            "Drained in %.2f s: %s committed, %s failed, %s abandoned",
            report.seconds,
            len(report.committed),
            len(report.failed),
            len(report.abandoned),
        )
        waiting, state.draining = state.draining, []
        for reply in waiting:
            reply.set(report)

    # Listeners.

    def _listen(self, message: Listen) -> int:
        state = self._state
        state.listener_numbers += 1
        state.listeners[state.listener_numbers] = self.start_child(Announcer, message.callback)
        return state.listener_numbers

    def _stop_listening(self, message: StopListening) -> None:
        listener = self._state.listeners.pop(message.number, None)
        if listener is not None:
            listener.stop(block=False)

    def _announce(self, event: Event) -> None:
        for listener in self._state.listeners.values():
            self._deliver(listener, event)

    def _dropped(self, listener: ActorRef[Announcer]) -> int:
        announcer = listener.actor_inbox.actor
        return announcer.dropped if isinstance(announcer, Announcer) else 0

    # Helpers.

    def _set_sweeper(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        every = self._board.policy.sweep_every
        if every is not None:
            self._sweeper = self.call_every(every, SweepRoom())

    def _deliver(self, ref: ActorRef[Any], message: Any) -> bool:
        """Tell an actor. False if it has stopped."""
        try:
            ref.actor_inbox.deliver(message)
        except pykka.ActorDeadError:
            return False
        return True

    # What gateways call through a proxy, when they want the actor itself.

    def sweep(self) -> int:
        """Release what is idle now. See `Greenroom.sweep`."""
        return self._sweep_room(SweepRoom())  # type: ignore[return-value]  # deferred

    def stats(self) -> RoomStats:
        """Count. See `Greenroom.stats`."""
        return self._get_stats(GetStats())

    def keys(self) -> tuple[str, ...]:
        """The sessions with an agent, least recently used first."""
        return self._residents.keys()

    def configure(self, /, **changes: Any) -> Policy:
        """Change the policy. See `Greenroom.configure`."""
        return self._configure(Configure(changes=changes))

    def settle(self) -> bool:
        """Answer when nothing is under way. See `Greenroom.settle`."""
        return self._settle_room(SettleRoom())  # type: ignore[return-value]  # deferred

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room. See `Greenroom.drain`."""
        return self._drain_room(DrainRoom(deadline=deadline))  # type: ignore[return-value]  # deferred

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        AgentBuilt: _event,
        AgentClosed: _event,
        AgentReleased: _event,
        AgentRetained: _event,
        AgentReused: _agent_reused,
        BuildFailure: _event,
        CommitFailure: _event,
        CommitSucceeded: _event,
        Configure: _configure,
        CountAgents: _count_agents,
        DrainDeadline: _drain_deadline,
        DrainRoom: _drain_room,
        GetPosition: _get_position,
        GetStats: _get_stats,
        HasAgent: _has_agent,
        HookFailure: _event,
        ListKeys: _list_keys,
        Listen: _listen,
        MemoryGivenBack: _memory_given_back,
        OpenSession: _open_session,
        ReleaseAnswered: _release_answered,
        SessionChanged: _session_changed,
        SessionDrained: _session_drained,
        SessionEnded: _event,
        SessionFailure: _event,
        SessionStopped: _session_stopped,
        SettleRoom: _settle_room,
        StopListening: _stop_listening,
        SweepRoom: _sweep_room,
        TurnEnded: _turn_ended,
    }


_COUNTERS = (
    "hits",
    "builds",
    "rebuilds",
    "adopted",
    "releases",
    "closes",
    "commits",
    "commit_failures",
    "build_failures",
    "hook_failures",
    "restarts",
    "sessions_ended",
)


def _put(keys: set[str], key: str, there: bool) -> None:
    if there:
        keys.add(key)
    else:
        keys.discard(key)


def _count(counts: dict[str, int], key: str, count: int) -> None:
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
