"""Which turns a caller is in, so that no caller waits for a turn that only it can end.

A turn that was entered with `with` belongs to its thread: `ThreadState.held` is the innermost one. One
that was entered with `async with` belongs to the context that it was entered in, which is its task's
own: a context variable holds the innermost one. Each entry names the turn around it.

Tasks and threads that begin inside a turn may inherit its context. They are not in the turn, but it may
wait for them. A context has no name of its own, but a token knows the context that made it:
`ContextVar.reset()` refuses every other. `asyncio.current_task()` would tell the same and costs more
than half a warm turn on Python 3.11.

A turn that ends out of order, or in another context, is marked as over and skipped from then on.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from greenroom.actors.runtime._threads import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HELD", "Held", "end_out_of_order", "held_around", "held_here", "innermost"]

Held: TypeAlias = list[Any]
"""An entry. A plain list, because every turn makes one: making an object takes three times as long."""

NAME, ROOM, KEY, THREAD, TOKEN, OUTER = range(6)
"""Where what is in an entry: the name of the turn, which its session knows it by, or `OVER`; its room
(only a mark of it, so that a room can be dropped meanwhile); its key; the thread that entered it; for
`async with` the token of the context variable; the entry of the turn around it. The session has the name
only, which keeps nothing alive."""

OVER: Any = "over"
"""In the place of its name: the turn has ended."""

HELD: ContextVar[Held | None] = ContextVar("greenroom_turns", default=None)


def innermost(held: Held | None) -> Held | None:
    """The innermost of these turns that is not over."""
    while held is not None and held[NAME] is OVER:
        held = held[OUTER]
    return held


def end_out_of_order(held: Held) -> None:
    """Mark a turn as over that is not its thread's innermost, or that a context holds, and keep nothing
    alive for it."""
    held[NAME], held[ROOM], held[TOKEN] = OVER, None, None


def held_here(room: object = None, *, blocking: bool = True) -> list[Held]:
    """The turns whose end this caller cannot wait for, of this room or of all: it is in them.

    A caller that blocks its thread cannot wait for a task on that thread, either."""
    thread, held = LOCAL.state, HELD.get()
    mine = [h for h in _each(held) if (blocking and h[THREAD] is thread) or _entered_here(h)]
    return [h for h in (*_each(thread.held), *mine) if room in (None, h[ROOM])]


def held_around() -> tuple[object, ...]:
    """The turns that this caller is in or was begun in. They may wait for it."""
    return tuple(held[NAME] for held in (*_each(LOCAL.state.held), *_each(HELD.get())))


def _each(held: Held | None) -> Iterator[Held]:
    while (held := innermost(held)) is not None:
        yield held
        held = held[OUTER]


def _entered_here(held: Held) -> bool:
    """Tell whether a turn was entered in this very context, and not in one that this is a copy of."""
    before = HELD.get()
    try:
        HELD.reset(held[TOKEN])
    except ValueError:
        return False
    held[TOKEN] = HELD.set(before)  # a token can be used once
    return True
