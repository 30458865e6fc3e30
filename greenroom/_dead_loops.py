"""Turns that nobody can end: their tasks are on a closed event loop, or have ended without them."""

from __future__ import annotations

import asyncio
import gc
from contextvars import Context
from typing import TYPE_CHECKING, Any

from greenroom.actors.session.holding import NAME, entered_in, was_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actors import RoomContext
    from greenroom.actors.session.holding import Held

__all__ = ["turns_on_dead_loops"]


def turns_on_dead_loops(room: RoomContext) -> Iterator[tuple[asyncio.Task[Any], Held]]:
    """Find the turns of a room that tasks have entered which never run again.

    A warm turn does not know its loop, so it is found from the other end: a task has a context, and that
    has the turns that were entered in it. It looks at every object there is, which takes a tenth of a
    second or more: only for who ends a room while turns are running.
    """
    tasks = [thing for thing in gc.get_objects() if issubclass(type(thing), asyncio.Task)]
    dead = [task for task in tasks if task.done() or task.get_loop().is_closed()]
    live = {id(_context_of(task)) for task in set(tasks).difference(dead)}  # tasks may share one
    for task in dead:
        context = _context_of(task)
        if context is not None and id(context) not in live:
            for held in entered_in(context, room):
                # A generator may have entered it in one task, and end it in another.
                if task.get_loop().is_closed() or was_left(held[NAME], search=True):
                    yield task, held


def _context_of(task: asyncio.Task[Any]) -> Context | None:
    # task.get_context() is of Python 3.12
    return next((one for one in gc.get_referents(task) if type(one) is Context), None)
