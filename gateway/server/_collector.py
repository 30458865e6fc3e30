"""Has the garbage collector look less often: what a server has, it keeps.

A live session is some hundred objects, and none of them is garbage. Python's collector is made for
programs that are smaller: it looks through the youngest 700 objects again and again, and through all
others as they become more. Of the time that it takes to begin a thousand sessions together, that is a
third. And what was there before the first request is never looked through again.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["calm_collector"]

YOUNG = 10_000
"""So many new objects are worth a look. More of them do not fit into the processor's cache."""


@contextlib.contextmanager
def calm_collector() -> Iterator[None]:
    """While the server serves. For the whole process, unless the program has settings of its own."""
    before, freeze = gc.get_threshold(), gc.get_freeze_count() == 0
    if freeze:
        gc.collect()
        gc.freeze()
    if 0 < before[0] < YOUNG:  # 0: the operator has switched it off
        gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if freeze:
            gc.unfreeze()
