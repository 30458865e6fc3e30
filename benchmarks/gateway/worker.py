"""The process in which one contender's server lives. Requests are `["offers"]`, `["open", url]` (serve,
with a store if the contender has one; answers the port), `["drive", kind, seconds]` (without sockets),
`["usage"]` and `["check"]` (that it did what it is here for)."""

from __future__ import annotations

import gc
import logging
import time

from benchmarks import worker
from benchmarks.gateway.apps import Production
from benchmarks.gateway.driver import drive
from benchmarks.gateway.server import Server
from benchmarks.gateway.system import allow_many_files, peak_memory
from benchmarks.latency import Figures
from benchmarks.machine import memory_in_use


class GatewayDesk:
    def __init__(self, name: str) -> None:
        # A runtime warns of handlers that take long, as they may on a busy machine; the latencies tell.
        logging.getLogger("greenroom.actors").addFilter(lambda record: record.funcName != "_report_slow")
        allow_many_files()
        self._name = name
        self._production: Production | None = None
        self._server: Server | None = None

    def offers(self) -> dict[str, str]:
        """The scenarios that the contender cannot do, and why."""
        return {}

    def open(self, url: str) -> int:
        self._production = Production(self._name, url)
        self._server = Server(self._production.app, self._production.stage)
        return self._server.port

    def drive(self, kind: str, seconds: float) -> Figures:
        assert self._production is not None
        assert self._server is not None
        gc.collect()
        return self._server.call(drive(self._production.app, kind, seconds))

    def usage(self) -> dict[str, float]:
        """Seconds of the processor, and bytes."""
        gc.collect()
        return {"cpu": time.process_time(), "memory": memory_in_use(), "peak": peak_memory()}

    def check(self) -> None:
        assert self._production is not None
        self._production.check()

    def close(self) -> None:
        # The process ends next, and its connections with it: nobody is in a turn any more.
        if self._production is not None:
            self._production.close()


if __name__ == "__main__":
    worker.main(GatewayDesk)
