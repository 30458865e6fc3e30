"""Fault points: where a simulation may make things fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

__all__ = ["Faults", "InjectedFault"]


class InjectedFault(Exception):
    """A fault point fired. Its name is the text."""


class Faults:
    """Which fault points fire how often: probabilities by name.

    Three names are the runtime's own: `handler` (a message is not handled but raises), `effect` (an
    effect of `Actor.do()` is not performed but raises) and `work` (slow work raises in the place of its
    result). All others are those that code passes to `runtime.fault_point(name)`.
    """

    def __init__(self, probabilities: Mapping[str, float] | None, random: Random) -> None:
        self._probabilities = dict(probabilities or {})
        self._random = random
        for name, probability in self._probabilities.items():
            if not 0 <= probability <= 1:
                msg = f"the probability of the fault {name!r} must be from 0 to 1, not {probability!r}"
                raise ValueError(msg)

    def maybe_raise(self, name: str) -> None:
        """Raise `InjectedFault` as often as was asked for. A name nobody asked for costs no random."""
        probability = self._probabilities.get(name, 0.0)
        if probability and self._random.random() < probability:
            raise InjectedFault(name)
