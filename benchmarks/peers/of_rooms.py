"""The three contenders of `benchmarks.rooms`, with turns that take time."""

from __future__ import annotations

from typing import Any, ClassVar

from benchmarks.peers.agents import Recipe
from benchmarks.peers.peer import Peer
from benchmarks.rooms import locked, ours, threading_actors
from benchmarks.rooms.room import SIGNATURE


class OfRooms(Peer):
    inner: ClassVar[Any]

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        self._room = self.inner(recipe.build, cap=cap, idle_ttl=idle_ttl)
        # Theirs hides ours: a call more in every turn would be measured too.
        setattr(self, "begin_end", self._room.begin_end)  # noqa: B010  # or mypy takes it for a mistake

    def begin_end(self, key: str) -> None:
        self._room.begin_end(key)

    def sweep(self) -> int:
        swept: int = self._room.sweep()
        return swept

    def settle(self) -> None:
        self._room.settle()

    def drain(self, deadline: float = 30.0) -> None:
        self._room.drain()  # theirs have no deadline

    def close(self) -> None:
        self._room.close()

    def __len__(self) -> int:
        return len(self._room)


class Ours(OfRooms):
    inner = ours.Contestant

    def turn(self, key: str, seconds: float) -> None:
        with self._room._turn(key, ours.SPEC) as turn:
            turn.agent.answer(seconds)

    def drain(self, deadline: float = 30.0) -> None:
        self._room._room.drain(deadline)


class Locked(OfRooms):
    inner = locked.Contestant

    def turn(self, key: str, seconds: float) -> None:
        session = self._room.begin(key, SIGNATURE)
        try:
            session.agent.answer(seconds)
        finally:
            self._room.end(session)


class Threading(OfRooms):
    inner = threading_actors.Contestant
    ceiling = threading_actors.Contestant.ceiling

    def turn(self, key: str, seconds: float) -> None:
        session, agent = self._room.begin(key, SIGNATURE)
        try:
            agent.answer(seconds)
        finally:
            session.tell(threading_actors.End())
