"""A room in this process, with a witness in it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pykka

from greenroom import (
    BuildContext,
    BuildFailed,
    DrainReport,
    Greenroom,
    NotRecorded,
    Overloaded,
    Policy,
    Reason,
    RoomStats,
)
from greenroom.stress._agents import Cast, PlannedFailure
from greenroom.stress._length import WEDGED
from greenroom.stress._observations import Kind, Log
from greenroom.stress._process import holdings
from greenroom.stress._result import Check, Latency
from greenroom.stress._target import Level, Outcome, Planned, Target
from greenroom.stress._watched import Roster, WatchedHooks, is_async, watched_build
from greenroom.stress._witness import Witness
from greenroom.stress._workload import Workload, plain

__all__ = ["RoomTarget"]

Perform = Callable[[Any, Planned], Any]

_AT_A_TIME = 500
"""Observations that the witness is told before the loop goes on."""

_AGAIN = 0.05
"""After so many seconds the witness looks again at what may have been a passing moment."""

_LONG = 5.0
"""A turn that is not answered for so many seconds is asked after."""

_ASKED_AFTER = 10
_THREADS = 256
"""For turns that block, if the workload does not say how many there are at once."""


class RoomTarget(Target):
    """Drives a `Greenroom`, with the workload's agents or with those of a factory."""

    name = "a room in this process"

    def __init__(
        self,
        workload: Workload,
        *,
        factory: Callable[[BuildContext], Any] | None = None,
        perform: Perform | None = None,
        store: str | None = None,
        deadline: float = 30.0,
    ) -> None:
        """Prepare it; `open()` opens the room.

        Args:
            workload: the policy, and what its agents are like. With a factory, what they take and how
                often they fail is theirs.
            factory: makes an agent from a `BuildContext`, sync or async, as `Greenroom` takes it.
            perform: what a turn does with its agent, `perform(agent, planned)`, sync (on a thread) or
                async. By default it takes as long as was planned.
            store: the URL of a store for the room.
            deadline: of the drain at the end.
        """
        self._workload = workload
        self._log = Log()
        self._cast = Cast(workload, self._log)
        self._roster = Roster(self._log)
        self._factory = self._cast.build if factory is None else factory
        self._perform = perform
        self._store = store
        self._deadline = deadline
        self._room: Greenroom | None = None
        self._witness = Witness(exact=store is None, began=time.perf_counter())
        self._under_way: dict[str, int] = {}
        self._unanswered: dict[int, tuple[str, float]] = {}
        self._in_doubt: set[int] = set()
        self._report: DrainReport | None = None
        self._drain = self._late = 0.0

    async def open(self) -> Mapping[str, Any]:
        """Open the room. Returns its whole policy."""
        policy = self._workload.make_policy()
        self._witness = Witness(exact=self._store is None, began=time.perf_counter())
        self._room = await asyncio.to_thread(self._open, policy)
        figures = {field.name: getattr(policy, field.name) for field in fields(Policy)}
        # As the store shows itself: what it was opened with may have a password in it.
        shown = getattr(self._room.store, "url", None)
        return {"policy": plain(figures), "store": shown, "deadline": self._deadline}

    def _open(self, policy: Policy) -> Greenroom:
        return Greenroom(
            watched_build(self._factory, self._roster),
            policy=policy,
            store=self._store,
            hooks=WatchedHooks(roster=self._roster),
        )

    @property
    def room(self) -> Greenroom:
        """The room, which is open."""
        assert self._room is not None, "the target has not been opened"
        return self._room

    # Turns.

    async def turn(self, planned: Planned, due: float) -> Outcome:
        """Have a turn, and note what happens in it."""
        key = planned.key
        others = self._under_way.get(key, 0)
        self._under_way[key] = others + 1
        asked = time.perf_counter()
        self._unanswered[planned.number] = key, asked
        self._log.write(Kind.ASKED, key)
        try:
            return await self._take(planned, due, None if others else asked)
        finally:
            self._unanswered.pop(planned.number, None)
            if self._under_way[key] == 1:
                del self._under_way[key]
            else:
                self._under_way[key] -= 1

    async def _take(self, planned: Planned, due: float, alone: float | None) -> Outcome:
        """`alone`: when it was asked for, if nobody else had or wanted a turn of that session."""
        key, log = planned.key, self._log
        turn = self.room.turn(key)
        number, start, refused, error = 0, None, False, None
        generation: int | None = None
        try:
            async with turn:
                began = time.perf_counter()
                start = began - due
                self._unanswered.pop(planned.number, None)
                _, number = self._roster.find(turn.agent)
                waited = None if alone is None or not turn.reused else began - alone
                log.write(Kind.BEGAN, key, number, waited)
                try:
                    await self._act(turn.agent, planned)
                finally:
                    log.write(Kind.ENDED, key, number)
            generation = turn.generation if turn.completed else None
            if not turn.completed:
                error = "the turn was not counted: its session was closed by force"
        except PlannedFailure:
            log.write(Kind.PLANNED, key)
        except Overloaded:
            refused = True
        except NotRecorded as problem:
            generation, error = 0, _text(problem, key)
        except Exception as problem:
            if not isinstance(problem, BuildFailed) or not isinstance(problem.__cause__, PlannedFailure):
                error = _text(problem, key)
        except BaseException:
            log.write(Kind.GAVE_UP if start is None else Kind.LEFT, key, number)
            raise
        ended = time.perf_counter() - due
        if start is None:
            log.write(Kind.REFUSED, key)
            return Outcome(
                planned=planned, start=None, turn=ended, built=None, refused=refused, error=error
            )
        log.write(Kind.LEFT, key, number, generation)
        if planned.ends:
            await self._end(key)
        return Outcome(planned=planned, start=start, turn=ended, built=not turn.reused, error=error)

    async def _act(self, agent: Any, planned: Planned) -> None:
        perform = self._perform
        if perform is None:
            if planned.seconds == WEDGED:
                await asyncio.get_running_loop().create_future()  # until the run cancels it
            elif planned.seconds > 0.0:
                await asyncio.sleep(planned.seconds)
        elif is_async(perform):
            await perform(agent, planned)
        else:
            most = self._workload.at_once or _THREADS
            await self.room.runtime.submit(perform, agent, planned, lane="turns", most=most)
        if planned.fails:
            msg = f"a turn of {planned.key!r} failed, as planned"
            raise PlannedFailure(msg)

    async def _end(self, key: str) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # it has ended
            await self.room.session(key).end()

    # Looking.

    async def look(self) -> Level:
        """Tell the witness what was seen, and see how the room is."""
        await self._tell_witness()
        stats = await self._stats()
        if self._report is None:
            while not self._is_explained(stats):
                await asyncio.sleep(_AGAIN)
                await self._tell_witness()
                stats = await self._stats()
            await self._ask_after_the_unanswered()
        held = holdings()
        return Level(
            cached=stats.cached,
            cap=stats.cap,
            in_turn=stats.in_turn,
            waiting=stats.waiting,
            dirty=stats.dirty,
            sessions=stats.known,
            builds=stats.builds,
            rebuilds=stats.rebuilds,
            hits=stats.hits,
            evictions={why: n for why, n in stats.reasons.items() if why != Reason.SHUTDOWN},
            commits=stats.commits,
            commit_failures=stats.commit_failures,
            workers_lost=stats.workers_lost,
            planned_failures=self._witness.planned_failures,
            memory=held.memory,
            threads=held.threads,
            files=held.files,
        )

    async def _tell_witness(self) -> None:
        while batch := self._log.take(_AT_A_TIME):
            for seen in batch:
                self._witness.see(seen)
            await asyncio.sleep(0)

    async def _stats(self) -> RoomStats:
        if self._report is not None:
            return self.room.stats()
        return await self.room.supervisor.stats()

    def _is_explained(self, stats: RoomStats) -> bool:
        return not self._witness.look(
            time.perf_counter(),
            cached=stats.cached,
            cap=stats.cap,
            in_turn=stats.in_turn,
            busy=stats.busy,
            retained=stats.retained,
        )

    async def _ask_after_the_unanswered(self) -> None:
        """Whether the room knows of the turns that it has not answered for long. What it answers this
        very moment it knows no more, so that a turn has to be unknown twice."""
        now = time.perf_counter()
        oldest = list(self._unanswered.items())[:_ASKED_AFTER]
        doubted, self._in_doubt = self._in_doubt, set()
        for number, (key, asked) in oldest:
            if now - asked < _LONG or await self._is_known(key) or number not in self._unanswered:
                continue
            self._in_doubt.add(number)
            if number in doubted:
                del self._unanswered[number]
                self._witness.vanished(now, key)

    async def _is_known(self, key: str) -> bool:
        try:
            row = await self.room.session(key).describe()
        except pykka.ActorDeadError:
            return False
        return bool(row.waiting) or row.state in ("in turn", "entering", "building")

    async def configure(self, changes: Mapping[str, Any]) -> None:
        """Change the room's policy."""
        await self.room.supervisor.configure(**changes)

    # The end.

    def arrivals_over(self) -> None:
        """Let go the builds that hang: there are turns behind them."""
        self._cast.arrivals_over.set()

    async def close(self) -> float | None:
        """Drain the room, then let go what hangs, then close it."""
        if self._room is None:
            return None
        self._log.write(Kind.DRAINING, "")
        watch = asyncio.ensure_future(self._see_how_late_the_machine_is())
        try:
            self._report = await asyncio.to_thread(self._end_room, self._room)
        finally:
            watch.cancel()
        return self._drain

    async def _see_how_late_the_machine_is(self) -> None:
        """A processor that has no time for us is not the room's fault."""
        while True:
            due = time.perf_counter() + _AGAIN
            await asyncio.sleep(_AGAIN)
            self._late = max(self._late, time.perf_counter() - due)

    def _end_room(self, room: Greenroom) -> DrainReport:
        began = time.perf_counter()
        try:
            report = room.drain(self._deadline)
            self._drain = time.perf_counter() - began
        finally:
            # Whatever hangs returns now, and its thread is not left behind.
            self._log.write(Kind.OVER, "")
            self._cast.over.set()
            room.close()
        return report

    def checks(self) -> Sequence[Check]:
        """What the witness says."""
        report, witness = self._report, self._witness
        if report is None:
            return ()
        for seen in self._log.take():
            witness.see(seen)
        findings = witness.findings
        if not findings[2].seen:
            findings[2].remark = "The room has no cap."
        if self._store is not None:
            findings[4].remark = "With a store: by the number of turns, not by their generations."
        if not findings[7].seen:
            findings[
                7
            ].remark = "No hook hung while another session had a turn: only the drain was seen."
        return witness.finish(
            known_dirty={*report.failed, *report.abandoned},
            abandoned=report.abandoned,
            drain=self._drain - self._late,
            deadline=self._deadline,
        )

    def hook_seconds(self) -> Mapping[str, Latency]:
        """What commits and teardowns took."""
        taken = {
            "commit": self._witness.commits.latency(),
            "teardown": self._witness.teardowns.latency(),
        }
        return {name: latency for name, latency in taken.items() if latency is not None}


def _text(error: Exception, key: str) -> str:
    """What is counted of an error: the same text whichever session it was."""
    return f"{type(error).__name__}: {error}".replace(repr(key), "…").replace(key, "…")
