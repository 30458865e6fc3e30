"""thespian on its `simpleSystemBase`: synchronous, in one process, for one thread."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contender import Call, Contender, NotOffered, Population, Stage
from benchmarks.work import new_entries

# By name, because thespian carries no types.
thespian: Any = importlib.import_module("thespian.actors")

PATIENCE = 10.0
"""Seconds that an ask waits for its answer."""


class Keeper(thespian.Actor):  # type: ignore[misc]  # thespian carries no types
    def __init__(self) -> None:
        super().__init__()
        self._entries = new_entries()

    def receiveMessage(self, message: Any, sender: Any) -> None:  # thespian calls it so
        if isinstance(message, int):
            entries = self._entries
            entries.move_to_end(message)
            self.send(sender, entries[message])


class SilentKeeper(thespian.Actor):  # type: ignore[misc]  # thespian carries no types
    """Does not answer, for what is told."""

    def __init__(self) -> None:
        super().__init__()
        self._entries = new_entries()

    def receiveMessage(self, message: Any, sender: Any) -> None:  # thespian calls it so
        if isinstance(message, int):
            self._entries.move_to_end(message)
            _ = self._entries[message]


class Idler(thespian.Actor):  # type: ignore[misc]  # thespian carries no types
    def receiveMessage(self, message: Any, sender: Any) -> None:  # thespian calls it so
        pass


class ThespianPopulation(Population):
    def __init__(self, system: Any) -> None:
        super().__init__()
        self._system = system

    def start(self) -> Any:
        return self._system.createActor(Idler)

    def stop(self, member: Any) -> None:
        self._system.tell(member, thespian.ActorExitRequest())


class Contestant(Contender):
    def __init__(self) -> None:
        self._system = thespian.ActorSystem("simpleSystemBase")

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        if kind == "proxy":
            raise NotOffered("thespian has no proxies")
        if kind == "loop":
            raise NotOffered("thespian's answers cannot be awaited")
        if threads > 1:
            raise NotOffered("simpleSystemBase serves one thread")
        keeper = self._system.createActor(SilentKeeper if kind == "tell" else Keeper)
        try:
            # What is told has been handled when `tell` returns: there is nothing to drain.
            yield Stage(calls=[self._teller(keeper) if kind == "tell" else self._asker(keeper)])
        finally:
            self._system.tell(keeper, thespian.ActorExitRequest())

    def _asker(self, keeper: Any) -> Call:
        ask = self._system.ask
        return lambda key: ask(keeper, key, PATIENCE)

    def _teller(self, keeper: Any) -> Call:
        tell = self._system.tell
        return lambda key: tell(keeper, key)

    def population(self) -> Population:
        return ThespianPopulation(self._system)

    def close(self) -> None:
        self._system.shutdown()
