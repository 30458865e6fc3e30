"""How many versions of a session one store added by itself.

Without a lock, in any number of threads: each thread has a cell of its own in a session's count, and
adds to no other. (`count += 1` on a shared number loses one when two threads read it before either
writes.) The identity of a thread that has ended may be given to a new one, which then goes on with the
same cell.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import get_ident

__all__ = ["OwnWrites"]

_MOST = 65_536


class OwnWrites:
    """Counts by session, of those written to last. One that was forgotten counts from 0 again, which at
    worst looks like somebody else's write."""

    __slots__ = ("_counts", "_most")

    def __init__(self, most: int = _MOST) -> None:
        self._counts: OrderedDict[str, dict[int, int]] = OrderedDict()
        self._most = most

    def add(self, session_id: str, number: int) -> None:
        """Count a write, or with -1 take it back."""
        counts = self._counts
        cells = counts.setdefault(session_id, {})
        me = get_ident()
        cells[me] = cells.get(me, 0) + number
        try:
            counts.move_to_end(session_id)
            while len(counts) > self._most:
                counts.popitem(last=False)
        except KeyError:  # another thread forgot it, or there is nothing left to forget
            pass

    def of(self, session_id: str) -> int:
        """How many."""
        cells = self._counts.get(session_id)
        return 0 if cells is None else sum(list(cells.values()))
