"""The notice board of a room: what all its actors may read.

One writer for each notice (the supervisor; the room before there is one), any number of readers. A
reader sees the old or the new notice, both whole: each is one attribute, replaced and never changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors.runtime._calls import is_async
from greenroom.actors.session.hooks import AgentHooks
from greenroom.actors.session.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.session.card import Card

__all__ = ["Board"]

logger = logging.getLogger("greenroom.actors")


class Board:
    """What a session needs to know of its room."""

    __slots__ = (
        "books",
        "build",
        "builds_here",
        "cards",
        "clerk",
        "draining",
        "hits",
        "hooks",
        "policy",
        "runtime",
        "settling",
        "supervisor",
        "warm",
        "weighing",
    )

    def __init__(
        self,
        runtime: Runtime,
        build: Callable[[Any], Any],
        policy: Policy,
        hooks: AgentHooks,
        books: Bookkeeping | None = None,
    ) -> None:
        self.runtime = runtime
        self.build = build
        self.builds_here = not is_async(build) and not runtime.simulated
        """Whether a caller that waits on a thread of its own may build there."""
        self.policy = policy
        self.hooks = hooks
        self.books = books
        """How the room uses its store, if it has one."""
        self.clerk: ActorRef[Any] | None = None
        """Who writes to the store. Set once, before there is any session."""
        self.supervisor: ActorRef[Any] | None = None
        """Set once, before there is any session."""
        self.cards: dict[str, Card] = {}
        """The card of each key, with its session actor. The supervisor puts it there."""
        self.draining = False
        self.warm = False
        """Whether a turn may begin and end without a message: nobody need hear of it."""
        self.hits = False
        """Whether a listener wants to hear of turns that found their agent."""
        self.weighing = False
        """Whether the supervisor wants to hear of every turn that ends, to look at the memory."""
        self.settling = False
        """Whether the supervisor wants to hear of sessions in which nothing is under way any more."""

    def tell_supervisor(self, message: Any) -> None:
        """Tell it, if there still is one."""
        if self.supervisor is not None:
            try:
                self.supervisor.actor_inbox.deliver(message)
            except pykka.ActorDeadError:
                pass

    def weigh(self, key: str, agent: Any) -> int | None:
        """Ask the gateway what an agent weighs. `None` if it does not tell, or fails to."""
        weigh = self.policy.weigh
        if weigh is None:
            return None
        try:
            return max(0, int(weigh(agent)))
        except Exception:
            logger.exception("weigh() failed for an agent of %r: its weight stays as it was", key)
            return None
