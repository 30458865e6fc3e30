"""Trials: a scenario is played, something strikes its thread meanwhile, and then the room is judged."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.strikes import stage
from tests.strikes.points import WHERE, Striker, nudge
from tests.strikes.stage import Hung, Log, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from tests.strikes.points import Place
    from tests.strikes.scenarios import Scenario

LIMIT = 6
"""A trial hangs if it takes so many times as long as a room may take to close."""


class Struck(BaseException):
    """An exception that is nobody's."""


class StruckError(Exception):
    """An ordinary exception out of a signal handler."""


EXCEPTIONS: dict[str, type[BaseException]] = {
    "base": Struck,
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "error": StruckError,
}


INJECTED = ("base", "interrupt", "exit")
"""An ordinary exception that is injected cannot be told from one that is raised: it has no handler."""


@dataclass
class Trial:
    """What one strike has led to."""

    scenario: str
    n: int
    exception: str
    held: bool
    """The exception was still being handled when the room was judged; else it was gone."""
    store: bool
    place: Place | None = None
    tripped: bool = False
    wrong: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        name = f"{self.scenario}+store" if self.store else self.scenario
        again = f"--scenario {name} --only {self.n} --exception {self.exception}"
        head = f"{again} {'--held' if self.held else '--gone'}: struck at {self.place}"
        return "\n".join([head, *(f"    {line}" for line in self.wrong)])


@functools.cache
def striker(where: str) -> Striker:
    """The striker of this process: what it has learned about code is worth keeping."""
    return Striker(WHERE[where])


def points(scenario: Scenario, *, store: bool = False, where: str = "ours") -> int:
    """How many points a scenario has."""
    for _ in range(2):  # the first time modules are imported, and code is looked at
        trial = play(scenario, 0, store=store, where=where)
        if trial.wrong:
            raise AssertionError(f"without any strike: {trial}")
    total = striker(where).count
    return total if scenario.up_to is None else min(total, scenario.up_to)


def play(
    scenario: Scenario,
    n: int,
    exception: str | None = None,
    *,
    store: bool = False,
    held: bool | None = None,
    where: str = "ours",
    by: str = "signal",
) -> Trial:
    """Play a scenario with a strike at its n-th point. What is not said varies with n.

    `by="async"`: on a thread that is not the main one, and by an injected exception.
    """
    exception = exception or (list(EXCEPTIONS)[n % 4] if by == "signal" else INJECTED[n % 3])
    held = n // 4 % 2 == 0 if held is None else held
    trial = Trial(scenario.name, n, exception, held, store)
    error = EXCEPTIONS[exception](f"strike {n}")
    strikes = striker(where)

    def judge(raised: BaseException | None, log: Log) -> str:
        mine = raised is error if by == "signal" else type(raised) is type(error)
        return "" if mine else not_its_own(error, raised, strikes.place, log)

    perform(
        trial,
        scenario,
        lambda act: strikes.call(act, n, error, by),
        judge,
        strikes=strikes,
        on_thread=by == "async",
    )
    trial.place, trial.tripped = strikes.place, strikes.tripped.is_set()
    return trial


def not_its_own(
    error: BaseException, raised: BaseException | None, place: Place | None, log: Log
) -> str:
    """What is wrong if a caller that was struck got this, or nothing. It may be nothing."""
    if raised is None and place is None:
        return ""
    if isinstance(error, Exception) and place is not None and place.foreign:
        return ""  # an ordinary exception inside the store, or a build: who can tell whose it is?
    if raised is not None:
        return f"the caller got {raised!r} in the place of its own exception"
    reported = error in log.reported and not (place is not None and place.swallows())
    return "" if reported else "the exception was swallowed"


