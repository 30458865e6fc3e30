"""Which turns a caller is in, so that no caller waits for a turn that only it can end.

A turn that is entered with `with` is its thread's: the thread's state holds the innermost, and through
it those around it. One that is entered with `async with` is its task's, and a context variable holds
it: tasks that begin inside it inherit that, so that a caller can tell in whose turns it was begun, and
compares the task to tell whether it is in the turn itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from greenroom.actors.runtime._loops import running_task
from greenroom.actors.runtime._threads import LOCAL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from greenroom.actors.runtime._threads import ThreadState

__all__ = ["HELD", "Held", "held_around", "held_here", "let_go", "turn_of"]

Held: TypeAlias = "tuple[object, object, str, ThreadState, asyncio.Task[Any] | None, Held | None]"
"""The name of the turn, its room (a mark of it: the room itself may be dropped meanwhile), its key, the
thread and the task that entered it, and the turn around it. A plain tuple, as every turn makes one; if
the name is `None`, the tuple itself is the name."""

HELD: ContextVar[Held | None] = ContextVar("greenroom_turns", default=None)


def turn_of(held: Held) -> object:
    """The name of a turn that is held."""
    return held if held[0] is None else held[0]


def let_go(turn: object, entered: ThreadState) -> None:
    """Note that a turn is over, which was entered on this thread or in this context. (In another
    context, there is nothing to note.)"""
    if entered.held is not None:
        entered.held = _without(turn, entered.held)
    held = HELD.get()
    if held is not None:
        HELD.set(_without(turn, held))


def held_here(room: object = None) -> tuple[Held, ...]:
    """The turns that this very thread or task is in, of this room or of all: it cannot wait for their
    end."""
    thread, held = LOCAL.state, HELD.get()
    if held is None and thread.held is None:
        return ()
    task = running_task()
    mine = [h for h in _each(held) if h[4] is task] if task is not None else []
    return tuple(h for h in (*_each(thread.held), *mine) if room in (None, h[1]))


def held_around() -> tuple[object, ...]:
    """The turns that this caller was begun in, which may wait for it."""
    return tuple(map(turn_of, (*_each(LOCAL.state.held), *_each(HELD.get()))))


def _each(held: Held | None) -> Iterator[Held]:
    while held is not None:
        yield held
        held = held[5]


def _without(turn: object, held: Held) -> Held | None:
    """Two turns that do not end in the reverse order of their beginning: take out the outer one."""
    if turn_of(held) is turn:
        return held[5]
    outer = None if held[5] is None else _without(turn, held[5])
    return held if outer is held[5] else (turn_of(held), *held[1:5], outer)
