"""The session actor, fourth layer: what it asks of the store, and what it is told.

    a turn is to begin     EnterStore: is the session id this room's, and does the agent know all of it?
                           Not asked if this room had it a moment ago and a glance shows nothing new
    a turn has ended       RecordTurn: its generation is in the ledger before whoever ran it goes on
    a turn lasts           PinLease: the hold on the session id is made to last as long
    a commit               IntendCommit, the hook, RecordCommit (in `errands.py`)

The clerk does the writing. Its answers come as messages, each with what it is about: the number of the
question, or the turn, or the epoch. An answer that comes late is about something that is over, and only
the hold that it may bring with it is still of interest: it is let go of (`_tidy_accounts`).

What if the store cannot be reached? A turn that is to begin goes on with the agent that is there, if
this room was the last that had the session. One that has ended counts, whoever ran it is told
(`NotRecorded`), and the store is told again and again, with growing pauses, and with the next turn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from greenroom.actors import effects as effects_of
from greenroom.actors._session_base import text_of
from greenroom.actors._session_outcomes import SessionOutcomes
from greenroom.actors._session_state import PINNED, Account, LedgerState, Rescue
from greenroom.actors.effects import Effect, Entry, Recorded
from greenroom.actors.errors import LostOwnership, NotRecorded, RoomClosed
from greenroom.messages import (
    BeginTurn,
    DisclaimSession,
    EnterAgain,
    EnterStore,
    Entrance,
    FailRecovery,
    HandedOver,
    HandOver,
    LeasePinned,
    LeaseTaken,
    LookAtLease,
    OwnershipLost,
    PinLease,
    RecordTurn,
    RecoverSession,
    RecoveryFailure,
    RetryRecord,
    SessionDisclaimed,
    SessionRecovered,
    StoreAnswered,
    StoreFailure,
    TurnRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.bookkeeping import Bookkeeping
    from greenroom.actors.coherence import Sight

__all__ = ["SessionLedger"]

logger = logging.getLogger("greenroom.actors")

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""How long to wait before another room's session is asked for again. It doubles with every try."""


