"""Actors with a thread each: a session actor and a supervisor on pykka's `ThreadingActor`.

The session actor is the authority on its session and does all slow work on its own thread. The
supervisor keeps the order of use and the cap. It never takes an agent away, it asks: a session in a
turn says no, and tells when that turn has ended.

A session actor lives as long as its agent. One that is leaving answers a turn with `GONE`, and the
supervisor has the caller wait until the teardown has ended; then it starts the next one.

To be as fast as it can, a turn does not pass through the supervisor: callers look the session up in
a dict that the supervisor keeps, ask it to begin, and only tell it to end and the supervisor that it
was used.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pykka
from pykka import ActorDeadError, ThreadingActor, ThreadingFuture, Timeout

from benchmarks.rooms.room import SIGNATURE, Agent, Build, Room

logger = logging.getLogger("benchmarks.rooms")

Ref = pykka.ActorRef[Any]
GONE = object()


# To a session.


@dataclass(frozen=True, slots=True)
class Begin:
    """Answered with the agent, with a future of it for who must wait, or with `GONE`."""

    signature: str


@dataclass(frozen=True, slots=True)
class End:
    pass


@dataclass(frozen=True, slots=True)
class Release:
    """Answered with whether it will."""

    idle_for: float = 0.0
    """Only if it has not been used for so many seconds."""


@dataclass(frozen=True, slots=True)
class TearDown:
    """What a session that agreed to be released tells itself, so that it answers first."""


@dataclass(frozen=True, slots=True)
class Close:
    """Answered when that is done: with `None`, or with a future of it if a turn must end first."""


# To the supervisor.


@dataclass(frozen=True, slots=True)
class Find:
    """Answered with the session, or with a future if it must be asked for again after that."""

    key: str


@dataclass(frozen=True, slots=True)
class Used:
    key: str


@dataclass(frozen=True, slots=True)
class Kept:
    """It is in a turn and was not released."""

    key: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """After `Kept`."""


@dataclass(frozen=True, slots=True)
class Leaving:
    key: str


@dataclass(frozen=True, slots=True)
class Left:
    key: str


@dataclass(frozen=True, slots=True)
class FindUnused:
    """Answered with the sessions that have not been used for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Answered with all sessions, and futures for those that are leaving."""


@dataclass(frozen=True, slots=True)
class Count:
    pass


class Session(ThreadingActor):
    use_daemon_thread = True

    def __init__(self, key: str, build: Build, supervisor: Ref) -> None:
        super().__init__()
        self._key = key
        self._build = build
        self._supervisor = supervisor
        self._agent: Agent | None = None
        self._signature = ""
        self._in_turn = False
        self._waiting: deque[tuple[str, ThreadingFuture[Any]]] = deque()
        self._closing: ThreadingFuture[Any] | None = None
        self._generation = 0
        self._committed = 0
        self._used = time.monotonic()
        self._leaving = False
        self._refused = False

    def on_receive(self, message: Any) -> Any:
        match message:
            case Begin():
                return self._begin(message.signature)
            case End():
                return self._end()
            case Release():
                return self._agree_to_leave(message.idle_for)
            case TearDown():
                return self._tear_down()
            case Close():
                return self._close()
            case _:
                raise TypeError(message)

    def _begin(self, signature: str) -> Any:
        if self._leaving or self._closing is not None:
            return GONE
        if self._in_turn:
            future: ThreadingFuture[Any] = ThreadingFuture()
            self._waiting.append((signature, future))
            return future
        agent = self._agent_for(signature)
        self._in_turn = True
        return agent

    def _end(self) -> None:
        self._generation += 1
        self._used = time.monotonic()
        self._in_turn = False
        while self._waiting and not self._in_turn:
            self._begin_next()
        if self._refused:
            self._refused = False
            self._supervisor.tell(TurnEnded())
        if self._closing is not None and not self._in_turn:
            self._shut()
            self._closing.set(None)

    def _begin_next(self) -> None:
        signature, future = self._waiting.popleft()
        try:
            future.set(self._agent_for(signature))
        except Exception:
            future.set_exception()
        else:
            self._in_turn = True

    def _agent_for(self, signature: str) -> Agent:
        if self._agent is None or self._signature != signature:
            self._let_go()
            self._agent = self._build(self._key)
            self._signature = signature
        return self._agent

    def _agree_to_leave(self, idle_for: float) -> bool:
        if self._leaving:
            return False
        if self._in_turn or time.monotonic() - self._used < idle_for:
            self._refused = self._in_turn
            self._supervisor.tell(Kept(self._key))
            return False
        self._leaving = True
        self._supervisor.tell(Leaving(self._key))
        self.actor_ref.tell(TearDown())
        return True

    def _tear_down(self) -> None:
        self._let_go()
        self._supervisor.tell(Left(self._key))
        self.stop()

    def _close(self) -> ThreadingFuture[Any] | None:
        if self._in_turn:
            self._closing = ThreadingFuture()
            while self._waiting:
                self._waiting.popleft()[1].set(GONE)
            return self._closing
        self._leaving = True
        self._shut()
        return None

    def _shut(self) -> None:
        self._commit()
        if self._agent is not None:
            try:
                self._agent.close()
            except Exception:
                logger.exception("%s: close failed", self._key)
            self._agent = None
        self.stop()

    def _let_go(self) -> None:
        self._commit()
        if self._agent is not None:
            try:
                self._agent.release_clients()
            except Exception:
                logger.exception("%s: release failed", self._key)
            self._agent = None

    def _commit(self) -> None:
        if self._agent is not None and self._generation > self._committed:
            try:
                self._agent.commit_memory_session()
            except Exception:
                logger.exception("%s: commit failed", self._key)
            else:
                self._committed = self._generation


class Entry:
    __slots__ = ("ref", "used")

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self.used = time.monotonic()


class Supervisor(ThreadingActor):
    use_daemon_thread = True

    def __init__(self, build: Build, cap: int, directory: dict[str, Ref]) -> None:
        super().__init__()
        self._build = build
        self._cap = cap
        self._directory = directory
        """Written here only, read by all."""
        self._order: OrderedDict[str, Entry] = OrderedDict()
        """Least recently used first."""
        self._asked: dict[str, Entry] = {}
        """Out of the order, because they were asked to leave and have not answered."""
        self._leaving: dict[str, ThreadingFuture[Any]] = {}
        self._closed = False

    def on_receive(self, message: Any) -> Any:
        match message:
            case Used():
                return self._touch(message.key)
            case Find():
                return self._find(message.key)
            case Kept():
                return self._put_back(message.key)
            case TurnEnded():
                return self._ask_surplus_to_leave()
            case Leaving():
                return self._let_leave(message.key)
            case Left():
                return self._leaving.pop(message.key).set(None)
            case FindUnused():
                return self._unused(message.seconds)
            case Drain():
                return self._drain()
            case Count():
                return len(self._order) + len(self._asked)
            case _:
                raise TypeError(message)

    def _touch(self, key: str) -> Entry | None:
        entry = self._order.get(key)
        if entry is None:
            entry = self._asked.pop(key, None)
            if entry is None:
                return None
            self._order[key] = entry
        self._order.move_to_end(key)
        entry.used = time.monotonic()
        return None

    def _find(self, key: str) -> Any:
        if self._closed:
            raise RuntimeError("the room is closed")
        if key in self._leaving:
            return self._leaving[key]
        if key in self._order or key in self._asked:
            self._touch(key)
        else:
            ref = self._directory[key] = Session.start(key, self._build, self.actor_ref)
            self._order[key] = Entry(ref)
            self._ask_surplus_to_leave()
        return self._directory[key]

    def _ask_surplus_to_leave(self) -> None:
        """Only the first (size - cap). Nobody younger is asked in the place of who says no."""
        for _ in range(len(self._order) - self._cap):
            key, entry = self._order.popitem(last=False)
            self._asked[key] = entry
            # A sweep, which asks without us, may have been faster: then `Leaving` is in our inbox.
            with contextlib.suppress(ActorDeadError):
                entry.ref.tell(Release())

    def _put_back(self, key: str) -> None:
        entry = self._asked.pop(key, None)
        if entry is not None:
            self._order[key] = entry
            self._order.move_to_end(key, last=False)

    def _let_leave(self, key: str) -> None:
        self._order.pop(key, None)
        self._asked.pop(key, None)
        del self._directory[key]
        self._leaving[key] = ThreadingFuture()

    def _unused(self, seconds: float) -> list[Ref]:
        oldest = time.monotonic() - seconds
        unused: list[Ref] = []
        for entry in self._order.values():
            if entry.used > oldest:
                break
            unused.append(entry.ref)
        return unused

    def _drain(self) -> tuple[list[Ref], list[ThreadingFuture[Any]]]:
        self._closed = True
        return list(self._directory.values()), list(self._leaving.values())


LOOK_AGAIN = 1.0
"""Seconds after which who waits for an answer looks whether the actor still lives."""


def answer_of(session: Ref, answer: Any, otherwise: Any) -> Any:
    """Wait for the answer of one that may be stopping.

    pykka would have us wait for ever: 1. we find it alive  2. it stops, and refuses what is in its
    inbox  3. we put our message there.
    """
    try:
        while session.is_alive():
            with contextlib.suppress(Timeout):
                return answer.get(timeout=LOOK_AGAIN)
        return answer.get(timeout=LOOK_AGAIN)
    except (ActorDeadError, Timeout):
        return otherwise


class Contestant(Room):
    ceiling = 1_000
    """A thread for each. 100,000 of them cannot be had on an ordinary machine."""

    declines: ClassVar[Mapping[str, str]] = {
        "known": "a released session's actor is stopped, with its thread: nothing is known of it",
    }

    def __init__(self, build: Build, *, cap: int, idle_ttl: float) -> None:
        self._idle_ttl = idle_ttl
        self._directory: dict[str, Ref] = {}
        self._supervisor: Ref = Supervisor.start(build, cap, self._directory)
        self._drained = False

    def begin_end(self, key: str) -> None:
        session, _ = self.begin(key, SIGNATURE)
        session.tell(End())

    def begin(self, key: str, signature: str) -> tuple[Ref, Agent]:
        session = self._directory.get(key)
        if session is None:
            session = self._find(key)
        else:
            self._supervisor.tell(Used(key))
        while True:
            agent = answer_of(session, session.ask(Begin(signature), block=False), GONE)
            if isinstance(agent, ThreadingFuture):
                agent = agent.get()
            if agent is not GONE:
                return session, agent
            session = self._find(key)

    def _find(self, key: str) -> Ref:
        while True:
            found: Any = self._supervisor.ask(Find(key))
            if not isinstance(found, ThreadingFuture):
                session: Ref = found
                return session
            found.get()

    def sweep(self) -> int:
        unused: Any = self._supervisor.ask(FindUnused(self._idle_ttl))
        release = Release(self._idle_ttl)
        answers = [(session, session.ask(release, block=False)) for session in unused]
        return sum(answer_of(session, answer, False) for session, answer in answers)

    def drain(self) -> None:
        found: Any = self._supervisor.ask(Drain())
        sessions, leaving = found
        answers = [(session, session.ask(Close(), block=False)) for session in sessions]
        for session, answer in answers:
            closed = answer_of(session, answer, None)
            if isinstance(closed, ThreadingFuture):
                closed.get()
        for left in leaving:
            left.get()
        self._drained = True

    def close(self) -> None:
        if not self._drained:
            self.drain()
        self._supervisor.stop()

    def __len__(self) -> int:
        count: Any = self._supervisor.ask(Count())
        return int(count)
