"""A room in virtual time: the decisions of a real one, and a clock that jumps.

Who is let go is decided by the very code that decides it in a room: `greenroom.supervisor.eviction`.
What is around it here:

    a turn comes        its session has an agent: a hit. It has none: a build, and the bounds are held.
                        It is in a turn: the turn waits, first come first served; `max_waiting` wait
                        already: it is refused
    a turn ends         the next one of the session begins, or the session rests; the bounds are held if
                        somebody could not be let go before
    a sweep             every `sweep_every` seconds: expired sessions are closed, idle agents released

Whoever is asked to let go does so at once: builds, commits and teardowns take no time here. (A room does
them beside the turns of other sessions.)
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, deque

from greenroom import Policy, Reason
from greenroom.supervisor.eviction import Candidates, Card, Expiry, MemoryBound, Residents

__all__ = ["VirtualRoom"]


class VirtualRoom:
    """A room in virtual time, and what came of it."""

    def __init__(self, policy: Policy, agent_bytes: int) -> None:
        self._policy = policy
        self._cap = math.inf if policy.cap is None else policy.cap
        self._budget = _budget(policy, agent_bytes)
        self._weight = agent_bytes
        self._every = math.inf if policy.sweep_every is None else policy.sweep_every
        self._next_sweep = self._every
        self._sweeps = 1
        self._residents = Residents()
        self._expiry = Expiry()
        self._memory = MemoryBound()
        self._cards: dict[str, Card] = {}
        self._uses = itertools.count(1)
        self._running: dict[str, deque[float] | None] = {}
        """Sessions in a turn, and how long those turns take that wait for it."""
        self._ends: list[tuple[float, str]] = []
        self._ending: set[str] = set()
        """Sessions that are over when their turn is."""
        self._known: set[str] = set()
        self.now = self._counted = 0.0
        self.agent_seconds = 0.0
        self.reasons: Counter[str] = Counter()
        self.hits = self.builds = self.rebuilds = 0
        self.held = self.waited = self.refused = self.peak = self.at_once = 0

    # Time.

    def pass_time(self, until: float) -> None:
        """Let happen what is due by then: turns end, sweeps are made."""
        ends = self._ends
        while True:
            due = ends[0][0] if ends else math.inf
            if self._next_sweep < due:
                if self._next_sweep > until:
                    break
                self.now = self._next_sweep
                self._sweeps += 1
                self._next_sweep = self._sweeps * self._every
                self._sweep()
            elif due > until or due == math.inf:
                break
            else:
                self.now, key = heapq.heappop(ends)
                self._turn_over(key)
        self.now = until

    def finish(self) -> None:
        """Let the last turns end."""
        while self._ends:
            self.pass_time(self._ends[0][0])
        self._count_time()

    # Turns.

    def come(self, key: str, seconds: float, now: float) -> None:
        """Somebody wants a turn."""
        running = self._running
        if key not in running:
            running[key] = None
            if len(running) > self.at_once:
                self.at_once = len(running)
            self._begin(key, now + seconds)
            return
        waiting = running[key]
        if waiting is None:
            waiting = running[key] = deque()
        if len(waiting) >= self._policy.max_waiting:
            self.refused += 1
        else:
            self.waited += 1
            waiting.append(seconds)

    def _begin(self, key: str, end: float) -> None:
        residents = self._residents
        card = self._cards.get(key)
        if card is None:
            card = self._cards[key] = Card()
            if self._policy.session_ttl is not None:
                self._expiry.put(key, self.now)
        card.used, card.in_turn = next(self._uses), True
        if key in residents:
            self.hits += 1
        else:
            self.builds += 1
            self.rebuilds += key in self._known
            self._known.add(key)
            self._count_time()
            card.weight, card.cached = self._weight, True
            residents.enter(key, card, self.now)
            self._hold_bounds()
            self.peak = max(self.peak, len(residents))
        if len(residents) > self._cap:
            self.held += 1
        heapq.heappush(self._ends, (end, key))

    def _turn_over(self, key: str) -> None:
        waiting, card = self._running[key], self._cards[key]
        card.used, card.in_turn, card.idle_since = next(self._uses), False, self.now
        self._residents.rested(key, card)
        if self._ending and key in self._ending:
            self._ending.discard(key)
            self._close(key, Reason.EXPLICIT)
        if waiting:
            self._begin(key, self.now + waiting.popleft())
        else:
            del self._running[key]
        if len(self._residents) > self._cap or self._budget is not None:
            self._hold_bounds()

    def end(self, key: str) -> None:
        """The session is over: now, or when its turn is."""
        if key in self._running:
            self._ending.add(key)
        else:
            self._close(key, Reason.EXPLICIT)

    # Bounds. As `greenroom.supervisor` holds them; whoever is asked lets go at once.

    def _hold_bounds(self) -> None:
        residents, cards = self._residents, self._cards
        beyond = residents.beyond(self._policy.cap, cards)
        found = Candidates([])
        if self._budget is not None:
            # As in a room, whoever was asked for the cap counts until it has let go: memory is looked at
            # before that, and again after it.
            found = self._memory.look(
                residents,
                cards,
                used=residents.weight,
                budget=self._budget,
                relief=self._policy.memory_relief,
                batch=self._policy.memory_batch,
                weighed=True,
            )
        self._release(beyond, Reason.CAPACITY)
        self._release(found, Reason.MEMORY)
        if beyond.more or found.more or (self._budget is not None and (beyond.ask or found.ask)):
            self._hold_bounds()

    def _sweep(self) -> None:
        policy, cards, more = self._policy, self._cards, True
        while more and policy.session_ttl is not None:
            keys, more = self._expiry.due(self.now, policy.session_ttl, cards)
            for key in keys:
                self._close(key, Reason.SESSION_EXPIRED, forget=False)
        more = True
        while more:
            idle = self._residents.idle(self.now, policy.idle_ttl, cards)
            self._release(idle, Reason.IDLE)
            more = idle.more
        if self._budget is not None:
            self._hold_bounds()

    def _release(self, found: Candidates, reason: Reason) -> None:
        """All of them answer at once: those in a turn say no, the others let go."""
        for key, _ in found.ask:
            if self._cards[key].in_turn:
                self._residents.answered(key, self._cards[key], held=True)
            else:
                self._let_go(key, reason)

    def _let_go(self, key: str, reason: Reason) -> None:
        self._count_time()
        self.reasons[reason.value] += 1
        self._cards[key].cached = False
        self._residents.leave(key)

    def _close(self, key: str, reason: Reason, *, forget: bool = True) -> None:
        if forget:
            self._known.discard(key)
        self._expiry.drop(key)
        if key in self._residents:
            self._let_go(key, reason)
        self._cards.pop(key, None)

    # Figures.

    def _count_time(self) -> None:
        self.agent_seconds += len(self._residents) * (self.now - self._counted)
        self._counted = self.now

    @property
    def mean(self) -> float:
        """Agents, on average over the time that has passed."""
        return self.agent_seconds / self.now if self.now else 0.0


def _budget(policy: Policy, agent_bytes: int) -> int | None:
    budget = policy.memory_budget
    if budget is None:
        return None
    if not isinstance(budget, int):
        msg = f"a replay has no machine: memory_budget must be bytes, not a share such as {budget!r}"
        raise ValueError(msg)
    if agent_bytes <= 0:
        msg = "with a memory_budget, say how much an agent holds: agent_bytes must be more than 0"
        raise ValueError(msg)
    return budget
