"""Which turns a caller is in, so that no caller waits for a turn that only it can end.

A turn that was entered with `with` belongs to its thread: `ThreadState.held` is the innermost one. One
that was entered with `async with` belongs to the context that it was entered in, which is its task's
own: a context variable holds the innermost one. Each entry names the turn around it.

Tasks and threads that begin inside a turn may inherit its context. They are not in the turn, but it may
wait for them. A context has no name of its own, but a token knows the context that made it:
`ContextVar.reset()` refuses every other. `asyncio.current_task()` would tell the same and costs more
than half a warm turn on Python 3.11.

A turn that ends out of order, or in another context, is marked as over and skipped from then on.

A turn may be left without a word: an exception that strikes on entry to its `__exit__` runs none of our
code. Nobody is in its block any more if

    the turn is garbage                              its name has a weak reference to it
    an exception that is handled came out of its     on whichever thread
    exit
    a frame of its exit has ended like that          looked for among all objects there are, and so only
                                                     for a caller that would be refused otherwise
    the function that entered it by `with … as`      the same, or if an exception that is handled came
    is not in that block any more                    out of that function; see `blocks`

A turn that was entered on an event loop that is closed is not left, but nobody will ever end it.

A turn that was left like this, and that anything else keeps alive when the exception is gone, looks like
one that was entered by hand, and stays.
"""

from __future__ import annotations

import sys
import weakref
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from greenroom.actors.runtime._stillness import stand_still
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session.blocks import has_left, is_exit, nobody_can_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextvars import Context

__all__ = [
    "BLOCK",
    "HELD",
    "OVER",
    "Held",
    "end_out_of_order",
    "entry_of",
    "held_around",
    "held_here",
    "hold_for_build",
    "hold_here",
    "innermost",
    "is_lost",
    "is_watched",
    "names_in",
    "names_of",
    "was_left",
    "watch",
]

Held: TypeAlias = list[Any]
"""An entry. A plain list, because every turn makes one: making an object takes three times as long."""

NAME, ROOM, KEY, THREAD, TOKEN, OUTER = range(6)
"""Where what is in an entry: the name of the turn, which its session knows it by, or `OVER`; its room
(only a mark of it, so that a room can be dropped meanwhile); its key; the thread that entered it; for
`async with` the token of the context variable; the entry of the turn around it. The session has the name
only, which keeps nothing alive."""

BLOCK = 2
"""In the name of a warm turn, `(signature, session id, block)`: a weak reference to the turn."""

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


def hold_for_build(turn: object, room: object, key: str) -> Held:
    """Count the caller as in a turn whose agent it builds, which that turn waits for. In this context,
    until `end_out_of_order()`."""
    held: Held = [turn, room, key, LOCAL.state, None, innermost(HELD.get())]
    hold_here(held)
    return held


def hold_here(held: Held) -> None:
    """The build goes on in this context, and not in the one that this is a copy of."""
    held[TOKEN] = HELD.set(held)


def held_here(*, blocking: bool = True) -> tuple[object, ...]:
    """The turns whose end this caller cannot wait for: it is in them.

    A caller that blocks its thread cannot wait for a task on that thread, either."""
    thread, held = LOCAL.state, HELD.get()
    mine = [h for h in _each(held) if (blocking and h[THREAD] is thread) or _entered_here(h)]
    return names_of([*_each(thread.held), *mine])


def names_of(held: Iterable[Held]) -> tuple[object, ...]:
    """What their sessions know these turns by."""
    return tuple(h[NAME] for h in held)


def held_around(room: object = None) -> list[Held]:
    """The turns of this room or of all that this caller is in or was begun in. They may wait for it."""
    return [h for h in (*_each(LOCAL.state.held), *_each(HELD.get())) if room in (None, h[ROOM])]


def names_in(context: Context) -> tuple[object, ...]:
    """The turns that a caller with this context is in, or was begun in, by `async with`."""
    return names_of(_each(context.get(HELD)))


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


def _block(name: Any) -> Callable[[], object] | None:
    block: Any = cast("Any", name)[BLOCK] if isinstance(name, tuple) else getattr(name, "block", None)
    return cast("Callable[[], object] | None", block)


def entry_of(name: Any) -> Held | None:
    """The entry of the turn of this name, if that is not garbage."""
    block = None if name is None else _block(name)
    return None if block is None else cast("Held | None", getattr(block(), "_held", None))


def watch(name: Any, call: Callable[[Any], object]) -> object:
    """Have this called when the turn of this name is garbage, as long as what is returned is kept."""
    block = _block(name)
    turn = None if block is None else block()
    return None if turn is None else weakref.ref(turn, call)


def is_watched(watched: Any, name: Any) -> bool:
    """Tell whether this is a watch on the turn of this name, and not on one before it."""
    block = _block(name)
    turn = None if block is None else block()
    return turn is not None and watched is not None and watched() is turn


def was_left(name: Any, *, search: bool = False) -> bool:
    """Tell whether the block of the turn of this name was left, and its end was never said. `search`
    among all objects there are, which takes as long as a garbage collection."""
    block = _block(name)
    if block is None:
        return False
    turn = block()
    if turn is None:
        return True
    handled: list[Any] = list(
        stand_still(sys._current_exceptions).values()
    )  # up to Python 3.11, of `exc_info`
    for one in handled:
        for frame in _ended(one[1] if isinstance(one, tuple) else one, turn):
            if is_exit(frame, turn):
                return True
            search = search or has_left(frame, turn) is True
    return search and nobody_can_end(turn)


def is_lost(name: Any) -> bool:
    """Tell whether the turn of this name was entered on an event loop that is closed."""
    block = _block(name)
    loop = None if block is None else getattr(block(), "_loop", None)
    return loop is not None and loop.is_closed()


def _ended(error: Any, turn: object) -> Iterator[FrameType]:
    """The functions that an exception, or one that it was raised from, has ended. The first one that it
    went through still runs, and handles it: if that is the exit of the turn, the turn is given back."""
    while error is not None:
        traceback = getattr(error, "__traceback__", None)
        if traceback is not None and is_exit(traceback.tb_frame, turn):
            return
        while traceback is not None and (traceback := traceback.tb_next) is not None:
            yield traceback.tb_frame
        error = getattr(error, "__context__", None)
