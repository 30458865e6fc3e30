"""Keeps the supervisor: the root of a room's actors, which does nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor, RestartPolicy
from greenroom.actors._calls import describe
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

    A room without a supervisor is no room, so it is never given up. A message on which it fails again
    and again is dropped in the end, and what it was about is learned from the sessions.
    """

    def __init__(self, board: Board, meter: Callable[[], int]) -> None:
        super().__init__()
        self._board = board
        self._meter = meter
        self._struck: Any = None
        self._strikes = 0

    def start_supervisor(self) -> ActorRef[CacheSupervisor]:
        """Start it. To be called once."""
        supervisor = self.start_child(CacheSupervisor, self._board, self._meter)
        self._board.supervisor = supervisor
        return supervisor

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart the supervisor. It learns from the sessions who is there."""
        state: Any = failure.state
        message = failure.message if failure.message is not None else getattr(state, "redo", None)
        self._strikes = self._strikes + 1 if message is self._struck else 1
        self._struck = message
        if self._strikes > RestartPolicy().limit:
            logger.error("The supervisor fails on %s again and again: it is dropped", describe(message))
            message = self._struck = None
        if state is not None:
            state.redo = message
        self.restart_child(failure, self._board, self._meter, state)