def perform(
    trial: Trial,
    scenario: Scenario,
    strike: Callable[[Callable[[], Any]], Any],
    judge: Callable[[BaseException | None, Log], str],
    *,
    strikes: Striker | None = None,
    on_thread: bool = False,
) -> None:
    """Play a scenario with `strike(act)`, and write down what is wrong: about what it raised, says
    `judge()`, and about the room, says the stage."""
    log = Log()
    stages: list[Stage] = []

    def run() -> None:
        here = Stage(store=trial.store, **scenario.policy)
        stages.append(here)
        if strikes is not None:
            here.tripped = strikes.tripped
        scenario.prepare(here)
        try:
            strike(lambda: asyncio.run(scenario.act(here)) if scenario.is_async else scenario.act(here))
        except Hung:
            raise
        except BaseException as raised:
            trial.wrong.append(judge(raised, log))
            if trial.held:
                trial.wrong += here.finish(log)
            raised.__traceback__ = None
        else:
            trial.wrong.append(judge(None, log))
        if not here.finished:
            if scenario.is_async:
                gc.collect()  # since Python 3.12 a task keeps its traceback, which refers to the task
            trial.wrong += here.finish(log)

    with log.kept():
        try:
            if on_thread:
                run_on_a_thread(run)
            else:
                with Watchdog(strikes):
                    run()
        except Hung as hung:
            trial.wrong += [*(stages[0].complaints if stages else ()), "it hangs:", *hung.args]
        finally:
            for here in stages:
                here.over.set()
                here.clear()
    trial.wrong = [line for line in trial.wrong if line]


def run_on_a_thread(run: Callable[[], object]) -> None:
    """Run this on another thread, and raise what it raises, or `Hung`."""
    failed: list[BaseException] = []

    def catching() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=catching, daemon=True, name="strikes: the struck one")
    thread.start()
    thread.join(LIMIT * stage.SOON)
    if thread.is_alive():
        raise Hung(*_stacks())
    if failed:
        raise failed[0]


class Watchdog:
    """Ends what hangs on the main thread, and sends signals on to it that it cannot see."""

    def __init__(self, striker: Striker | None = None) -> None:
        self._striker = striker
        self._over = threading.Event()
        self._stacks: list[str] = []

    def __enter__(self) -> None:
        self._main = threading.get_ident()
        self._before = signal.signal(signal.SIGUSR2, self._end)
        self._thread = threading.Thread(target=self._watch, daemon=True, name="strikes: watchdog")
        self._thread.start()

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._over.wait(0.02):
            if self._striker is not None:
                nudge(self._striker, self._main)
            late = time.monotonic() - began - LIMIT * stage.SOON
            if late > LIMIT * stage.SOON:
                faulthandler.dump_traceback(sys.stderr)
                os._exit(70)
            if late > 0.0:
                self._stacks = self._stacks or _stacks()
                signal.pthread_kill(self._main, signal.SIGUSR2)
                self._over.wait(1.0)

    def _end(self, _signum: int, _frame: FrameType | None) -> None:
        if not self._over.is_set():
            raise Hung(*self._stacks)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        signal.signal(signal.SIGUSR2, self._before)


def _stacks() -> list[str]:
    """Where all threads are, but for the tool's own."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        threads = file.read().split("\n\n")
    return [f"  {line}" for thread in threads if "_stacks" not in thread for line in thread.splitlines()]


def sample(total: int, most: int | None, seed: int) -> list[int]:
    """All points of a scenario, or as many of them, spread evenly, others with another seed."""
    if most is None or total <= most:
        return list(range(1, total + 1))
    step = total / most
    chance = random.Random(seed)
    return [min(total, 1 + int((i + chance.random()) * step)) for i in range(most)]


def play_all(
    scenario: Scenario,
    *,
    store: bool = False,
    most: int | None = None,
    seed: int = 0,
    exceptions: Iterable[str | None] = (None,),
    held: bool | None = None,
    where: str = "ours",
    by: str = "signal",
    enough: int = 10,
    each: Callable[[Trial], object] | None = None,
) -> tuple[int, list[Trial]]:
    """Play a scenario once for each of its points, or a sample of them. Returns how many there are, and
    the trials; it ends early if `enough` have failed."""
    total = points(scenario, store=store, where=where)
    trials: list[Trial] = []
    failed = 0
    for exception in exceptions:
        for n in sample(total, most, seed):
            trial = play(scenario, n, exception, store=store, held=held, where=where, by=by)
            trials.append(trial)
            if each is not None:
                each(trial)
            failed += bool(trial.wrong)
            if failed >= enough:
                return total, trials
    return total, trials
