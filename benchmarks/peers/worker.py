"""The process in which one contender lives.

Requests are `["offers"]`, `["heavy"]` and `["measure", scenario, scale]`.
"""

from __future__ import annotations

import gc
import logging
import traceback
from typing import Any

from benchmarks import peers, worker
from benchmarks.latency import Figures
from benchmarks.peers.scenarios import SCENARIOS, Scale
from benchmarks.peers.system import adopt_orphans, end_descendants


class PeerDesk:
    def __init__(self, name: str) -> None:
        # Over the cap, a session that hangs: that is what they are put through, and no news.
        logging.disable(logging.WARNING)
        adopt_orphans()
        self._peer_class = peers.load(name)

    def offers(self) -> dict[str, str]:
        """The scenarios that it cannot do, and why."""
        return dict(self._peer_class.declines)

    def heavy(self) -> bool:
        return self._peer_class.heavy

    def measure(self, name: str, scale: dict[str, Any]) -> Figures | str:
        """The figures, or what went wrong."""
        scenario = next(s for s in SCENARIOS if s.name == name)
        gc.collect()
        try:
            return scenario.measure(self._peer_class, Scale(**scale))
        except Exception as error:
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Most scenarios have closed their room; some leave one behind that cannot be."""
        self._peer_class.shut_down()
        end_descendants()


if __name__ == "__main__":
    worker.main(PeerDesk)
