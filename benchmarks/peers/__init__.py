"""Side by side: one workload on greenroom and on what people keep their agents in today.

    make bench-peers                  a full run, some ten minutes; writes results/peers.json
    make bench-peers ARGS=--quick     under two minutes; leaves the published figures alone

The contenders of `benchmarks.rooms` (greenroom, a dict with a lock, actors with a thread each) are
here again, with agents that also work for a while and write down what is done to them (`journal`).
Added are cachetools, and actors of thespian, xoscar and Ray that hold a session each. Every one of
them was written as well as its users would write it, and its module says where there was a choice.

What is measured is in `scenarios`; whether anything was lost, or closed under a running turn, is not
claimed but read from the journal of a run (`churn`). What a contender cannot do it declines with a
reason, which the tables print.
"""

from __future__ import annotations

import importlib

from benchmarks.contenders import LOCK, OURS, THREADING
from benchmarks.peers.peer import Peer

TTL = "cachetools_ttl"
LRU = "cachetools_lru"
THESPIAN = "thespian_actors"
XOSCAR = "xoscar_actors"
RAY = "ray_actors"

MODULES = {
    OURS: "of_rooms.Ours",
    LOCK: "of_rooms.Locked",
    THREADING: "of_rooms.Threading",
    TTL: "caches.Hooked",
    LRU: "caches.Decorated",
    THESPIAN: "thespian_actors.Contestant",
    XOSCAR: "xoscar_actors.Contestant",
    RAY: "ray_actors.Contestant",
}
NAMES = tuple(MODULES)

TITLES = {
    OURS: "greenroom",
    LOCK: "lock+dict",
    THREADING: "ThreadingActor",
    TTL: "TTLCache",
    LRU: "LRUCache",
    THESPIAN: "thespian",
    XOSCAR: "xoscar",
    RAY: "Ray",
}

NOTES = {
    LOCK: (
        "an ordered dict behind one lock with the rules of a room, a thread for each eviction, a sweep"
        " that walks the whole dict, a serial drain: as gateways do it today"
    ),
    THREADING: "a session actor and a supervisor on pykka's ThreadingActor: a thread for each",
    TTL: (
        "cachetools' TTLCache behind a lock; `popitem` and `expire` are overridden so that who leaves is"
        " committed and torn down by a pool of 64 threads, and a hit sets the entry anew, because its"
        " time counts from the last setting"
    ),
    LRU: (
        "the decorator `cachetools.cached(LRUCache(cap), lock=…)` around the factory, as its"
        " documentation shows it; who leaves is dropped"
    ),
    THESPIAN: (
        "on multiprocTCPBase, a process for each actor, because its other system for one process serves"
        " one thread; callers keep the actors' addresses in a dict with a lock, by order of use"
    ),
    XOSCAR: (
        "one pool in this process, local references, asked by coroutines on its event loop for warm"
        " turns and by threads elsewhere; blocking hooks run on 64 threads; the references are kept in a"
        " dict by order of use"
    ),
    RAY: (
        "a process for each actor, on one node without a dashboard; the handles are kept in a dict with"
        " a lock, by order of use"
    ),
}

DISTRIBUTIONS = ("greenroom", "pykka", "cachetools", "thespian", "xoscar", "ray")


def load(name: str) -> type[Peer]:
    """The contender of that name. Raises ImportError where its library is missing."""
    module, _, which = MODULES[name].partition(".")
    peer: type[Peer] = getattr(importlib.import_module(f"benchmarks.peers.{module}"), which)
    assert issubclass(peer, Peer)
    return peer
