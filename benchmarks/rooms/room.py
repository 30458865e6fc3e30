"""What a room has to offer to take part, and the agents that every room keeps."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import ClassVar, Self


class Agent:
    """Does nothing; its hooks take as long as its maker says, and are counted."""

    __slots__ = ("__weakref__", "_agency")

    def __init__(self, agency: Agency) -> None:
        self._agency = agency

    def commit_memory_session(self) -> None:
        self._agency.commit()

    def release_clients(self) -> None:
        self._agency.release()

    def close(self) -> None:
        """What a session that is over gets instead of a release."""


class Agency:
    """Makes agents, and counts what is done to them."""

    def __init__(self, *, commit_seconds: float = 0.0, release_seconds: float = 0.0) -> None:
        self._commit_seconds = commit_seconds
        self._release_seconds = release_seconds
        self._lock = threading.Lock()
        self._awaited = 0
        self._reached = threading.Event()
        self.built = 0
        self.committed = 0
        self.released = 0

    def build(self, _: object) -> Agent:
        """What a room is given as `build`. It makes nothing of what the room tells it."""
        with self._lock:
            self.built += 1
        return Agent(self)

    def commit(self) -> None:
        if self._commit_seconds:
            time.sleep(self._commit_seconds)
        with self._lock:
            self.committed += 1

    def release(self) -> None:
        if self._release_seconds:
            time.sleep(self._release_seconds)
        with self._lock:
            self.released += 1
            if self.released == self._awaited:
                self._reached.set()

    def wait_released(self, count: int, patience: float = 60.0) -> None:
        """Return when so many agents have been released. For one thread at a time."""
        with self._lock:
            self._awaited = count
            self._reached.clear()
            if self.released >= count:
                return
        if not self._reached.wait(patience):
            raise TimeoutError(f"{self.released} of {count} agents released in {patience} s")


Build = Callable[[object], Agent]


class Room(abc.ABC):
    """One contender. A context manager, after which nothing of it is left running."""

    ceiling: ClassVar[int] = 1_000_000
    """More sessions at once than this cannot be had."""

    declines: ClassVar[Mapping[str, str]] = {}
    """The scenarios that it cannot do, and why."""

    @abc.abstractmethod
    def __init__(self, build: Build, *, cap: int, idle_ttl: float) -> None: ...

    @abc.abstractmethod
    def begin_end(self, key: str) -> None:
        """A whole turn in which nothing is done. The first one of a session builds its agent."""

    @abc.abstractmethod
    def sweep(self) -> int:
        """Release what is idle, and tell how many."""

    def settle(self) -> None:  # noqa: B027  # most have nothing to wait for
        """Return when all that is under way has been done and entered in the books."""

    @abc.abstractmethod
    def drain(self) -> None:
        """Begin no more turns, commit what is dirty, close every agent."""

    @abc.abstractmethod
    def close(self) -> None:
        """Drain unless that was done, and leave nothing running."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of agents that it keeps."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


SIGNATURE = "a digest of the model, the tools and the system prompt"
"""What every agent here is built from. Rooms compare it in every turn, as they must."""
