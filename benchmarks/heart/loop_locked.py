"""A dict on an event loop, with an `asyncio.Lock` for each session: what one writes without greenroom.

One turn at a time for each session, first come first served; another signature makes another agent; the
order of use is kept, and turns are counted. Nobody ever leaves: only warm turns are measured here.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from benchmarks.rooms.room import SIGNATURE, Agent, Build


class Session:
    __slots__ = ("agent", "generation", "lock", "signature", "used")

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self.signature = ""
        self.generation = 0
        self.used = 0.0
        self.lock = asyncio.Lock()


class LoopLocked:
    def __init__(self, build: Build) -> None:
        self._build = build
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        """The least recently used first."""

    async def begin_end(self, key: str, signature: str = SIGNATURE) -> None:
        session = self.sessions.get(key)
        if session is None:
            session = self.sessions[key] = Session()
        async with session.lock:
            if session.agent is None or session.signature != signature:
                session.agent, session.signature = self._build(key), signature
            self.sessions.move_to_end(key)
            session.generation += 1
            session.used = time.monotonic()
