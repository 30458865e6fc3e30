"""Takes up what other rooms have left: turns that were completed, are in the ledger, and that no living
room answers for.

    orphans          when the room is opened, and twice for every `lease_ttl`: which are there? Again
                     when those that were found run low, if there were more
    RecoverSession   to the session actor of each, `recover_at_once` at a time: it takes the session id
                     over, builds an agent for nothing else, has it commit, and lets it go
    … answered       the next one, please

Slow hooks are only waited for, so many sessions are recovered at once, and share transactions. They have
workers of their own: however slow their hooks are, turns have theirs.

Who else is looking does not matter: of two rooms that find the same orphan, the store gives it to one.
What fails is in the ledger too, with when it may be tried again, so that neither a restart nor another
room begins to count anew. After `recover_tries` it is left to an operator (`greenroom store dirty`,
`greenroom store retry`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.actors import Actor
from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._saving import Saved, put_back, take_down
from greenroom.messages import Answered, Call, CallLedger, OpenSession, RecoverSession

if TYPE_CHECKING:
    from greenroom.actors import Timer
    from greenroom.actors.session.context import RoomContext

__all__ = ["Recovery"]

logger = get_log("greenroom.supervisor")


@dataclass(slots=True)
class RecoveryState:
    """What outlives a crash of it."""

    looking: bool = False
    more: bool = False
    """There may be more than were found."""
    again: bool = False
    """There may be some that the look which is under way does not show."""

    found: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session ids that are to be recovered, each with its row, the longest waiting first."""

    under_way: dict[str, Any] = field(default_factory=dict[str, Any])
    """Those that are being recovered."""

    passed_over: set[str] = field(default_factory=set[str])
    """Those that came to nothing, and that the ledger says nothing about. Not again before the next time
    to look."""


class Recovery(Actor):
    """Has orphaned sessions committed, several at a time."""

    def __init__(self, context: RoomContext, state: RecoveryState | None = None) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        self._context = context
        self._state = RecoveryState() if state is None else state
        self._next_look: Timer | None = None

    def hand_over(self) -> RecoveryState:
        """Everything."""
        return self._state

    can_restore = True

    def save(self) -> tuple[RecoveryState, Saved]:
        """Everything that a message may change. A timer too many does no harm."""
        state = self._state
        return state, take_down((state, state.found, state.under_way, state.passed_over))

    def restore(self, saved: tuple[RecoveryState, Saved]) -> None:
        """Put it back."""
        self._state, then = saved
        put_back(then)

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Begin anew: what was under way may be waiting for just this. Recovering twice does no harm."""
        self._state = RecoveryState()

    def on_start(self) -> None:
        """Look now, and again and again."""
        self.look_now_and_again()

    def look_now_and_again(self) -> None:
        """Look for what other rooms have left, and set the time for the next look."""
        if self._next_look is not None:
            self._next_look.cancel()
        pause = self._context.policy.lease_ttl / 2
        self._next_look = self.call_later(pause, Call(self.look_now_and_again))
        state = self._state
        state.passed_over.clear()
        state.again = state.looking
        self._look_for_orphans()

    @property
    def _at_once(self) -> int:
        return self._context.policy.recover_at_once

    def _look_for_orphans(self) -> None:
        """Look, unless all hands have enough to do."""
        state, writer = self._state, self._context.writer
        enough = len(state.found) >= self._at_once
        if state.looking or enough or writer is None or self._context.draining:
            return
        state.looking = True
        # The others may be among them: the ledger does not know yet who has those that are under way.
        others = len(state.found) + len(state.under_way) + len(state.passed_over)
        limit = 2 * self._at_once + others
        ask_and_hear(self, writer, CallLedger(verb="orphans", values={"limit": limit}))

    def on_answered(self, message: Answered) -> None:
        """The store writer, the supervisor or a session has answered."""
        match message.request:
            case OpenSession():
                self._opened(message)
            case RecoverSession():
                self._recovered(message)
            case _:
                self._orphans_found(message)

    def _orphans_found(self, message: Answered) -> None:
        state = self._state
        again, state.again, state.looking = state.again, False, False
        if message.error is not None and not again:
            return  # the store writer has said so, and there is another time
        rows = message.value or ()
        # If there are more, enough of these are new that we do not look again at once.
        state.more = again or len(rows) >= message.request.values["limit"]
        for row in rows:
            if row.session_id not in state.under_way and row.session_id not in state.passed_over:
                state.found[row.session_id] = row
        self._begin()

    def _begin(self) -> None:
        """Recover those that were found, as many as there are hands."""
        state = self._state
        while state.found and len(state.under_way) < self._at_once and not self._context.draining:
            session_id = next(iter(state.found))
            row = state.under_way[session_id] = state.found.pop(session_id)
            logger.info(
                "Session %r has %s uncommitted turns of another room in %r: they are recovered",
                row.key,
                row.generation - row.committed,
                session_id,
            )
            request = OpenSession(key=row.key, session_id=session_id)
            ask_and_hear(self, self._context.supervisor, request)
        if state.more:
            self._look_for_orphans()

    def _opened(self, message: Answered) -> None:
        session_id = message.request.session_id
        row = self._state.under_way.get(session_id)
        if row is None or message.value is None:  # it has just ended
            self._over(session_id, settled=False)
            return
        request = RecoverSession(session_id=session_id, epoch=row.epoch, tries=row.tries)
        ask_and_hear(self, message.value, request)

    def _recovered(self, message: Answered) -> None:
        settled = message.value is not None and message.value.settled
        self._over(message.request.session_id, settled=settled)

    def _over(self, session_id: str, *, settled: bool) -> None:
        """Nothing is under way any more for a session id: the next one."""
        self._state.under_way.pop(session_id, None)
        if not settled:
            self._state.passed_over.add(session_id)
        self._begin()
