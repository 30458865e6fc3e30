"""A lock around an ordered dict: what a gateway does without actors.

With many threads it comes to one of two things, and may change between them in one run. Either the
thread that has it keeps getting it, which is fast while the others starve (look at the maximum), or
the waiters form a convoy and every call costs a switch of threads (look at p99).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.contender import Contender, NotOffered, Stage
from benchmarks.work import new_entries


class Keeper:
    def __init__(self) -> None:
        self._entries = new_entries()
        self._lock = threading.Lock()

    def touch(self, key: int) -> int:
        with self._lock:
            entries = self._entries
            entries.move_to_end(key)
            return entries[key]

    async def touch_in_a_task(self, key: int) -> int:
        with self._lock:
            entries = self._entries
            entries.move_to_end(key)
            return entries[key]


class Contestant(Contender):
    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        if kind in ("proxy", "tell"):
            raise NotOffered("a lock has no proxy, and no way to leave work to somebody else")
        keepers = [Keeper() for _ in range(actors)]
        yield Stage(
            calls=[keeper.touch for keeper in keepers] if kind == "ask" else (),
            async_calls=[keeper.touch_in_a_task for keeper in keepers] if kind == "loop" else (),
        )
