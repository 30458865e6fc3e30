"""The process that the load comes from. Requests are `["ask_without_pause", port, kind, connections,
seconds]` and `["listen_to_many", port, count, pieces, pace, over]`."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

from benchmarks import worker
from benchmarks.gateway import loads
from benchmarks.gateway.system import allow_many_files, new_loop
from benchmarks.latency import Figures


class LoadDesk:
    def __init__(self, name: str) -> None:
        allow_many_files()
        self._runner = asyncio.Runner(loop_factory=new_loop)

    def ask_without_pause(self, port: int, kind: str, connections: int, seconds: float) -> Figures:
        return self._run(loads.ask_without_pause(port, kind, connections, seconds))

    def listen_to_many(self, port: int, count: int, pieces: int, pace: float, over: float) -> Figures:
        return self._run(loads.listen_to_many(port, count, pieces, pace, over))

    def _run(self, load: Coroutine[Any, Any, Figures]) -> Figures:
        gc.collect()
        return self._runner.run(load)

    def close(self) -> None:
        self._runner.close()


if __name__ == "__main__":
    worker.main(LoadDesk)
