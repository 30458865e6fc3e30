"""Typed proxies, for gateways that want the actors themselves. Each call returns a future, which a
thread can `get()` and a coroutine can `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pykka
from pykka.typing import ActorMemberMixin, proxy_method

from greenroom.actors.session import Session
from greenroom.supervisor import CacheSupervisor

__all__ = ["SessionProxy", "SupervisorProxy"]

if TYPE_CHECKING:

    class SessionProxy(ActorMemberMixin, pykka.ActorProxy[Session]):
        """What `room.session(key)` returns."""

        commit = proxy_method(Session.commit)
        evict = proxy_method(Session.evict)
        interrupt = proxy_method(Session.interrupt)
        end = proxy_method(Session.end)
        renew = proxy_method(Session.renew)
        complete = proxy_method(Session.complete)
        has_uncommitted = proxy_method(Session.has_uncommitted)
        describe = proxy_method(Session.describe)

    class SupervisorProxy(ActorMemberMixin, pykka.ActorProxy[CacheSupervisor]):
        """What `room.supervisor` is."""

        sweep = proxy_method(CacheSupervisor.sweep)
        stats = proxy_method(CacheSupervisor.stats)
        keys = proxy_method(CacheSupervisor.keys)
        configure = proxy_method(CacheSupervisor.configure)
        settle = proxy_method(CacheSupervisor.settle)
        drain = proxy_method(CacheSupervisor.drain)

else:
    SessionProxy = pykka.ActorProxy[Session]
    SupervisorProxy = pykka.ActorProxy[CacheSupervisor]
