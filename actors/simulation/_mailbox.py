"""The mailbox of a simulated actor: the same, but for who runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pykka.messages import ProxyCall

from greenroom.actors.runtime._calls import describe
from greenroom.actors.runtime._dispatch import SPECIAL
from greenroom.actors.runtime._life import OPEN, SUSPENDED
from greenroom.actors.runtime._mailbox import HOLDER, Mailbox
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.simulation._faults import InjectedFault
from greenroom.actors.simulation._waiting import SimulatedFuture
from greenroom.messages import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._threads import ThreadState
    from greenroom.actors.simulation._simulation import Simulation

__all__ = ["SimulatedMailbox"]

T = TypeVar("T")


class SimulatedMailbox(Mailbox):
    """It never runs its actor on the sender's stack; it tells the simulation that it could run."""

    __slots__ = ("number",)

    runtime: Simulation

    def __init__(self, simulation: Simulation, parent: Mailbox | None, number: int) -> None:
        super().__init__(simulation, parent)
        self.number = number

    def __str__(self) -> str:
        # A number and no URN, so that two runs of one seed say the same.
        return f"{self.actor_class.__name__}#{self.number}"

    def create_future(self, message: Any) -> Future[Any]:
        running = LOCAL.state.running
        waiter = self.runtime._who_runs() if running is None else str(running)
        awaited = f"{self} to answer {describe(message)}"
        return SimulatedFuture(self.runtime, waiter, awaited)

    def ask(self, message: Any, timeout: float | None = None, *, gives_way: bool = True) -> Any:
        return self._ask_and_wait(message, timeout)

    def _run_here(self, thread: ThreadState, first: Any = None) -> bool:
        return False

    def step(
        self,
        thread: ThreadState,
        act: Callable[[Any, Any], T],
        argument: object,
        gives_way: bool = False,
    ) -> T | None:
        """Take the step or not, as the seed says, and let others run at the moments in which on real
        threads they might: with the baton taken, with the step made, and with the baton let go."""
        simulation = self.runtime
        if thread.driving or HOLDER in self.baton or simulation.random.random() < 0.5:
            return None
        self.baton[HOLDER] = argument
        simulation.let_others_run()
        result: T | None = None
        if self.state == OPEN and self._backlog is None and not self.queue:
            simulation._note(f"{self} makes a step: {act.__name__}")
            result = act(self.actor, argument)
            simulation.let_others_run()
        self.baton.clear()
        if self.queue or self.state != OPEN:
            self.wake()
        simulation.let_others_run()
        return result

    def wake(self) -> None:
        self.runtime._wake(self)

    def advance(self) -> None:
        """Handle one message, unless somebody is in the middle of a step, who looks again afterwards."""
        if HOLDER in self.baton:
            return
        self.baton[HOLDER] = self
        thread = LOCAL.state
        exposed, thread.exposed, thread.driving = thread.exposed, False, True
        try:
            self.run(thread, 1, self)
        finally:
            thread.exposed, thread.driving = exposed, False

    def handle(self, message: Any, future: Future[Any] | None) -> None:
        simulation = self.runtime
        simulation._note(f"{self} handles {describe(message)}")
        if message.__class__ not in SPECIAL or message.__class__ in (Call, ProxyCall):
            try:
                simulation.fault_point("handler")
            except InjectedFault as fault:
                self.replying = future
                self.decided = False
                self.failed(message, fault)
                self.happened(LOCAL.state.drive)  # type: ignore[arg-type]  # it drives
                return
        super().handle(message, future)

    def complaints(self) -> list[str]:
        """Say what is stuck here."""
        lines: list[str] = []
        if self._debts:
            lines.append(f"{self} has taken {len(self._debts)} replies along and not answered them")
        if self.state == SUSPENDED:
            waiting = len(self.waiting())
            lines.append(
                f"{self} has failed and waits for {self.parent} to restart it or give it up; "
                f"{waiting} messages wait with it"
            )
        return lines
