"""A run: planned turns, each begun at its moment, whatever became of those before it.

The room is not asked how fast it would like it: if it stalls, turns go on arriving, and each waits from
the moment it was planned for. That is what its users would see. If the generator itself cannot keep up,
that is in every turn's latency too, and the result says by how much (`generator` in the settings).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from greenroom.stress._books import Books
from greenroom.stress._length import WEDGED
from greenroom.stress._machine import describe_machine
from greenroom.stress._result import Result, Second
from greenroom.stress._slopes import slopes
from greenroom.stress._target import Level, Outcome, Planned, Target
from greenroom.stress._workload import Change

__all__ = ["PATIENCE", "Run"]

PATIENCE = 30.0
"""For so many seconds after the last arrival, turns may end. What has not by then is cancelled."""

_GRACE = 1.0
"""Seconds that cancelled turns have, if the run fails."""

_AT_A_TIME = 100
"""Turns that are begun before the loop goes on, should many be due."""


class Run:
    """Drives a target. `play()` once."""

    def __init__(
        self,
        target: Target,
        turns: Iterable[Planned],
        *,
        duration: float,
        changes: Sequence[Change] = (),
        at_once: int | None = None,
        watch: Callable[[Second], None] | None = None,
        title: str,
        settings: Mapping[str, Any],
        patience: float = PATIENCE,
    ) -> None:
        """Prepare it.

        Args:
            target: what is driven.
            turns: what arrives, in order of time.
            duration: for how many seconds turns arrive; later ones are left out.
            changes: of the target's bounds, while it runs.
            at_once: how many turns there are at most at once; the others wait, and that counts.
            watch: is shown every second. Must be quick.
            title: of the report.
            settings: for the report.
            patience: for how many seconds after the last arrival turns may end.
        """
        self._target = target
        self._turns = turns
        self._duration = duration
        self._changes = sorted(changes, key=lambda change: change.at)
        self._at_once = at_once
        self._watch = watch
        self._title = title
        self._settings = settings
        self._patience = patience
        self._pacing: asyncio.Task[None] | None = None
        self._stopped = False
        self._began = 0.0
        self._running: dict[asyncio.Task[None], Planned] = {}
        self._held_back: deque[tuple[Planned, float]] = deque()
        self._books = Books()
        self._level = Level()

    def stop(self) -> None:
        """Let no more turns begin. Those that run end, the target is closed, the result is as usual.

        On the loop's thread: from a signal handler of the loop, say."""
        self._stopped = True
        if self._pacing is not None:
            self._pacing.cancel()

    async def play(self) -> Result:
        """Play it to its end, or to `stop()`."""
        target, started = self._target, datetime.now().astimezone().isoformat(timespec="seconds")
        try:
            own = await target.open()
            self._level = await target.look()
            self._began = time.perf_counter()
            seconds = await self._drive()
            interrupted = self._stopped  # who ends it while it is being closed cuts nothing short
        except BaseException:
            await self._give_up()
            raise
        drain = await target.close()
        await self._look_for_the_last_time()
        checks = tuple(target.checks())
        series = self._books.series.rows()
        return Result(
            title=self._title,
            target=target.name,
            started=started,
            seconds=seconds,
            interrupted=interrupted,
            settings={**self._settings, **own, "generator": self._books.generator()},
            machine=describe_machine(),
            totals=self._books.totals(self._level),
            latencies=self._books.latencies(target.hook_seconds()),
            drain=drain,
            series=series,
            checks=checks,
            slopes=slopes(series),
        )

    async def _give_up(self) -> None:
        """Cancel what runs, and close the target, whatever has happened."""
        self._held_back.clear()
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running), timeout=_GRACE)
        with contextlib.suppress(Exception):
            await self._target.close()

    async def _drive(self) -> float:
        """Until nothing arrives any more, and nothing runs. Returns how long turns arrived."""
        loop = asyncio.get_running_loop()
        self._pacing = loop.create_task(self._pace())
        if self._stopped:
            self._pacing.cancel()
        beside = [loop.create_task(self._tick()), loop.create_task(self._change())]
        try:
            # Somebody who cannot look any more ends the run at once.
            await asyncio.wait([self._pacing, beside[0]], return_when=asyncio.FIRST_COMPLETED)
            if beside[0].done():
                beside[0].result()
            seconds = time.perf_counter() - self._began
            if not self._pacing.cancelled():
                self._pacing.result()
            beside[1].cancel()
            await self._wind_up()
        finally:
            self._pacing.cancel()
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
        for task in beside:
            if not task.cancelled():
                task.result()
        await self._second()
        return seconds

    # Turns.

    async def _pace(self) -> None:
        begun = 0
        for planned in self._turns:
            if planned.at >= self._duration:
                break
            if time.perf_counter() - self._began > self._duration + self._patience:
                self._books.cut_at = planned.at  # the generator would need for ever
                break
            due = self._began + planned.at
            while (early := due - time.perf_counter()) > 0.0:
                await asyncio.sleep(early)
                begun = 0
            begun += 1
            if begun > _AT_A_TIME:
                begun = 0
                await asyncio.sleep(0)
            self._arrive(planned, due)
        await asyncio.sleep(max(0.0, self._began + self._duration - time.perf_counter()))

    def _arrive(self, planned: Planned, due: float) -> None:
        self._books.arrived += 1
        self._books.lag.add(max(0.0, time.perf_counter() - due))
        if self._at_once is not None and len(self._running) >= self._at_once:
            self._held_back.append((planned, due))
        else:
            self._begin(planned, due)

    def _begin(self, planned: Planned, due: float) -> None:
        task = asyncio.get_running_loop().create_task(self._have(planned, due))
        self._running[task] = planned
        task.add_done_callback(self._ended)

    async def _have(self, planned: Planned, due: float) -> None:
        try:
            outcome = await self._target.turn(planned, due)
        except asyncio.CancelledError:
            self._books.cancelled(planned, time.perf_counter() - due)
            raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() in an agent ends its turn, and not the run
            text = f"{type(error).__name__}: {error}"
            ended = time.perf_counter() - due
            outcome = Outcome(planned=planned, start=None, turn=ended, built=None, error=text)
        self._books.note(outcome)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # there is none that was not counted; and so it is not logged either
        if self._held_back:
            self._begin(*self._held_back.popleft())

    async def _wind_up(self) -> None:
        """Let what runs end, cancel what never would, and in the end what has not."""
        self._target.arrivals_over()
        until = time.perf_counter() + self._patience
        cancelled = set[asyncio.Task[None]]()  # each once: a second time would hit its cleaning up
        while self._running:
            for task, planned in list(self._running.items()):
                if planned.seconds == WEDGED and task not in cancelled:
                    cancelled.add(task)
                    task.cancel()
            left = until - time.perf_counter()
            if left <= 0.0 or self._stopped:
                self._drop_held_back()
            if left <= 0.0:
                for task in set(self._running) - cancelled:
                    task.cancel()
                await asyncio.wait(list(self._running))
                return
            # One at a time, since those that end may let others begin.
            running = list(self._running)
            await asyncio.wait(running, timeout=min(left, 0.1), return_when=asyncio.FIRST_COMPLETED)

    def _drop_held_back(self) -> None:
        """They have not begun, and do not any more."""
        self._books.arrived -= len(self._held_back)
        self._books.dropped += len(self._held_back)
        self._held_back.clear()

    # Beside them.

    async def _tick(self) -> None:
        due = self._began
        while True:
            due = max(due + 1.0, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
            await self._second()

    async def _second(self) -> None:
        before, level = self._level, await self._target.look()
        at = time.perf_counter() - self._began
        waiting = len(self._running) + len(self._held_back)
        second = self._books.second(at, before, level, waiting)
        self._keep(level)
        if self._watch is not None:
            self._watch(second)

    async def _change(self) -> None:
        for change in self._changes:
            await asyncio.sleep(max(0.0, self._began + change.at - time.perf_counter()))
            try:
                await self._target.configure(change.changes)
            except Exception as error:
                self._books.fail(f"{dict(change.changes)} could not be set: {error}")

    async def _look_for_the_last_time(self) -> None:
        """What the end brought belongs to the totals. A target that is closed may know nothing more."""
        try:
            level = await self._target.look()
        except Exception:
            return
        self._keep(level)

    def _keep(self, level: Level) -> None:
        """The next second counts from here. A look that told nothing is none: what was counted in the
        meantime belongs to the next one that does."""
        if level.builds is not None or self._level.builds is None:
            self._level = level
