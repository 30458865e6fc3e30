"""A session's card: what the rest of the room may know of it without asking.

Only the session writes its card, under its mailbox's baton; the supervisor, `stats()` and the page read
it at any time. A reader without the baton may see a card that is half old (a new `used` with an old
`idle_since`). So a card may lead to a question, never to an action: the session decides again, under
its baton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.runtime._ref import ActorRef

__all__ = ["Card", "cached_keys"]


class Card:
    """How one session stands."""

    __slots__ = (
        "busy",
        "cached",
        "conversation",
        "dirty",
        "failed",
        "hits",
        "idle_since",
        "in_turn",
        "loop",
        "mailbox",
        "owes",
        "provisional",
        "ref",
        "retained",
        "unrecorded",
        "used",
        "waiting",
        "weight",
    )

    def __init__(self) -> None:
        self.ref: ActorRef[Any]
        """The session actor. It may have stopped since. (Set by the supervisor, before anybody sees
        it.)"""
        self.mailbox: Mailbox
        """Its mailbox, in which every warm turn takes its two steps."""
        self.cached = False
        """It has an agent that is not on its way out."""
        self.conversation: str | None = None
        """The current conversation of the key, for warm turns. `None`: the key itself."""
        self.in_turn = False
        self.used = 0.0
        """When a turn of it last began or ended: a number of the runtime's `tick`."""
        self.provisional = False
        """Its caller said that it may never come again, and this is its first turn so far."""
        self.idle_since: float | None = None
        """When its last turn ended. `None`: no activity is known."""
        self.dirty = False
        """It has uncommitted turns."""
        self.hits = 0
        """How many turns found their agent."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that its agent is bound to, if there is an agent, and it is."""
        self.weight = 0
        self.waiting = 0
        self.retained = 0
        """How many agents are kept only for a commit that failed."""
        self.busy = False
        """A build, commit, release or close is under way."""
        self.failed = False
        self.unrecorded = False
        """The store has not recorded everything yet."""
        self.owes: float | None = None
        """It refused a release because of a turn, at this use, and tells the supervisor when that is
        over: also if the next turn begins at once, for by then it is not the least recently used any
        more."""

    @property
    def rank(self) -> float:
        """Its number in the order of use. A provisional session ranks below every other, which are all
        above 0, and among its like by its use. A rank only grows."""
        return -1.0 / self.used if self.provisional and self.used else self.used


def cached_keys(cards: dict[str, Card]) -> tuple[str, ...]:
    """The sessions that have an agent, least recently used first."""
    cached = [(card.rank, key) for key, card in list(cards.items()) if card.cached]
    return tuple(key for _, key in sorted(cached))
