"""Agents for servers that tests start as processes: `--agent tests.gateway.life_agents:recorder`.

A test talks to them through files: what a memory provider has learned is appended to one, and a gate is
a file that opens when it appears.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from greenroom.gateway import ChatRequest


def note(path: str, line: str) -> None:
    """Append a line: whatever becomes of the process, what was appended is there."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


class Recorder:
    """Answers in two pieces, the second when its gate is open. Notes commits, which have a gate, too."""

    def __init__(self, context: Any, memory: str, gate: str = "", commit_gate: str = "") -> None:
        self._key: str = context.key
        self._memory = memory
        self._gate = gate
        self._commit_gate = commit_gate

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        yield "first, "
        if self._gate:
            note(self._memory, f"in {self._key}")
            while not os.path.exists(self._gate):  # noqa: ASYNC240, ASYNC110  # a gate in another process
                await asyncio.sleep(0.01)
        yield "last"

    def commit_memory_session(self, generation: Any) -> None:
        note(self._memory, f"begin {self._key} {int(generation)}")
        while self._commit_gate and not Path(self._commit_gate).exists():
            time.sleep(0.01)
        note(self._memory, f"end {self._key} {int(generation)}")


def recorder(context: Any, **options: Any) -> Recorder:
    """An agent that does as it should."""
    return Recorder(context, **options)


class Stuck(Recorder):
    """One part of it never comes back, and cannot be asked to."""

    def __init__(self, context: Any, memory: str, where: str) -> None:
        super().__init__(context, memory)
        self._where = where

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        yield "first, "
        if self._where == "loop":
            note(self._memory, "stuck")
            threading.Event().wait()  # on the event loop, where nothing may wait
        if self._where == "executor":
            note(self._memory, "stuck")
            asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        yield "last"

    def commit_memory_session(self, generation: Any) -> None:
        if self._where == "commit":
            note(self._memory, "stuck")
            threading.Event().wait()
        super().commit_memory_session(generation)


class StuckOnAThread(Recorder):
    """Its answer, on a thread of its own, never comes."""

    def answer(self, request: ChatRequest) -> str:  # type: ignore[override]  # another kind of answer
        note(self._memory, "stuck")
        threading.Event().wait()
        return "never"


def stuck(context: Any, *, memory: str, where: str) -> Recorder:
    """An agent that gets stuck: in a `commit`, on the `loop`, on a `thread`, in the `executor`."""
    if where == "thread":
        return StuckOnAThread(context, memory)
    return Stuck(context, memory, where)


class Flood(Recorder):
    """Never ends, and says more than any client reads."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        note(self._memory, "flood")
        while True:
            yield "water " * 10_000
            await asyncio.sleep(0)


def flood(context: Any, *, memory: str) -> Flood:
    """An agent for clients that do not read."""
    return Flood(context, memory)
