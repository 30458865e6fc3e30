"""The pulse: tells a service manager that the server gets on with its work, as long as it does.

    the event loop comes round ──> the room's supervisor answers ──> the admission answers ──> one beat

A beat says that all three have happened within the last interval, so that a server which only looks
alive sends none: a thread that ticks would go on ticking beside a loop that hangs. What stalls is named
in the log; the beats begin again by themselves when it has passed, unless the manager has restarted the
server by then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from greenroom.gateway.server._notify import Notifier, watchdog_seconds

if TYPE_CHECKING:
    from greenroom.gateway._stage import Stage

__all__ = ["EXTENSION", "Pulse"]

logger = logging.getLogger("greenroom.gateway")

SELDOM = 5.0
"""Seconds between two looks, at most."""

EXTENSION = 15.0
"""For how many seconds at a time a drain asks the manager to be patient."""


class Pulse:
    """Looks at the loop and the actors, again and again, and tells the manager what it sees."""

    def __init__(self, stage: Stage, notifier: Notifier, watchdog: float | None = None) -> None:
        """`watchdog`: the manager wants a beat within so many seconds."""
        self._stage = stage
        self._notifier = notifier
        self._watchdog = watchdog
        self._every = min(SELDOM, SELDOM if watchdog is None else watchdog / 3)

    @classmethod
    def from_environment(cls, stage: Stage, notifier: Notifier) -> Pulse:
        """One as often as the manager wants it."""
        return cls(stage, notifier, watchdog_seconds())

    async def run(self) -> None:
        """Until it is cancelled, or the room is closed."""
        while True:
            await asyncio.sleep(self._every)
            try:
                status = await self._look()
            except Exception as error:
                if self._stage.draining:
                    return  # whom it would ask has ended
                logger.error("No beat for the service manager: %s", error)
                continue
            if status is not None:
                self._beat(status)

    def _beat(self, status: str) -> None:
        state: dict[str, Any] = {"STATUS": status}
        if self._watchdog is not None:
            state["WATCHDOG"] = 1
        if self._stage.draining:
            state["EXTEND_TIMEOUT_USEC"] = int(EXTENSION * 1e6)
        self._notifier.tell(**state)

    async def _look(self) -> str | None:
        """What there is to say. `None`: the answers came too late for a beat."""
        asked = asyncio.ensure_future(self._ask())
        done, _ = await asyncio.wait([asked], timeout=self._every)
        if done:
            return asked.result()
        # One question at a time: more of them would pile up before whoever does not answer.
        logger.error("The room's supervisor or the admission does not answer: no beats until it does")
        await asked
        logger.warning("The room's supervisor and the admission answer again")
        return None

    async def _ask(self) -> str:
        stats = await self._stage.room.supervisor.stats()
        running, waiting = await self._stage.admission.figures()
        cap = "" if stats.cap is None else f" of {stats.cap}"
        return (
            f"{'draining: ' if self._stage.draining else ''}{stats.cached}{cap} agents, "
            f"{running} turns run, {waiting} wait, {stats.dirty} sessions are uncommitted"
        )
