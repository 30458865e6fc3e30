"""A room whose agents are witnesses, what a scenario may do with it, and what has to hold afterwards."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import queue
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenroom import AgentSpec, Greenroom, Policy
from tests.leftovers import threads_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom import BuildContext

SOON = 10.0
"""Seconds in which a room that was struck has to serve others, and to close. It takes milliseconds."""

SPEC, OTHER = AgentSpec(model="one"), AgentSpec(model="other")


class Agent:
    """Writes down what was done to it, and complains if that was done in the middle of a turn.

    Its fields are set without calls where it matters: between two stores nothing strikes."""

    def __init__(self, stage: Stage, key: str, store: Any = None) -> None:
        self.stage = stage
        self.store = store
        self.key = key
        self.name = f"{key}/{next(stage.numbers)}"
        self.handed_over = False
        """Its build has returned."""
        self.in_turn = False
        self.turns = 0
        """How many turns have come to the end of their block, as far as the block knows."""
        self.done = 0
        """The number of the last turn whose block was left, `__exit__` included."""
        self.covered = 0
        """The turns that its commits have covered."""
        self.torn_down = 0

    def talk(self) -> None:
        """Go on with the transcript, if there is a store."""
        if self.store is not None:
            self.store.create_session(self.key, key=self.key)
            heard = len(self.store.messages(self.key))
            self.store.append(self.key, role="user", content=f"message {heard + 1}")

    def commit_memory_session(self) -> None:
        self._witness("committed")
        self.covered = self.turns

    def release_clients(self) -> None:
        self._witness("released")
        self.torn_down += 1

    def close(self) -> None:
        self._witness("closed")
        self.torn_down += 1

    def shutdown_memory_provider(self) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def _witness(self, what: str) -> None:
        if self.in_turn:
            self.stage.complaints.append(f"{self.name} was {what} in the middle of a turn")
        if self.torn_down:
            self.stage.complaints.append(f"{self.name} was {what} after its end")


class Stage:
    """One room, the agents that it built, and the other threads that a scenario needs."""

    def __init__(self, *, store: bool = False, **policy: Any) -> None:
        self.agents: list[Agent] = []
        self.complaints: list[str] = []
        self.numbers = itertools.count(1)
        self.keys: list[str] = []
        """The sessions that others have to be able to use afterwards."""
        self.ending = False
        """Whether the scenario ends the room."""
        self.over = threading.Event()
        """The scenario is over, or was struck."""
        self.tripped = threading.Event()
        """The strike is under way. (The striker's own, while it strikes.)"""
        self.helpers: list[threading.Thread] = []
        self.finished = False
        self.file = _copy_of_a_store() if store else None
        self._policy = policy
        self.rooms: list[Greenroom] = []
        self.room = self.open()

    def open(self) -> Greenroom:
        store = None if self.file is None else f"sqlite:///{self.file}"
        room = Greenroom(self.build, policy=Policy(**self._policy), store=store)
        self.rooms.append(room)
        return room

    def build(self, context: BuildContext) -> Agent:
        agent = Agent(self, context.key, context.store)
        self.agents.append(agent)
        agent.handed_over = True
        return agent

    # What scenarios do.

    @property
    def patience(self) -> float:
        """Seconds in which something has to happen that happens at once."""
        return SOON

    def turn(self, key: str = "a", spec: Any = None, *, talks: bool = False, **kwargs: Any) -> None:
        """Take a turn and complete it."""
        with self.room.turn(key, spec, **kwargs) as turn:
            agent: Agent = turn.agent
            if talks:
                agent.talk()
            agent.in_turn = True
            agent.turns = number = agent.turns + 1
            agent.in_turn = False
        agent.done = number

    async def aturn(self, key: str = "a", spec: Any = None, **kwargs: Any) -> None:
        async with self.room.turn(key, spec, **kwargs) as turn:
            agent: Agent = turn.agent
            agent.in_turn = True
            agent.turns = number = agent.turns + 1
            agent.in_turn = False
        agent.done = number

    def hold(self, key: str, until: Callable[[], object]) -> None:
        """Have another thread begin a turn. It ends when `until()` is true, or the scenario is over."""
        begun = threading.Event()

        def run() -> None:
            with self.room.turn(key):
                begun.set()
                while not until() and not self.over.is_set():
                    time.sleep(0.0002)

        self.help(run)
        assert begun.wait(10)

    def help(self, do: Callable[[], object]) -> None:
        """Do something on another thread, meanwhile."""

        def run() -> None:
            try:
                do()
            except BaseException as error:
                self.complaints.append(f"another thread got {error!r}")

        self.helpers.append(threading.Thread(target=run, daemon=True))
        self.helpers[-1].start()

    def waiting(self, key: str) -> int:
        """How many turns wait for a session. (From its card: asking would run its actor.)"""
        card = self.room._context.cards.get(key)
        return 0 if card is None else card.waiting

    # What holds afterwards.

    def finish(self, log: Log) -> list[str]:
        """See that others can use the room, close it on this thread, and tell what is wrong."""
        wrong = self.complaints
        self.finished = True
        self.over.set()
        for helper in self.helpers:
            helper.join(SOON)
            if helper.is_alive():
                wrong.append("another thread of the scenario does not end")
        if not self.room._line.closed and not self.room._context.draining:
            for key in self.keys:
                problem = elsewhere(lambda key=key: self.turn(key, timeout=SOON))  # type: ignore[misc]
                if problem and not (self.ending and problem.startswith("RoomClosed")):
                    wrong.append(f"another thread cannot use {key!r}: {problem}")
            self._see_that_nothing_is_held()
        for room in self.rooms:
            self._close(room)
        self._count(log)
        return wrong

    def _see_that_nothing_is_held(self) -> None:
        until = time.monotonic() + SOON
        while (stats := self.room.stats()).in_turn or stats.waiting:
            if time.monotonic() > until:
                self.complaints.append(f"{stats.in_turn} turns are held, {stats.waiting} wait")
                break
            time.sleep(0.001)

    def _close(self, room: Greenroom) -> None:
        wrong, began = self.complaints, time.monotonic()
        try:
            report = room.close(deadline=SOON)
        except Hung:
            raise
        except BaseException as error:
            wrong.append(f"close() raised {error!r}")
            return
        finally:
            took = time.monotonic() - began
            if took > SOON - 0.1:
                wrong.append(f"close() took {took:.1f} s")
        if not report:
            wrong.append(f"close() reports {dict(report.problems) or report}")
        others = [t for t in threading.enumerate() if not t.name.startswith(f"{room.runtime.name}-")]
        left = threads_left(others, grace=SOON)
        if left:
            wrong.append(f"threads are left: {sorted(thread.name for thread in left)}")

    def _count(self, log: Log) -> None:
        wrong = self.complaints
        for agent in self.agents:
            if agent.handed_over and agent.torn_down != 1:
                wrong.append(f"{agent.name} was torn down {agent.torn_down} times")
            if agent.done > agent.covered:
                wrong.append(f"{agent.name} completed {agent.done} turns, {agent.covered} are committed")
        stats, runtime = self.room.stats(), self.room.runtime.stats()
        came, went = stats.builds + stats.adopted, stats.releases + stats.closes
        if came != went:
            wrong.append(f"stats() counts {came} agents that came and {went} that went")
        for name in ("in_turn", "waiting", "dirty", "retained", "failed", "unrecorded", "restarts"):
            if getattr(stats, name):
                wrong.append(f"stats(): {name}={getattr(stats, name)}")
        if runtime.failures or runtime.restarts:
            wrong.append(f"{runtime.failures} actors failed, {runtime.restarts} were restarted")
        wrong += log.errors

    def clear(self) -> None:
        """Remove what is on disk."""
        if self.file is not None:
            shutil.rmtree(self.file.parent, ignore_errors=True)


class Hung(BaseException):
    """Raised by the watchdog in a thread that does not come back."""


class Log(logging.Handler):
    """What was logged, or printed in the place of being raised, while a scenario ran."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self.reported: list[BaseException | None] = []
        """What could not be raised, and was reported by the interpreter or an event loop."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.name == "asyncio":
            self.reported.append(error)
            return
        self.errors.append(f"logged: {record.getMessage()}" + (f" ({error!r})" if error else ""))

    def _note_unraisable(self, unraisable: Any) -> None:
        error = unraisable.exc_value
        self.reported.append(error and error.with_traceback(None))  # whose frames keep turns alive

    @contextlib.contextmanager
    def kept(self) -> Iterator[Log]:
        """Keep what is said, for as long as this lasts."""
        loggers = [logging.getLogger(name) for name in ("greenroom", "pykka", "asyncio")]
        before = sys.unraisablehook, threading.excepthook
        sys.unraisablehook = self._note_unraisable
        threading.excepthook = lambda args: self.errors.append(f"a thread ended: {args.exc_value!r}")
        for logger in loggers:
            logger.addHandler(self)
        try:
            yield self
        finally:
            for logger in loggers:
                logger.removeHandler(self)
            sys.unraisablehook, threading.excepthook = before


# Another thread, which is there for all of a run: starting one each time would take longer.

_todo: queue.SimpleQueue[tuple[Callable[[], object], queue.SimpleQueue[str]]] = queue.SimpleQueue()


def elsewhere(do: Callable[[], object]) -> str:
    """Do something on another thread. Returns what went wrong, or nothing."""
    if not any(thread.name == "strikes: another thread" for thread in threading.enumerate()):
        threading.Thread(target=_serve, name="strikes: another thread", daemon=True).start()
    answer: queue.SimpleQueue[str] = queue.SimpleQueue()
    _todo.put((do, answer))
    try:
        return answer.get(timeout=2 * SOON)
    except queue.Empty:
        threading.Thread(target=_serve, name="strikes: another thread", daemon=True).start()
        return "it hangs"


def _serve() -> None:
    while True:
        do, answer = _todo.get()
        try:
            do()
            answer.put("")
        except BaseException as error:
            answer.put(repr(error))
        del do, answer


_memory = Path("/dev/shm")
_template: list[Path] = []


def _copy_of_a_store() -> Path:
    """The file of a store with its tables in it, where writing is quick."""
    folder = Path(tempfile.mkdtemp(prefix="strikes-", dir=_memory if _memory.is_dir() else None))
    if not _template:
        first = Path(tempfile.mkdtemp(prefix="strikes-")) / "store.db"
        Greenroom(lambda _: None, store=f"sqlite:///{first}").close()
        _template.append(first)
        atexit.register(shutil.rmtree, first.parent, ignore_errors=True)
    for file in _template[0].parent.iterdir():
        shutil.copy(file, folder / file.name)
    return folder / "store.db"
