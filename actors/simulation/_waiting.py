"""Futures of a simulation, and what is said when nothing can run any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.actors.runtime._errors import ActorError
from greenroom.actors.runtime._future import Future

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.actors.simulation._mailbox import SimulatedMailbox
    from greenroom.actors.simulation._simulation import Simulation

__all__ = ["Deadlock", "NotIdle", "SimulatedFuture", "report"]

T = TypeVar("T")


class Deadlock(ActorError):
    """Somebody waits, and nothing is left that could run. The text says who waits for whom."""


class NotIdle(ActorError):
    """The simulation took as many steps as it may and was not done."""


class SimulatedFuture(Future[T]):
    """A future whose `get()` drives the simulation, and which knows who waits for what."""

    def __init__(self, simulation: Simulation, waiter: str, awaited: str) -> None:
        self._of = simulation
        self.waiter = waiter
        self.awaited = awaited
        simulation._watch(self)

    def _simulation(self) -> Simulation:
        return self._of


def report(futures: Iterable[SimulatedFuture[Any]], mailboxes: Iterable[SimulatedMailbox]) -> str:
    """Say who waits for whom."""
    lines = [f"{future.waiter} waits for {future.awaited}" for future in futures if not future.done()]
    lines += [line for mailbox in mailboxes for line in mailbox.complaints()]
    return "\n".join(f"  {line}" for line in lines) or "  nobody waits for anything"
