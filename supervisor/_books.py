"""The supervisor, first layer: its counters, its listeners, and what it answers about the room."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors import Actor
from greenroom.actors.session.policy import Policy
from greenroom.messages import (
    CountAgents,
    Event,
    GetStats,
    Listen,
    ListListeners,
    RoomStats,
    StopListening,
)
from greenroom.supervisor._meter import budget_bytes, memory_limit
from greenroom.supervisor._state import COUNTERS, SupervisorState
from greenroom.supervisor.announcer import Announcer
from greenroom.supervisor.eviction import Expiry, MemoryBound, Residents

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef, Timer
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext

__all__ = ["SupervisorBooks", "count_cards"]


class SupervisorBooks(Actor):
    """Counts what happens, answers questions about it, and passes events on."""

    def __init__(
        self, context: RoomContext, meter: Callable[[], int], state: SupervisorState | None = None
    ) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        self._context = context
        self._meter = meter
        self._restarted = state is not None
        self._state = SupervisorState() if state is None else state
        self._residents = Residents()
        self._memory = MemoryBound()
        self._giving_back = False
        self._looking = False
        """A look at the bounds was too short, and `HoldBounds` is on its way to us."""
        self._budget = self._resolve_budget(context.policy)
        self._expiry = Expiry()
        self._unsettled: set[str] = set()
        """Sessions with something under way, while somebody waits for the room to settle."""
        self._quiet = False
        """Nothing was under way at the last look."""
        self._warned = False
        self._sweeper: Timer | None = None

    def hand_over(self) -> SupervisorState:
        """What the next incarnation cannot learn from the cards."""
        return self._state

    def _count_agents(self, _: CountAgents) -> int:
        return len(self._residents)

    def _get_stats(self, _: GetStats) -> tuple[RoomStats, list[Card]]:
        # Both in one step: the hits of a session that ends are on its card, or in the counters.
        state, runtime = self._state, self.runtime.stats()
        stats = RoomStats(
            cap=self._context.policy.cap,
            known=len(self._context.cards),
            memory_budget=self._budget,
            reasons=dict(state.reasons),
            events_dropped=sum(self._dropped(ref) for ref in state.listeners.values()),
            workers=runtime.workers,
            workers_busy=runtime.workers_busy,
            work_queued=runtime.work_queued,
            workers_lost=runtime.workers_lost,
            stuck=runtime.stuck,
            draining=self._context.draining,
            **{name: state.counters[name] for name in COUNTERS},
        )
        return stats, list(self._context.cards.values())

    def _say_whether_warm(self) -> None:
        """Say in the context whether turns may begin and end without a message: nobody wants to hear of
        each of them, and nothing must be checked after each."""
        context = self._context
        context.hits = bool(self._state.hit_listeners)
        context.weighing = self._budget is not None or context.policy.weigh is not None
        context.warm = not (
            context.hits or context.weighing or context.draining or context.books is not None
        )

    # Listeners.

    def _listen(self, message: Listen) -> int:
        state = self._state
        state.listener_numbers += 1
        number = state.listener_numbers
        state.listeners[number] = listener = self.start_child(Announcer, message.callback)
        if message.hits:
            state.hit_listeners[number] = listener
            self._say_whether_warm()
        return number

    def _list_listeners(self, _: ListListeners) -> tuple[ActorRef[Announcer], ...]:
        return tuple(self._state.listeners.values())

    def _stop_listening(self, message: StopListening) -> None:
        listener = self._state.listeners.pop(message.number, None)
        self._state.hit_listeners.pop(message.number, None)
        self._say_whether_warm()
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


def count_cards(answer: tuple[RoomStats, list[Card]]) -> RoomStats:
    """Count what is on the cards. Not in a handler: there may be a million."""
    stats, cards = answer
    cached = in_turn = dirty = busy = failed = unrecorded = waiting = retained = weight = hits = 0
    for card in cards:
        hits += card.hits
        weight += card.weight
        dirty += card.dirty
        if card.cached:
            cached += 1
            in_turn += card.in_turn
        if card.waiting or card.retained or card.busy or card.failed or card.unrecorded:
            waiting += card.waiting
            retained += card.retained
            busy += card.busy
            failed += card.failed
            unrecorded += card.unrecorded
    return dataclasses.replace(
        stats,
        hits=stats.hits + hits,
        cached=cached,
        over_cap=0 if stats.cap is None else max(0, cached - stats.cap),
        in_turn=in_turn,
        dirty=dirty,
        busy=busy,
        failed=failed,
        unrecorded=unrecorded,
        waiting=waiting,
        retained=retained,
        weight=weight,
    )
