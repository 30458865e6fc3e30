"""What `stats()` tells: the supervisor counts events, and the rest is counted from the cards."""

from __future__ import annotations

import dataclasses
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
    Event,
    HookFailure,
    OwnershipLost,
    RecoveryFailure,
    RoomStats,
    SessionEnded,
    SessionRecovered,
    StoreFailure,
)

if TYPE_CHECKING:
    from greenroom.actors.session.card import Card

__all__ = ["Counters", "count_cards"]

COUNTED: dict[type[Event], str] = {
    AgentBuilt: "builds",
    AgentReleased: "releases",
    AgentClosed: "closes",
    CommitSucceeded: "commits",
    CommitFailure: "commit_failures",
    BuildFailure: "build_failures",
    HookFailure: "hook_failures",
    OwnershipLost: "ownership_lost",
    RecoveryFailure: "recovery_failures",
    SessionEnded: "sessions_ended",
    SessionRecovered: "recovered",
    StoreFailure: "store_failures",
}
"""Which field of `RoomStats` counts an event."""

SUMMED = ("hits", "weight", "dirty", "waiting", "retained", "busy", "failed", "unrecorded")
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
        counts = self.counts
        name = COUNTED.get(event.__class__)
        if name is not None:
            counts[name] += 1
        if isinstance(event, AgentBuilt):
            counts["rebuilds"] += event.reason is not None
            counts["adopted"] += event.adopted
            counts["builds"] -= event.adopted
        elif isinstance(event, (AgentReleased, AgentClosed)):
            self.reasons[event.reason.value] += 1


def count_cards(answer: tuple[RoomStats, list[Card]]) -> RoomStats:
    """Count what is on the cards. Not in a handler: there may be a million."""
    stats, cards = answer
    cached = list(filter(attrgetter("cached"), cards))
    sums = {name: sum(map(attrgetter(name), cards)) for name in SUMMED}
    sums["hits"] += stats.hits  # of sessions that have ended
    return dataclasses.replace(
        stats,
        cached=len(cached),
        over_cap=0 if stats.cap is None else max(0, len(cached) - stats.cap),
        in_turn=sum(map(attrgetter("in_turn"), cached)),
        **sums,
    )
