"""Actors and gates that several tests use."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE = 40.0
"""Seconds after which a test that waits for something fails. Never how long something takes."""


class Gate:
    """A door that a thread waits at, and that tells when somebody has come to it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def wait(self) -> None:
        """Say that we are here, and wait until it is opened."""
        self._reached.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def wait_reached(self) -> None:
        """Wait until somebody stands at it."""
        assert self._reached.wait(PATIENCE), "nobody came to the gate"

    def open(self) -> None:
        """Let through who waits, and who comes."""
        self._open.set()


class Recorder(Actor):
    """Remembers what it was sent, answers with it; a callable is called, a gate waited at."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        self.received.append(message)
        if isinstance(message, Gate):
            message.wait()
        elif isinstance(message, Exception):
            raise message
        elif callable(message):
            return message()
        return message


class Counter(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: Any) -> int:
        # A read and a write with room between them: two threads in here would lose one.
        count = self.count
        for _ in range(3):
            count += 0
        self.count = count + 1
        return self.count


def in_thread(call: Callable[[], object]) -> threading.Thread:
    """Start a thread that calls this."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def join_all(threads: Iterable[threading.Thread]) -> None:
    """Wait for threads, and fail if one does not end."""
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread did not end"


def all_at_once(calls: Iterable[Callable[[], object]]) -> None:
    """Make each call on a thread of its own, from a common start, and wait for all. Raises errors."""
    calls = list(calls)
    start = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        start.wait(PATIENCE)
        try:
            call()
        except BaseException as error:
            errors.append(error)

    join_all([in_thread(functools.partial(run, call)) for call in calls])
    if errors:
        raise errors[0]
