"""A performance: one turn for one request, from the queue to its end.

Whatever ends it before its time comes through `stop(error)`: the client has hung up, it waited or ran
for too long, it was interrupted. The task that performs is then cancelled where it waits, everything is
given back on the way out, and `error` is what comes out of the `async with` in the place of the
cancellation. Somebody else's cancellation of the task is left as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import time
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

import pykka

from greenroom import NotRecorded, RoomClosed, TurnTimeout
from greenroom.gateway._admission import Ticket, TooManySessions
from greenroom.gateway._answers import ThreadedAnswer, answer_of
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway.watch._logs import session_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from greenroom import Turn
    from greenroom.gateway._agent import ChatRequest, Piece
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._stage import Stage

__all__ = ["Interrupted", "Performance", "TookTooLong", "Watcher"]

logger = logging.getLogger("greenroom.gateway")

CLOCK_RESOLUTION = 0.001
"""How many seconds too early an event loop may call."""


class Interrupted(Exception):
    """Another request, or an operator, has interrupted the turn."""


class TookTooLong(Exception):
    """The turn has run for longer than turns may."""


class Watcher(Protocol):
    """Is told what happens on the stage, on the event loop. Must not raise, and not take long."""

    def began(self, performance: Performance) -> None:
        """A turn has begun: `performance.began - performance.arrived` is how long it waited."""

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        """It is over; or it never began, and `performance.began` is `None`."""


class Performance:
    """One turn. `async with`, and `async for` inside it, once."""

    def __init__(
        self, stage: Stage, caller: Caller, session: str, request: ChatRequest, busy: str
    ) -> None:
        self.stage = stage
        self.caller = caller
        self.session = session
        self.request = request
        self.key = caller.key(session)
        self.arrived = time.monotonic()
        self.began: float | None = None
        self.turn: Turn | None = None
        self.recorded = True
        """Whether the ledger has the turn, once that is over; true if there is no ledger."""
        self._loop = asyncio.get_running_loop()
        self._ticket = Ticket(caller.tenant, self.key, busy, self._interrupt_soon)
        self._pieces: Any = None
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped: Exception | None = None
        self._cancels = 0
        self._cancelled_before = 0
        self._asking: asyncio.Task[Any] | None = None
        self._asked_to_end = False
        self._admitted = False
        self._ending = False
        self._due = 0.0

    @property
    def ran(self) -> Turn:
        """The turn, which has begun."""
        assert self.turn is not None
        return self.turn

    def __aiter__(self) -> AsyncIterator[Piece]:
        """What the agent answers."""
        self._pieces = pieces = answer_of(self.ran.agent, self.request)
        return pieces

    async def __aenter__(self) -> Self:
        stage, timeout = self.stage, self.stage.config.wait_timeout
        session_key.set(self.key)
        self._task = task = asyncio.current_task()
        self._cancelled_before = 0 if task is None else task.cancelling()
        self._due = self._loop.time() + timeout
        self._timer = self._loop.call_later(timeout, self._time_is_up)
        try:
            if not stage.door.enter_now(self._ticket):
                await self._enter()
            self._admitted = True
            turn = stage.turn_of(self.key, ephemeral=self.request.ephemeral)
            await turn.__aenter__()
        except BaseException as error:
            self._ending = True
            self._raise(error)
        self.turn, self.began = turn, time.monotonic()
        self._limit_turn(stage.config.turn_timeout)
        for watcher in stage.watchers:
            watcher.began(self)
        return self

    async def _enter(self) -> None:
        try:
            await self.stage.door.enter(self._ticket)
        except TooManySessions:
            # As far as the admission knows. Some of them may be gone.
            if not await self.stage.recount():
                raise
            await self.stage.door.enter(self._ticket)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._ending = True
            try:
                await self._end_all(failed=error is not None)
            except BaseException as last:
                # Its own cleaning up has failed, or was cancelled: the turn is given back all the same.
                if error is None or isinstance(last, asyncio.CancelledError):
                    kind, error, traceback = type(last), last, last.__traceback__
            try:
                await self.ran.__aexit__(kind, error, traceback)
            except NotRecorded as problem:
                # It counts, and is recorded as soon as that works. The client may have its answer.
                logger.warning("%s", problem)
                self.recorded = False
            except BaseException as last:
                self._raise(last)
            if error is not None:
                self._raise(error)
            if self.recorded and not self.ran.completed and not self.request.ephemeral:
                self._raise(
                    RoomClosed(f"{self} was ended by force when the server was closed", self.key)
                )
            self._over(None)
        finally:
            del kind, error, traceback  # as in _raise()

    def _raise(self, error: BaseException) -> NoReturn:
        outcome = self._over(error)
        try:
            if outcome is error:
                raise error
            raise outcome from None
        finally:
            # They lead back here: only the collector would free all of the turn.
            self._stopped = None
            del error, outcome

    def _over(self, error: BaseException | None) -> Any:
        """Give everything back; return what is to come out."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            for _ in range(self._cancels):
                self._task.uncancel()
        error = self._meant(error)
        self._give_ticket_back()
        for watcher in self.stage.watchers:
            watcher.ended(self, error)
        if self.request.ephemeral:
            self._leave_nothing()
        return error

    def _meant(self, error: BaseException | None) -> BaseException | None:
        """What is told of an error. Of one that was stopped: by what, whatever the agent made of it."""
        if self._stopped is not None and error is not None:
            return error if self._is_cancelled_by_others(error) else self._stopped
        if isinstance(error, pykka.ActorDeadError):
            return RoomClosed(f"{self} does not begin: the server is closed", self.key)
        if isinstance(error, SystemExit):  # it would end the server, and is the agent's alone
            return RuntimeError(f"the agent raised {error!r} in {self}")
        return error

    def _is_cancelled_by_others(self, error: BaseException) -> bool:
        if self._task is None or not isinstance(error, asyncio.CancelledError):
            return False
        return self._task.cancelling() > self._cancelled_before

    def _leave_nothing(self) -> None:
        """End its session, which nobody can go on with."""
        if self._admitted:
            self.stage.behind(self.stage.drop(self.key))
            return
        # The room has not heard of it. But it counts, if it stood in the queue.
        with contextlib.suppress(pykka.ActorDeadError):
            self.stage.admission.ended(self.key)

    async def _end_all(self, *, failed: bool) -> None:
        """End whatever uses the agent."""
        try:
            await self._end_answer(failed=failed)
        finally:
            # An interrupt that comes late is not to reach the next turn.
            if self._asking is not None:
                await self._wait_for(self._asking)

    async def _end_answer(self, *, failed: bool) -> None:
        pieces, self._pieces = self._pieces, None
        close = getattr(pieces, "aclose", None)
        if close is None:
            return
        if not failed:
            await close()
            return
        # A thread cannot be cancelled: ask the agent to stop it.
        if isinstance(pieces, ThreadedAnswer):
            self._ask_to_interrupt()
        closing = asyncio.ensure_future(close())
        if await self._wait_for(closing):
            await closing

    async def _wait_for(self, work: asyncio.Future[Any]) -> bool:
        """Wait for the end of what uses the agent. What does not end is let go with it, so that the next
        turn of the session gets another one."""
        try:
            await asyncio.wait([work], timeout=self.stage.config.interrupt_grace)
        finally:
            if not work.done():
                work.cancel()
                self._let_agent_go()
        return not work.cancelled() and work.done()

    def _let_agent_go(self) -> None:
        logger.warning("The agent of %r works on after its turn was ended: it is let go", self.key)
        self.ran.discard("its answer could not be ended")

    # Ended before its time.

    def stop(self, error: Exception) -> None:
        """End it now, with this error. On the event loop; once it is ending anyway, nothing."""
        if self._ending or self._stopped is not None or self._task is None:
            return
        self._stopped = error
        self._cancel()

    def _cancel(self) -> None:
        """Cancel the task; and again, should its answer be cleaning up for longer than the grace."""
        if self._ending or self._task is None:
            return
        if self._cancels and self.turn is not None:
            self._let_agent_go()
        self._cancels += 1
        self._task.cancel()
        self._set_timer(self._loop.time() + self.stage.config.interrupt_grace, self._cancel)

    def _set_timer(self, due: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, call)

    def _give_ticket_back(self) -> None:
        self._ticket.interrupt = _nothing  # it leads back here: only the collector would free the two
        with contextlib.suppress(pykka.ActorDeadError):
            self.stage.door.leave(self._ticket)

    def _limit_turn(self, limit: float | None) -> None:
        """The timer of the wait stays, and finds out what it is for when it fires. Unless that is too
        late: nearly all turns are over before either, and one timer costs half as much as two."""
        due = math.inf if limit is None else self._loop.time() + limit
        early, self._due = due < self._due, due
        if early:
            self._set_timer(due, self._time_is_up)

    def _time_is_up(self) -> None:
        config, due = self.stage.config, self._due
        if self.began is None:
            self.stop(TurnTimeout(f"{self} waited for {config.wait_timeout} s", self.key))
        elif due <= self._loop.time() + CLOCK_RESOLUTION:
            self.stop(TookTooLong(f"{self} ran for {config.turn_timeout} s"))
        elif due != math.inf:
            self._set_timer(due, self._time_is_up)

    def _interrupt_soon(self) -> None:
        """Called by the admission, on any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupt)
        except RuntimeError:
            pass  # the loop is closed, and everything over

    def _interrupt(self) -> None:
        error = Interrupted(f"{self} was interrupted")
        if self.turn is None or self._ending or not self._ask_to_interrupt():
            self.stop(error)
        elif not self._asked_to_end:
            self._asked_to_end = True
            self._loop.call_later(self.stage.config.interrupt_grace, self.stop, error)

    def _ask_to_interrupt(self) -> bool:
        """Have the agent's own `interrupt()` called. False if it has none."""
        interrupt = getattr(self.ran.agent, "interrupt", None)
        if not callable(interrupt):
            return False
        if self._asking is None or self._asking.done():
            self._asking = self.stage.behind(_call(interrupt))
        return True

    def __str__(self) -> str:
        return f"the turn of session {self.key!r}"


def _nothing() -> None:
    pass


async def _call(hook: Callable[[], Any]) -> None:
    """Call a hook, which may block, or be async."""
    answer = hook() if inspect.iscoroutinefunction(hook) else await on_a_thread(hook)
    if inspect.isawaitable(answer):
        await answer
