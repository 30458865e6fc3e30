"""The process in which one room is measured. Requests are `["measure", size, effort, drain]` and
`["known", size]`."""

from __future__ import annotations

import logging
from typing import Any

from benchmarks import worker
from benchmarks.latency import Figures
from benchmarks.scale import measures


class ScaleDesk:
    def __init__(self, _: str) -> None:
        # On a busy machine, and with a million sessions, handlers are found slow: that is measured here.
        logging.disable(logging.ERROR)

    def measure(self, size: int, effort: dict[str, Any], drain: bool) -> measures.Measured:
        return measures.measure(size, measures.Effort(**effort), drain=drain)

    def known(self, size: int) -> Figures:
        return measures.known(size)

    def close(self) -> None:
        """The process ends, and the room with it."""


if __name__ == "__main__":
    worker.main(ScaleDesk)
