"""thespian on its `multiprocTCPBase`: an actor, and so a process, for each session.

Its system within one process, `simpleSystemBase`, runs every actor on the one thread that may use it:
a model's answer would stop all other sessions. (It is among the contenders of the runtime.)
"""

from __future__ import annotations

import importlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.peers.actor_room import ActorRoom
from benchmarks.peers.agents import Holder, Recipe

os.environ.setdefault("THESPLOG_FILE", os.path.join(tempfile.gettempdir(), "thespian-benchmark.log"))

# By name, because thespian carries no types.
thespian: Any = importlib.import_module("thespian.actors")

PATIENCE = 60.0
"""Seconds that an ask waits for its answer."""


@dataclass(frozen=True)
class Start:
    recipe: Recipe
    key: str


@dataclass(frozen=True)
class Turn:
    seconds: float


@dataclass(frozen=True)
class Release:
    pass


@dataclass(frozen=True)
class Close:
    pass


DONE = "done"


class Session(thespian.Actor):  # type: ignore[misc]  # thespian carries no types
    """Takes a message at a time. It ends itself: to tell one that hangs to exit would hang as well."""

    def receiveMessage(self, message: Any, sender: Any) -> None:  # thespian calls it so
        match message:
            case Start():
                self._holder = Holder(message.recipe, message.key)
            case Turn():
                self._holder.turn(message.seconds)
            case Release():
                self._holder.release()
            case Close():
                self._holder.close()
            case _:
                return
        self.send(sender, DONE)
        if isinstance(message, Release | Close):
            self.send(self.myAddress, thespian.ActorExitRequest())


class Contestant(ActorRoom):
    ceiling = 40
    """A process for each."""

    declines: ClassVar[Mapping[str, str]] = {
        "sweep": "a session is a process: some dozens can be had here, too few to sweep",
    }

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        super().__init__(recipe, cap=cap, idle_ttl=idle_ttl)
        capabilities = {"Admin Port": free_port()}
        self._system = thespian.ActorSystem("multiprocTCPBase", capabilities, logDefs={"version": 1})
        self._own = threading.local()
        """Each thread needs an endpoint of its own, or takes the answers of others."""

    @property
    def _endpoint(self) -> Any:
        if not hasattr(self._own, "endpoint"):
            self._own.endpoint = self._system.private().__enter__()
        return self._own.endpoint

    def start(self, key: str) -> Any:
        address = self._endpoint.createActor(Session)
        self._ask(address, Start(self._recipe, key))
        return address

    def ask_turn(self, handle: Any, seconds: float) -> None:
        self._ask(handle, Turn(seconds))

    def ask_release(self, handle: Any) -> None:
        self._ask(handle, Release())

    def ask_close(self, handles: Sequence[Any], deadline: float) -> None:
        end = time.monotonic() + deadline
        for handle in handles:
            self._endpoint.tell(handle, Close())
        for _ in handles:
            if self._endpoint.listen(max(0.0, end - time.monotonic())) is None:
                break

    def _ask(self, handle: Any, message: Any) -> None:
        answer = self._endpoint.ask(handle, message, PATIENCE)
        if answer != DONE:
            raise RuntimeError(f"{message} was answered with {answer!r}")

    def close(self) -> None:
        super().close()
        self._system.shutdown()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
