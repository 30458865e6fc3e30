"""How many versions of a session one store added by itself.

Without a lock, in any number of threads: each thread has a cell of its own in a session's count, and
adds to no other. (`count += 1` on a shared number loses one when two threads read it before either
writes.) The identity of a thread that has ended may be given to a new one, which then goes on with the
same cell.

Sessions are forgotten by the page: one that is written to moves to the new page; when that is full, it
becomes the old page, and the old one is dropped. (An `OrderedDict` in order of use would not do: without
a GIL several threads break its links, up to Python 3.14.0.)
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

__all__ = ["OwnWrites"]

_MOST = 65_536

_Page = dict[str | None, dict[Any, Any]]


class OwnWrites:
    """Counts by session, of those written to last. One that was forgotten counts from 0 again, which at
    worst looks like somebody else's write."""

    __slots__ = ("_full", "_pages")

    def __init__(self, most: int = _MOST) -> None:
        self._full = most // 2
        self._pages: tuple[_Page, _Page] = ({}, {})

    def add(self, session_id: str, number: int) -> None:
        """Count a write, or with -1 take it back."""
        new, old = self._pages
        cells = new.get(session_id)
        if cells is None:
            cells = new.setdefault(session_id, old.get(session_id, {}))
            if len(new) >= self._full and self._pages[0] is new:
                # Under `None` is the next page: threads that turn this one together turn to the same.
                self._pages = (new.setdefault(None, {}), new)
        me = get_ident()
        # Last: a thread that a signal ends in here has counted nothing.
        cells[me] = cells.get(me, 0) + number

    def of(self, session_id: str) -> int:
        """How many."""
        new, old = self._pages
        cells = new.get(session_id) or old.get(session_id) or {}
        return sum(list(cells.values()))
