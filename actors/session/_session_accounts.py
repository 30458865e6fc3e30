"""The session actor, fourth layer: which session ids are this room's, as far as it knows.

An *account* is a session id in the ledger that this room was the last to have, as far as it knows: under
which epoch, with how many turns, and until when it is this room's for sure. All that is asked of the
store about it names the epoch. If the answer is "lost", another room has it, and the account is closed.

    a turn begins soon after the last     the hold lasts for a moment longer. PinLease makes it last
    a turn is over, or never began        the store is told that nobody uses the session id
    the store could not be told           again after a pause, one timer for each account
    nobody is there who would commit      HandOver: whoever looks for orphans finds it
    an answer never came                  DisclaimSession: the store may have given what was asked for

After every message the accounts are looked through (`_tidy_accounts`): whatever is not in use and not as
the store should have it is told, whoever forgot to. There are few of them: one for a session id that is
in use, has uncommitted turns, or that the agent remembers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors.errors import RoomClosed
from greenroom.actors.session._session_base import text_of
from greenroom.actors.session._session_outcomes import SessionOutcomes
from greenroom.actors.session._session_state import PINNED, Account, LedgerState
from greenroom.actors.session.machine import Mode, Place
from greenroom.messages import (
    BeginTurn,
    DisclaimSession,
    HandedOver,
    HandOver,
    LeasePinned,
    LookAtLease,
    OwnershipLost,
    PinLease,
    RecordTurn,
    RetryRecord,
    SessionDisclaimed,
    StoreFailure,
    TurnRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.session.machine.effects import Effect

__all__ = ["SessionAccounts"]

logger = logging.getLogger("greenroom.actors")

LINGER = 2.0
"""How many seconds after a turn its session id stays with the room, should the next one come at once."""


class SessionAccounts(SessionOutcomes):
    """Keeps the accounts of a session in order."""

    @property
    def _books(self) -> Bookkeeping:
        assert self._board.books is not None
        return self._board.books

    @property
    def _ledger(self) -> LedgerState:
        assert self._state.ledger is not None
        return self._state.ledger

    def _ask_clerk(self, request: Any, answered: Callable[[Any, BaseException | None], Any]) -> None:
        """Ask, and have the answer as a message: `answered(answer, error)`."""
        clerk = self._board.clerk
        try:
            if clerk is None:
                raise RoomClosed("the room is closed", self._key)
            future = clerk.ask(request, block=False)
        except (pykka.ActorDeadError, RoomClosed) as error:
            self.actor_ref.tell(answered(None, error))
            return
        self.pipe_to_self(
            future, lambda answer: answered(answer, None), lambda error: answered(None, error)
        )

    def _store_failed(self, session_id: str, what: str, error: BaseException | None) -> None:
        error = RuntimeError("no answer") if error is None else error
        logger.warning("%s: the store could not be reached (%s): %s", self, what, text_of(error))
        self._event(StoreFailure(key=self._key, session_id=session_id, what=what, error=error))

    def _linger(self) -> float:
        return min(LINGER, self._board.policy.lease_ttl / 2)

    # Opened, and closed.

    def _open_account(self, lease: Any) -> tuple[list[Effect], bool]:
        """This room has the session id now. Also tells whether others completed turns of it since."""
        ledger, session_id = self._ledger, lease.session_id
        account = ledger.accounts.get(session_id)
        if account is not None and account.epoch == lease.epoch:
            account.until = PINNED
            return [], False
        effects: list[Effect] = []
        moved = False
        if account is not None:
            moved = account.generation != lease.generation
            effects = self._lose(account)
        ledger.accounts[session_id] = Account(
            session_id, lease.epoch, lease.generation, lease.committed, lease.generation, PINNED
        )
        ledger.fences.set(session_id, lease.epoch)
        self._state.stage.resume(
            session_id,
            lease.epoch,
            generation=lease.generation,
            committed=lease.committed,
            intended=lease.intended,
        )
        return effects, moved

    def _lose(self, account: Account) -> list[Effect]:
        """Another room has, or had, the session id, and answers for what is uncommitted of it."""
        generations = self._state.stage.generations
        before = generations.dirty
        self._close_account(account)
        effects = self._state.stage.lose(account.session_id, account.epoch)
        self._say_lost(account, before - generations.dirty)
        return effects

    def _close_account(self, account: Account) -> None:
        if account.timer is not None:
            account.timer.cancel()
        if self._ledger.accounts.get(account.session_id) is account:
            del self._ledger.accounts[account.session_id]
        self._ledger.last = account

    def _say_lost(self, account: Account, turns: int) -> None:
        logger.warning(
            "%s: another room, or another key of this, has taken %r over, with %s uncommitted turns%s",
            self,
            account.session_id,
            turns,
            ". Not all that was completed here could be recorded before" if account.unrecorded else "",
        )
        self._event(OwnershipLost(key=self._key, session_id=account.session_id, turns=turns))

    def _account_in_use(self) -> Account | None:
        stage = self._state.stage
        turn = stage.turn or stage.next_turn
        return None if turn is None else self._ledger.accounts.get(turn.session_id)

    # Kept in order.

    def _tidy_accounts(self, ledger: LedgerState) -> None:
        if not ledger.accounts:
            return
        stage = self._state.stage
        used = self._account_in_use()
        needed = stage.place is not Place.EMPTY
        for account in list(ledger.accounts.values()):
            session_id = account.session_id
            if account is used or account.asked or account.timer is not None:
                continue
            if session_id in ledger.rescues or session_id in ledger.asked:
                continue
            if not needed and not account.unrecorded and stage.generations.nobodys(session_id):
                self._hand_over(account)
            elif account.untold:
                self._tell_store(account)
            elif not stage.generations.owed_for(session_id) and not self._is_remembered(account):
                self._close_account(account)

    def _is_remembered(self, account: Account) -> bool:
        """Whether the agent that is there may serve the next turn of it without anybody being asked."""
        tenant = self._state.tenants.get(self._state.stage.agent)
        remembered = None if tenant is None else tenant.remembered
        return remembered is not None and account.session_id in remembered

    def _tell_store(self, account: Account) -> None:
        """Have the store told what it does not know yet, at least that no turn is running."""
        account.asked += 1
        account.until = 0.0
        generation = account.generation if account.unrecorded else None
        self._ask_to_record(None, account.session_id, account.epoch, generation)

    def _ask_to_record(
        self, turn: BeginTurn | None, session_id: str, epoch: int, generation: int | None
    ) -> None:
        asked = self.runtime.clock()
        self._ask_clerk(
            RecordTurn(session_id=session_id, epoch=epoch, generation=generation, linger=self._linger()),
            lambda sight, error: TurnRecorded(
                turn=turn,
                session_id=session_id,
                epoch=epoch,
                generation=generation,
                asked=asked,
                sight=sight,
                error=error,
            ),
        )

    def _store_told(self, message: TurnRecorded, account: Account | None) -> None:
        """What was to be recorded after the fact, or of a turn that was ended by force."""
        effects: list[Effect] = []
        if account is not None and message.turn is None:
            account.heard()
        if account is None:
            pass
        elif message.error is not None:
            if account.tries == 0:
                self._store_failed(message.session_id, "record", message.error)
            self._tell_again(account)
        elif message.sight is None:
            self._disclaim(message.session_id)
            effects = self._lose(account)
        else:
            self._note_recorded(message, account)
            if account is self._account_in_use():
                self._watch_lease()
        self._perform(effects)

    def _note_recorded(self, message: TurnRecorded, account: Account) -> None:
        if message.generation is not None:
            account.generation = max(account.generation, message.generation)
            account.recorded = max(account.recorded, message.generation)
        account.until = message.asked + self._linger()
        account.tries, account.loose = 0, False
        if account.timer is not None:
            account.timer.cancel()
            account.timer = None

    def _tell_again(self, account: Account) -> None:
        """The store could not be told: again after a pause, or with the next turn."""
        account.until, account.loose = 0.0, True
        if account.timer is None:
            account.tries += 1
            account.timer = self._retry_later(account.session_id, account.tries)

    def _retry_later(self, session_id: str, tries: int) -> Any:
        pause = self._board.policy.pause_after(tries)
        spread = self.runtime.random.uniform(0.75, 1.25)
        return self.call_later(pause * spread, RetryRecord(session_id=session_id))

    def _retry_record(self, message: RetryRecord) -> None:
        account = self._ledger.accounts.get(message.session_id)
        if account is not None:
            account.timer = None  # if it is in use now, it is told when it is not
        if message.session_id in self._ledger.doubts:
            self._disclaim(message.session_id)
        self._perform(())

    def _hand_over(self, account: Account) -> None:
        """There are uncommitted turns that nobody here completed, and no agent to answer for them: leave
        them to the ledger, where whoever looks for orphans finds them."""
        session_id, epoch = account.session_id, account.epoch
        account.asked += 1
        account.until = 0.0
        self._ask_clerk(
            HandOver(session_id=session_id, epoch=epoch),
            lambda _, error: HandedOver(session_id=session_id, epoch=epoch, error=error),
        )

    def _handed_over(self, message: HandedOver) -> None:
        account = self._ledger.accounts.get(message.session_id)
        effects: list[Effect] = []
        if account is not None and account.epoch == message.epoch:
            account.heard()
            if message.error is None:
                self._close_account(account)
                effects = self._state.stage.lose(message.session_id, message.epoch)
            else:
                self._tell_again(account)
        self._perform(effects)

    # In doubt.

    def _disclaim(self, session_id: str) -> None:
        """What was asked for may have been done, although no answer came; or it is lost, and was taken
        anew without an answer. Make sure that the store does not go on keeping it for this room."""
        if not self._books.ledger:
            return
        self._ledger.doubts.setdefault(session_id, 0)
        if session_id in self._ledger.asked:
            return  # it is wanted again: the answer to that will tell
        self._ask_clerk(
            DisclaimSession(session_id=session_id, key=self._key),
            lambda _, error: SessionDisclaimed(session_id=session_id, error=error),
        )

    def _session_disclaimed(self, message: SessionDisclaimed) -> None:
        doubts, session_id = self._ledger.doubts, message.session_id
        if message.error is None:
            doubts.pop(session_id, None)
        elif session_id in doubts:
            doubts[session_id] += 1
            self._retry_later(session_id, doubts[session_id])
        self._perform(())

    # A turn lasts.

    def _watch_lease(self) -> None:
        """A turn begins while the hold on its session id is only a while longer: see to it soon."""
        ledger = self._ledger
        if self._books.ledger and ledger.lease_timer is None:
            ledger.lease_timer = self.call_later(self._linger() / 4, LookAtLease())

    def _look_at_lease(self, _: LookAtLease) -> None:
        self._ledger.lease_timer = None
        account = self._account_in_use()
        recording = self._state.stage.place is Place.RECORDING
        if account is not None and account.until != PINNED and not recording:
            session_id, epoch = account.session_id, account.epoch
            account.asked += 1
            self._ask_clerk(
                PinLease(session_id=session_id, epoch=epoch),
                lambda held, error: LeasePinned(
                    session_id=session_id, epoch=epoch, held=bool(held), error=error
                ),
            )
        self._perform(())

    def _lease_pinned(self, message: LeasePinned) -> None:
        account = self._ledger.accounts.get(message.session_id)
        if account is not None and account.epoch == message.epoch:
            account.heard()
            if message.held:
                account.until = PINNED
            elif message.error is not None:
                account.loose = True  # it may have been pinned all the same
                if account is self._account_in_use():
                    self._watch_lease()
            # If it is lost, the end of the turn will show.
        self._perform(())

    # After a restart of the actor, and for people.

    def _keep_accounts_again(self, ledger: LedgerState) -> None:
        """Timers are gone. Answers that are on their way still come."""
        ledger.lease_timer = None
        if self._state.stage.mode is Mode.FAILED:
            self._watch_lease()  # it may be what it fails on: not at once, or it does nothing else
        else:
            self.actor_ref.tell(LookAtLease())
        for account in ledger.accounts.values():
            if account.timer is not None:
                account.timer = self._retry_later(account.session_id, account.tries)
        for session_id, tries in ledger.doubts.items():
            self._retry_later(session_id, tries + 1)

    def _account_shown(self) -> Account | None:
        """The account of the current session id, or the last that was known of it."""
        ledger, session_id = self._state.ledger, self._state.session_id
        if ledger is None or session_id is None:
            return None
        account = ledger.accounts.get(session_id)
        if account is None and ledger.last is not None and ledger.last.session_id == session_id:
            return ledger.last
        return account

    def _holder(self) -> str | None:
        ledger = self._state.ledger
        if ledger is None:
            return None
        account = ledger.accounts.get(self._state.session_id or "")
        if account is not None and account.until > self.runtime.clock():
            return self._books.owner
        return ledger.holder
