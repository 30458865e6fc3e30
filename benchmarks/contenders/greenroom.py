"""greenroom's actors, on the default runtime."""

from __future__ import annotations

from typing import Any

from benchmarks.contender import Population
from benchmarks.contenders.vocabulary import PykkaContender, PykkaPopulation
from benchmarks.work import new_entries
from greenroom.actors import Actor


class Keeper(Actor):
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


class Idler(Actor):
    """Has nothing to do."""


class Contestant(PykkaContender):
    keeper = Keeper

    def population(self) -> Population:
        return PykkaPopulation(Idler)
