"""One row for each turn with sqlite3, committed by itself: the least that can be done to note it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from benchmarks.contender import Call, Contender, Stage
from benchmarks.rooms.scenarios import names

BUSY_TIMEOUT = 60.0
"""Seconds that a thread waits for the others."""


class Contestant(Contender):
    def __init__(self, url: str, *, synchronous: str) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._synchronous = synchronous

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        """A connection for each session."""
        with ExitStack() as stack:
            connections = [stack.enter_context(closing(self._connect())) for _ in range(actors)]
            connections[0].execute("CREATE TABLE turns (session_id TEXT, generation INTEGER)")
            keys = names(actors)
            yield Stage(calls=[noter(*each) for each in zip(connections, keys, strict=True)])

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection


def noter(connection: sqlite3.Connection, key: str) -> Call:
    def note(generation: int) -> None:
        with connection:
            connection.execute("INSERT INTO turns VALUES (?, ?)", (key, generation))

    return note
