"""Ray: an actor, and so a process, for each session.

Ray is made for few actors that compute much, on many machines. Here it is on one, with a handful of
sessions: each takes a process of Python with Ray's client in it, and a second or so to start.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchmarks.peers.actor_room import ActorRoom
from benchmarks.peers.agents import Holder, Recipe
from benchmarks.workers import ROOT

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # or it leaves a token in the user's home
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["PYTHONPATH"] = str(ROOT)  # where its processes find this package

# By name, because it is not installed where the types are checked.
ray: Any = importlib.import_module("ray")

CORES = 2
STORE_BYTES = 100_000_000
"""Of its shared memory, of which nothing here makes use. It wants to have some."""


class Contestant(ActorRoom):
    heavy = True
    ceiling = 8
    """Each is a process of some 100 MB, and takes a core a second or so to start."""

    declines: ClassVar[Mapping[str, str]] = {
        "sweep": "a session is a process: no more than a handful can be had here, too few to sweep",
    }

    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        super().__init__(recipe, cap=cap, idle_ttl=idle_ttl)
        start_ray()
        # An actor takes a message at a time, in the order of their arrival. No core is set aside for it.
        self._actor = ray.remote(num_cpus=0)(Holder)

    def start(self, key: str) -> Any:
        return self._actor.remote(self._recipe, key)

    def ask_turn(self, handle: Any, seconds: float) -> None:
        ray.get(handle.turn.remote(seconds))

    def ask_release(self, handle: Any) -> None:
        ray.get(handle.release.remote())
        ray.kill(handle)  # it has nothing left to do: the process ends at once

    def ask_close(self, handles: Sequence[Any], deadline: float) -> None:
        closing = [handle.close.remote() for handle in handles]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=deadline)
        for handle in handles:
            ray.kill(handle)

    @classmethod
    def shut_down(cls) -> None:
        stop_ray()


_folders: list[str] = []


def start_ray() -> None:
    """Once for a process: it takes seconds."""
    if ray.is_initialized():
        return
    _folders.append(tempfile.mkdtemp(prefix="ray-"))  # short: the names of sockets have a limit
    ray.init(
        num_cpus=CORES,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _temp_dir=_folders[-1],
    )


def stop_ray() -> None:
    ray.shutdown()
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
