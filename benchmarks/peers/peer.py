"""What a contender has to offer: a room whose turns can take time, and that may run out of it."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

from benchmarks.peers.agents import Recipe
from benchmarks.rooms.room import Room

SLOW = 64
"""Threads for slow work where a contender needs a pool of them: as many as a room may have at work."""

AsyncTurn = Callable[[str], Awaitable[object]]
Runner = Callable[[Coroutine[Any, Any, Any]], Any]


class Peer(Room):
    tears_down: ClassVar[bool] = True
    """Whether it calls the hooks of an agent that leaves."""

    heavy: ClassVar[bool] = False
    """It brings servers of its own, which are slow to start and are never quite idle. So it is measured
    in a process that is there for one repetition only, all scenarios one after another."""

    @abc.abstractmethod
    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None: ...

    @abc.abstractmethod
    def turn(self, key: str, seconds: float) -> None:
        """A whole turn in which the agent works for so long."""

    def on_loop(self) -> tuple[Runner, AsyncTurn] | None:
        """For who is at its best there: what runs a coroutine on its event loop, and a turn on it."""
        return None

    @abc.abstractmethod
    def drain(self, deadline: float = 30.0) -> None:
        """Begin no more turns, commit what is dirty, close every agent. Give up then, if it can."""

    @classmethod
    def shut_down(cls) -> None:
        """Leave nothing running of what all rooms in this process share."""
