"""The agents that every contender keeps, in this process or in another."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass

from benchmarks.peers.journal import note

WEDGED = 60.0
"""Seconds for which a wedged commit hangs: longer than anybody here waits, and not for ever, so that
a process that holds one is gone soon after."""

_numbers = itertools.count()


class Agent:
    """Works for as long as it is told; its hooks take as long as its recipe says."""

    __slots__ = ("__weakref__", "_key", "_name", "_recipe")

    def __init__(self, recipe: Recipe, key: str) -> None:
        self._recipe = recipe
        self._key = key
        self._name = f"{os.getpid()}.{next(_numbers)}"
        self._note("built")

    def answer(self, seconds: float) -> None:
        """The body of a turn. One that takes no time leaves no trace: it is there to be timed."""
        if seconds:
            self._note("began")
            time.sleep(seconds)
            self._note("ended")

    def commit_memory_session(self) -> None:
        self._note("committing")
        time.sleep(WEDGED if self._key == self._recipe.wedged else self._recipe.commit_seconds)
        self._note("committed")

    def release_clients(self) -> None:
        self._note("releasing")
        time.sleep(self._recipe.release_seconds)
        self._note("released")

    def close(self) -> None:
        self._note("closed")

    def _note(self, event: str) -> None:
        if self._recipe.journal:
            note(self._recipe.journal, event, self._key, self._name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How agents are made. It can be sent to another process."""

    journal: str = ""
    """The file in which they write what is done to them, if they are to."""

    commit_seconds: float = 0.0
    release_seconds: float = 0.0
    wedged: str = ""
    """The key of the session whose commit hangs."""

    def build(self, what: object) -> Agent:
        """What a room is given as `build`, whether it tells the key or a context that has one."""
        return Agent(self, str(getattr(what, "key", what)))


class Holder:
    """One session of an actor system that knows nothing of sessions: what its actors are made of.

    They take a message at a time, so that nothing happens to an agent in the middle of a turn.
    """

    def __init__(self, recipe: Recipe, key: str) -> None:
        self._agent = recipe.build(key)
        self._dirty = False

    def turn(self, seconds: float) -> None:
        self._agent.answer(seconds)
        self._dirty = True

    def release(self) -> None:
        self._commit()
        self._agent.release_clients()

    def close(self) -> None:
        self._commit()
        self._agent.close()

    def _commit(self) -> None:
        if self._dirty:
            self._agent.commit_memory_session()
            self._dirty = False
