"""Looks at the stacks of other threads while these stand still.

Who has the GIL may look at what other threads do. But up to Python 3.11 every allocation may begin a
collection of garbage. That runs finalizers and callbacks, which let other threads run in between:

    1. we ask for the frame of a thread: CPython finds it on that thread's stack, and allocates an object
    2. the allocation begins a collection, and a callback of it gives the GIL away
    3. the thread returns from the function, and its frame is gone
    4. CPython ties the new object to where the frame was: memory is damaged

    1. `sys._current_exceptions()` and `_current_frames()` take a lock of the interpreter, and allocate
    2. as above
    3. a thread that begins or ends waits for that lock, and keeps the GIL: nothing runs any more

So no collection may begin in such a call. From Python 3.12 on none does: it waits for the next
instruction of Python code."""

from __future__ import annotations

import gc
import sys
from operator import call
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["stand_still"]

T = TypeVar("T")


def stand_still(look: Callable[[], T]) -> T:
    """Call a function that is written in C, and have no collection of garbage begin in it."""
    if sys.version_info >= (3, 12):
        return look()
    restore = gc.enable if gc.isenabled() else gc.disable
    steps: Any = (gc.disable, look, restore)
    called: Any = map(call, steps)
    found: T
    try:
        # All are called in one instruction of this function: no other thread runs in between.
        _, found, _ = called
    except BaseException:
        restore()
        raise
    return found
