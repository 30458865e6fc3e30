"""A gateway of `examples/migration` in a process that `test_migration.py` ends by a signal.

    python -m tests.integrations.migration_child before|after MEMORIES [STORE]

It answers one message of the chat `a`, says so, and lives on. What is committed is in the file MEMORIES.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEASE_TTL = 0.5
"""Seconds after which a room that was killed is taken for dead. Nobody else has the store meanwhile."""


class Remembering:
    """An agent whose memories outlive the process."""

    def __init__(self, memories: Path, key: str) -> None:
        self._memories = memories
        self._key = key

    def run(self, text: str) -> str:
        return text

    def commit_memory_session(self) -> None:
        with self._memories.open("a") as file:
            file.write(f"{self._key}\n")

    def release_clients(self) -> None:
        pass

    def close(self) -> None:
        pass


def remembering(memories: Path) -> Callable[[str], Remembering]:
    return lambda key: Remembering(memories, key)


def answer_and_live_on(gateway: Any) -> None:
    gateway.answer("a", "hello")
    say("answered")
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.01)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(name: str, memories: str, *store: str) -> None:
    atexit.register(say, "all else was done")
    program = importlib.import_module(f"examples.migration.{name}")
    kwargs = {"store": store[0], "lease_ttl": LEASE_TTL} if store else {}
    gateway = program.Gateway(remembering(Path(memories)), **kwargs)
    if name == "before":
        program.end_with_the_process(gateway)
        answer_and_live_on(gateway)
    else:
        with program.end_with_the_process(gateway):
            answer_and_live_on(gateway)


if __name__ == "__main__":
    main(*sys.argv[1:])
