"""The supervisor, second layer: it holds the room to its bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from greenroom.actors import RuntimeClosed
from greenroom.messages import (
    GoOnSweeping,
    HoldBounds,
    MemoryGivenBack,
    Reason,
    ReleaseAgent,
    SettleRoom,
    SettleSoon,
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
        context = self._context
        if context.draining:
            return
        cap = context.policy.cap
        beyond = self._residents.beyond(cap, context.cards)
        self._ask(beyond.ask, Reason.CAPACITY)
        if cap is None or len(self._residents) <= cap:
            self._warned = False
        elif self._residents.held and not self._warned:
            self._warned = True
            logger.warning(
                "%s agents are cached, %s more than the cap of %s: %s of the least recently used are in "
                "a turn and stay until it ends. Raise the cap if this lasts",
                len(self._residents),
                len(self._residents) - cap,
                cap,
                self._residents.held,
            )
        more = self._budget is not None and self._look_at_memory(self._budget)
        if (beyond.more or more) and not self._looking:
            self._looking = True
            self.actor_ref.tell(HoldBounds())

    def _look_at_memory(self, budget: int) -> bool:
        policy = self._context.policy
        weighed = policy.weigh is not None
        found = self._memory.look(
            self._residents,
            self._context.cards,
            used=self._residents.weight if weighed else self._meter(),
            budget=budget,
            relief=policy.memory_relief,
            batch=policy.memory_batch,
            weighed=weighed,
        )
        if found.ask:
            note = "" if weighed else BLIND
            logger.log(
                logging.WARNING if note else logging.INFO,
                "Memory is above its budget of %s bytes: %s agents are released%s",
                budget,
                len(found.ask),
                note,
            )
        self._ask(found.ask, Reason.MEMORY)
        return found.more

    def _go_on_holding(self, _: HoldBounds) -> None:
        self._looking = False
        self._hold_bounds()
        self._look_whether_settled()

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

    def _ask(
        self, candidates: Iterable[tuple[str, float]], reason: Reason, cutoff: float | None = None
    ) -> None:
        """Ask sessions to release. Each answers once, with `ReleaseAnswered`."""
        for key, seen in candidates:
            number = self._number(key)
            request = ReleaseAgent(number=number, reason=reason, seen=seen, cutoff=cutoff)
            self._send_request(key, request)

    def _number(self, key: str) -> int:
        """The number of the next request to a session: its answer says which one it is for."""
        state = self._state
        state.requests += 1
        state.asked[key] = state.requests
        return state.requests

    def _send_request(self, key: str, request: ReleaseAgent) -> None:
        card = self._context.cards.get(key)
        if card is None or not self._deliver(card.ref, request):
            self._answered(key, request.number, accepted=False)

    def _answered(self, key: str, number: int, *, accepted: bool) -> None:
        """A session has answered one thing it was asked."""
        state = self._state
        if state.asked.get(key) == number:
            del state.asked[key]
        if state.sweeps:
            state.sweeps = [s for s in state.sweeps if not s.answered(key, accepted=accepted)]

    def _answers_no_more(self, key: str) -> None:
        """A session is gone, with whatever it was asked."""
        self._answered(key, self._state.asked.get(key, 0), accepted=False)

    # Settling. A session that has something under way says so on its card, and while anybody waits here,
    # tells when that is over: it writes its card first and reads `settling` then, and we write
    # `settling` first and read its card then. Whichever second step comes last sees the other's first.

    def _settle_room(self, _: SettleRoom) -> bool | None:
        self._state.settling.append(self.defer_reply())
        self._context.settling = True
        self._settle_soon(SettleSoon())
        return None

    def _look_whether_settled(self, key: str | None = None) -> None:
        """Something is over, perhaps the last of what was waited for."""
        if not self._state.settling:
            return
        if key is not None:
            card = self._context.cards.get(key)
            if card is None or not card.busy:
                self._unsettled.discard(key)
        if not self._anything_under_way():
            self.actor_ref.tell(SettleSoon())

    def _anything_under_way(self) -> bool:
        return bool(self._unsettled or self._state.asked or self._giving_back or self._looking)

    def _settle_soon(self, _: SettleSoon) -> None:
        """Answer, if twice in a row nothing was under way: notices were on their way the first time."""
        state, quiet = self._state, self._quiet
        self._unsettled = {key for key, card in list(self._context.cards.items()) if card.busy}
        self._quiet = not self._anything_under_way()
        if not self._quiet:
            return
        if not quiet:
            self.actor_ref.tell(SettleSoon())
            return
        self._quiet = self._context.settling = False
        settling, state.settling = state.settling, []
        for reply in settling:
            reply.set(True)

    # Sweeps.

    def _sweep_room(self, _: SweepRoom) -> int | None:
        sweep = Sweep(self.defer_reply())
        self._state.sweeps.append(sweep)
        self._go_on_sweeping(sweep)
        return None

    def _go_on_sweeping(self, sweep: Sweep) -> None:
        more = self._sweep_expired()
        more = self._sweep_idle(sweep) or more
        self._hold_bounds()
        if more:
            self.actor_ref.tell(GoOnSweeping(sweep=sweep))
        elif sweep.found_all():
            self._state.sweeps.remove(sweep)

    def _sweep_on(self, message: GoOnSweeping) -> None:
        self._go_on_sweeping(message.sweep)

    def _sweep_idle(self, sweep: Sweep | None = None) -> bool:
        context, now = self._context, self.runtime.clock()
        ttl = context.policy.idle_ttl
        if ttl is None or context.draining:
            return False
        idle = self._residents.idle(now, ttl, context.cards)
        if sweep is not None:
            sweep.pending.update(key for key, _ in idle.ask)
        self._ask(idle.ask, Reason.IDLE, cutoff=now - ttl)
        return idle.more

    def _sweep_expired(self) -> bool:
        ttl = self._context.policy.session_ttl
        if ttl is None or self._context.draining:
            return False
        keys, more = self._expiry.due(self.runtime.clock(), ttl, self._context.cards)
        for key in keys:
            request = ReleaseAgent(number=self._number(key), reason=Reason.SESSION_EXPIRED)
            self._send_request(key, request)
        return more

    def _watch_expiry(self) -> None:
        """Sessions may expire from now on: note when each was last active."""
        now = self.runtime.clock()
        for key, card in list(self._context.cards.items()):
            self._expiry.put(key, now if card.idle_since is None else card.idle_since)

    def _set_sweeper(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        every = self._context.policy.sweep_every
        if every is not None:
            self._sweeper = self.call_every(every, SweepRoom())
