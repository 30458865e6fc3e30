"""A store that looks for dead rooms, with a clock of the test's own between two looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from greenroom.store import Burial, open_store
from greenroom.store._alive import PAUSE

if TYPE_CHECKING:
    from greenroom.store import RoomRow

__all__ = ["Looker"]


class Looker:
    """Looks for dead rooms."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url, durability="normal")
        self.store._alive._clock = lambda: self._now
        self._now = 0.0

    def look(self, later: float = 0.0) -> Burial:
        """Look, so many seconds later."""
        self._now += later
        return self.store.bury()

    def look_twice(self) -> tuple[str, ...]:
        """Look, and again when it is time. The rooms that were buried."""
        assert self.look().buried == ()
        return self.look(PAUSE).buried

    def row(self, room: str = "room") -> RoomRow:
        """The row of a room."""
        [row] = [row for row in self.store.rooms() if row.room == room]
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
