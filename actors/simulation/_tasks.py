"""Tasks: coroutines that play the clients of a simulation."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.actors.runtime._future import Future
from greenroom.actors.simulation._waiting import SimulatedFuture

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from greenroom.actors.simulation._simulation import Simulation

__all__ = ["SimulatedTask"]

T = TypeVar("T")


class SimulatedTask(SimulatedFuture[T]):
    """A coroutine in a simulation, and the future of what it returns. It may await futures of actors,
    other tasks and `sim.sleep()`; between two awaits anything else may run."""

    def __init__(
        self,
        simulation: Simulation,
        coroutine: Coroutine[Any, Any, T],
        name: str,
        context: contextvars.Context | None = None,
    ) -> None:
        super().__init__(simulation, "somebody", f"task {name} to end")
        self.name = name
        self._coroutine = coroutine
        self._awaiting: Future[Any] | None = None
        self._context = contextvars.copy_context() if context is None else context
        self._cancelling = False
        self._running = False
        self._seen = False

    def get(self, *, timeout: float | None = None) -> T:
        self._seen = True
        return super().get(timeout=timeout)

    def unseen_failure(self) -> BaseException | None:
        """Return what it ended with if that was an exception and nobody asked."""
        exc_info = None if self._outcome is None else self._outcome[1]
        return None if exc_info is None or self._seen else exc_info[1]

    def cancel(self) -> None:
        """Raise `asyncio.CancelledError` at the await where it is now, as a task of asyncio would."""
        if self.done():
            return
        self._cancelling = True
        if self._running:
            return  # it hears of it at its next await
        if self._awaiting is not None:
            self._awaiting.forget(self._go_on)
            self._awaiting = None
        self._of._wake(self)

    def advance(self) -> None:
        """Run to the next await."""
        if self.done():
            return
        self._running = True
        try:
            awaited = self._context.run(self._resume)
        except StopIteration as stop:
            self._resolve((stop.value, None))
        except (Exception, asyncio.CancelledError):
            self._resolve((None, sys.exc_info()))
        else:
            self._wait_for(awaited)
        finally:
            self._running = False

    def _resume(self) -> Any:
        cancelling, self._cancelling = self._cancelling, False
        if cancelling:
            return self._coroutine.throw(asyncio.CancelledError())
        return self._coroutine.send(None)

    def _wait_for(self, awaited: Any) -> None:
        if not isinstance(awaited, Future):
            self._coroutine.close()
            self.set_exception(
                TypeError(f"task {self.name} awaits {awaited!r}, which is not in the simulation")
            )
        elif self._cancelling:
            self._of._wake(self)
        else:
            self._awaiting = awaited
            if isinstance(awaited, SimulatedFuture) and awaited.waiter == "somebody":
                awaited.waiter = f"task {self.name}"
            self._awaiting.on_done(self._go_on)

    def close(self) -> None:
        """End the coroutine where it is: its simulation has ended."""
        if not self.done():
            try:
                self._coroutine.close()
            except RuntimeError:
                pass  # it awaits something even now, and will not get it

    def _go_on(self, _: Future[Any]) -> None:
        self._awaiting = None
        self._of._wake(self)
