"""pykka's `ThreadingActor`: a thread for every actor."""

from __future__ import annotations

from typing import Any

from pykka import ThreadingActor

from benchmarks.contender import Population
from benchmarks.contenders.vocabulary import PykkaContender, PykkaPopulation
from benchmarks.work import new_entries


class Keeper(ThreadingActor):
    use_daemon_thread = True

    def __init__(self) -> None:
        super().__init__()
        self._entries = new_entries()

    def on_receive(self, message: Any) -> int:
        entries = self._entries
        entries.move_to_end(message)
        return entries[message]

    def touch(self, key: int) -> int:
        entries = self._entries
        entries.move_to_end(key)
        return entries[key]


class Idler(ThreadingActor):
    use_daemon_thread = True


class Threads(PykkaPopulation):
    ceiling = 1_000
    """100,000 threads cannot be had on an ordinary machine."""


class Contestant(PykkaContender):
    keeper = Keeper

    def population(self) -> Population:
        return Threads(Idler)
