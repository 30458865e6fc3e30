"""Which turns a caller is in: so that nobody waits for a turn that only they can end."""

from __future__ import annotations

from asyncio import current_task, get_running_loop
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from greenroom.actors._threads import LOCAL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from greenroom.actors._threads import ThreadState
    from greenroom.messages import BeginTurn

__all__ = ["held_around", "held_here", "hold", "let_go"]

Held: TypeAlias = "tuple[BeginTurn, ThreadState, asyncio.Task[Any] | None, Held | None]"
"""A turn, the thread and the task that hold it, and the turn around it. Tasks that are begun inside a
turn inherit it; without a GIL threads inherit it too. Both may outlive it: so a caller that asks whether
it holds the turn compares these, and not the number of the thread, which a later one may be given."""

_HELD: ContextVar[Held | None] = ContextVar("greenroom_turns", default=None)


def hold(turn: BeginTurn) -> None:
    """Note that this caller is in this turn."""
    try:
        task = current_task(get_running_loop())
    except RuntimeError:  # no event loop runs on this thread
        task = None
    _HELD.set((turn, LOCAL.state, task, _HELD.get()))


def let_go(turn: BeginTurn) -> None:
    """Note that it is over. In another context than the one that began it, there is nothing to note."""
    held = _HELD.get()
    if held is not None and held[0] is turn:
        _HELD.set(held[3])
    elif held is not None:
        _HELD.set(_without(turn, held))


def held_here() -> tuple[BeginTurn, ...]:
    """The turns that this very thread, or task, is in: it cannot wait for their end."""
    held = _HELD.get()
    if held is None:
        return ()
    thread = LOCAL.state
    try:
        task = current_task(get_running_loop())
    except RuntimeError:
        task = None
    return tuple(h[0] for h in _each(held) if (h[1] is thread if h[2] is None else h[2] is task))


def held_around() -> tuple[BeginTurn, ...]:
    """The turns that this caller was begun in. Perhaps somebody in them waits for this caller."""
    return tuple(held[0] for held in _each(_HELD.get()))


def _each(held: Held | None) -> Iterator[Held]:
    while held is not None:
        yield held
        held = held[3]


def _without(turn: BeginTurn, held: Held) -> Held | None:
    """Two turns that are not ended in the reverse order they were begun in: take out the outer one."""
    outer = None if held[3] is None else _without(turn, held[3])
    return outer if held[0] is turn else (held[0], held[1], held[2], outer)
