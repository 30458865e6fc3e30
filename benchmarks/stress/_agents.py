"""The agents that a workload asks for: they take their time, fail, and hang.

Their hooks block, as those of most real agents do, so that the room's workers have to cope with them.
How long each takes is drawn when it is called; which thread comes first is the system's business, so
that only the turns are the same from run to run.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pykka

from greenroom import BuildContext, Future
from greenroom.stress._length import WEDGED, Length
from greenroom.stress._observations import Kind, Log
from greenroom.stress._workload import Workload

__all__ = ["Cast", "PlannedAgent", "PlannedFailure"]

_BLINK = 1.0
"""A sleep of fewer seconds does not look whether the run is over."""


_LONGEST = 1e6
"""A wide spread draws more seconds than a thread can be asked to wait for."""


class PlannedFailure(Exception):
    """What fails because the workload asked for it."""


class Cast:
    """Makes the agents, and holds what they share.

    `arrivals_over.set()` lets the builds go that hang, `over.set()` everything else.
    """

    def __init__(self, workload: Workload, log: Log) -> None:
        self.workload = workload
        self.arrivals_over: Future[None] = Future()
        self.over: Future[None] = Future()
        self._log = log
        self._chance = random.Random(f"hooks {workload.seed}")

    def build(self, context: BuildContext) -> PlannedAgent:
        """Make an agent, as long as that takes; or fail."""
        until, share = self.arrivals_over, self.workload.fail_build
        self.act(self.workload.build, share, context.key, "the build", until)
        return PlannedAgent(self, context.key, self.workload.agent_bytes)

    def act(
        self, length: Length, fails: float, key: str, what: str, over: Future[None] | None = None
    ) -> None:
        """Take time, and fail or hang as often as the workload asks for."""
        over = self.over if over is None else over
        chance = self._chance  # each of its draws is one step, whichever threads draw
        seconds = length.draw(chance)
        if seconds == WEDGED:
            self._log.write(Kind.PLANNED, key)
            over.get()
            msg = f"{what} of {key!r} hung until the run was over, as planned"
            raise PlannedFailure(msg)
        if seconds < _BLINK:
            time.sleep(seconds)
        else:
            try:
                over.get(timeout=min(seconds, _LONGEST))
            except pykka.Timeout:
                pass
        if fails and chance.random() < fails:
            self._log.write(Kind.PLANNED, key)
            msg = f"{what} of {key!r} failed, as planned"
            raise PlannedFailure(msg)


class PlannedAgent:
    """An agent of a workload. What a turn does with it is the target's business."""

    __slots__ = ("__weakref__", "_cast", "_holds", "key")

    def __init__(self, cast: Cast, key: str, size: int) -> None:
        self.key = key
        self._cast = cast
        # Written to, and not just reserved: else the system would not count it.
        self._holds: bytes | None = b"\x01" * size if size else None

    def commit_memory_session(self, generation: Any) -> None:
        """Commit."""
        workload = self._cast.workload
        self._cast.act(workload.commit, workload.fail_commit, self.key, "a commit")

    def release_clients(self) -> None:
        """Be released."""
        self._let_go("a release")

    def shutdown_memory_provider(self) -> None:
        """Take no time: `close()` does."""

    def close(self) -> None:
        """Be closed."""
        self._let_go("a close")

    def interrupt(self) -> None:
        """Do nothing: a turn of a workload ends when it was planned to."""

    def _let_go(self, what: str) -> None:
        workload = self._cast.workload
        self._holds = None
        self._cast.act(workload.teardown, workload.fail_teardown, self.key, what)
