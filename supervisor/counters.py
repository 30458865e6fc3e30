"""What `stats()` tells: the supervisor counts events, and the rest is counted from the cards."""

from __future__ import annotations

import dataclasses
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from greenroom import messages
from greenroom.messages import AgentBuilt, AgentClosed, AgentReleased, Event, RoomStats

if TYPE_CHECKING:
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext

__all__ = ["Counters", "count_cards"]

COUNTED: dict[type[Event], str] = {
    AgentBuilt: "builds",
    AgentReleased: "releases",
    AgentClosed: "closes",
    messages.CommitSucceeded: "commits",
    messages.CommitFailure: "commit_failures",
    messages.BuildFailure: "build_failures",
    messages.HookFailure: "hook_failures",
    messages.OwnershipLost: "ownership_lost",
    messages.RecoveryFailure: "recovery_failures",
    messages.SessionEnded: "sessions_ended",
    messages.SessionRecovered: "recovered",
    messages.StoreFailure: "store_failures",
}
"""Which field of `RoomStats` counts an event."""

COMMON, RARE = ("hits", "weight", "dirty"), ("waiting", "retained", "busy", "failed", "unrecorded")
"""The fields of `RoomStats` that are the sum of a card's attribute of the same name."""


class Counters:
    """Counts what happens. It outlives a crash of the supervisor."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By the field of `RoomStats`."""
        self.reasons: Counter[str] = Counter()
        """Releases and closes by reason."""

    def count(self, event: Event) -> None:
        """Count an event."""
        name = COUNTED.get(event.__class__)
        if isinstance(event, AgentBuilt):
            name = "adopted" if event.adopted else name
            self.counts["rebuilds"] += event.reason is not None
        elif isinstance(event, (AgentReleased, AgentClosed)):
            self.reasons[event.reason.value] += 1
        if name is not None:
            self.counts[name] += 1

    def stats(
        self, context: RoomContext, *, memory_budget: int | None, events_dropped: int
    ) -> RoomStats:
        """Tell everything that is not counted from the cards."""
        runtime = context.runtime.stats()
        return RoomStats(
            cap=context.policy.cap,
            known=len(context.cards),
            memory_budget=memory_budget,
            reasons=dict(self.reasons),
            events_dropped=events_dropped,
            workers=runtime.workers,
            workers_busy=runtime.workers_busy,
            work_queued=runtime.work_queued,
            workers_lost=runtime.workers_lost,
            stuck=runtime.stuck,
            draining=context.draining,
            **self.counts,
        )


def count_cards(answer: tuple[RoomStats, list[Card]]) -> RoomStats:
    """Count what is on the cards. Not in a handler: there may be a million."""
    stats, cards = answer
    cached = [card for card in cards if card.cached]
    eventful = [c for c in cards if c.waiting or c.retained or c.busy or c.failed or c.unrecorded]
    sums = {name: sum(map(attrgetter(name), cards)) for name in COMMON}
    sums |= {name: sum(map(attrgetter(name), eventful)) for name in RARE}
    sums["hits"] += stats.hits  # of sessions that have ended
    return dataclasses.replace(
        stats,
        cached=len(cached),
        over_cap=0 if stats.cap is None else max(0, len(cached) - stats.cap),
        in_turn=sum(card.in_turn for card in cached),
        **sums,
    )
