"""The supervisor, second layer: it holds the room to its bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom.actors import RuntimeClosed
from greenroom.messages import (
    ExpireSession,
    MemoryGivenBack,
    Reason,
    ReleaseAgent,
    SettleRoom,
    SweepRoom,
)
from greenroom.supervisor._books import SupervisorBooks
from greenroom.supervisor._meter import BLIND, give_back
from greenroom.supervisor._state import Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = ["SupervisorBounds"]

logger = logging.getLogger("greenroom.supervisor")


class SupervisorBounds(SupervisorBooks):
    """Asks whoever is beyond a bound to release, and counts on nothing until they have answered."""

    def _hold_bounds(self) -> None:
        """Ask whoever is beyond the cap, or beyond the memory budget."""
        if self._recovering or self._board.draining:
            return
        cap = self._board.policy.cap
        beyond = self._residents.beyond(cap)
        self._ask(beyond.ask, Reason.CAPACITY)
        if cap is not None and len(self._residents) <= cap:
            self._warned = False
        elif beyond.held and not self._warned:
            self._warned = True
            logger.warning(
                "%s agents are cached, %s more than the cap of %s: %s of the least recently used are in "
                "a turn and stay until it ends. Raise the cap if this lasts",
                len(self._residents),
                len(self._residents) - (cap or 0),
                cap,
                beyond.held,
            )
        if self._budget is not None:
            self._look_at_memory(self._budget)

    def _look_at_memory(self, budget: int) -> None:
        policy = self._board.policy
        weighed = policy.weigh is not None
        ask = self._memory.look(
            self._residents,
            used=self._residents.weight if weighed else self._meter(),
            budget=budget,
            relief=policy.memory_relief,
            batch=policy.memory_batch,
            weighed=weighed,
        )
        if ask:
            note = "" if weighed else BLIND
            logger.log(
                logging.WARNING if note else logging.INFO,
                "Memory is above its budget of %s bytes: %s agents are released%s",
                budget,
                len(ask),
                note,
            )
        self._ask(ask, Reason.MEMORY)

    def _shed(self, key: str) -> None:
        """An agent is gone, or stays. Behind the last of those that were shed, memory is given back."""
        if not self._memory.gone(key) or self._giving_back:
            return
        try:
            given = self.runtime.submit(give_back, name="give memory back")
        except RuntimeClosed:
            return
        self._giving_back = True
        self.pipe_to_self(given, lambda _: MemoryGivenBack(), lambda _: MemoryGivenBack())

    def _memory_given_back(self, _: MemoryGivenBack) -> None:
        self._giving_back = False
        self._hold_bounds()
        self._look_whether_settled()

    def _ask(self, keys: Iterable[str], reason: Reason) -> None:
        """Ask sessions to release. Each answers once, with `ReleaseAnswered`."""
        for key in keys:
            self._ask_one(key, ReleaseAgent(reason=reason))

    def _ask_one(self, key: str, message: Any) -> None:
        asked = self._state.asked
        asked[key] = asked.get(key, 0) + 1
        ref = self._board.directory.get(key)
        if ref is None or not self._deliver(ref, message):
            self._answered(key, accepted=False)

    def _answered(self, key: str, *, accepted: bool) -> None:
        """A session has answered one thing it was asked."""
        state = self._state
        left = state.asked.pop(key, 0) - 1
        if left > 0:
            state.asked[key] = left
        if left >= 0 and state.sweeps:
            state.sweeps = [s for s in state.sweeps if not s.answered(key, accepted=accepted)]

    def _answers_no_more(self, key: str) -> None:
        """A session is gone, with whatever it was asked."""
        while key in self._state.asked:
            self._answered(key, accepted=False)

    # Settling.

    def _settle_room(self, _: SettleRoom) -> bool | None:
        self._state.settling.append(self.defer_reply())
        self._look_whether_settled()
        return None

    def _look_whether_settled(self) -> None:
        state = self._state
        if not state.settling or self._busy or state.asked or self._recovering or self._giving_back:
            return
        settling, state.settling = state.settling, []
        for reply in settling:
            reply.set(True)

    # Sweeps.

    def _sweep_room(self, _: SweepRoom) -> int | None:
        self._sweep_expired()
        asked = [key for key in self._sweep_idle() if key in self._state.asked]
        self._hold_bounds()
        if not asked:
            return 0
        self._state.sweeps.append(Sweep(self.defer_reply(), asked))
        return None

    def _sweep_idle(self) -> tuple[str, ...]:
        if self._recovering:
            return ()
        idle = self._residents.idle(self.runtime.clock(), self._board.policy.idle_ttl)
        self._ask(idle, Reason.IDLE)
        return idle

    def _sweep_expired(self) -> None:
        ttl = self._board.policy.session_ttl
        if ttl is None:
            return
        now = self.runtime.clock()
        for key in self._expiry.due(now, ttl):
            if key not in self._board.directory:
                continue
            last = self._last_use.get(key, now)
            if now - last <= ttl or key in self._waiting or self._residents.is_in_turn(key):
                self._expiry.watch(key, max(last, now - ttl))
            else:
                self._expiry.watch(key, now)  # should it refuse, it is looked at again
                self._ask_one(key, ExpireSession())
        for key in tuple(self._unseen):
            self._ask_one(key, ExpireSession())  # it knows

    def _set_sweeper(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        every = self._board.policy.sweep_every
        if every is not None:
            self._sweeper = self.call_every(every, SweepRoom())
