"""What a drain needs to know, and what it says afterwards: the turns that run, and the report."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from greenroom import RoomClosed

if TYPE_CHECKING:
    from greenroom import DrainReport
    from greenroom.gateway._performance import Performance

__all__ = ["Turns", "log_report"]

logger = logging.getLogger("greenroom.gateway")

SHOWN = 20
"""How many keys a line of the log names."""


class Turns:
    """The turns that run. A watcher of the stage, on the event loop."""

    def __init__(self) -> None:
        self._running: set[Performance] = set()

    def began(self, performance: Performance) -> None:
        """One runs."""
        self._running.add(performance)

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        """It does not any more."""
        self._running.discard(performance)

    def stop(self) -> None:
        """Stop them: their time is over."""
        for performance in list(self._running):
            logger.warning("%s is stopped: the server must end", performance)
            msg = f"{performance} was stopped: the server is shutting down"
            performance.stop(RoomClosed(msg, performance.key))


def log_report(report: DrainReport) -> None:
    """Say what the drain came to."""
    logger.log(
        logging.INFO if report else logging.WARNING,
        "Drained in %.2f s. Sessions committed: %s, failed: %s, abandoned: %s",
        report.seconds,
        len(report.committed),
        _counted(report.failed),
        _counted(report.abandoned),
    )


def _counted(keys: tuple[str, ...]) -> str:
    """How many, and which: the supervisor has logged for each of them why."""
    more = ", …" if len(keys) > SHOWN else ""
    return f"{len(keys)} ({', '.join(map(repr, keys[:SHOWN]))}{more})" if keys else "0"
