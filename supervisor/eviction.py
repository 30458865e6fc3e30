"""Who has an agent, in which order, and who should let go of it.

Pure: no threads, clocks, I/O or logging; time, memory and the sessions' cards come in as arguments.

Nobody tells when a session was used: that is on its card. An `Order` keeps each session where it last
knew it to be. One that comes to the top is compared with its card and put where it belongs by now; what
is at the top and has not moved is exactly the first. So the order costs nothing until somebody has to
go.

    order of use     sessions with an agent, least recently used first: for the cap and for memory
    order of rest    the same, longest at rest first: for the idle sweep. One that was used since, or is
                     in a turn, is looked at again when it could be idle: once in an `idle_ttl`
    expiry           all sessions, with an agent or without, by when they were last active

A session that was asked to let go is out of the order of use until it has answered, and is counted until
then. One that said no because of its turn is *held*: it stays out until it says that the turn is over,
so that no younger one goes in its place. Nobody in the order is older than one that is held. The order
may be wrong, as cards are read without asking; the session is told what was seen of it, and says no if
it was used since.

A card may say that the agent is gone while the notice of that is still on its way. The session does not
count from then on. If only its last use were taken from the card, a younger session would go in its
place:

    1. the cap is 1; b and d are in a turn, c is younger and is not; b is held
    2. d's turn ends, and its agent is gone: by its card, d was used after c
    3. the supervisor reads that card. Behind c and still counted, d puts c beyond the cap: c is asked
    4. the notice of d comes. b's turn expires before it was granted, and b is within the cap
    5. c goes, and b stays, which was used longer ago

A look takes a bounded number of steps and says if there is more to do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from greenroom.actors.session.card import Card

__all__ = ["LOOKS", "Candidates", "Card", "Expiry", "MemoryBound", "Order", "Residents"]

LOOKS = 256
"""How many entries of an order one look may correct."""


@dataclass(slots=True)
class Candidates:
    """Who should let go."""

    ask: list[tuple[str, float]]
    """Sessions, and the last use that was seen of each."""

    more: bool = False
    """The look was too short: look again."""


class Order(dict[str, float]):
    """Keys by a number that only grows, and is looked up only when it matters.

    As a dict it has the number of each key that was last known. Each is in the heap once with that
    number. What was taken out or put elsewhere leaves a stale entry, which goes when it comes to the
    top, or when there are too many.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[float, str]] = []

    def put(self, key: str, number: float) -> None:
        """Put a key where it belongs, as far as is known."""
        if self.get(key) != number:
            self[key] = number
            heapq.heappush(self._heap, (number, key))
            if len(self._heap) > 2 * len(self) + 16:
                self._compact()

    def drop(self, key: str) -> None:
        """Take a key out."""
        if self.pop(key, None) is not None and len(self._heap) > 2 * len(self) + 16:
            self._compact()

    def _compact(self) -> None:
        self._heap = [(number, key) for key, number in self.items()]
        heapq.heapify(self._heap)

    def first(self) -> tuple[float, str] | None:
        """The first key, and the number that was last known of it."""
        heap = self._heap
        while heap:
            number, key = heap[0]
            if self.get(key) == number:
                return heap[0]
            heapq.heappop(heap)
        return None

    def take(self, current: Callable[[str], float], looks: int) -> tuple[str | None, int]:
        """Take out the first key, and tell how many looks are left. `None`: there is none, or the looks
        were used up by keys that have moved."""
        while looks > 0 and (first := self.first()) is not None:
            looks -= 1
            number, key = first
            now = current(key)
            if now <= number:
                heapq.heappop(self._heap)
                del self[key]
                return key, looks
            self[key] = now
            heapq.heapreplace(self._heap, (now, key))
        return None, looks


