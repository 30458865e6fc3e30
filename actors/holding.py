"""Which turns a caller is in: so that nobody waits for a turn that only they can end."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.messages import BeginTurn

__all__ = ["hold", "held_around", "held_here", "let_go"]

_HELD: ContextVar[tuple[tuple[BeginTurn, int, Any], ...]] = ContextVar("greenroom_turns", default=())
"""Each turn with the thread and the task that holds it. Tasks and threads that are begun inside a turn
inherit it, and may outlive it: who asks whether *they* hold it compares these too."""


def hold(turn: BeginTurn) -> None:
    """Note that this caller is in this turn."""
    _HELD.set((*_HELD.get(), (turn, get_ident(), _task())))


def let_go(turn: BeginTurn) -> None:
    """Note that it is over. In another context than the one that began it, there is nothing to note."""
    _HELD.set(tuple(held for held in _HELD.get() if held[0] is not turn))


def held_here() -> tuple[BeginTurn, ...]:
    """The turns that this very thread, or task, is in: it cannot wait for their end."""
    held = _HELD.get()
    if not held:
        return ()
    thread, task = get_ident(), _task()
    return tuple(turn for turn, t, k in held if (k is task if k is not None else t == thread))


def held_around() -> tuple[BeginTurn, ...]:
    """The turns that this caller was begun in. Perhaps somebody in them waits for this caller."""
    return tuple(turn for turn, _, _ in _HELD.get())


def _task() -> Any:
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)
