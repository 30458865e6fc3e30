"""Which actors hold which sessions: what who uses actors of thespian, xoscar or Ray must add.

They find actors by name, but bound none: order of use, cap and idle time are the caller's. This is
a dict by order of use with one lock, held for a few lines, and with the rules of a room: a session in
a turn never leaves, and one that is leaving is waited for before the next is started under its key.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from itertools import islice, takewhile
from typing import Any


class Entry:
    __slots__ = ("gone", "handle", "key", "turns", "used")

    def __init__(self, key: str) -> None:
        self.key = key
        self.handle: Future[Any] = Future()
        """Of the actor. Who made the entry starts it."""
        self.turns = 0
        self.used = 0.0
        self.gone: Future[None] | None = None
        """When it is leaving: done when it has left."""


class Registry:
    def __init__(self, *, cap: int, idle_ttl: float) -> None:
        self._cap = cap
        self._idle_ttl = idle_ttl
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        """The least recently used first."""
        self._leaving: dict[str, Entry] = {}
        self._closed = False

    def enter(self, key: str) -> tuple[Entry, bool] | Future[None]:
        """A turn begins: its session, and whether its actor must be started. A future: after that,
        ask again."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the room is closed")
            leaving = self._leaving.get(key)
            if leaving is not None:
                assert leaving.gone is not None
                return leaving.gone
            entry = self._entries.get(key)
            made = entry is None
            if entry is None:
                entry = self._entries[key] = Entry(key)
            else:
                self._entries.move_to_end(key)
            entry.turns += 1
            return entry, made

    def exit(self, entry: Entry) -> list[Entry]:
        """A turn has ended. Who is returned must leave: `left` when that is done."""
        with self._lock:
            entry.turns -= 1
            entry.used = time.monotonic()
            surplus = len(self._entries) - self._cap
            if surplus <= 0 or self._closed:
                return []
            return self._take([e for e in islice(self._entries.values(), surplus) if not e.turns])

    def idle(self) -> list[Entry]:
        """Who has been idle too long, and must leave."""
        with self._lock:
            oldest = time.monotonic() - self._idle_ttl
            unused = takewhile(lambda entry: entry.used < oldest, self._entries.values())
            return self._take([entry for entry in unused if not entry.turns])

    def left(self, entry: Entry) -> None:
        with self._lock:
            del self._leaving[entry.key]
        assert entry.gone is not None
        entry.gone.set_result(None)

    def close(self) -> tuple[list[Entry], list[Future[None]]]:
        """Let nobody in any more: who is there, and futures of those who are leaving."""
        with self._lock:
            self._closed = True
            entries = list(self._entries.values())
            self._entries.clear()
            return entries, [entry.gone for entry in self._leaving.values() if entry.gone]

    def _take(self, leaving: list[Entry]) -> list[Entry]:
        """With the lock held."""
        for entry in leaving:
            del self._entries[entry.key]
            entry.gone = Future()
            self._leaving[entry.key] = entry
        return leaving

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)
