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

With a ledger, a segment belongs to one session id, and has a *token*: the generation of that session id
which its commit will cover. What a commit was once begun for is not changed any more, whether it failed
or not: the next try has the same token, so that a memory provider can tell a second try from a second
piece of work. Two more things can happen then:

    resume(…)            a session id comes from the ledger, with turns that nobody here completed
    disown(…)            another room has taken a session id over, and answers for its turns
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Generation", "Generations", "Segment"]


class Generation(int):
    """The generation up to which a commit goes: what a commit hook gets that takes an argument.

    With a store, it is the same on every try of the same commit, in the next process too: together with
    `session_id` it tells a memory provider whether it has done this piece of work before.
    """

    session_id: str | None

    def __new__(cls, value: int, session_id: str | None) -> Generation:
        self = super().__new__(cls, value)
        self.session_id = session_id
        return self

    def __reduce__(self) -> tuple[type[Generation], tuple[int, str | None]]:
        return type(self), (int(self), self.session_id)


@dataclass(slots=True)
class Segment:
    """A run of generations, up to `last`, that were completed by one owner."""

    owner: int | None
    last: int
    session_id: str | None = None
    """Which transcript they belong to, where there is a ledger."""

    token: int = 0
    """The generation of that transcript that it goes up to."""

    epoch: int = 0
    """Under which ownership of it they were completed, or taken up."""

    begun: bool = False
    """A commit was begun for just these: nothing joins them any more."""


class Generations:
    """How many turns a session completed, how many are committed, and the segments between."""

    __slots__ = ("committed", "disowned", "generation", "in_flight", "segments")

    def __init__(self) -> None:
        self.generation = 0
        self.committed = 0
        self.disowned = 0
        """How many of those count as committed because another room answers for them."""
        self.in_flight: Segment | None = None
        self.segments: tuple[Segment, ...] = ()
        """The uncommitted segments, oldest first."""

    @property
    def dirty(self) -> int:
        """How many generations are uncommitted."""
        return self.generation - self.committed

    @property
    def extracted(self) -> int:
        """How many generations were committed here."""
        return self.committed - self.disowned

    @property
    def next(self) -> Segment | None:
        """The segment that is committed next: the oldest. One that was resumed, and has nobody yet who
        would answer for it, holds up only what was completed later of the same session id."""
        held_up: set[str | None] = set()
        for segment in self.segments:
            if segment.session_id in held_up:
                continue
            if segment.owner is not None or segment.session_id is None:
                return segment
            held_up.add(segment.session_id)
        return None

    @property
    def next_owner(self) -> int | None:
        """The owner of that segment, if it has one."""
        return None if self.next is None else self.next.owner

    def owes(self, owner: int) -> bool:
        """Tell whether any uncommitted segment is this owner's."""
        for segment in self.segments:  # noqa: SIM110  # asked again and again: any() takes thrice as long
            if segment.owner == owner:
                return True
        return False

    def owed_for(self, session_id: str) -> bool:
        """Tell whether any uncommitted segment belongs to this session id."""
        return any(segment.session_id == session_id for segment in self.segments)

    def owed(self, session_id: str) -> int:
        """How many uncommitted generations belong to this session id."""
        start, owed = self.committed, 0
        for segment in self.segments:
            if segment.session_id == session_id:
                owed += segment.last - start
            start = segment.last
        return owed

    def nobodys(self, session_id: str) -> bool:
        """Tell whether any uncommitted segment of this session id has no owner."""
        return any(s.owner is None for s in self.segments if s.session_id == session_id)

    def complete(
        self, owner: int | None, session_id: str | None = None, token: int = 0, epoch: int = 0
    ) -> int:
        """Count one more completed turn."""
        segment, segments = self.prepare(owner, session_id, epoch)
        segment.last, segment.token = self.generation + 1, token
        self.segments = segments
        self.generation += 1
        return self.generation

    def prepare(
        self, owner: int | None, session_id: str | None = None, epoch: int = 0
    ) -> tuple[Segment, tuple[Segment, ...]]:
        """The segment of a turn that completes now, and all segments with it. Changes nothing.

        The end of a warm turn makes this call first and then only assigns fields, so that an exception
        of a signal handler finds the turn ended and counted, or neither.
        """
        segments = self.segments
        if segments:
            last = segments[-1]
            same_account = last.session_id == session_id and last.epoch == epoch
            if last.owner == owner and same_account and not last.begun and last is not self.in_flight:
                return last, segments
        segment = Segment(owner, 0, session_id, 0, epoch)
        return segment, (*segments, segment)

    def _append(self, segment: Segment) -> None:
        segments = self.segments
        if not segments or segments[-1] is self.in_flight or not _join(segments[-1], segment):
            self.segments = (*segments, segment)

    def begin_commit(self, offered: int | None = None) -> Segment | None:
        """Take the oldest segment in hand. `None` if there is none, one is in flight, or it has no owner
        and none is offered.

        What follows it and has the same owner joins it: one call covers every turn completed before.
        """
        oldest = self.next
        if oldest is None or self.in_flight is not None:
            return None
        if oldest.owner is None:
            oldest.owner = offered
        if oldest.owner is None:
            return None
        behind = end = self.segments.index(oldest) + 1
        while len(self.segments) > end and _join(oldest, self.segments[end]):
            end += 1
        self.segments = self.segments[:behind] + self.segments[end:]
        oldest.begun = oldest.session_id is not None
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
        return self._take_out(lambda other: other is segment)

    # With a ledger.

    def resume(
        self, session_id: str, epoch: int, *, generation: int, committed: int, intended: int = 0
    ) -> int:
        """Take up what the ledger has of a session id: turns that nobody here completed. They have no
        owner yet. `intended` is what a commit was begun for, and never ended. Returns how many."""
        before = self.generation
        for token, begun in ((intended, True), (generation, False)):
            if token > committed:
                self.generation += token - committed
                self._append(Segment(None, self.generation, session_id, token, epoch, begun))
                committed = token
        return self.generation - before

    def take_over(self, owner: int, session_id: str | None = None) -> None:
        """Give what nobody here completed to this owner: of one session id, or all there is."""
        for segment in self.segments:
            resumed = segment.owner is None and segment.session_id is not None
            if resumed and session_id in (None, segment.session_id):
                segment.owner = owner

    def leave_to_nobody(self, owner: int) -> None:
        """This owner commits nothing any more; what it has is nobody's again."""
        for segment in self.segments:
            if segment.owner == owner:
                segment.owner = None

    def disown(self, session_id: str, epoch: int) -> int:
        """Another room answers for what was completed up to this epoch: here it counts as done. Returns
        how many turns. A commit in flight is left alone: it learns of it by itself."""
        gone = self._take_out(
            lambda segment: (
                segment.session_id == session_id
                and segment.epoch <= epoch
                and segment is not self.in_flight
            )
        )
        self.disowned += gone
        return gone

    def _take_out(self, is_done: Callable[[Segment], bool]) -> int:
        """Count segments as committed, and forget them. What lies before them moves up."""
        kept: list[Segment] = []
        done, start = 0, self.committed
        for segment in self.segments:
            count, start = segment.last - start, segment.last
            if is_done(segment):
                done += count
                for older in kept:
                    older.last += count
            else:
                kept.append(segment)
        self.committed += done
        self.segments = tuple(kept)
        return done


def _join(segment: Segment, later: Segment) -> bool:
    """Make one segment of two, if they belong together."""
    same_account = segment.session_id == later.session_id and segment.epoch == later.epoch
    if segment.owner != later.owner or not same_account or segment.begun or later.begun:
        return False
    segment.last, segment.token = later.last, later.token
    return True
