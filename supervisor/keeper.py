"""Keeps those actors that a room has one of: the root of them all, which does nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor, RestartPolicy
from greenroom.actors._calls import describe
from greenroom.supervisor.cache import CacheSupervisor
from greenroom.supervisor.clerk import Clerk, ClerkState
from greenroom.supervisor.recovery import Recovery, RecoveryState

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors import ActorRef
    from greenroom.actors.board import Board
    from greenroom.messages import ChildFailed

__all__ = ["Keeper"]

logger = logging.getLogger("greenroom.supervisor")


class Keeper(Actor):
    """Starts those that a room has one of, and restarts them if they fail.

    A room without them is no room, so they are never given up. A message on which one fails again and
    again is dropped in the end; what the supervisor is then missing it learns from the sessions.
    """

    def __init__(self, board: Board, meter: Callable[[], int]) -> None:
        super().__init__()
        self._board = board
        self._meter = meter
        self._struck: dict[type[Actor], tuple[Any, int]] = {}

    def start_supervisor(self) -> ActorRef[CacheSupervisor]:
        """Start it. To be called once."""
        supervisor = self.start_child(CacheSupervisor, self._board, self._meter)
        self._board.supervisor = supervisor
        if self._board.books is not None:
            self._board.clerk = self.start_child(Clerk, self._board)
            if self._board.books.ledger:
                self.start_child(Recovery, self._board)
        return supervisor

    def on_child_failed(self, failure: ChildFailed) -> None:
        """Restart whoever failed, with what it had, and with the message that it did not handle."""
        state: Any = failure.state
        who = failure.ref.actor_class
        message = failure.message if failure.message is not None else getattr(state, "redo", None)
        before, strikes = self._struck.get(who, (None, 0))
        strikes = strikes + 1 if message is before else 1
        if strikes > RestartPolicy().limit:
            name = "supervisor" if who is CacheSupervisor else who.__name__.lower()
            logger.error("The %s fails on %s again and again: it is dropped", name, describe(message))
            if isinstance(state, (ClerkState, RecoveryState)):
                state.leave_out(message)
            message = None
        self._struck[who] = (message, strikes)
        if state is not None:
            state.redo = message
        if who is CacheSupervisor:
            self.restart_child(failure, self._board, self._meter, state)
        else:
            self.restart_child(failure, self._board, state)
