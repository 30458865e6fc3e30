"""The registry of background threads: those that a drain joins, and that it refuses once it has begun.

The set of threads is a plain one, because the program's tests look into it and clear it. They do that
in a `with` of what used to be its lock, and is a *hold* now: the registry answers when it is theirs,
and keeps whatever else comes until they give it back.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from greenroom import Actor
from greenroom.integrations.hermes_webui._messages import (
    AddThread,
    BeginDrain,
    GiveBack,
    Hold,
    RemoveThread,
)

__all__ = ["Registry"]


class Registry(Actor):
    """Changes the set of threads, except while somebody holds it."""

    def __init__(self, threads: set[threading.Thread]) -> None:
        super().__init__()
        self._threads = threads
        self._draining = False
        self._held = False
        self._kept: deque[tuple[Any, Any]] = deque()
        """Replies, and what they answer, that came during a hold."""

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, GiveBack):
            self._held = False
            while self._kept and not self._held:
                reply, kept = self._kept.popleft()
                reply.set(self._answer(kept))
        elif self._held:
            self._kept.append((self.defer_reply(), message))
        else:
            return self._answer(message)
        return None

    def _answer(self, message: Any) -> Any:
        match message:
            case Hold():
                self._held = True
            case AddThread():
                if not self._draining:
                    self._threads.add(message.thread)
                return not self._draining
            case RemoveThread():
                self._threads.discard(message.thread)
            case BeginDrain():
                self._draining = True
                begun = list(self._threads)
                self._threads.clear()
                return begun
            case _:
                pass
        return None
