"""The session actor, fifth layer: what it asks of the store before a turn begins, and after it ended.

    a turn is to begin     EnterStore: is the session id this room's, and does the agent know all of it?
                           Not asked if this room had it a moment ago and a glance shows nothing new
    a turn has ended       RecordTurn: its generation is in the ledger before whoever ran it goes on
    a commit               IntendCommit, the hook, RecordCommit (in `errands.py`)

The clerk does the writing. Its answers come as messages, each with what it is about: the number of the
question, or the turn, and the epoch. An answer that comes late is about something that is over, and only
the hold that it may bring with it is still of interest (`_session_accounts.py` sees to that).

What if the store cannot be reached? A turn that is to begin goes on with the agent that is there, if
this room was the last that had the session. One that has ended counts, whoever ran it is told
(`NotRecorded`), and the store is told again and again, with growing pauses, and with the next turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actors.errors import LostOwnership, NotRecorded
from greenroom.actors.session._session_accounts import SessionAccounts
from greenroom.actors.session._session_base import text_of
from greenroom.actors.session._session_state import Account, LedgerState
from greenroom.actors.session.machine import Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import Effect, Entry, Recorded
from greenroom.messages import (
    BeginTurn,
    EnterAgain,
    EnterStore,
    Entrance,
    StoreAnswered,
    TurnRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.ledger.coherence import Sight

__all__ = ["SessionLedger"]

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""How long to wait before another room's session is asked for again. It doubles with every try."""


