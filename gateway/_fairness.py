"""Who may begin a turn next. Decides, and does nothing: no clocks, no threads, no waiting.

One turn at a time for each session, at most `limit` in all. Those who wait are served in turns: first
one session of the first tenant, then one of the next, and so round; within a tenant the sessions take
turns in the same way, and within a session the first comes first. So a tenant with a thousand waiting
sessions delays another one by one turn, and a session with a long queue delays its neighbours by one
turn.

A session is in the rotation while it has somebody waiting and nobody running: what is looked at is
always something that may begin, whatever else waits.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["Fairness"]

T = TypeVar("T")


class Fairness(Generic[T]):
    """A queue of tickets, each with a tenant and a key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._running: dict[str, T] = {}
        self._waiting: dict[str, deque[T]] = {}
        self._ready: dict[str, deque[str]] = {}
        """For each tenant, the keys that may begin."""
        self._rotation: deque[str] = deque()
        """The tenants that have some."""
        self._first: dict[str, int] = {}
        """For each key, how many at the head of its queue go before the others."""
        self.waiting = 0

    @property
    def running(self) -> int:
        """How many turns are running."""
        return len(self._running)

    def runs(self, key: str) -> T | None:
        """The ticket that runs for this key."""
        return self._running.get(key)

    def waits(self, key: str) -> int:
        """How many wait for this key."""
        return len(self._waiting.get(key, ()))

    def begin_now(self, key: str, ticket: T) -> bool:
        """Begin a turn that need not stand in any line. False: it must, and nothing has changed."""
        running = self._running
        if self._rotation or len(running) >= self.limit or key in running:
            return False
        running[key] = ticket  # nobody is ready to begin, so nobody waits for this key
        return True

    def end_now(self, key: str, ticket: T) -> bool:
        """End a turn that nobody waits for. False: somebody does, or it does not run; nothing has
        changed."""
        if self.waiting or self._running.get(key) != ticket:
            return False
        del self._running[key]
        return True

    def arrive(self, tenant: str, key: str, ticket: T, *, first: bool = False) -> list[T]:
        """Somebody wants a turn. Returns who may begin now.

        `first` puts it before others of its key, behind those that came first before it.
        """
        if self.begin_now(key, ticket):
            return [ticket]
        queue = self._waiting.setdefault(key, deque())
        if first:
            ahead = self._first.get(key, 0)
            queue.insert(ahead, ticket)
            self._first[key] = ahead + 1
        else:
            queue.append(ticket)
        self.waiting += 1
        if len(queue) == 1 and key not in self._running:
            self._make_ready(tenant, key)
        return self._next()

    def leave(self, tenant: str, key: str, ticket: T) -> list[T]:
        """A turn is over, or whoever waited for it has gone. Returns who may begin now."""
        if self._running.get(key) == ticket:
            del self._running[key]
            if key in self._waiting:
                self._make_ready(tenant, key)
        else:
            self._withdraw(tenant, key, ticket)
        return self._next()

    def set_limit(self, limit: int) -> list[T]:
        """From now on so many at once. Those that run go on. Returns who may begin now."""
        self.limit = limit
        return self._next()

    def dismiss(self) -> list[T]:
        """Nobody need wait any more. Returns those who did."""
        waiting = [ticket for queue in self._waiting.values() for ticket in queue]
        self._waiting.clear()
        self._ready.clear()
        self._rotation.clear()
        self._first.clear()
        self.waiting = 0
        return waiting

    def _withdraw(self, tenant: str, key: str, ticket: T) -> None:
        queue = self._waiting.get(key)
        if queue is None or ticket not in queue:
            return
        if queue.index(ticket) < self._first.get(key, 0):
            self._one_first_less(key)
        queue.remove(ticket)
        self.waiting -= 1
        if queue:
            return
        del self._waiting[key]
        if key not in self._running:
            self._ready[tenant].remove(key)
            if not self._ready[tenant]:
                del self._ready[tenant]
                self._rotation.remove(tenant)

    def _one_first_less(self, key: str) -> None:
        left = self._first.pop(key, 0) - 1
        if left > 0:
            self._first[key] = left

    def _make_ready(self, tenant: str, key: str) -> None:
        if tenant not in self._ready:
            self._ready[tenant] = deque()
            self._rotation.append(tenant)
        self._ready[tenant].append(key)

    def _next(self) -> list[T]:
        begin: list[T] = []
        if not self._rotation:
            return begin
        while self._rotation and len(self._running) < self.limit:
            tenant = self._rotation.popleft()
            key = self._ready[tenant].popleft()
            if self._ready[tenant]:
                self._rotation.append(tenant)
            else:
                del self._ready[tenant]
            ticket = self._waiting[key].popleft()
            self._one_first_less(key)
            self.waiting -= 1
            if not self._waiting[key]:
                del self._waiting[key]
            self._running[key] = ticket
            begin.append(ticket)
        return begin
