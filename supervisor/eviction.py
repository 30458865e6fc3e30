"""Who has an agent, in which order, and who should let go of it.

Pure: no threads, clocks, I/O or logging; time and memory come in as arguments. Two orders are kept:

    order of use     every session with an agent, least recently used first. A turn that begins makes its
                     session the most recently used. The cap and the memory bound go by this one
    order of rest    those that are not in a turn, longest at rest first. The idle sweep goes by this one
                     and stops at the first that has not rested long enough: it costs what it evicts

An agent of which no activity is known (an adopted one) is in no order of rest: no sweep finds it.

A session that was asked to release and has not answered is still counted, and is not asked twice.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["Beyond", "Expiry", "MemoryBound", "Resident", "Residents"]


@dataclass(slots=True)
class Resident:
    """A session with an agent."""

    in_turn: bool
    asked: bool
    weight: int
    for_cap: bool = False
    """It was asked because it is beyond the cap."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """What the cap says."""

    ask: tuple[str, ...]
    """The sessions that should release."""

    held: int
    """How many of those beyond the cap are in a turn, and stay."""


class Residents:
    """The sessions with an agent."""

    __slots__ = ("_beyond", "_resting", "_used", "in_turn", "weight")

    def __init__(self) -> None:
        self._used: OrderedDict[str, Resident] = OrderedDict()
        self._resting: OrderedDict[str, float] = OrderedDict()
        self._beyond: tuple[int | None, int, int] | None = None
        """The cap at the last look, how many were beyond it, and how many of these were in a turn.
        `None`: something has changed since that could make somebody a candidate."""
        self.in_turn = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._used)

    def __contains__(self, key: object) -> bool:
        return key in self._used

    def keys(self) -> tuple[str, ...]:
        """The keys, least recently used first."""
        return tuple(self._used)

    def place(self, key: str) -> int | None:
        """The place of a session in the order of use; 1 is the least recently used."""
        if key not in self._used:
            return None
        return next(place for place, other in enumerate(self._used, 1) if other == key)

    def is_in_turn(self, key: str) -> bool:
        """Tell whether a session is in a turn."""
        resident = self._used.get(key)
        return resident is not None and resident.in_turn

    # What happens to them.

    def enter(self, key: str, *, in_turn: bool, since: float | None, weight: int) -> bool:
        """Note that a session has an agent, and how it is. True if it had none before.

        One that had none is the most recently used now.
        """
        resident = self._used.get(key)
        entered = resident is None
        self._beyond = None
        if resident is None:
            self._used[key] = resident = Resident(False, False, 0)
        self._turn(resident, in_turn)
        self.weight += weight - resident.weight
        resident.weight = weight
        if in_turn or since is None:
            self._resting.pop(key, None)
        elif self._resting.get(key) != since:
            self._rest(key, since)
        return entered

    def use(self, key: str) -> None:
        """A turn begins: the most recently used."""
        resident = self._used.get(key)
        if resident is not None:
            self._beyond = None
            self._used.move_to_end(key)
            if not resident.in_turn:
                resident.in_turn = True
                self.in_turn += 1
                self._resting.pop(key, None)

    def rest(self, key: str, since: float, weight: int) -> None:
        """A turn has ended."""
        resident = self._used.get(key)
        if resident is not None:
            self._beyond = None
            if resident.in_turn:
                resident.in_turn = False
                self.in_turn -= 1
            if weight != resident.weight:
                self.weight += weight - resident.weight
                resident.weight = weight
            self._rest(key, since)

    def leave(self, key: str) -> None:
        """The session has no agent any more, or one that is on its way out."""
        resident = self._used.pop(key, None)
        if resident is not None:
            if not resident.for_cap:
                self._beyond = None
            self._turn(resident, False)
            self.weight -= resident.weight
            self._resting.pop(key, None)

    def answered(self, key: str) -> None:
        """The session has answered: it may be asked again."""
        resident = self._used.get(key)
        if resident is not None:
            resident.asked = resident.for_cap = False
            self._beyond = None

    def reorder(self, last_use: dict[str, int]) -> None:
        """Put everybody in the order of these numbers: what was known of the order is lost."""
        self._beyond = None
        for key in sorted(self._used, key=lambda key: last_use.get(key, 0)):
            self._used.move_to_end(key)
        for key, _ in sorted(self._resting.items(), key=lambda item: item[1]):
            self._resting.move_to_end(key)

    # Who should let go. Those who are named count as asked from then on.

    def beyond(self, cap: int | None) -> Beyond:
        """Say who is beyond the cap.

        Only the first (size - cap) in the order of use come into question. One of them that is in a turn
        is left, and no younger one goes in its place.
        """
        excess = 0 if cap is None else len(self._used) - cap
        ask: list[str] = []
        held = 0
        if self._beyond is not None and self._beyond[0] == cap:
            # Some of those that were asked have left since, and that is all.
            return Beyond((), self._beyond[2] if excess > 0 else 0)
        if excess > 0:
            for _, (key, resident) in zip(range(excess), self._used.items(), strict=False):
                if resident.in_turn:
                    held += 1
                elif not resident.asked:
                    resident.asked = resident.for_cap = True
                    ask.append(key)
        self._beyond = (cap, excess, held)
        return Beyond(tuple(ask), held)

    def idle(self, now: float, ttl: float | None) -> tuple[str, ...]:
        """Say who has rested for longer than the TTL."""
        ask: list[str] = []
        if ttl is not None:
            for key, since in self._resting.items():
                if now - since <= ttl:
                    break
                if not self._used[key].asked:
                    self._used[key].asked = True
                    self._beyond = None
                    ask.append(key)
        return tuple(ask)

    def oldest_free(self, most: int, enough: int | None = None) -> tuple[str, ...]:
        """Name up to `most` of the least recently used that can be asked, or fewer if these weigh
        `enough` together."""
        ask: list[str] = []
        weight = 0
        for key, resident in self._used.items():
            if len(ask) >= most or (enough is not None and weight >= enough):
                break
            if not resident.in_turn and not resident.asked:
                ask.append(key)
                weight += resident.weight
        for key in ask:
            self._used[key].asked = True
            self._beyond = None
        return tuple(ask)

    def asked_weight(self) -> int:
        """What those weigh together who were asked and have not answered."""
        return sum(resident.weight for resident in self._used.values() if resident.asked)

    def _turn(self, resident: Resident, in_turn: bool) -> None:
        self.in_turn += in_turn - resident.in_turn
        resident.in_turn = in_turn

    def _rest(self, key: str, since: float) -> None:
        self._resting.pop(key, None)
        self._resting[key] = since


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
        self, residents: Residents, *, used: int, budget: int, relief: float, batch: int, weighed: bool
    ) -> tuple[str, ...]:
        """Say who should let go, now that so much is used."""
        if used > budget:
            self.shedding = True
        elif used <= budget * relief:
            self.shedding = False
        if not self.shedding:
            return ()
        if weighed:
            excess = used - int(budget * relief) - residents.asked_weight()
            return residents.oldest_free(batch, excess) if excess > 0 else ()
        if self._leaving and used <= self._peak:
            return ()
        ask = residents.oldest_free(batch)
        self._leaving.update(ask)
        self._peak = used
        return ask

    def gone(self, key: str) -> bool:
        """An agent is gone, or stays after all. True if it was the last of those that were shed."""
        if key not in self._leaving:
            return False
        self._leaving.discard(key)
        return not self._leaving


class Expiry:
    """Which sessions have been unused too long, with an agent or without.

    A heap of times to look: each session is in it once, is looked at when it could have expired, and is
    put back if it was used since. A look costs what is due, not what there is.
    """

    __slots__ = ("_heap", "_known")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._known: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._known)

    def watch(self, key: str, now: float) -> None:
        """Note a session, used now."""
        if key not in self._known:
            self._known[key] = now
            heapq.heappush(self._heap, (now, key))

    def forget(self, key: str) -> None:
        """The session is over. Its place in the heap goes when it is come to, or when too many are."""
        self._known.pop(key, None)
        if len(self._heap) > 2 * len(self._known) + 16:
            self._heap = [(time, key) for time, key in self._heap if self._known.get(key) == time]
            heapq.heapify(self._heap)

    def due(self, now: float, ttl: float) -> list[str]:
        """Take out those that were last seen longer ago than the TTL: look at each."""
        keys: list[str] = []
        while self._heap and now - self._heap[0][0] > ttl:
            time, key = heapq.heappop(self._heap)
            if self._known.get(key) == time:
                del self._known[key]
                keys.append(key)
        return keys
