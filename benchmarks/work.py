"""The work that every contender does for a call: touch an entry of a least-recently-used cache.

It is two lines, `entries.move_to_end(key)` and `return entries[key]`, written out in every handler
rather than called: a function call would cost as much as they do.
"""

from __future__ import annotations

from collections import OrderedDict

ENTRIES = 100


def new_entries() -> OrderedDict[int, int]:
    """What a handler works on."""
    return OrderedDict((key, key) for key in range(ENTRIES))


def keys_for(caller: int) -> list[int]:
    """The keys that one caller asks for, over and over."""
    return [(caller * 7 + step * 11) % ENTRIES for step in range(10)]