class SessionLedger(SessionOutcomes):
    """Asks the store before a turn begins, and tells it when one has ended."""

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

    # A turn is to begin.

    def _enters_at_once(self, turn: BeginTurn) -> bool:
        """Whether the agent that is there may serve this turn, and nobody need be asked."""
        stage = self._state.stage
        if stage.turn is not None or not stage.agent or stage.building:
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
            if account is None or account.until - books.linger / 2 < self.runtime.clock():
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

    def _ask_for(self, request: EnterStore, answered: Callable[..., Any]) -> None:
        self._ledger.asked[request.session_id] += 1
        self._ask_clerk(request, answered)

    def _heard_of(self, session_id: str, entrance: Entrance | None) -> None:
        asked = self._ledger.asked
        asked[session_id] -= 1
        if not asked[session_id]:
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
        elif entrance is None and message.session_id not in ledger.accounts:
            self._disclaim(message.session_id)
        if message.ticket == ledger.ticket and stage.entering:
            effects += stage.entered(self._judge(message, moved))
        self._perform(effects)

    def _judge(self, message: StoreAnswered, moved: bool) -> Entry:
        ledger, entrance, session_id = self._ledger, message.entrance, message.session_id
        if entrance is None:
            ledger.sight, ledger.trouble = None, message.error
            self._store_failed(session_id, "begin", message.error)
            # At worst one stale turn. But what this room knows nothing of could not be recorded, either.
            known = not self._books.ledger or session_id in ledger.accounts
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

    # What the ledger says of a session id.

    def _open_account(self, lease: Any) -> tuple[list[Effect], bool]:
        """This room has the session id now. Also tells whether others completed turns of it since."""
        ledger, stage, session_id = self._ledger, self._state.stage, lease.session_id
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
            session_id, lease.epoch, lease.generation, lease.committed, PINNED
        )
        ledger.fences.set(session_id, lease.epoch)
        stage.resume(
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
        self._ledger.accounts.pop(account.session_id, None)
        effects = self._state.stage.lose(account.session_id, account.epoch)
        self._say_lost(account, before - generations.dirty)
        return effects

    def _disclaim(self, session_id: str) -> None:
        """What was asked for may have been done, although no answer came, or the answer was that it is
        lost, and it was taken anew: make sure that the store does not go on keeping it for this room."""
        if self._books.ledger:
            self._ledger.doubts.setdefault(session_id, 0)
            if session_id in self._ledger.asked:
                return  # it is wanted again, and the answer to that is on its way
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

    def _say_lost(self, account: Account, turns: int) -> None:
        logger.warning(
            "%s: another room has taken %r over, with %s uncommitted turns%s",
            self,
            account.session_id,
            turns,
            ". Not all that was completed here could be recorded before" if account.unrecorded else "",
        )
        self._event(OwnershipLost(key=self._key, session_id=account.session_id, turns=turns))

    def _store_failed(self, session_id: str, what: str, error: BaseException | None) -> None:
        error = RuntimeError("no answer") if error is None else error
        logger.warning("%s: the store could not be reached (%s): %s", self, what, text_of(error))
        self._event(StoreFailure(key=self._key, session_id=session_id, what=what, error=error))

    # A turn lasts.

    def _watch_lease(self) -> None:
        """A turn begins while the hold on its session id is only a while longer: see to it soon."""
        ledger, books = self._ledger, self._books
        if books.ledger and ledger.lease_timer is None:
            ledger.lease_timer = self.call_later(books.linger / 4, LookAtLease())

    def _look_at_lease(self, _: LookAtLease) -> None:
        self._ledger.lease_timer = None
        account = self._account_in_use()
        if account is not None and account.until != PINNED:
            session_id, epoch = account.session_id, account.epoch
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
            if message.held:
                account.until = PINNED
            elif message.error is not None and account is self._account_in_use():
                self._watch_lease()  # and if it is lost, the end of the turn will show
        self._perform(())

    def _account_in_use(self) -> Account | None:
        stage = self._state.stage
        turn = stage.turn or stage.builder
        return None if turn is None else self._ledger.accounts.get(turn.session_id)

    def _tidy_accounts(self, ledger: LedgerState) -> None:
        """Let go of session ids that no turn uses, and forget those that nothing depends on."""
        stage = self._state.stage
        used = self._account_in_use()
        needed = stage.agent or stage.building
        for account in list(ledger.accounts.values()):
            session_id = account.session_id
            if account is used or session_id in ledger.rescues:
                continue
            if account.unrecorded or account.freeing:
                continue
            if not needed and stage.generations.nobodys(session_id):
                self._hand_back(account)
            elif account.until == PINNED:
                account.until, account.freeing = 0.0, True
                self._record_later(account)
            elif not needed and not stage.generations.owed_for(session_id):
                del ledger.accounts[session_id]

    def _hand_back(self, account: Account) -> None:
        """There are uncommitted turns that nobody here completed, and no agent to answer for them: leave
        them to the ledger, where whoever looks for orphans finds them."""
        session_id, epoch = account.session_id, account.epoch
        self._ask_clerk(
            HandOver(session_id=session_id, epoch=epoch),
            lambda _, error: HandedOver(session_id=session_id, epoch=epoch, error=error),
        )
        account.until, account.freeing = 0.0, True

    def _handed_over(self, message: HandedOver) -> None:
        account = self._ledger.accounts.get(message.session_id)
        effects: list[Effect] = []
        if account is not None and account.epoch == message.epoch:
            account.freeing = False
            if message.error is None:
                del self._ledger.accounts[message.session_id]
                effects = self._state.stage.lose(message.session_id, message.epoch)
            else:
                account.unrecorded = True
                self._retry(account)
        self._perform(effects)

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
        turn, ledger = effect.turn, self._ledger
        account = ledger.accounts.get(turn.session_id)
        generation = None
        if effect.completed and account is not None:
            generation = account.generation + 1
        self._ask_to_record(turn, turn.session_id, 0 if account is None else account.epoch, generation)

    def _record_later(self, account: Account) -> None:
        """Have the store told what it does not know yet, at least that no turn is running."""
        generation = account.generation if account.unrecorded else None
        self._ask_to_record(None, account.session_id, account.epoch, generation or None)

    def _ask_to_record(
        self, turn: BeginTurn | None, session_id: str, epoch: int, generation: int | None
    ) -> None:
        asked = self.runtime.clock()
        self._ask_clerk(
            RecordTurn(session_id=session_id, epoch=epoch, generation=generation),
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

    def _turn_recorded(self, message: TurnRecorded) -> None:
        account = self._ledger.accounts.get(message.session_id)
        if account is not None and account.epoch != message.epoch:
            account = None
        turn, stage = message.turn, self._state.stage
        if turn is None or turn is not stage.turn or stage.recording is None:
            self._recorded_late(message, account)
        elif message.error is not None:
            self._record_failed(message, account)
        elif message.sight is None:
            self._record_lost(message, account)
        else:
            self._note_recorded(message, account)
            self._remember(message.session_id, message.sight)
            self._end_recording(Recorded.DONE, account)

    def _note_recorded(self, message: TurnRecorded, account: Account | None) -> None:
        if account is not None:
            if message.generation is not None:
                account.generation = max(account.generation, message.generation)
            account.until = message.asked + self._books.linger
            account.unrecorded = account.freeing = False
            account.tries = 0

    def _end_recording(
        self, outcome: Recorded, account: Account | None, answer: BaseException | None = None
    ) -> None:
        stage = self._state.stage
        if account is None:
            effects = stage.recorded(outcome)
            generation = stage.generations.generation
        else:
            effects = stage.recorded(outcome, account.session_id, account.generation, account.epoch)
            generation = account.generation
        self._answer_ender(generation if answer is None else answer)
        self._perform(effects)

    def _answer_ender(self, answer: Any) -> None:
        ender, self._ledger.ender = self._ledger.ender, None
        if ender is not None:
            if self._state.answers is None:
                self._state.answers = []
            self._state.answers.append((ender, answer, None))

    def _remember(self, session_id: str, sight: Sight | None) -> None:
        tenant = self._state.tenants.get(self._state.stage.agent)
        if tenant is not None and tenant.remembered is not None:
            tenant.remembered.remember(session_id, sight)

    def _record_failed(self, message: TurnRecorded, account: Account | None) -> None:
        error = message.error
        self._store_failed(message.session_id, "record", error)
        self._remember(message.session_id, None)  # nobody knows what the version is now
        answer: BaseException | None = None
        if account is not None:
            account.unrecorded = True
            if message.generation is not None:
                account.generation = message.generation
                msg = (
                    f"{self}: its turn is completed, but the store could not record it: "
                    f"{text_of(error) if error is not None else 'no answer'}. It is kept, and recorded "
                    "as soon as that works, unless this process ends before"
                )
                answer = NotRecorded(msg, self._key)
                answer.__cause__ = error
            self._retry(account)
        self._end_recording(Recorded.NOT_NOW, account, answer)

    def _retry(self, account: Account) -> None:
        account.tries += 1
        self._retry_later(account.session_id, account.tries)

    def _retry_later(self, session_id: str, tries: int) -> None:
        policy = self._board.policy
        pause = min(policy.retry_first * 2.0 ** min(tries - 1, 60), policy.retry_most)
        spread = self.runtime.random.uniform(0.75, 1.25)
        self.call_later(pause * spread, RetryRecord(session_id=session_id))

    def _retry_record(self, message: RetryRecord) -> None:
        account = self._ledger.accounts.get(message.session_id)
        if message.session_id in self._ledger.doubts:
            self._disclaim(message.session_id)
        elif account is not None and account.unrecorded and account is not self._account_in_use():
            self._record_later(account)
        self._perform(())

    def _record_lost(self, message: TurnRecorded, account: Account | None) -> None:
        stage = self._state.stage
        completed = stage.recording is not None and stage.recording.completed
        answer: BaseException | None = None
        if completed:
            msg = (
                f"{self}: another room has taken {message.session_id!r} over while this turn ran. It is "
                "not counted, and its agent is let go; the other room goes on from what the store has"
            )
            answer = LostOwnership(msg, self._key)
        if account is not None:
            before = stage.generations.dirty
            self._end_recording(Recorded.LOST, account, answer)
            self._ledger.accounts.pop(account.session_id, None)
            self._disclaim(account.session_id)
            self._say_lost(account, before - stage.generations.dirty)
        else:
            self._end_recording(Recorded.LOST, None, answer)

    def _recorded_late(self, message: TurnRecorded, account: Account | None) -> None:
        """What was to be recorded after the fact, or of a turn that was ended by force."""
        effects: list[Effect] = []
        if account is None:
            pass
        elif message.error is not None:
            account.unrecorded, account.freeing = True, False
            if message.turn is None and account.tries == 0:
                self._store_failed(message.session_id, "record", message.error)
            self._retry(account)
        elif message.sight is None:
            effects = self._lose(account)
            self._disclaim(message.session_id)
        else:
            self._note_recorded(message, account)
            if account is self._account_in_use():
                self._watch_lease()
        self._perform(effects)

    def _give_up_recording(self) -> None:
        """The drain has had its time: the turn is over, recorded or not."""
        turn = self._state.stage.turn
        if turn is not None and self._state.stage.recording is not None:
            account = self._ledger.accounts.get(turn.session_id)
            error = TimeoutError("the room was drained before the store had answered")
            self._record_failed(
                TurnRecorded(
                    turn=turn,
                    session_id=turn.session_id,
                    epoch=0 if account is None else account.epoch,
                    generation=None if account is None else account.generation + 1,
                    asked=0.0,
                    sight=None,
                    error=error,
                ),
                account,
            )

    # After a restart of the actor, and for people.

    def _ask_the_store_again(self, ledger: LedgerState) -> None:
        """Timers are gone. Answers that are on their way still come, and those to old questions do no
        harm."""
        self.actor_ref.tell(LookAtLease())
        if self._state.stage.entering:
            self.actor_ref.tell(EnterAgain(ticket=ledger.ticket))
        for account in ledger.accounts.values():
            if account.unrecorded:
                self._retry(account)
        for session_id, tries in ledger.doubts.items():
            self._retry_later(session_id, tries + 1)

    def _account_shown(self) -> Account | None:
        ledger, session_id = self._state.ledger, self._state.session_id
        return None if ledger is None or session_id is None else ledger.accounts.get(session_id)

    def _holder(self) -> str | None:
        account, ledger = self._account_shown(), self._state.ledger
        if account is not None and account.until > self.runtime.clock():
            return self._books.owner
        return None if ledger is None else ledger.holder

    # Recovery.

    def _recover_session(self, message: RecoverSession) -> str | None:
        session_id, ledger = message.session_id, self._ledger
        if session_id in ledger.accounts or session_id in ledger.rescues:
            # A turn has come first. What it found uncommitted has an owner, who is asked to see to it.
            self._perform(self._state.stage.flush())
            return None
        ledger.rescues[session_id] = Rescue(self.defer_reply(), message.tries)
        self._ask_for(
            EnterStore(session_id=session_id, key=self._key),
            lambda entrance, error: LeaseTaken(session_id=session_id, entrance=entrance, error=error),
        )
        self._perform(())
        return None

    def _lease_taken(self, message: LeaseTaken) -> None:
        session_id, stage, ledger = message.session_id, self._state.stage, self._ledger
        self._heard_of(session_id, message.entrance)
        lease = None if message.entrance is None else message.entrance.lease
        effects: list[Effect] = []
        if lease is not None and lease.held:
            effects, _ = self._open_account(lease)
        elif lease is None:
            self._disclaim(session_id)
        rescue = ledger.rescues.get(session_id)
        if rescue is not None and stage.generations.nobodys(session_id) and not stage.draining:
            rescue.incarnation = stage.recover(session_id)
            effects.append(effects_of.Build(_turn_of_nobody(session_id), rescue.incarnation))
        elif rescue is not None:
            self._rescue_over(session_id, None if message.error is None else text_of(message.error))
        self._perform(effects)

    def _rescuer_gone(self, incarnation: int, problem: str | None) -> None:
        """An agent that was to recover a session id has done what it could, or could not be built."""
        for session_id, rescue in list(self._ledger.rescues.items()):
            if rescue.incarnation == incarnation:
                if problem is None and self._state.stage.generations.nobodys(session_id):
                    problem = self._state.last_error or "it could not be committed"
                self._say_rescued(session_id, problem)
                account = self._ledger.accounts.get(session_id)
                if problem is not None and account is not None and account is not self._account_in_use():
                    self._give_back(account, problem, rescue.tries)
                self._rescue_over(session_id, problem)

    def _rescue_over(self, session_id: str, problem: str | None) -> None:
        rescue = self._ledger.rescues.pop(session_id)
        if self._state.answers is None:
            self._state.answers = []
        self._state.answers.append((rescue.reply, problem, None))

    def _say_rescued(self, session_id: str, problem: str | None) -> None:
        if problem is None:
            self._event(SessionRecovered(key=self._key, session_id=session_id))
            return
        logger.warning(
            "%s: what another room left uncommitted of %r could not be committed: %s",
            self,
            session_id,
            problem,
        )
        self._event(RecoveryFailure(key=self._key, session_id=session_id, problem=problem))

    def _give_back(self, account: Account, problem: str, tries: int) -> None:
        """Leave a session id to whoever tries next; the ledger says when that may be."""
        policy = self._board.policy
        self._ask_clerk(
            FailRecovery(
                session_id=account.session_id,
                epoch=account.epoch,
                problem=problem,
                pause=min(policy.retry_first * 2.0 ** min(tries, 60), policy.retry_most),
                most=policy.recover_tries,
            ),
            lambda _, __: RetryRecord(session_id=account.session_id),
        )
        self._ledger.accounts.pop(account.session_id, None)
        self._state.stage.generations.disown(account.session_id, account.epoch)

    _performers: ClassVar[dict[type, Any]] = {
        **SessionOutcomes._performers,
        effects_of.Enter: _enter,
        effects_of.EnterLater: _enter_later,
        effects_of.Record: _record,
    }


def _turn_of_nobody(session_id: str) -> BeginTurn:
    """What an agent is built for that nobody asked for: its session id, and nothing else."""
    return BeginTurn(
        spec=None,
        signature=None,
        session_id=session_id,
        reject=False,
        timeout=None,
        held=(),
        loop=None,
    )
