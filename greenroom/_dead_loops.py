"""Turns that nobody can end: their tasks are on a closed event loop, or have ended without them."""

from __future__ import annotations

import asyncio
import gc
from contextvars import Context
from typing import TYPE_CHECKING, Any

from greenroom.actors.session.holding import NAME, TOKEN, entry_of, was_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actors import RoomContext
    from greenroom.actors.session.holding import Held

__all__ = ["turns_on_dead_loops"]


def turns_on_dead_loops(room: RoomContext) -> Iterator[tuple[asyncio.Task[Any], Held]]:
    """Find the turns of a room that tasks have entered which never run again.

    Not every turn knows its loop. But one that was entered with `async with` has a token, which refers
    to the context that it was entered in, and so does the task. What refers to a context is found by
    looking at every object there is, which takes a tenth of a second or more: only for who ends a room
    while such turns are running. (`gc.get_objects()` would return tuples that other threads have not
    finished, and CPython then refuses to finish them.)
    """
    running = list(filter(None, map(_running, list(room.cards.values()))))
    entered = [(held, _context_of(held[TOKEN])) for held in running if held[TOKEN] is not None]
    contexts = [context for _, context in entered if context is not None]
    if not contexts:
        return
    found: list[Any] = gc.get_referrers(*contexts)
    tasks: list[asyncio.Task[Any]] = [one for one in found if isinstance(one, asyncio.Task)]
    for held, context in entered:
        mine = [task for task in tasks if _context_of(task) is context]  # tasks may share one
        if not mine or not all(task.done() or task.get_loop().is_closed() for task in mine):
            continue
        # A generator may have entered it in one task, and end it in another.
        if mine[0].get_loop().is_closed() or was_left(held[NAME], search=True):
            yield mine[0], held


def _running(card: Any) -> Held | None:
    """The entry of a session's running turn. The session is not asked: it may be gone by now."""
    actor = card.mailbox.actor
    return None if actor is None else entry_of(actor._state.machine.turn)


def _context_of(thing: object) -> Context | None:
    # task.get_context() is of Python 3.12
    return next((one for one in gc.get_referents(thing) if type(one) is Context), None)