class SessionLedger(SessionAccounts):
    """Asks the store before a turn begins, and tells it when one has ended."""

    # A turn is to begin.

    def _enters_at_once(self, turn: BeginTurn) -> bool:
        """Whether the agent that is there may serve this turn, and nobody need be asked."""
        stage = self._state.stage
        if stage.place is not Place.IDLE and stage.place is not Place.LEAVING:
            return False
        if self._verdict_at_once(turn.session_id) is not Entry.FRESH:
            return False
        self._watch_lease()
        return True

    def _verdict_at_once(self, session_id: str) -> Entry | None:
        """What the store would say, if that can be told without waiting for it."""
        books = self._books
        if books.ledger:
            account = self._ledger.accounts.get(session_id)
            if account is None or account.until - self._linger() / 2 < self.runtime.clock():
                return None
        sight = books.glance(session_id)
        home_id = self._home_beside(session_id)
        home = None if home_id is None else books.glance(home_id)
        if sight is None or (home_id is not None and home is None):
            return None
        self._ledger.sight = sight
        return self._verdict(session_id, sight, home)

    def _home_beside(self, session_id: str) -> str | None:
        """The session id that the agent was built for, if it is another one."""
        tenant = self._state.tenants.get(self._state.stage.agent)
        remembered = None if tenant is None else tenant.remembered
        return None if remembered is None or remembered.home == session_id else remembered.home

    def _verdict(self, session_id: str, sight: Sight | None, home: Sight | None) -> Entry:
        tenant = self._state.tenants.get(self._state.stage.agent)
        remembered = None if tenant is None else tenant.remembered
        stale = remembered is not None and remembered.is_stale(session_id, sight, home)
        return Entry.STALE if stale else Entry.FRESH

    def _enter(self, effect: effects_of.Enter) -> Iterable[Effect]:
        session_id = effect.turn.session_id
        verdict = self._verdict_at_once(session_id)
        if verdict is not None:
            self._watch_lease()
            return self._state.stage.entered(verdict)
        ledger = self._ledger
        ledger.ticket += 1
        ticket = ledger.ticket
        self._ask_for(
            EnterStore(session_id=session_id, key=self._key, home=self._home_beside(session_id)),
            lambda entrance, error: StoreAnswered(
                ticket=ticket, session_id=session_id, entrance=entrance, error=error
            ),
        )
        return ()

    def _ask_for(
        self, request: EnterStore, answered: Callable[[Any, BaseException | None], Any]
    ) -> None:
        self._ledger.asked[request.session_id] += 1
        self._ask_clerk(request, answered)

    def _doubt(self, session_id: str) -> None:
        """It was asked for, and no answer came: it may have been given all the same."""
        account = self._ledger.accounts.get(session_id)
        if account is None:
            self._disclaim(session_id)
        else:
            account.loose = True  # told when no turn uses it; if it was given anew, that shows then

    def _heard_of(self, session_id: str, entrance: Entrance | None) -> None:
        asked = self._ledger.asked
        asked[session_id] -= 1
        if asked[session_id] <= 0:
            del asked[session_id]
        if entrance is not None:
            self._ledger.doubts.pop(session_id, None)  # whoever has it, now it is known

    def _store_answered(self, message: StoreAnswered) -> None:
        stage, ledger, entrance = self._state.stage, self._ledger, message.entrance
        self._heard_of(message.session_id, entrance)
        effects: list[Effect] = []
        moved = False
        if entrance is not None and entrance.lease is not None and entrance.lease.held:
            effects, moved = self._open_account(entrance.lease)
        elif entrance is None:
            self._doubt(message.session_id)
        if message.ticket == ledger.ticket and stage.place is Place.ENTERING:
            effects += stage.entered(self._judge(message, moved))
        self._perform(effects)

    def _judge(self, message: StoreAnswered, moved: bool) -> Entry:
        ledger, entrance, session_id = self._ledger, message.entrance, message.session_id
        if entrance is None:
            ledger.sight, ledger.trouble = None, message.error
            self._store_failed(session_id, "begin", message.error)
            # At worst one stale turn. But what this room knows nothing of could not be recorded, either.
            known = not self._books.ledger or session_id in ledger.accounts
            self._watch_lease()
            return Entry.FRESH if known else Entry.AWAY
        if entrance.lease is not None and not entrance.lease.held:
            ledger.holder = entrance.lease.owner
            return Entry.HELD
        ledger.holder, ledger.sight = None, entrance.sight
        if moved:
            return Entry.STALE
        return self._verdict(session_id, entrance.sight, entrance.home)

    def _enter_later(self, effect: effects_of.EnterLater) -> None:
        pause = min(FIRST_PAUSE * 2.0 ** min(effect.tries - 1, 30), LONGEST_PAUSE)
        spread = self.runtime.random.uniform(0.75, 1.25)
        self.call_later(pause * spread, EnterAgain(ticket=self._ledger.ticket))

    def _enter_again(self, message: EnterAgain) -> None:
        if message.ticket == self._ledger.ticket:
            self._perform(self._state.stage.enter_again())

    # A turn has ended.

    def _ends_at_once(self, turn: BeginTurn) -> bool:
        """Whether nothing is to be recorded, and a glance tells what the agent knows now."""
        if self._books.ledger or turn is not self._state.stage.turn:
            return False
        sight = self._books.glance(turn.session_id)
        if sight is not None:
            self._remember(turn.session_id, sight)
        return sight is not None

    def _record(self, effect: effects_of.Record) -> None:
        turn = effect.turn
        account = self._ledger.accounts.get(turn.session_id)
        if account is None:
            if not self._books.ledger:
                self._ask_to_record(turn, turn.session_id, 0, None)
            else:
                self._hear_that_it_is_lost(turn)
            return
        generation = account.generation if account.unrecorded else None
        if effect.completed:
            generation = account.generation + 1
        self._ask_to_record(turn, turn.session_id, account.epoch, generation)

    def _hear_that_it_is_lost(self, turn: BeginTurn) -> None:
        """A commit was told so, in the middle of the turn."""
        self.actor_ref.tell(
            TurnRecorded(
                turn=turn,
                session_id=turn.session_id,
                epoch=0,
                generation=None,
                asked=self.runtime.clock(),
                sight=None,
                error=None,
            )
        )

    def _turn_recorded(self, message: TurnRecorded) -> None:
        account = self._ledger.accounts.get(message.session_id)
        if account is not None and account.epoch != message.epoch:
            account = None
        turn, stage = message.turn, self._state.stage
        if turn is None or turn is not stage.turn or stage.place is not Place.RECORDING:
            self._store_told(message, account)
        elif message.error is not None:
            self._record_failed(turn, message.error, account, completed=stage.completes)
        elif message.sight is None:
            self._record_lost(turn, account, completed=stage.completes)
        else:
            if account is not None:
                self._note_recorded(message, account)
            self._remember(message.session_id, message.sight)
            self._end_recording(Recorded.DONE, account)

    def _end_recording(
        self,
        outcome: Recorded,
        account: Account | None,
        answer: BaseException | None = None,
    ) -> None:
        stage = self._state.stage
        if account is None:
            effects = stage.recorded(outcome)
            generation = stage.generations.generation
        else:
            effects = stage.recorded(outcome, account.session_id, account.generation, account.epoch)
            generation = account.generation
        ender, self._ledger.ender = self._ledger.ender, None
        if ender is not None:
            self._answer_behind(ender, generation if answer is None else answer)
        self._perform(effects)

    def _remember(self, session_id: str, sight: Sight | None) -> None:
        tenant = self._state.tenants.get(self._state.stage.agent)
        if tenant is not None and tenant.remembered is not None:
            tenant.remembered.remember(session_id, sight)

    def _record_failed(
        self, turn: BeginTurn, error: BaseException, account: Account | None, *, completed: bool
    ) -> None:
        self._store_failed(turn.session_id, "record", error)
        self._remember(turn.session_id, None)  # nobody knows what the version is now
        answer: BaseException | None = None
        if account is not None:
            if completed:
                account.generation += 1
                msg = (
                    f"{self}: its turn is completed, but the store could not record it: "
                    f"{text_of(error)}. It is kept, and recorded as soon as that works, unless this "
                    "process ends before"
                )
                answer = NotRecorded(msg, self._key)
                answer.__cause__ = error
            self._tell_again(account)
        self._end_recording(Recorded.NOT_NOW, account, answer)

    def _record_lost(self, turn: BeginTurn, account: Account | None, *, completed: bool) -> None:
        answer: BaseException | None = None
        if completed:
            msg = (
                f"{self}: another room has taken {turn.session_id!r} over while this turn ran. It is "
                "not counted, and its agent is let go; the other room goes on from what the store has"
            )
            answer = LostOwnership(msg, self._key)
        if account is not None:
            # First of all: whoever waits for the next turn must ask for it.
            self._close_account(account)
            self._disclaim(account.session_id)
            self._say_lost(account, self._state.stage.generations.owed(account.session_id))
        self._end_recording(Recorded.LOST, account, answer)

    def _give_up_recording(self, why: str) -> None:
        """The turn is over, recorded or not: whoever ran it does not wait any longer."""
        stage = self._state.stage
        turn = stage.turn
        if turn is not None and stage.place is Place.RECORDING:
            account = self._ledger.accounts.get(turn.session_id)
            self._record_failed(turn, TimeoutError(why), account, completed=stage.completes)

    def _ask_the_store_again(self, ledger: LedgerState) -> None:
        """After a restart of the actor. Answers to old questions do no harm."""
        self._keep_accounts_again(ledger)
        if self._state.stage.place is Place.ENTERING:
            self.actor_ref.tell(EnterAgain(ticket=ledger.ticket))

    _performers: ClassVar[dict[type, Any]] = {
        **SessionAccounts._performers,
        effects_of.Enter: _enter,
        effects_of.EnterLater: _enter_later,
        effects_of.Record: _record,
    }