class Residents:
    """The sessions with an agent."""

    __slots__ = ("_asked", "_held", "_held_to", "_order", "_rest", "_weights", "weight")

    def __init__(self) -> None:
        self._order = Order()
        self._rest = Order()
        self._asked: dict[str, bool] = {}
        """Sessions that were asked and have not answered; whether it was for the cap."""
        self._held: dict[str, float] = {}
        """Sessions beyond the cap that are in a turn, and tell when it is over; the last use of each."""
        self._held_to = 0.0
        """None of those that are held was used after this."""
        self._weights: dict[str, int] = {}
        """What each weighs, if that is known."""
        self.weight = 0

    # Whoever was asked is in neither order, everybody else in the order of rest.

    def __len__(self) -> int:
        return len(self._rest) + len(self._asked)

    def __contains__(self, key: object) -> bool:
        return key in self._rest or key in self._asked

    @property
    def held(self) -> int:
        """How many of those beyond the cap are in a turn, and stay."""
        return len(self._held)

    # What happens to them.

    def enter(self, key: str, card: Card, now: float) -> bool:
        """Note that a session has an agent, or what it weighs now. True if it had none before."""
        entered = key not in self
        self._weigh(key, card.weight)
        if entered:
            self._put(key, card.rank)
            self._rest.put(key, now if card.idle_since is None else card.idle_since)
        return entered

    def leave(self, key: str) -> None:
        """The session has no agent any more, or one that is on its way out."""
        self._weigh(key, 0)
        self._order.drop(key)
        self._rest.drop(key)
        self._asked.pop(key, None)
        self._held.pop(key, None)

    def _weigh(self, key: str, weight: int) -> None:
        if weight or self._weights:
            self.weight += weight - self._weights.pop(key, 0)
            if weight:
                self._weights[key] = weight

    def answered(self, key: str, card: Card, *, held: bool) -> None:
        """The session has said no."""
        if not card.cached:
            self.leave(key)
            return
        for_cap = self._asked.pop(key, None)
        if for_cap is None:
            return
        self._rest.put(key, card.idle_since or 0.0)
        first = self._order.first()
        if held and for_cap and (first is None or first[0] > card.rank):
            self._held[key] = card.rank
            self._held_to = max(self._held_to, card.rank)
        else:
            self._put(key, card.rank)

    def rested(self, key: str, card: Card) -> None:
        """The turn is over that has held a session."""
        if key in self._held:
            del self._held[key]
            self._put(key, card.rank)

    def _put(self, key: str, used: float) -> None:
        """Put a session in the order of use."""
        # Who comes back may have been used before those that are held: these are younger then, and not
        # beyond the cap before it is.
        if used < self._held_to:
            for younger in [held for held, at in self._held.items() if at > used]:
                self._order.put(younger, self._held.pop(younger))
            self._held_to = used
        self._order.put(key, used)

    # Who should let go. Those who are named count as asked from then on.

    def beyond(self, cap: int | None, cards: Mapping[str, Card], looks: int = LOOKS) -> Candidates:
        """Say who is beyond the cap.

        Only the first (size - cap) in the order of use come into question: those that are asked or held
        already, and from the order as many as are missing.
        """
        found = Candidates([])
        while cap is not None and len(self._rest) - len(self._held) > cap:
            key, looks = self._order.take(lambda key: _rank(cards[key]), looks)
            if key is None:
                found.more = looks <= 0 and len(self._order) > 0
                break
            card = cards[key]
            if card.cached:
                self._ask(found, key, card, for_cap=True)
            else:
                self.leave(key)
        return found

    def idle(
        self, now: float, ttl: float | None, cards: Mapping[str, Card], looks: int = LOOKS
    ) -> Candidates:
        """Say who has rested for longer than the TTL."""
        found = Candidates([])
        if ttl is None:
            return found
        cutoff = now - ttl  # which is also what the session compares with
        while (first := self._rest.first()) is not None and first[0] < cutoff:
            if looks <= 0:
                found.more = True
                break
            looks -= 1
            key = first[1]
            card = cards[key]
            since = card.idle_since
            if card.in_turn or since is None or key in self._held:
                self._rest.put(key, now)
            elif since >= cutoff:
                self._rest.put(key, since)
            else:
                self._ask(found, key, card)
        return found

    def oldest_free(
        self, most: int, cards: Mapping[str, Card], enough: int | None = None, looks: int = LOOKS
    ) -> Candidates:
        """Name up to `most` of the least recently used that are not in a turn, or fewer if these weigh
        `enough` together."""
        found = Candidates([])
        in_turn: list[str] = []
        weight = 0
        while len(found.ask) < most and (enough is None or weight < enough):
            key, looks = self._order.take(lambda key: cards[key].rank, looks)
            if key is None:
                found.more = looks <= 0 and len(self._order) > 0
                break
            if cards[key].in_turn:
                in_turn.append(key)
                looks += 1  # or a look that finds nobody else would be made again and again
                continue
            weight += self._weights.get(key, 0)
            self._ask(found, key, cards[key])
        for key in in_turn:
            self._order.put(key, cards[key].rank)
        return found

    def asked_weight(self) -> int:
        """What those weigh together who were asked and have not answered."""
        return sum(self._weights.get(key, 0) for key in self._asked)

    def _ask(self, found: Candidates, key: str, card: Card, *, for_cap: bool = False) -> None:
        self._order.drop(key)
        self._rest.drop(key)
        self._asked[key] = for_cap
        found.ask.append((key, card.used))


