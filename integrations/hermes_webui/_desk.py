"""The desk: the actors that the functions of this package go to, made when the first of them is
called."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

import pykka

from greenroom import Runtime
from greenroom.integrations.hermes_webui._directory import Directory, Refs
from greenroom.integrations.hermes_webui._messages import FindSession
from greenroom.integrations.hermes_webui._registry import Registry

__all__ = ["BACKGROUND", "Desk", "close_desk", "desk"]

GRACE = 1.0
"""Seconds that workers have to end when a desk is closed. A hook that takes longer is left behind."""

BACKGROUND: set[threading.Thread] = set()
"""The background threads. There is one set for good: others have it by name."""


class Desk:
    """A runtime with a directory of sessions and a registry of threads. It has no thread until a hook is
    to be called."""

    __slots__ = ("directory", "refs", "registry", "runtime")

    def __init__(self) -> None:
        self.runtime = Runtime(name="greenroom-webui")
        self.refs: Refs = {}
        self.directory = self.runtime.start(Directory, self.refs)
        self.registry = self.runtime.start(Registry, BACKGROUND)

    def session(self, session_id: Hashable) -> pykka.ActorRef[Any]:
        """Return the actor of a session. It is started if there is none."""
        ref = self.refs.get(session_id)
        if ref is None or not ref.is_alive():
            ref = self.directory.ask(FindSession(session_id=session_id))
        return ref

    def close(self) -> None:
        """End all of it. Whoever waits for an answer gets `ActorDeadError`; a hook that is running goes
        on, and nobody hears of its end."""
        # The actors first: none of them is to find the runtime closed.
        self.directory.stop()
        self.registry.stop()
        self.runtime.close(timeout=GRACE)


_open: dict[str, Desk] = {}
"""The one that there is. In a dict, because `setdefault` and `pop` are single steps."""


def desk() -> Desk:
    """Return the desk that is open, and open one if there is none."""
    found = _open.get("desk")
    if found is None:
        made = Desk()
        found = _open.setdefault("desk", made)
        if found is not made:
            made.close()
    return found


def close_desk() -> None:
    """Close the desk, if one is open. The next call of `desk()` opens another."""
    found = _open.pop("desk", None)
    if found is not None:
        found.close()
