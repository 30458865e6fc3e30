"""Takes up what other rooms have left: turns that were completed, are in the ledger, and that no living
room answers for.

    orphans          when the room is opened, and twice for every `lease_ttl`: which are there?
    RecoverSession   to the session actor of each, a few at a time: it takes the session id over, builds
                     an agent for nothing else, has it commit, and lets it go
    … answered       the next one, please

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
    under_way: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session ids that are being recovered, each with its row."""

    passed_over: set[str] = field(default_factory=set[str])
    """Those that came to nothing, and that the ledger says nothing about: they come last."""


class Recovery(Actor):
    """Has orphaned sessions committed, a few at a time."""

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
        return state, take_down((state, state.under_way, state.passed_over))

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
        self._look_for_orphans()

    def _look_for_orphans(self) -> None:
        state, writer = self._state, self._context.writer
        free = self._context.policy.recover_at_once - len(state.under_way)
        if state.looking or free <= 0 or writer is None or self._context.draining:
            return
        state.looking = True
        # Those that are under way may be among them, if their rooms have not been heard of yet.
        limit = free + len(state.under_way) + len(state.passed_over)
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
        state.looking = False
        if message.error is not None or self._context.draining:
            return  # the store writer has said so, and there is another time
        rows = message.value
        state.passed_over &= {row.session_id for row in rows}
        for row in sorted(rows, key=lambda row: row.session_id in state.passed_over):
            if row.session_id in state.under_way:
                continue
            if len(state.under_way) >= self._context.policy.recover_at_once:
                return
            session_id = row.session_id
            state.under_way[session_id] = row
            logger.info(
                "Session %r has %s uncommitted turns of another room in %r: they are recovered",
                row.key,
                row.generation - row.committed,
                session_id,
            )
            request = OpenSession(key=row.key, session_id=session_id)
            ask_and_hear(self, self._context.supervisor, request)

    def _opened(self, message: Answered) -> None:
        session_id = message.request.session_id
        row = self._state.under_way.get(session_id)
        if row is None or message.value is None:
            self._state.under_way.pop(session_id, None)  # it has just ended: there is another time
            return
        request = RecoverSession(session_id=session_id, epoch=row.epoch, tries=row.tries)
        ask_and_hear(self, message.value, request)

    def _recovered(self, message: Answered) -> None:
        session_id = message.request.session_id
        self._state.under_way.pop(session_id, None)
        if message.value is not None and message.value.settled:
            self._state.passed_over.discard(session_id)
            self._look_for_orphans()
        else:
            self._state.passed_over.add(session_id)
