"""Who waits for the room to settle: until no build, commit, release or close is under way.

A session that has something under way says so on its card, and while anybody waits here, tells when that
is over: it writes its card first and reads `settling` then, and we write `settling` first and read its
card then. Whichever second step comes last sees the other's first.

One look at the cards is not enough. Notices of what has just ended may be on their way to the
supervisor, and lead to something new: an agent was built, and another one has to go. So the answer comes
behind the notices that were there at the look, if none of them has led to anything.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.actors import Reply
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext

__all__ = ["Settling"]


class Settling:
    """Knows whether the room has settled."""

    def __init__(self, context: RoomContext, waiting: list[Reply]) -> None:
        """`waiting` outlives a crash of the supervisor; the rest is on the cards."""
        self._context = context
        self.waiting = waiting
        self._busy: set[Card] = set()
        """Sessions that had something under way when we last read their cards."""
        self._quiet = False
        """Nothing was under way at the last look, and nothing has begun since."""
        self._due = False
        """The next look is on its way to the supervisor."""

    def wait(self, reply: Reply) -> None:
        """Answer when the room has settled."""
        self.waiting.append(reply)
        self._context.settling = True

    def heard_of(self, card: Card) -> None:
        """A session has told something."""
        if card.busy:
            self._busy.add(card)
            self._quiet = False
        else:
            self._busy.discard(card)

    def gone(self, card: Card) -> None:
        """A session is gone, with whatever was under way there."""
        self._busy.discard(card)

    def disturbed(self) -> None:
        """Something has begun of which its card does not tell yet."""
        self._quiet = False

    def wants_a_look(self) -> bool:
        """Tell whether to look, now that nothing else is under way. True once until `look()`."""
        if self._busy or self._due:
            return False
        self._due = True
        return True

    def look(self, *, under_way: bool) -> None:
        """Look at all cards; or if nothing has begun since the last look, answer."""
        self._due = False
        if under_way or not self.waiting:
            self._quiet = False
        elif self._quiet:
            self._answer()
        else:
            self._busy = set(filter(attrgetter("busy"), self._context.cards.values()))
            self._quiet = not self._busy

    def _answer(self) -> None:
        self._quiet = self._context.settling = False
        for reply in self.waiting:
            reply.set(True)
        self.waiting.clear()
