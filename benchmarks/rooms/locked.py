"""A dict and a lock: what gateways do today, done well.

One lock guards all. It is held for as little as there is: agents are built, committed and torn down
outside of it, and threads are started outside of it (some gateways start them inside, which costs
every other session milliseconds). What it keeps of their ways is a thread for each eviction, a sweep
that looks at every entry with the lock held, and a drain that takes one session after another.

A session is *taken* by whoever has the right to its agent: a turn, its eviction, the drain. The
right is handed from one to the next in the order in which they came.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice

from benchmarks.rooms.room import SIGNATURE, Agent, Build, Room

logger = logging.getLogger("benchmarks.rooms")


class Session:
    __slots__ = ("agent", "committed", "generation", "key", "signature", "taken", "used", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.agent: Agent | None = None
        self.signature = ""
        self.generation = 0
        self.committed = 0
        self.used = 0.0
        self.taken = False
        self.waiting: deque[threading.Lock] | None = None
        """Locks that are held until it is their owner's turn. Few sessions ever need it."""

    def commit(self) -> None:
        """For who has taken it."""
        generation = self.generation
        if self.agent is not None and generation > self.committed:
            try:
                self.agent.commit_memory_session()
            except Exception:
                logger.exception("%s: commit failed", self.key)
            else:
                self.committed = generation

    def release(self) -> None:
        """For who has taken it."""
        self.commit()
        if self.agent is not None:
            try:
                self.agent.release_clients()
            except Exception:
                logger.exception("%s: release failed", self.key)
            self.agent = None


class Contestant(Room):
    def __init__(self, build: Build, *, cap: int, idle_ttl: float) -> None:
        self._build = build
        self._cap = cap
        self._idle_ttl = idle_ttl
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._cached: OrderedDict[str, Session] = OrderedDict()
        """Those with an agent, the least recently used first. Who is evicted leaves it at once."""
        self._closed = False

    def begin_end(self, key: str) -> None:
        self.end(self.begin(key, SIGNATURE))

    def begin(self, key: str, signature: str) -> Session:
        gate = None
        with self._lock:
            if self._closed:
                raise RuntimeError("the room is closed")
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = Session(key)
            if session.taken:
                gate = self._queue(session)
            else:
                session.taken = True
                if session.agent is not None:
                    self._cached.move_to_end(key)
        if gate is not None:
            self._wait_taken(session, gate)
        if session.agent is None or session.signature != signature:
            self._rebuild(session, signature)
        return session

    def end(self, session: Session) -> None:
        with self._lock:
            session.generation += 1
            session.used = time.monotonic()
            self._pass_on(session)
            leaving = self._take_surplus() if len(self._cached) > self._cap else ()
        self._release_soon(leaving)

    def sweep(self) -> int:
        with self._lock:
            oldest = time.monotonic() - self._idle_ttl
            idle = [s for s in self._cached.values() if s.used < oldest and not s.taken]
            self._take(idle)
        self._release_soon(idle)
        return len(idle)

    def drain(self) -> None:
        with self._lock:
            self._closed = True
            sessions = list(self._sessions.values())
        for session in sessions:
            self._close_session(session)

    def close(self) -> None:
        self.drain()

    def __len__(self) -> int:
        with self._lock:
            return len(self._cached)

    def _close_session(self, session: Session) -> None:
        gate = None
        with self._lock:
            if session.taken:
                gate = self._queue(session)
            else:
                session.taken = True
        if gate is not None:
            gate.acquire()
        agent = session.agent
        if agent is not None:
            session.commit()
            try:
                agent.close()
            except Exception:
                logger.exception("%s: close failed", session.key)
            session.agent = None
        with self._lock:
            self._cached.pop(session.key, None)
            self._pass_on(session)

    def _wait_taken(self, session: Session, gate: threading.Lock) -> None:
        gate.acquire()
        if self._closed:
            self._give_back(session)
            raise RuntimeError("the room is closed")

    def _rebuild(self, session: Session, signature: str) -> None:
        """For who has taken it: another agent, the old one committed and released first."""
        try:
            session.release()
            agent = self._build(session.key)
        except BaseException:
            with self._lock:
                self._cached.pop(session.key, None)
            self._give_back(session)
            raise
        with self._lock:
            session.agent, session.signature = agent, signature
            self._cached[session.key] = session
            leaving = self._take_surplus()
        self._release_soon(leaving)

    def _release_soon(self, leaving: Sequence[Session]) -> None:
        for session in leaving:
            threading.Thread(target=self._evict, args=(session,), daemon=True).start()

    def _evict(self, session: Session) -> None:
        session.release()
        self._give_back(session)

    def _give_back(self, session: Session) -> None:
        with self._lock:
            self._pass_on(session)

    # Below: with the lock held.

    def _queue(self, session: Session) -> threading.Lock:
        """What the caller must acquire, without the lock, to have taken the session."""
        gate = threading.Lock()
        gate.acquire()
        if session.waiting is None:
            session.waiting = deque()
        session.waiting.append(gate)
        return gate

    def _pass_on(self, session: Session) -> None:
        """Hand the session to the next in line, if there is one."""
        if not session.waiting:
            session.taken = False
            return
        if session.agent is not None:
            self._cached.move_to_end(session.key)
        session.waiting.popleft().release()

    def _take_surplus(self) -> Sequence[Session]:
        """Of the first (size - cap) those who are not taken. Nobody younger leaves in their place."""
        surplus = len(self._cached) - self._cap
        if surplus <= 0:
            return ()
        leaving = [s for s in islice(self._cached.values(), surplus) if not s.taken]
        self._take(leaving)
        return leaving

    def _take(self, leaving: Sequence[Session]) -> None:
        for session in leaving:
            session.taken = True
            del self._cached[session.key]
