"""cachetools: a bounded cache behind a lock, twice. Neither knows what a turn is.

A cache decides on its own who leaves, and cannot be told that somebody is in use. So an agent may be
evicted in the middle of a turn, the session's next turn gets another one, and what the first turn did
is committed too early or not at all. Who wants to prevent that adds the books of `rooms.locked`, and
then has no use for the cache.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar

from benchmarks.peers.agents import Agent, Recipe
from benchmarks.peers.peer import SLOW, Peer

# By name, because cachetools carries no types.
cachetools: Any = importlib.import_module("cachetools")


class Held:
    __slots__ = ("agent", "dirty")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.dirty = False

    def release(self) -> None:
        self._commit()
        self.agent.release_clients()

    def close(self) -> None:
        self._commit()
        self.agent.close()

    def _commit(self) -> None:
        if self.dirty:
            self.dirty = False
            self.agent.commit_memory_session()


class AgentCache(cachetools.TTLCache):  # type: ignore[misc]  # cachetools carries no types
    """Tells of everybody who leaves: `popitem` of those above the cap, `expire` of the idle."""

    def __init__(self, cap: int, idle_ttl: float, leave: Callable[[Held], object]) -> None:
        super().__init__(cap, idle_ttl)
        self._leave = leave

    def popitem(self) -> Any:
        key, held = super().popitem()
        self._leave(held)
        return key, held

    def expire(self, time: float | None = None) -> Any:
        expired = super().expire(time)
        for _, held in expired:
            self._leave(held)
        return expired


class Hooked(Peer):
    """TTLCache as a careful user has it. Slow work is handed to a pool: the hooks of the cache are
    called with the lock held."""

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        self._recipe = recipe
        self._pool = ThreadPoolExecutor(SLOW)
        self._cache = AgentCache(cap, idle_ttl, lambda held: self._pool.submit(held.release))
        self._lock = threading.Lock()
        self._closed = False

    def begin_end(self, key: str) -> None:
        self.turn(key, 0.0)

    def turn(self, key: str, seconds: float) -> None:
        held = self._held(key)
        held.agent.answer(seconds)
        held.dirty = True

    def _held(self, key: str) -> Held:
        with self._lock:
            if self._closed:
                raise RuntimeError("the cache is closed")
            held: Held | None = self._cache.get(key)
            if held is not None:
                self._cache[key] = held  # its time begins anew, or a busy session would expire too
                return held
        built = Held(self._recipe.build(key))  # without the lock, as cachetools' own decorator does
        with self._lock:
            kept: Held = self._cache.setdefault(key, built)
        if kept is not built:
            built.release()  # another thread was faster
        return kept

    def sweep(self) -> int:
        with self._lock:
            return len(list(self._cache.expire()))

    def drain(self, deadline: float = 30.0) -> None:
        with self._lock:
            self._closed = True
            leaving = list(self._cache.values())
            self._cache.clear()
        wait([self._pool.submit(held.close) for held in leaving], timeout=deadline)

    def close(self) -> None:
        self.drain()
        self._pool.shutdown(wait=True)

    def __len__(self) -> int:
        with self._lock:
            return len(self._cache)


class Decorated(Peer):
    """LRUCache as it is in one line: `@cached(LRUCache(cap), lock=Lock())`."""

    tears_down = False
    declines: ClassVar[Mapping[str, str]] = {
        "evicting": "it drops who leaves, and tears nothing down",
        "sweep": "an LRUCache knows no time",
    }

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        cached = cachetools.cached(cachetools.LRUCache(cap), lock=threading.Lock())
        self._agent_of = cached(recipe.build)
        self._drained = False

    def begin_end(self, key: str) -> None:
        self._agent_of(key)

    def turn(self, key: str, seconds: float) -> None:
        agent: Agent = self._agent_of(key)
        agent.answer(seconds)

    def sweep(self) -> int:
        raise NotImplementedError("an LRUCache knows no time")

    def drain(self, deadline: float = 30.0) -> None:
        # What an `atexit` hook does. Nobody has kept whether there is anything to commit.
        for agent in list(self._agent_of.cache.values()):
            agent.commit_memory_session()
            agent.close()
        self._drained = True

    def close(self) -> None:
        if not self._drained:
            self.drain()

    def __len__(self) -> int:
        return len(self._agent_of.cache)
