"""The simulation: it lists what could happen, and its seed picks."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import math
import random
import sys
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pykka

from greenroom.actors.runtime._calls import check_seconds, is_async, name_of
from greenroom.actors.runtime._mailbox import Mailbox
from greenroom.actors.runtime._registry import ActorRegistry
from greenroom.actors.runtime._runtime import Runtime
from greenroom.actors.runtime._strikes import Rescuer
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.runtime._timers import ManualClock
from greenroom.actors.runtime._workers import Work
from greenroom.actors.simulation._faults import Faults
from greenroom.actors.simulation._mailbox import SimulatedMailbox
from greenroom.actors.simulation._tasks import SimulatedTask
from greenroom.actors.simulation._waiting import Deadlock, NotIdle, SimulatedFuture, report

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextvars import Context
    from types import TracebackType

    from greenroom.actors.runtime._future import Future, Outcome

__all__ = ["Simulation"]

T = TypeVar("T")


class SimulatedRescuer(Rescuer):
    """Nothing strikes in a simulation. What is given to a rescuer all the same is run soon."""

    def __init__(self, run_soon: Callable[[Callable[[], object]], None]) -> None:
        super().__init__("nobody")

        def put(call: Any, _: object = None) -> None:
            if call is not None:
                run_soon(functools.partial(*call))

        self.put = put

    def start(self) -> None:
        """It has no thread."""


class Simulation(Runtime):
    """A runtime whose every choice comes from a seed."""

    simulated = True

    def __init__(
        self,
        seed: int = 0,
        *,
        faults: Mapping[str, float] | None = None,
        work_time: tuple[float, float] = (0.0, 1.0),
        haste: float = 0.1,
        most_steps: int = 1_000_000,
    ) -> None:
        """Make a simulation.

        Args:
            seed: decides everything.
            faults: probabilities by the name of the fault point; see `Faults`.
            work_time: slow work takes from this to that many virtual seconds.
            haste: how often time passes although somebody could still run. It makes timers and
                messages race; 0 lets everything run before time passes.
            most_steps: give up with `NotIdle` after so many.
        """
        if not 0 <= haste < 1:
            msg = f"haste must be from 0 to less than 1, not {haste!r}"
            raise ValueError(msg)
        if not 0 <= work_time[0] <= work_time[1]:
            msg = f"work_time must be two times, the shorter one first, not {work_time!r}"
            raise ValueError(msg)
        self._time = ManualClock()
        super().__init__(name="simulation", slow_handler=None, clock=self._time)
        self.tick = itertools.count(1).__next__
        self.rescuer = SimulatedRescuer(self._run_soon)
        self.seed = seed
        self.random = random.Random(seed)
        """For the code under test, so that its choices come from the seed too."""
        self._work_time = work_time
        self._haste = haste
        self._steps_left = most_steps
        self._most_steps = most_steps
        self._end = math.inf
        """The latest end of the step in hand. Who waits inside it lets time pass beyond that only if
        nothing else can happen."""
        self._faults = Faults(faults, self.random)
        self._runnable: dict[SimulatedMailbox | SimulatedTask[Any] | functools.partial[Any], None] = {}
        self._futures: weakref.WeakValueDictionary[int, SimulatedFuture[Any]] = (
            weakref.WeakValueDictionary()
        )
        self._mailbox_numbers, self._future_numbers = itertools.count(1), itertools.count()
        self._task_numbers = itertools.count(1)
        self._tasks: dict[SimulatedTask[Any], None] = {}
        self._working: dict[Work, SimulatedTask[Any]] = {}
        self._current: SimulatedTask[Any] | None = None
        self._trace: list[str] = []

    # For tests.

    @property
    def trace(self) -> str:
        """What has happened so far: a line a step, with its virtual time."""
        return "".join(f"{line}\n" for line in self._trace)

    def task(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> SimulatedTask[T]:
        """Let a coroutine run along: a client, say. Returns the future of its result."""
        return self._begin_task(coroutine, name or str(next(self._task_numbers)))

    def sleep(self, seconds: float) -> Future[None]:
        """Return a future that is set in so many virtual seconds, for a task to await."""
        woken: SimulatedFuture[None] = SimulatedFuture(self, self._who_runs(), f"{seconds} s to pass")
        self.call_later(seconds, woken.set)
        return woken

    def step(self) -> bool:
        """Let one thing happen. False if nothing can."""
        return self._step(math.inf)

    def run(self, seconds: float | None = None) -> None:
        """Go on for so many virtual seconds, or until nothing but repeating timers is left to happen."""
        if seconds is not None:
            end = self._time() + seconds
            while self._step(end):
                pass
            self._time.advance(max(0.0, end - self._time()))
            return
        while self._runnable or self._time.next_due(repeating=False) is not None:
            self.step()

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close, and raise the first failure of a task that nobody has looked at."""
        failures = [task.unseen_failure() for task in self._tasks]
        super().__exit__(exception_type, exception, traceback)
        if exception is None:
            for failure in filter(None, failures):
                if not isinstance(failure, asyncio.CancelledError):
                    raise failure

    def waiting(self) -> str:
        """Say who waits for whom now."""
        mailboxes = [m for m in self._mailboxes() if isinstance(m, SimulatedMailbox)]
        return report(list(self._futures.values()), mailboxes)

    # The runtime's.

    def submit(
        self,
        call: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,
        name: str | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        lane: str = "worker",
        most: int | None = None,
        future: Future[Any] | None = None,
    ) -> Future[Any]:
        """Do slow work: the call is made after a random, virtual time. An async one becomes a task."""
        self._refuse_when_closed()
        check_seconds("timeout", timeout)
        name = name or name_of(call)
        future = future or self.create_future(f"work {name}")
        work = Work(functools.partial(call, *args), future, name, timeout)
        takes = self.random.uniform(*self._work_time)
        self.call_later(takes, self._finish, work)
        if timeout is not None:
            work.timer = self.call_later(timeout, self._time_out, work)
        return future

    def fault_point(self, name: str) -> None:
        """Raise `InjectedFault` if the seed says so."""
        self._faults.maybe_raise(name)

    def create_future(self, awaited: str) -> Future[Any]:
        return SimulatedFuture(self, self._who_runs(), awaited)

    def close(self, timeout: float = 5.0) -> None:
        """Forget everything. Nothing is run any more, `on_stop()` neither."""
        if self._closed:
            return
        self._closed = True
        for task in list(self._tasks):
            task.close()
        for ref in self._refs():
            if ref.is_alive():
                ref.actor_inbox.let_go()
            ActorRegistry.unregister(ref)
        self._runnable.clear()
        self._timers.close()

    def _create_mailbox(self, parent: Mailbox | None) -> Mailbox:
        return SimulatedMailbox(self, parent, next(self._mailbox_numbers))

    def _hand_over(self, mailbox: Mailbox) -> None:
        mailbox.wake()

    def _run_soon(self, call: Callable[[], object]) -> None:
        if not self._closed:
            self._wake(functools.partial(call))

    # For mailboxes, futures and tasks.

    def _begin_task(
        self, coroutine: Coroutine[Any, Any, T], name: str, context: Context | None = None
    ) -> SimulatedTask[T]:
        task = SimulatedTask(self, coroutine, name, context)
        self._tasks[task] = None
        self._wake(task)
        return task

    def _wake(self, who: SimulatedMailbox | SimulatedTask[Any] | functools.partial[Any]) -> None:
        self._runnable[who] = None

    def _watch(self, future: SimulatedFuture[Any]) -> None:
        self._futures[next(self._future_numbers)] = future

    def _who_runs(self) -> str:
        return "somebody" if self._current is None else f"task {self._current.name}"

    def _note(self, what: str) -> None:
        self._trace.append(f"{self._time():.6f} {what}")

    def _drive_until(self, future: Future[Any], timeout: float | None) -> Outcome:
        end = math.inf if timeout is None else self._time() + timeout
        while future._outcome is None:
            if self._step(end):
                continue
            if timeout is not None:
                self._time.advance(max(0.0, end - self._time()))
                msg = f"{timeout} seconds"
                raise pykka.Timeout(msg)
            when = f"in step {len(self._trace)} of seed {self.seed}"
            msg = f"nothing can run any more, {when}:\n{self.waiting()}"
            raise Deadlock(msg)
        return future._outcome

    # Steps.

    def _step(self, end: float) -> bool:
        """Let one thing happen, not later than `end`. False if nothing can."""
        if self._steps_left <= 0:
            msg = f"still not done after {self._most_steps} steps of seed {self.seed}:\n{self.waiting()}"
            raise NotIdle(msg)
        self._steps_left -= 1
        entered = LOCAL.state.entered
        entered.append(self)  # what runs now is in here, whether or not the test is in a `with`
        outer, self._end = self._end, min(self._end, end)
        try:
            return self._choose(end)
        finally:
            self._end = outer
            entered.remove(self)

    def _choose(self, end: float) -> bool:
        due = self._time.next_due()
        time_may_pass = due is not None and due <= end
        if not self._runnable:
            return time_may_pass and self._let_time_pass()
        if due is not None and due <= self._end and self.random.random() < self._haste:
            return self._let_time_pass()
        self._run_one()
        return True

    def let_others_run(self) -> None:
        """In the middle of a step, of which nobody else sees more than that its baton is taken: let
        other mailboxes handle some messages. (Tasks do not run: they are the callers of steps.)"""
        while self.random.random() < 0.2:
            mailboxes = [who for who in self._runnable if isinstance(who, SimulatedMailbox)]
            if not mailboxes:
                return
            chosen = self.random.choice(mailboxes)  # that of the step: its baton is taken
            del self._runnable[chosen]
            chosen.advance()

    def _let_time_pass(self) -> bool:
        self._note("time passes")
        return self._time.fire_next()

    def _run_one(self) -> None:
        choice = self.random.randrange(len(self._runnable))
        chosen = next(itertools.islice(self._runnable, choice, None))
        del self._runnable[chosen]
        if isinstance(chosen, SimulatedTask):
            self._note(f"task {chosen.name} goes on")
            outer, self._current = self._current, chosen
            try:
                chosen.advance()
            finally:
                self._current = outer
            if chosen.done() and chosen.unseen_failure() is None:
                self._tasks.pop(chosen, None)
        elif isinstance(chosen, SimulatedMailbox):
            chosen.advance()
        else:
            chosen()

    def _finish(self, work: Work) -> None:
        if work.claimed:
            self._end_late(work)
            return
        self._note(f"work {work.name} ends")
        try:
            self.fault_point("work")
            result = work.context.run(work.call)
        except BaseException:
            if work.claim():
                work.future._resolve((None, sys.exc_info()))
            return
        if inspect.iscoroutine(result):
            self._go_on_as_task(work, result)
        elif work.claim():
            work.future._resolve((result, None))

    def _go_on_as_task(self, work: Work, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = self._begin_task(coroutine, f"work {work.name}", work.context)
        self._working[work] = task
        task.on_done(functools.partial(self._pass_on, work))

    def _pass_on(self, work: Work, task: Future[Any]) -> None:
        self._working.pop(work, None)
        self._tasks.pop(cast("SimulatedTask[Any]", task), None)  # its failure is the work's
        if work.claim():
            assert task._outcome is not None
            work.future._resolve(task._outcome)

    def _end_late(self, work: Work) -> None:
        """What was written off ends some day, and nobody waits for it."""
        if self._closed or is_async(work.call):
            return
        self._note(f"work {work.name} ends late")
        try:
            result = work.context.run(work.call)
        except BaseException:
            return
        if inspect.iscoroutine(result):
            result.close()

    def _time_out(self, work: Work) -> None:
        if not work.claim():
            return
        self._note(f"work {work.name} is written off")
        task = self._working.get(work)
        if task is None:
            self._lane("worker").lost_total += 1
        else:
            task.cancel()  # as on a real loop; what does not end then is not simulated
        work.time_out()
