"""Who hears of events: an `Announcer` for each listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.supervisor._deliver import deliver
from greenroom.supervisor.announcer import Announcer

if TYPE_CHECKING:
    from greenroom.actors import ActorRef, Future
    from greenroom.messages import Event, FlushEvents

__all__ = ["Listeners"]


class Listeners:
    """The listeners of a room, by number. They outlive a crash of the supervisor."""

    __slots__ = ("_number", "announcers")

    def __init__(self) -> None:
        self._number = 0
        self.announcers: dict[int, tuple[ActorRef[Announcer], bool]] = {}
        """Each, and whether it wants to hear of warm turns."""

    @property
    def hear_of_hits(self) -> bool:
        """Whether any of them wants to hear of warm turns."""
        return any(hits for _, hits in self.announcers.values())

    @property
    def dropped(self) -> int:
        """How many events the listeners there are were too slow for."""
        actors = (ref.actor_inbox.actor for ref, _ in self.announcers.values())
        return sum(actor.dropped for actor in actors if isinstance(actor, Announcer))

    def add(self, announcer: ActorRef[Announcer], *, hits: bool) -> int:
        """Take a listener in, and tell its number."""
        self._number += 1
        self.announcers[self._number] = (announcer, hits)
        return self._number

    def remove(self, number: int) -> None:
        """Call this one no more."""
        if number in self.announcers:
            announcer, _ = self.announcers.pop(number)
            announcer.stop(block=False)

    def announce(self, event: Event) -> None:
        """Tell everybody who wants to hear of it."""
        for announcer, hits in self.announcers.values():
            if hits or event.kind != "hit":
                deliver(announcer, event)

    def flush(self, request: FlushEvents) -> list[Future[bool]]:
        """Ask for an answer of each when it was called with every event that there is."""
        return [announcer.ask(request, block=False) for announcer, _ in self.announcers.values()]
