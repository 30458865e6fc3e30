"""The agents of a gateway in a dict with a lock, as one writes it first. What is wrong with it, line by
line, is in docs/migration.md; `after.py` is the same on greenroom."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class Gateway:
    def __init__(self, build: Callable[[str], Any], *, cap: int = 128, idle_ttl: float = 3600.0) -> None:
        self._build = build
        self._cap = cap
        self._idle_ttl = idle_ttl
        self._lock = threading.Lock()
        self._agents: OrderedDict[str, Any] = OrderedDict()
        self._used: dict[str, float] = {}
        self._dirty: set[str] = set()
        threading.Thread(target=self._sweep_forever, daemon=True).start()

    def answer(self, key: str, text: str) -> str:
        agent = self._get(key)
        reply: str = agent.run(text)
        with self._lock:
            self._used[key] = time.monotonic()
            self._dirty.add(key)
        return reply

    def _get(self, key: str) -> Any:
        with self._lock:
            if key in self._agents:
                self._agents.move_to_end(key)
                return self._agents[key]
        agent = self._build(key)
        with self._lock:
            self._agents[key] = agent
            self._used[key] = time.monotonic()
            while len(self._agents) > self._cap:
                self._evict(next(iter(self._agents)))
        return agent

    def _evict(self, key: str) -> None:
        agent = self._agents.pop(key)
        self._used.pop(key)
        self._commit(key, agent)
        agent.release_clients()

    def _commit(self, key: str, agent: Any) -> None:
        if key in self._dirty:
            try:
                agent.commit_memory_session()
            except Exception as error:
                logger.debug("commit of %s failed: %s", key, error)
            self._dirty.discard(key)

    def commit(self, key: str) -> None:
        with self._lock:
            agent = self._agents.get(key)
        if agent is not None:
            self._commit(key, agent)

    def sweep(self) -> None:
        with self._lock:
            now = time.monotonic()
            for key in [key for key, used in self._used.items() if now - used > self._idle_ttl]:
                self._evict(key)

    def _sweep_forever(self) -> None:
        while True:
            time.sleep(60.0)
            self.sweep()

    def shutdown(self) -> None:
        with self._lock:
            while self._agents:
                key, agent = self._agents.popitem(last=False)
                self._commit(key, agent)
                agent.close()


def end_with_the_process(gateway: Gateway) -> None:
    def terminate(*_: object) -> None:
        gateway.shutdown()
        os._exit(0)

    atexit.register(gateway.shutdown)
    signal.signal(signal.SIGTERM, terminate)