def _rank(card: Card) -> float:
    """Its number in the order of use. A session whose agent is gone stays in its place, and is found."""
    return card.rank if card.cached else 0.0


class MemoryBound:
    """When to shed, and how much: a budget with hysteresis.

    Above the budget, the least recently used are shed, at most a batch at a look, until memory is down
    to the relief. If the agents' weights are known, what each gives back is known too. If not, memory is
    what the system says, and falls only when the agents are really gone: so the next batch waits for
    that, unless memory grows meanwhile. That way one peak does not empty the room, and a burst of large
    sessions does not outrun the bound.
    """

    __slots__ = ("_leaving", "_peak", "shedding")

    def __init__(self) -> None:
        self.shedding = False
        self._leaving: set[str] = set()
        self._peak = 0

    def look(
        self,
        residents: Residents,
        cards: Mapping[str, Card],
        *,
        used: int,
        budget: int,
        relief: float,
        batch: int,
        weighed: bool,
    ) -> Candidates:
        """Say who should let go, now that so much is used."""
        if used > budget:
            self.shedding = True
        elif used <= budget * relief:
            self.shedding = False
        if not self.shedding:
            return Candidates([])
        if weighed:
            excess = used - int(budget * relief) - residents.asked_weight()
            return residents.oldest_free(batch, cards, excess) if excess > 0 else Candidates([])
        if self._leaving and used <= self._peak:
            return Candidates([])
        found = residents.oldest_free(batch, cards)
        self._leaving.update(key for key, _ in found.ask)
        self._peak = used
        return found

    def gone(self, key: str) -> bool:
        """An agent is gone, or stays after all. True if it was the last of those that were shed."""
        if key not in self._leaving:
            return False
        self._leaving.discard(key)
        return not self._leaving


class Expiry(Order):
    """Which sessions have been unused too long, with an agent or without."""

    __slots__ = ()

    def due(
        self, now: float, ttl: float, cards: Mapping[str, Card], looks: int = LOOKS
    ) -> tuple[list[str], bool]:
        """Name those that have been unused for longer than the TTL, and tell whether there may be more.
        Each is looked at again after another TTL, should it say no."""
        keys: list[str] = []
        while (first := self.first()) is not None and now - first[0] > ttl:
            if looks <= 0:
                return keys, True
            looks -= 1
            key = first[1]
            card = cards[key]
            last = first[0] if card.idle_since is None else card.idle_since
            if card.in_turn or card.waiting or card.busy:
                last = now
            elif now - last > ttl:
                keys.append(key)
                last = now
            self.put(key, last)
        return keys, False
