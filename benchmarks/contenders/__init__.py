"""Who takes part: a module each with a class `Contestant`, imported in a process of its own."""

from __future__ import annotations

import importlib

from benchmarks.contender import Contender

OURS = "greenroom"
THREADING = "threading_actor"
LOCK = "lock"

NAMES = (OURS, THREADING, "thespian_simple", "xoscar_local", LOCK, "simple_queue")

TITLES = {
    OURS: "greenroom",
    THREADING: "ThreadingActor",
    "thespian_simple": "thespian",
    "xoscar_local": "xoscar",
    LOCK: "lock+dict",
    "simple_queue": "SimpleQueue",
}

NOTES = {
    THREADING: "pykka's ThreadingActor; awaiting its futures works, but blocks the event loop",
    "thespian_simple": (
        "on simpleSystemBase, its synchronous system within one process: the fastest that it has"
    ),
    "xoscar_local": (
        "one pool in this process, local references, asked by coroutines on its event loop;"
        " threads go through asyncio.run_coroutine_threadsafe; its only call is the method call"
    ),
    LOCK: "the bare limit of sharing: a threading.Lock around the same two lines",
    "simple_queue": "the bare limit of handing over: a thread, a SimpleQueue in, one back",
}

DISTRIBUTIONS = ("greenroom", "pykka", "thespian", "xoscar")


def load(name: str) -> Contender:
    """Make the contender of that name. Raises ImportError where its library is missing."""
    module = importlib.import_module(f"benchmarks.contenders.{name}")
    contender = module.Contestant()
    assert isinstance(contender, Contender)
    return contender
