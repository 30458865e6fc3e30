"""The gateway of `before.py`, on greenroom. docs/migration.md has what became of which line."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from greenroom import DrainReport, Greenroom, Policy


class Gateway:
    def __init__(self, build: Callable[[str], Any], *, store: str | None = None, **policy: Any) -> None:
        self.room = Greenroom(lambda context: build(context.key), policy=Policy(**policy), store=store)

    def answer(self, key: str, text: str) -> str:
        with self.room.turn(key) as turn:
            reply: str = turn.agent.run(text)
            return reply

    def commit(self, key: str) -> None:
        self.room.commit(key)

    def sweep(self) -> None:
        self.room.sweep()

    def shutdown(self, deadline: float = 30.0) -> DrainReport:
        return self.room.close(deadline)


@contextmanager
def end_with_the_process(gateway: Gateway) -> Iterator[None]:
    with gateway.room, gateway.room.shutdown_on(signal.SIGTERM, signal.SIGINT, deadline=30.0):
        yield
