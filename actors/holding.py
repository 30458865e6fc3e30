"""Which turns a caller is in, so that nobody waits for a turn that only they can end.

A context variable holds the innermost turn, and through it those around it. Tasks that begin inside a
turn inherit it, and without a GIL so do threads. Both may outlive it. So a caller that asks whether it
is in a turn compares the thread, and on an event loop the task, that entered it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from greenroom.actors._loops import running_task
from greenroom.actors._threads import LOCAL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from greenroom.actors._threads import ThreadState

__all__ = ["HELD", "held_around", "held_here", "let_go"]

Held: TypeAlias = "tuple[object, object, str, ThreadState, asyncio.Task[Any] | None, Held | None]"
"""A turn (its name, as the session knows it), its room (a mark of the room, which may itself be dropped
meanwhile), its key, the thread that entered it, the task if that was with `async with`, and the turn
around it. A plain tuple: every turn makes one."""

HELD: ContextVar[Held | None] = ContextVar("greenroom_turns", default=None)


def let_go(turn: object) -> None:
    """Note that a turn is over. In another context than the one that began it, there is nothing to
    note."""
    held = HELD.get()
    if held is not None:
        HELD.set(held[5] if held[0] is turn else _without(turn, held))


def held_here(room: object = None) -> tuple[Held, ...]:
    """The turns that this very thread, or task, is in, of this room or of all: it cannot wait for their
    end."""
    held = HELD.get()
    if held is None:
        return ()
    thread, task = LOCAL.state, running_task()
    return tuple(
        h
        for h in _each(held)
        if room in (None, h[1]) and (h[3] is thread if h[4] is None else h[4] is task)
    )


def held_around() -> tuple[object, ...]:
    """The turns that this caller was begun in. Perhaps somebody in them waits for this caller."""
    return tuple(held[0] for held in _each(HELD.get()))


def _each(held: Held | None) -> Iterator[Held]:
    while held is not None:
        yield held
        held = held[5]


def _without(turn: object, held: Held) -> Held | None:
    """Two turns that are not ended in the reverse order they were begun in: take out the outer one."""
    outer = None if held[5] is None else _without(turn, held[5])
    return outer if held[0] is turn else (*held[:5], outer)
