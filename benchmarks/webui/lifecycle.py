"""What a contender has to offer: those functions of the web UI's module that are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Lifecycle(Protocol):
    """A module. Its state is that of the process."""

    def mark_turn_completed(self, session_id: str, *, agent: Any = None) -> int: ...

    def has_uncommitted_work(self, session_id: str) -> bool: ...

    def commit_session_memory(
        self, session_id: str, agent: Any = None, *, wait: bool = False, timeout: float | None = None
    ) -> bool: ...

    def discard_session(self, session_id: str) -> bool: ...

    def drain_all_on_shutdown(self, deadline: float = 30.0) -> None: ...


class Agent:
    """Its hook does what its maker says, and is counted."""

    def __init__(self, hook: Callable[[], object] = bool) -> None:
        self._hook = hook
        self.commits = 0

    def commit_memory_session(self) -> None:
        self._hook()
        self.commits += 1
