"""A room of actors that are asked from threads: thespian's and Ray's."""

from __future__ import annotations

import abc
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from benchmarks.peers.agents import Recipe
from benchmarks.peers.peer import SLOW, Peer
from benchmarks.peers.registry import Entry, Registry

logger = logging.getLogger("benchmarks.peers")


class ActorRoom(Peer):
    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        self._recipe = recipe
        self._registry = Registry(cap=cap, idle_ttl=idle_ttl)
        self._pool = ThreadPoolExecutor(SLOW)
        """Waits for those who leave, so that no turn does."""

    @abc.abstractmethod
    def start(self, key: str) -> Any:
        """Start an actor for a session; its handle."""

    @abc.abstractmethod
    def ask_turn(self, handle: Any, seconds: float) -> None: ...

    @abc.abstractmethod
    def ask_release(self, handle: Any) -> None:
        """Have it commit and release, and stop it."""

    @abc.abstractmethod
    def ask_close(self, handles: Sequence[Any], deadline: float) -> None:
        """Have all of them commit and close, at once, and stop them."""

    def begin_end(self, key: str) -> None:
        self.turn(key, 0.0)

    def turn(self, key: str, seconds: float) -> None:
        entry = self._enter(key)
        try:
            self.ask_turn(entry.handle.result(), seconds)
        finally:
            self._let_leave(self._registry.exit(entry))

    def _enter(self, key: str) -> Entry:
        while not isinstance(found := self._registry.enter(key), tuple):
            found.result()
        entry, made = found
        if made:
            try:
                entry.handle.set_result(self.start(key))
            except BaseException as error:
                entry.handle.set_exception(error)
        return entry

    def _let_leave(self, leaving: Sequence[Entry]) -> None:
        for entry in leaving:
            self._pool.submit(self._part, entry)

    def _part(self, entry: Entry) -> None:
        try:
            self.ask_release(entry.handle.result())
        except Exception:
            logger.exception("%s: release failed", entry.key)
        finally:
            self._registry.left(entry)

    def sweep(self) -> int:
        idle = self._registry.idle()
        self._let_leave(idle)
        return len(idle)

    def drain(self, deadline: float = 30.0) -> None:
        entries, leaving = self._registry.close()
        self.ask_close([entry.handle.result() for entry in entries], deadline)
        wait(leaving, timeout=deadline)

    def close(self) -> None:
        self.drain()
        self._pool.shutdown(wait=True)

    def __len__(self) -> int:
        return len(self._registry)
