"""The session of openai-agents, on a SQLite file."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from benchmarks.contender import Contender, Stage
from benchmarks.rooms.scenarios import names


class Contestant(Contender):
    prefers_loop = True

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        """One session."""
        agents: Any = importlib.import_module("agents")  # who checks types need not install it
        item: Any = {"role": "user", "content": "Hello"}
        with closing(agents.SQLiteSession(next(names(1)), self._path)) as session:

            async def add(_: int) -> None:
                await session.add_items([item])

            yield Stage(async_calls=[add])
