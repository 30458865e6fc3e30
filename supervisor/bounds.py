"""Holds the room to its bounds: cap, memory, idleness, age."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from greenroom.actors.runtime._logging import get_log
from greenroom.messages import Reason
from greenroom.supervisor._meter import BLIND, budget_bytes, memory_limit
from greenroom.supervisor.eviction import Expiry, MemoryBound, Residents

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.policy import Policy
    from greenroom.messages import ReleaseAnswered
    from greenroom.supervisor.requests import Requests, Sweep

__all__ = ["Bounds"]

logger = get_log("greenroom.supervisor")


class Bounds:
    """Asks whoever is beyond a bound to release, and counts on nothing until they have answered.

    It knows nothing that is not on the cards: after a crash of the supervisor, `learn()` reads them.
    """

    def __init__(self, context: RoomContext, meter: Callable[[], int], requests: Requests) -> None:
        self._context = context
        self._meter = meter
        self._requests = requests
        self.residents = Residents()
        self._memory = MemoryBound()
        self._expiry = Expiry()
        self._warned = False
        self.budget: int | None
        """`memory_budget` in bytes."""
        self.follow(context.policy)

    def follow(self, policy: Policy) -> None:
        """Hold the room to this policy from now on."""
        budget = policy.memory_budget
        self.budget = None if budget is None else budget_bytes(budget, memory_limit())

    def learn(self) -> None:
        """Read from the cards who has an agent, and when each was last active."""
        now = self._context.runtime.clock()
        for key, card in list(self._context.cards.items()):
            if card.cached and card.ref.is_alive():  # else word of its end is on its way
                self.residents.enter(key, card, now)
        self.watch_expiry()

    # What happens to sessions.

    def opened(self, key: str) -> None:
        """There is a session of this key."""
        if self._context.policy.session_ttl is not None:
            self._expiry.put(key, self._context.runtime.clock())

    def changed(self, key: str, card: Card) -> bool:
        """Look at the card of a session. True if it got an agent."""
        if not card.cached:
            self.residents.leave(key)
            return False
        entered = self.residents.enter(key, card, self._context.runtime.clock())
        self.residents.rested(key, card)
        return entered

    def answered(self, answer: ReleaseAnswered) -> None:
        """A session has said whether it lets its agent go."""
        card = self._context.cards.get(answer.key)
        if answer.accepted:
            self.residents.leave(answer.key)
        elif card is not None:
            self.residents.answered(answer.key, card, held=answer.held)

    def shed(self, key: str) -> bool:
        """An agent is gone, or stays. True if it was the last of those that were shed for memory."""
        return self._memory.gone(key)

    def forget(self, key: str) -> None:
        """There is no session of this key any more."""
        self.residents.leave(key)
        self._expiry.drop(key)

    # Who has to go.

    def hold(self) -> bool:
        """Ask whoever is beyond the cap, or beyond the memory budget. True if one look was too short."""
        context, cap = self._context, self._context.policy.cap
        if context.draining:
            return False
        more = False
        if cap is None or len(self.residents) <= cap:
            self._warned = False
        else:
            more = self._hold_cap(cap)
        if self.budget is not None:
            more = self._hold_memory(self.budget) or more
        return more

    def _hold_cap(self, cap: int) -> bool:
        residents = self.residents
        beyond = residents.beyond(cap, self._context.cards)
        self._requests.release(beyond.ask, Reason.CAPACITY)
        if residents.held and not self._warned:
            self._warned = True
            logger.warning(
                "%s agents are cached, %s more than the cap of %s: %s of the least recently used are in "
                "a turn and stay until it ends. Raise the cap if this lasts",
                len(residents),
                len(residents) - cap,
                cap,
                residents.held,
            )
        return beyond.more

    def _hold_memory(self, budget: int) -> bool:
        policy = self._context.policy
        weighed = policy.weigh is not None
        found = self._memory.look(
            self.residents,
            self._context.cards,
            used=self.residents.weight if weighed else self._meter(),
            budget=budget,
            relief=policy.memory_relief,
            batch=policy.memory_batch,
            weighed=weighed,
        )
        if found.ask:
            note = "" if weighed else BLIND
            logger.log(
                logging.WARNING if note else logging.INFO,
                "Memory is above its budget of %s bytes: %s agents are released%s",
                budget,
                len(found.ask),
                note,
            )
        self._requests.release(found.ask, Reason.MEMORY)
        return found.more

    # Sweeps.

    def sweep(self, sweep: Sweep) -> bool:
        """Ask who has expired, or has been idle too long. True if one look was too short."""
        more = self._sweep_expired()
        return self.sweep_idle(sweep) or more

    def sweep_idle(self, sweep: Sweep | None = None) -> bool:
        """Ask who has been idle too long. True if one look was too short."""
        context, now = self._context, self._context.runtime.clock()
        ttl = context.policy.idle_ttl
        if ttl is None or context.draining:
            return False
        idle = self.residents.idle(now, ttl, context.cards)
        if sweep is not None:
            sweep.pending.update(key for key, _ in idle.ask)
        self._requests.release(idle.ask, Reason.IDLE, cutoff=now - ttl)
        return idle.more

    def _sweep_expired(self) -> bool:
        context = self._context
        ttl = context.policy.session_ttl
        if ttl is None or context.draining:
            return False
        keys, more = self._expiry.due(context.runtime.clock(), ttl, context.cards)
        self._requests.expire(keys)
        return more

    def watch_expiry(self) -> None:
        """Sessions may expire from now on: note when each was last active."""
        now = self._context.runtime.clock()
        for key, card in list(self._context.cards.items()):
            self._expiry.put(key, now if card.idle_since is None else card.idle_since)
