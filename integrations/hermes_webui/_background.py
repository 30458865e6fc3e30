"""Background threads, as the program sees them: a set, its lock, and two functions."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

import pykka

from greenroom.integrations.hermes_webui._desk import BACKGROUND, desk
from greenroom.integrations.hermes_webui._messages import AddThread, GiveBack, Hold, RemoveThread

__all__ = [
    "_background_commit_threads",
    "_background_commit_threads_lock",
    "_register_background_commit_thread",
    "_unregister_background_commit_thread",
]

_background_commit_threads = BACKGROUND


class _Holds:
    """In the place of the lock of that set: inside a `with` of it, nobody else changes the set.

    As with the lock, the functions below wait for the end of somebody else's `with`. Inside one's own
    they would wait for themselves, which is an error here.
    """

    def __init__(self) -> None:
        self._registries: dict[int, pykka.ActorRef[Any]] = {}
        """Who holds the set, by thread: the registry to give it back to. There is one of these at a
        time, but for a registry that was ended by a reset while it was held."""

    def __enter__(self) -> None:
        self._registries[threading.get_ident()] = self.ask(Hold())[0]

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        registry = self._registries.pop(threading.get_ident())
        try:
            registry.tell(GiveBack())
        except pykka.ActorDeadError:
            pass  # a reset has ended it, and every hold with it

    def ask(self, message: Any) -> tuple[pykka.ActorRef[Any], Any]:
        """Ask the registry: which that was, and its answer. Raises if this thread holds it."""
        if threading.get_ident() in self._registries:
            msg = (
                "this thread holds _background_commit_threads_lock, and would wait for itself: register "
                "and unregister threads outside the `with`"
            )
            raise RuntimeError(msg)
        while True:
            registry = desk().registry
            try:
                return registry, registry.ask(message)
            except pykka.ActorDeadError:
                if registry is desk().registry:
                    raise  # else a reset has put another in its place


_background_commit_threads_lock = _Holds()


def _register_background_commit_thread(thread: threading.Thread) -> bool:
    """Have a drain wait for this thread. False if one has begun: then the thread must not be started,
    and the drain commits what it was for."""
    return bool(_background_commit_threads_lock.ask(AddThread(thread=thread))[1])


def _unregister_background_commit_thread(thread: threading.Thread) -> None:
    """Say that this thread has done its work. One that is not registered is fine."""
    _background_commit_threads_lock.ask(RemoveThread(thread=thread))
