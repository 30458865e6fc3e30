"""The context of a room: what all its actors may read.

One writer for each notice (the supervisor; the room before there is one), any number of readers. A
reader sees the old or the new notice, both whole: each is one attribute, replaced and never changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors.runtime._calls import is_async
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.session.hooks import AgentHooks
from greenroom.actors.session.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.session.card import Card

__all__ = ["RoomContext"]

logger = get_log("greenroom.actors")


@dataclass(slots=True, eq=False, repr=False)
class RoomContext:
    """What a session needs to know of its room."""

    runtime: Runtime
    build: Callable[[Any], Any]
    policy: Policy
    hooks: AgentHooks
    books: Bookkeeping | None = None
    """How the room uses its store, if it has one."""

    writer: Any = None
    """Who writes to the store. Set once, before there is any session."""

    dead_rooms: Any = None
    """Who looks for rooms whose process has ended, where there is a ledger. Set once, as the writer."""

    supervisor: ActorRef[Any] | None = None
    """Set once, before there is any session."""

    cards: dict[str, Card] = field(default_factory=dict[str, "Card"])
    """The card of each key, with its session actor. The supervisor puts it there."""

    builds_here: bool = field(init=False)
    """Whether a caller that waits on a thread of its own may build there."""

    draining: bool = False
    warm: Callable[[], float] | None = None
    """The runtime's `tick`, while turns may begin and end without a message. `None`: somebody must hear
    of each."""

    hits: bool = False
    """Whether a listener wants to hear of turns that found their agent."""

    weighing: bool = False
    """Whether the supervisor wants to hear of every turn that ends, to look at the memory."""

    settling: bool = False
    """Whether the supervisor wants to hear of sessions in which nothing is under way any more."""

    def __post_init__(self) -> None:
        self.builds_here = not is_async(self.build) and not self.runtime.simulated

    def tell_supervisor(self, message: Any) -> None:
        """Tell it, if there still is one."""
        if self.supervisor is not None:
            try:
                self.supervisor.actor_inbox.deliver(message)
            except pykka.ActorDeadError:
                pass

    def is_bound(self, agent: Any) -> bool:
        """Whether an agent is of no use without the event loop that it was built for: something about
        it is async, so that it may have clients there. A plain one can be used anywhere."""
        return is_async(self.build) or self.hooks.has_async(agent)

    def weigh(self, key: str, agent: Any) -> int | None:
        """Ask the gateway what an agent weighs. `None` if it does not tell, or fails to."""
        weigh = self.policy.weigh
        if weigh is None:
            return None
        try:
            return max(0, int(weigh(agent)))
        except Exception as error:
            if is_strike(error):
                raise
            logger.exception("weigh() failed for an agent of %r: its weight stays as it was", key)
            return None
