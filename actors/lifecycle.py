"""The generations of a session: what was completed, by whom, what is committed, and who commits next.

Pure: no threads, clocks, I/O or logging. Owners are incarnation numbers; which object an incarnation is,
this module does not know.

    complete(owner)      the generation grows by one. It joins the last segment if that has the same
                         owner and is not being committed; else it begins a segment of its own
    begin_commit()       the oldest segment is in flight: its owner, and up to which generation
    end_commit(True)     that segment is committed and gone
    end_commit(False)    nothing changes: the same segment, and the same owner, are next
    put_off_commit()     the same, and it was not tried

A turn that completes while its owner's commit is in flight begins a new segment, because that commit may
not have seen it. All further turns of that time join it: a busy session is at most one commit behind,
not one for each turn.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Generations", "Segment"]


@dataclass(slots=True)
class Segment:
    """A run of generations, up to `last`, that were completed by one owner."""

    owner: int | None
    last: int


class Generations:
    """How many turns a session completed, how many are committed, and the segments between."""

    __slots__ = ("_segments", "committed", "generation", "in_flight")

    def __init__(self) -> None:
        self.generation = 0
        self.committed = 0
        self.in_flight: Segment | None = None
        # None while there is nothing uncommitted: most sessions of a room are of that kind.
        self._segments: list[Segment] | None = None

    @property
    def dirty(self) -> int:
        """How many generations are uncommitted."""
        return self.generation - self.committed

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The uncommitted segments, oldest first."""
        return tuple(self._segments or ())

    @property
    def next_owner(self) -> int | None:
        """The owner of the oldest segment, if it has one."""
        return self._segments[0].owner if self._segments else None

    def owes(self, owner: int) -> bool:
        """Tell whether any uncommitted segment is this owner's."""
        return any(segment.owner == owner for segment in self._segments or ())

    def complete(self, owner: int | None) -> int:
        """Count one more completed turn."""
        self.generation += 1
        segments = self._segments
        if segments is None:
            self._segments = [Segment(owner, self.generation)]
        elif segments[-1].owner == owner and segments[-1] is not self.in_flight:
            segments[-1].last = self.generation
        else:
            segments.append(Segment(owner, self.generation))
        return self.generation

    def begin_commit(self, offered: int | None = None) -> Segment | None:
        """Take the oldest segment in hand. `None` if there is none, one is in flight, or it has no owner
        and none is offered.

        What follows it and has the same owner joins it: one call covers every turn completed before.
        """
        segments = self._segments
        if segments is None or self.in_flight is not None:
            return None
        oldest = segments[0]
        if oldest.owner is None:
            oldest.owner = offered
        if oldest.owner is None:
            return None
        while len(segments) > 1 and segments[1].owner == oldest.owner:
            oldest.last = segments.pop(1).last
        self.in_flight = oldest
        return oldest

    def put_off_commit(self) -> None:
        """The commit in flight has not begun after all: nothing has happened."""
        self.in_flight = None

    def end_commit(self, succeeded: bool) -> int:
        """Note how the commit in flight ended. Returns how many generations it committed."""
        segment, self.in_flight = self.in_flight, None
        if segment is None or not succeeded:
            return 0
        assert self._segments is not None
        assert self._segments[0] is segment
        count = segment.last - self.committed
        self.committed = segment.last
        self._segments = self._segments[1:] or None
        return count
