"""A room with so many sessions, and a clock that can be put forward."""

from __future__ import annotations

import time
from collections.abc import Iterable

from greenroom import AgentSpec, Greenroom, Policy
from greenroom.actors import Runtime

SPEC = AgentSpec(model="benchmark", system_prompt="what every agent here is built from")

IDLE_TTL = 3600.0
PATIENCE = 600.0
"""Seconds that a drain, or what is under way, may take."""


class Agent:
    """As small as an agent can be."""

    __slots__ = ("__weakref__",)


class Clock:
    """Real time, and as much more as it was put forward."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead

    def put_forward(self, seconds: float) -> None:
        self._ahead += seconds


class Population:
    """A room in which no bound is held unless it is asked for."""

    def __init__(self, *, cap: int | None = None) -> None:
        self.clock = Clock()
        self._runtime = Runtime(name="scale", clock=self.clock)
        policy = Policy(cap=cap, idle_ttl=IDLE_TTL, sweep_every=None)
        self.room = Greenroom(lambda _: Agent(), policy=policy, runtime=self._runtime)
        self.turn = self.room.turn

    def settle(self, keys: Iterable[str]) -> None:
        """Let these move in. Their agents come ready made: building a million would take an hour."""
        adopt, turn = self.room.adopt, self.turn
        for key in keys:
            adopt(key, Agent(), SPEC)
            with turn(key, SPEC):
                pass

    def visit(self, keys: Iterable[str]) -> None:
        """A turn for each. One that has no agent yet is built one."""
        turn = self.turn
        for key in keys:
            with turn(key, SPEC):
                pass

    def come_to_rest(self) -> None:
        """Return when nothing is under way."""
        self.room.settle(PATIENCE)

    def check(self, *, agents: int) -> None:
        """A room that is fast because it forgot something is an error, not a result."""
        self.come_to_rest()
        stats = self.room.stats()
        found = (stats.cached, stats.in_turn, stats.hook_failures, stats.build_failures, stats.failed)
        if found != (agents, 0, 0, 0, 0):
            raise AssertionError(f"agents, turns, failures are {found}, and should be {agents}, 0, …")
