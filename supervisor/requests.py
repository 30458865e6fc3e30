"""What sessions were asked and have not answered, and the sweeps that wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.messages import Reason, ReleaseAgent
from greenroom.supervisor._deliver import deliver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom.actors import Reply
    from greenroom.actors.session.card import Card

__all__ = ["Requests", "Sweep"]


class Sweep:
    """A sweep that waits for the answers of those it asked."""

    __slots__ = ("complete", "pending", "released", "reply")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.pending: set[str] = set()
        self.released = 0
        self.complete = False
        """Nobody else will be asked."""

    def answered(self, key: str, *, accepted: bool) -> None:
        """Note an answer."""
        if key in self.pending:
            self.pending.discard(key)
            self.released += accepted

    def is_over(self) -> bool:
        """Tell whether all have answered; if so, whoever asked for the sweep has its answer."""
        if self.pending or not self.complete:
            return False
        self.reply.set(self.released)
        return True


class Requests:
    """Asks sessions to release, or to expire. Each answers once, with `ReleaseAnswered`.

    It outlives a crash of the supervisor: nobody who was asked is forgotten.
    """

    def __init__(self, cards: Mapping[str, Card]) -> None:
        self._cards = cards
        self._number = 0
        self.asked: dict[str, int] = {}
        """Who was asked, and the number of the last request: the answer says which one it is for."""
        self.sweeps: list[Sweep] = []

    def release(
        self,
        candidates: Iterable[tuple[str, float | None]],
        reason: Reason,
        cutoff: float | None = None,
    ) -> None:
        """Ask sessions to release their agents."""
        for key, seen in candidates:
            number = self._next_number(key)
            request = ReleaseAgent(number=number, reason=reason, seen=seen, cutoff=cutoff)
            self._send(key, request)

    def expire(self, keys: Iterable[str]) -> None:
        """Ask sessions to end."""
        self.release([(key, None) for key in keys], Reason.SESSION_EXPIRED)

    def ask_again(self) -> None:
        """After a restart: what was asked may not have been sent.

        Behind whatever was, this is refused, as nothing was ever seen like that; its answer is the last,
        and then it is known that there are no others.
        """
        self.release([(key, -1.0) for key in self.asked], Reason.IDLE)

    def _next_number(self, key: str) -> int:
        self._number += 1
        self.asked[key] = self._number
        return self._number

    def _send(self, key: str, request: ReleaseAgent) -> None:
        card = self._cards.get(key)
        if card is None or not deliver(card.ref, request):
            self.answered(key, request.number, accepted=False)

    def answered(self, key: str, number: int, *, accepted: bool) -> None:
        """A session has answered one thing it was asked."""
        if self.asked.get(key) == number:
            del self.asked[key]
        for sweep in self.sweeps:
            sweep.answered(key, accepted=accepted)
        self._end_sweeps()

    def gone(self, key: str) -> None:
        """A session is gone, with whatever it was asked."""
        self.answered(key, self.asked.get(key, 0), accepted=False)

    def begin_sweep(self, sweep: Sweep) -> None:
        """Count the answers that this sweep waits for."""
        self.sweeps.append(sweep)

    def found_all(self, sweep: Sweep) -> None:
        """This sweep asks nobody else."""
        sweep.complete = True
        self._end_sweeps()

    def _end_sweeps(self) -> None:
        if self.sweeps:
            self.sweeps[:] = [sweep for sweep in self.sweeps if not sweep.is_over()]
