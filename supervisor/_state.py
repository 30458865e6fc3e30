"""What outlives a crash of the supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.supervisor.counters import Counters
from greenroom.supervisor.draining import Draining
from greenroom.supervisor.listeners import Listeners
from greenroom.supervisor.requests import Requests

if TYPE_CHECKING:
    from greenroom.actors import Reply
    from greenroom.actors.session.context import RoomContext

__all__ = ["SupervisorState"]


class SupervisorState:
    """What outlives a crash of the supervisor. The order of sessions does not: it is on their cards."""

    def __init__(self, context: RoomContext) -> None:
        self.counters = Counters()
        self.listeners = Listeners()
        self.requests = Requests(context.cards)
        self.draining = Draining(context)
        self.settling: list[Reply] = []
        """Who waits for the room to settle."""
        self.restarts: dict[str, tuple[float, ...]] = {}
        """When sessions were restarted, as `RestartPolicy` remembers it."""

    def rare(self) -> tuple[Any, ...]:
        """What there is only while a listener or caller waits, or the room is drained."""
        listeners = self.listeners
        return listeners, listeners.announcers, self.requests.sweeps, self.settling, self.draining

    def forget_rare(self) -> None:
        """Nobody did, and it was not."""
        self.listeners.announcers.clear()
        self.requests.sweeps.clear()
        self.settling.clear()
        self.draining.begin_anew()
