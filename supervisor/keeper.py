"""Keeps the supervisor: the root of a room's actors, which does nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor, RestartPolicy
from greenroom.supervisor.cache import CacheSupervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef
    from greenroom.actors.board import Board
    from greenroom.messages import ChildFailed

__all__ = ["Keeper"]

logger = logging.getLogger("greenroom.supervisor")


class Keeper(Actor):
    """Starts the supervisor, and restarts it if it fails.

    A room without a supervisor is no room, so it is never given up. If it fails too often in too short a
    time, the message on which it fails is dropped rather than tried once more.
    """

    def __init__(self, board: Board, meter: Callable[[], int]) -> None:
        super().__init__()
        self._board = board
        self._meter = meter
        self._restarts = RestartPolicy()
        self._past: tuple[float, ...] = ()

    def start_supervisor(self) -> ActorRef[CacheSupervisor]:
        """Start it. To be called once."""
        supervisor = self.start_child(CacheSupervisor, self._board, self._meter)
        self._board.supervisor = supervisor
        return supervisor

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart the supervisor. It learns from the sessions who is there."""
        again, self._past = self._restarts.decide(self._past, self.runtime.clock())
        state: Any = failure.state
        if state is not None:
            state.redo = failure.message if again else None
        if not again:
            logger.error("The supervisor fails again and again. What it fails on is dropped")
        self.restart_child(failure, self._board, self._meter, state)
