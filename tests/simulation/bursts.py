"""Worlds in which what fails once fails again at once, up to nine times: sessions leave out what they
fail at, and take no turn any more. The same invariants hold, but for one: an agent whose release was
left out was never let go, and is counted as a hook that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actors.simulation._faults import Faults, InjectedFault
from tests.simulation import world

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

LONGER = (0, 0, 2, 3, 4, 5, 8)
"""How many faults may follow a first one."""


class Bursts(Faults):
    """Faults of effects that come one after the other."""

    def __init__(self, probabilities: Mapping[str, float] | None, random: Random) -> None:
        super().__init__(probabilities, random)
        self._left = 0

    def maybe_raise(self, name: str) -> None:
        if name == "effect" and self._left:
            self._left -= 1
            raise InjectedFault(name)
        try:
            super().maybe_raise(name)
        except InjectedFault:
            if name == "effect":
                self._left = self._random.choice(LONGER)
            raise


class World(world.World):
    """A world with bursts of faults."""

    faults = Bursts

    def _may_be_kept(self, hook_failures: int) -> int:
        return hook_failures


def run(seed: int) -> world.World:
    """Run one world. Raises with its seed if an invariant does not hold."""
    return world.run(seed, World)
