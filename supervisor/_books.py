"""The supervisor, first layer: what it knows of its sessions, its counters and its listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors import Actor
from greenroom.actors.policy import Policy
from greenroom.messages import (
    CountAgents,
    Event,
    GetPosition,
    GetStats,
    HasAgent,
    Listen,
    ListKeys,
    ListListeners,
    Position,
    RoomStats,
    Standing,
    StopListening,
)
from greenroom.supervisor._meter import budget_bytes, memory_limit
from greenroom.supervisor._state import COUNTERS, SupervisorState
from greenroom.supervisor.announcer import Announcer
from greenroom.supervisor.eviction import Expiry, MemoryBound, Residents

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef, Timer
    from greenroom.actors.board import Board

__all__ = ["SupervisorBooks"]


class SupervisorBooks(Actor):
    """Keeps the books, answers questions about them, and passes events on."""

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
        self._unseen: set[str] = set()
        """Sessions that have not told that yet, since it began to matter."""
        self._uses: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._unrecorded: set[str] = set()
        self._busy: set[str] = set()
        self._broken: set[str] = set()
        self._waiting: dict[str, int] = {}
        self._retained: dict[str, int] = {}
        self._warned = False
        self._sweeper: Timer | None = None

    def hand_over(self) -> SupervisorState:
        """What the next incarnation cannot learn from the sessions."""
        return self._state

    def _note(self, key: str, standing: Standing) -> None:
        _put(self._dirty, key, standing.dirty)
        _put(self._unrecorded, key, standing.unrecorded)
        _put(self._busy, key, standing.busy)
        _put(self._broken, key, standing.failed)
        _count(self._waiting, key, standing.waiting)
        _count(self._retained, key, standing.retained)
        if self._board.policy.session_ttl is not None:
            since = standing.idle_since
            self._unseen.discard(key)
            self._last_use[key] = last = self.runtime.clock() if since is None else since
            self._expiry.watch(key, last)

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
            unrecorded=len(self._unrecorded),
            weight=self._residents.weight,
            memory_budget=self._budget,
            reasons=dict(state.reasons),
            events_dropped=sum(self._dropped(ref) for ref in state.listeners.values()),
            workers=runtime.workers,
            workers_busy=runtime.workers_busy,
            work_queued=runtime.work_queued,
            workers_lost=runtime.workers_lost,
            stuck=runtime.stuck,
            draining=self._board.draining,
            **{name: state.counters[name] for name in COUNTERS},
        )

    # Listeners.

    def _listen(self, message: Listen) -> int:
        state = self._state
        state.listener_numbers += 1
        number = state.listener_numbers
        state.listeners[number] = listener = self.start_child(Announcer, message.callback)
        if message.hits:
            state.hit_listeners[number] = listener
        return number

    def _list_listeners(self, _: ListListeners) -> tuple[ActorRef[Announcer], ...]:
        return tuple(self._state.listeners.values())

    def _stop_listening(self, message: StopListening) -> None:
        listener = self._state.listeners.pop(message.number, None)
        self._state.hit_listeners.pop(message.number, None)
        if listener is not None:
            listener.stop(block=False)

    def _announce(self, event: Event) -> None:
        state = self._state
        listeners = state.hit_listeners if event.kind == "hit" else state.listeners
        for listener in listeners.values():
            self._deliver(listener, event)

    def _dropped(self, listener: ActorRef[Announcer]) -> int:
        announcer = listener.actor_inbox.actor
        return announcer.dropped if isinstance(announcer, Announcer) else 0

    def _deliver(self, ref: ActorRef[Any], message: Any) -> bool:
        """Tell an actor. False if it has stopped."""
        try:
            ref.actor_inbox.deliver(message)
        except pykka.ActorDeadError:
            return False
        return True

    def _resolve_budget(self, policy: Policy) -> int | None:
        budget = policy.memory_budget
        return None if budget is None else budget_bytes(budget, memory_limit())


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
