"""greenroom's room, through its public face."""

from __future__ import annotations

from typing import Literal

from benchmarks.rooms.room import SIGNATURE, Build, Room
from greenroom import AgentSpec, Greenroom, Policy

SPEC = AgentSpec(model="benchmark", system_prompt=SIGNATURE)

Durability = Literal["full", "normal", "off"]
"""What a completed turn survives, where there is a store."""

SETTLED = 60.0
"""Seconds that its slow work may take to come to rest."""


class Contestant(Room):
    def __init__(
        self,
        build: Build,
        *,
        cap: int,
        idle_ttl: float,
        store: str | None = None,
        durability: Durability = "full",
    ) -> None:
        # Sweeps are measured when asked for: none comes in between by itself, as with the peers.
        policy = Policy(cap=cap, idle_ttl=idle_ttl, sweep_every=3600.0)
        self._room = Greenroom(build, policy=policy, store=store, durability=durability)
        self._turn = self._room.turn

    def begin_end(self, key: str) -> None:
        with self._turn(key, SPEC):
            pass

    def sweep(self) -> int:
        return self._room.sweep()

    def drain(self) -> None:
        self._room.drain()

    def settle(self) -> None:
        self._room.settle(SETTLED)

    def store_failures(self) -> int:
        return self._room.stats().store_failures

    def close(self) -> None:
        self._room.close()

    def __len__(self) -> int:
        return len(self._room)
