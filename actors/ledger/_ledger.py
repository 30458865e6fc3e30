"""What a session does only where there is a store. `accounts` decides; this asks, and sets timers.

    a turn begins          EnterStore: is the session id this room's, and does the agent know all of it?
                           Not asked if this room had it a moment ago and a peek shows nothing new
    a turn has ended       RecordTurn: its generation is in the ledger before its caller goes on
    a commit               IntendCommit, the hook, RecordCommit (in `slow_work.py`)

What is asked of the store writer, who does the writing, is an effect of the session like any other: the
request itself. Its answer comes as `Answered`, with the request, which names what it is about: the
number of the question, or the turn, and the epoch. An answer that comes late is about something that is
over, and only the hold that it may bring with it is still of interest.

What if the store cannot be reached? A turn that begins goes on with the agent that is there, if
this room was the last that had the session. One that has ended counts, its caller is told
(`NotRecorded`), and the store is told again and again, with growing pauses, and with the next turn.

Recovery: what another room has left is committed by an agent that is built for nothing else, with its
key and session id and no spec. It is never in the place: a turn that comes meanwhile gets one of its
own. What fails is noted in the ledger, with when it may be tried again, and the session id let go of.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import LostOwnership, NotRecorded, text_of
from greenroom.actors.ledger._bound_store import BoundStore, Fences
from greenroom.actors.ledger.accounts import Accounts, judge, verdict
from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.actors.session.machine import Mode, Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import Entry, Recorded
from greenroom.messages import (
    Answered,
    BeginTurn,
    DisclaimSession,
    EnterAgain,
    EnterStore,
    FailRecovery,
    HandOver,
    LookAtLease,
    OwnershipLost,
    PinLease,
    RecordTurn,
    Recovered,
    RecoverSession,
    RecoveryFailure,
    RetryRecord,
    SessionRecovered,
    StoreFailure,
)

if TYPE_CHECKING:
    from greenroom.actors.ledger.accounts import Account, Opened
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.ledger.coherence import Remembered, TranscriptVersion
    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.generations import Segment
    from greenroom.messages import Entered

__all__ = ["Ledger", "LedgerState", "RecoveryUnderWay"]

logger = logging.getLogger("greenroom.actors")

LINGER = 2.0
"""How many seconds after a turn its session id stays with the room, should the next one come at once."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""How long to wait before another room's session is asked for again. It doubles with every try."""

Effects = list[Any]
"""What the session is to do: effects of its machine, and requests to the store."""


@dataclass(slots=True)
class RecoveryUnderWay:
    """A session id that is being recovered."""

    reply: Reply
    tries: int
    """How often that has failed before."""

    incarnation: int = 0
    """The agent that was built for it. 0: it is not this room's yet."""


class LedgerState:
    """What a session knows of the store."""

    __slots__ = (
        "accounts",
        "ender",
        "fences",
        "holder",
        "lease_timer",
        "recoveries",
        "seen",
        "trouble",
    )

    def __init__(self, key: str, owner: str) -> None:
        self.accounts = Accounts(key)
        self.fences = Fences(owner)
        self.seen: TranscriptVersion | None = None
        """What was last seen of the transcript of the next turn."""
        self.holder: str | None = None
        """Which other room was last seen to have the session."""
        self.trouble: BaseException | None = None
        """Why the store could not be asked, the last time."""
        self.ender: Reply | None = None
        """Who waits for the end of a turn to be recorded."""
        self.lease_timer: Timer | None = None
        self.recoveries: dict[str, RecoveryUnderWay] = {}
        """The session ids that are being recovered."""

    @property
    def under_way(self) -> bool:
        """Whether the store is being asked or told something, or will be."""
        return bool(self.recoveries) or self.accounts.under_way


class Ledger:
    """A session's side of the store. Made anew whenever it is needed."""

    __slots__ = ("_accounts", "_actor", "_books", "_context", "_known", "_state")

    def __init__(
        self,
        actor: Actor,
        context: RoomContext,
        state: SessionState,
        known: LedgerState,
        books: Bookkeeping,
    ) -> None:
        self._actor = actor
        self._context = context
        self._books = books
        self._state = state
        self._known = known
        self._accounts = known.accounts

    def ask(self, request: Any) -> None:
        """Ask the store writer, and have the answer as a message."""
        ask_and_hear(self._actor, self._context.writer, request)

    def store_for_agents(self) -> Any:
        """The store as the session's agents get it."""
        store = self._books.store
        return BoundStore(store, self._state.key, self._known.fences) if self._books.ledger else store

    def _linger(self) -> float:
        return min(LINGER, self._context.policy.lease_ttl / 2)

    def _now(self) -> float:
        return self._actor.runtime.clock()

    def _remembered(self) -> Remembered | None:
        """What the agent in its place knows of its transcripts."""
        held = self._state.held(self._state.machine.agent)
        return None if held is None else held.remembered

    def _store_failed(self, session_id: str, what: str, error: BaseException | None) -> None:
        error = RuntimeError("no answer") if error is None else error
        logger.warning("%s: the store could not be reached (%s): %s", self._actor, what, text_of(error))
        self._context.tell_supervisor(
            StoreFailure(key=self._state.key, session_id=session_id, what=what, error=error)
        )

    # A turn begins.

    def enters_at_once(self, turn: BeginTurn) -> bool:
        """Whether the agent that is there may serve this turn, and nobody need be asked."""
        place = self._state.machine.place
        if place is not Place.IDLE and place is not Place.LEAVING:
            return False
        if self._verdict_at_once(turn.session_id) is not Entry.FRESH:
            return False
        self._watch_lease()
        return True

    def _verdict_at_once(self, session_id: str) -> Entry | None:
        """What the store would say, if that can be told without waiting for it."""
        books = self._books
        if books.ledger and not self._accounts.holds(session_id, self._now(), self._linger()):
            return None
        seen = books.peek(session_id)
        home_id = self._home_beside(session_id)
        home = None if home_id is None else books.peek(home_id)
        if seen is None or (home_id is not None and home is None):
            return None
        self._known.seen = seen
        return verdict(session_id, self._remembered(), seen, home)

    def _home_beside(self, session_id: str) -> str | None:
        """The session id that the agent was built for, if it is another one."""
        remembered = self._remembered()
        return None if remembered is None or remembered.home == session_id else remembered.home

    def enter(self, effect: effects_of.Enter) -> Effects:
        """Ask the store whether this turn may begin, unless that is known."""
        session_id = effect.turn.session_id
        known = self._verdict_at_once(session_id)
        if known is None:
            return [self._accounts.enter(session_id, self._home_beside(session_id))]
        self._watch_lease()
        return [*self._state.machine.entered(known)]

    def enter_later(self, effect: effects_of.EnterLater) -> None:
        """Another room has it: ask again after a pause."""
        pause = min(FIRST_PAUSE * 2.0 ** min(effect.tries - 1, 30), LONGEST_PAUSE)
        spread = self._actor.runtime.random.uniform(0.75, 1.25)
        self._actor.call_later(pause * spread, EnterAgain(ticket=self._accounts.ticket))

    def enter_again(self, message: EnterAgain) -> Effects:
        """The pause is over."""
        current = message.ticket == self._accounts.ticket
        return [*self._state.machine.enter_again()] if current else []

    def entered(self, message: Answered) -> Effects:
        """The store has given a session id to this room, or not, for a turn or for a recovery."""
        request: EnterStore = message.request
        entered: Entered | None = message.value
        self._accounts.heard_of(request.session_id, known=entered is not None)
        lease = None if entered is None else entered.lease
        opened, effects = None, Effects()
        if lease is not None and lease.held:
            opened, effects = self._open(lease)
        if request.ticket == 0:
            return [*effects, *self._taken_over(request.session_id, lease, message.error)]
        if entered is None:
            effects = self._doubt(request.session_id)
        machine = self._state.machine
        if request.ticket == self._accounts.ticket and machine.place is Place.ENTERING:
            effects += machine.entered(self._judge(request.session_id, entered, message.error, opened))
        return effects

    def _judge(
        self,
        session_id: str,
        entered: Entered | None,
        error: BaseException | None,
        opened: Opened | None,
    ) -> Entry:
        known = self._known
        if entered is None:
            known.seen, known.trouble = None, error
            self._store_failed(session_id, "begin", error)
            self._watch_lease()
            # At worst one stale turn. But what this room knows nothing of could not be recorded, either.
            here = not self._books.ledger or self._accounts.get(session_id) is not None
            return Entry.FRESH if here else Entry.AWAY
        entry = judge(session_id, self._remembered(), entered, opened)
        if entry is Entry.HELD:
            known.holder = entered.lease.owner
        else:
            known.holder, known.seen = None, entered.seen
        return entry

    # A turn has ended.

    def ends_at_once(self, turn: BeginTurn) -> bool:
        """Whether there is nothing to record, and a peek tells what the agent knows now."""
        if self._books.ledger or turn is not self._state.machine.turn:
            return False
        seen = self._books.peek(turn.session_id)
        if seen is not None:
            self._remember(turn.session_id, seen)
        return seen is not None

    def _remember(self, session_id: str, seen: TranscriptVersion | None) -> None:
        remembered = self._remembered()
        if remembered is not None:
            remembered.remember(session_id, seen)

    def record(self, effect: effects_of.Record) -> Effects:
        """Have the store told that a turn has ended."""
        turn, now, linger = effect.turn, self._now(), self._linger()
        account = self._accounts.get(turn.session_id)
        if account is not None:
            return [account.record(turn, completed=effect.completed, now=now, linger=linger)]
        request = RecordTurn(
            session_id=turn.session_id, epoch=0, generation=None, linger=linger, turn=turn, asked=now
        )
        if self._books.ledger:
            # A commit was told so, in the middle of the turn: it is lost.
            self._actor.actor_ref.tell(Answered(request=request))
            return []
        return [request]

    def recorded(self, message: Answered) -> Effects:
        """The store was told that a turn has ended, or could not be, or says that it is lost."""
        request: RecordTurn = message.request
        account = self._accounts.get(request.session_id, request.epoch)
        turn, machine = request.turn, self._state.machine
        if turn is None or turn is not machine.turn or machine.place is not Place.RECORDING:
            return [] if account is None else self._told(message, account)
        if message.error is not None:
            return self._record_failed(turn, message.error, account)
        if message.value is None:
            return self._record_lost(turn, account)
        if account is not None:
            self._note_told(request, account)
        self._remember(request.session_id, message.value)
        return self._end_recording(Recorded.DONE, account)

    def _told(self, message: Answered, account: Account) -> Effects:
        """What was to be recorded after the fact, or of a turn that was ended by force."""
        if message.request.turn is None:
            account.heard()
        if message.error is not None:
            if account.tries == 0:
                self._store_failed(account.session_id, "record", message.error)
            self._tell_again(account)
        elif message.value is None:
            return [*self._disclaim(account.session_id), *self._lose(account)]
        else:
            self._note_told(message.request, account)
            if account is self._accounts.in_use(self._state.machine):
                self._watch_lease()
        return []

    def _note_told(self, request: RecordTurn, account: Account) -> None:
        account.told(request)
        self._cancel(account)

    def _end_recording(
        self, outcome: Recorded, account: Account | None, answer: BaseException | None = None
    ) -> Effects:
        machine = self._state.machine
        if account is None:
            effects = machine.recorded(outcome)
            generation = machine.generations.generation
        else:
            effects = machine.recorded(outcome, account.session_id, account.generation, account.epoch)
            generation = account.generation
        ender, self._known.ender = self._known.ender, None
        if ender is not None:
            self._state.answer_later(ender, generation if answer is None else answer)
        return [*effects]

    def _record_failed(self, turn: BeginTurn, error: BaseException, account: Account | None) -> Effects:
        self._store_failed(turn.session_id, "record", error)
        self._remember(turn.session_id, None)  # nobody knows what the version is now
        answer: BaseException | None = None
        if account is not None:
            if self._state.machine.completes:
                account.generation += 1
                msg = (
                    f"{self._actor}: its turn is completed, but the store could not record it: "
                    f"{text_of(error)}. It is kept, and recorded as soon as that works, unless this "
                    "process ends before"
                )
                answer = NotRecorded(msg, self._state.key)
                answer.__cause__ = error
            self._tell_again(account)
        return self._end_recording(Recorded.NOT_NOW, account, answer)

    def _record_lost(self, turn: BeginTurn, account: Account | None) -> Effects:
        answer: BaseException | None = None
        if self._state.machine.completes:
            msg = (
                f"{self._actor}: another room has taken {turn.session_id!r} over while this turn ran. "
                "It is not counted, and its agent is let go; the other room goes on from what the store "
                "has"
            )
            answer = LostOwnership(msg, self._state.key)
        effects = Effects()
        if account is not None:
            # First of all: the next turn must ask for it.
            self._close(account)
            effects = self._disclaim(account.session_id)
            self._say_lost(account, self._state.machine.generations.owed(account.session_id))
        return effects + self._end_recording(Recorded.LOST, account, answer)

    def give_up_recording(self, why: str) -> Effects:
        """The turn is over, recorded or not: its caller does not wait any longer."""
        machine = self._state.machine
        turn = machine.turn
        if turn is None or machine.place is not Place.RECORDING:
            return []
        return self._record_failed(turn, TimeoutError(why), self._accounts.get(turn.session_id))

    # Accounts.

    def tidy(self) -> Effects:
        """Let go of session ids that are not in use."""
        if not self._accounts.by_id:
            return []
        machine, recovering = self._state.machine, self._known.recoveries
        now, linger = self._now(), self._linger()
        return [*self._accounts.tidy(machine, self._remembered(), recovering, now, linger)]

    def _open(self, lease: Any) -> tuple[Opened, Effects]:
        """This room has the session id now."""
        opened, effects = self._accounts.open(lease), Effects()
        if opened.lost is not None:
            effects = self._lose(opened.lost)
        if opened.anew:
            self._known.fences.set(lease.session_id, lease.epoch)
            self._state.machine.resume(
                lease.session_id,
                lease.epoch,
                generation=lease.generation,
                committed=lease.committed,
                intended=lease.intended,
            )
        return opened, effects

    def _lose(self, account: Account) -> Effects:
        """Another room has, or had, the session id, and answers for what is uncommitted of it."""
        machine = self._state.machine
        before = machine.generations.dirty
        self._close(account)
        effects = machine.lose(account.session_id, account.epoch)
        self._say_lost(account, before - machine.generations.dirty)
        return [*effects]

    def _close(self, account: Account) -> None:
        self._cancel(account)
        self._accounts.close(account)

    def _say_lost(self, account: Account, turns: int) -> None:
        logger.warning(
            "%s: another room, or another key of this, has taken %r over, with %s uncommitted turns%s",
            self._actor,
            account.session_id,
            turns,
            ". Not all that was completed here could be recorded before" if account.unrecorded else "",
        )
        self._context.tell_supervisor(
            OwnershipLost(key=self._state.key, session_id=account.session_id, turns=turns)
        )

    def committed(self, segment: Segment) -> None:
        """The turns of a segment are committed."""
        account = self._accounts.get(segment.session_id or "")
        if account is not None:
            account.committed = max(account.committed, segment.token)

    def commit_lost(self, segment: Segment, turns: int) -> Effects:
        """A commit was told that another room has its session id."""
        account = self._accounts.get(segment.session_id or "", segment.epoch)
        if account is None:
            return []
        self._close(account)
        self._say_lost(account, turns)
        return self._disclaim(account.session_id)

    def _tell_again(self, account: Account) -> None:
        """The store could not be told: again after a pause, or with the next turn."""
        if account.not_told():
            account.timer = self._retry_later(account.session_id, account.tries)

    def _retry_later(self, session_id: str, tries: int) -> Timer:
        pause = self._context.policy.pause_after(tries)
        spread = self._actor.runtime.random.uniform(0.75, 1.25)
        return self._actor.call_later(pause * spread, RetryRecord(session_id=session_id))

    def _cancel(self, account: Account) -> None:
        if account.timer is not None:
            account.timer.cancel()
            account.timer = None

    def retry_record(self, message: RetryRecord) -> Effects:
        """The pause is over. If it is in use now, it is told when it is not."""
        account = self._accounts.get(message.session_id)
        if account is not None:
            account.timer = None
        doubted = message.session_id in self._accounts.doubts
        return self._disclaim(message.session_id) if doubted else []

    def handed_over(self, message: Answered) -> Effects:
        """What nobody here answers for was left to the ledger, or not."""
        request: HandOver = message.request
        account = self._accounts.get(request.session_id, request.epoch)
        if account is None:
            return []
        account.heard()
        if message.error is not None:
            self._tell_again(account)
            return []
        self._close(account)
        return [*self._state.machine.lose(request.session_id, request.epoch)]

    # In doubt.

    def _doubt(self, session_id: str) -> Effects:
        if self._accounts.get(session_id) is None and not self._books.ledger:
            return []
        return [*self._accounts.doubt(session_id)]

    def _disclaim(self, session_id: str) -> Effects:
        return [*self._accounts.disclaim(session_id)] if self._books.ledger else []

    def disclaimed(self, message: Answered) -> Effects:
        """The store knows that this room does not want a session id, or could not be told."""
        request: DisclaimSession | FailRecovery = message.request
        tries = self._accounts.disclaimed(request.session_id, message.error)
        if tries is not None:
            self._retry_later(request.session_id, tries)
        return []

    # A turn lasts.

    def _watch_lease(self) -> None:
        """A turn begins while the hold on its session id is only a while longer: see to it soon."""
        if self._books.ledger and self._known.lease_timer is None:
            self._known.lease_timer = self._actor.call_later(self._linger() / 4, LookAtLease())

    def look_at_lease(self, _: LookAtLease) -> Effects:
        """It is soon."""
        self._known.lease_timer = None
        machine = self._state.machine
        account = self._accounts.in_use(machine)
        if account is None or machine.place is Place.RECORDING:
            return []
        request = account.pin()
        return [] if request is None else [request]

    def pinned(self, message: Answered) -> Effects:
        """The hold lasts now, or is lost, or the store could not be told."""
        request: PinLease = message.request
        account = self._accounts.get(request.session_id, request.epoch)
        again = account is not None and account.pinned(bool(message.value), message.error)
        if again and account is self._accounts.in_use(self._state.machine):
            self._watch_lease()
        return []

    # Recovery.

    def recover(self, message: RecoverSession) -> Effects:
        """Commit what another room has left."""
        session_id, known, machine = message.session_id, self._known, self._state.machine
        reply = self._actor.defer_reply()
        free = self._accounts.may_take_over(session_id, message.epoch, machine)
        if session_id in known.recoveries or not free:
            # A turn has come first: what it found uncommitted has an owner, who is asked to see to it.
            self._state.answer_later(reply, Recovered(problem=None, settled=False))
            return [*machine.flush()]
        account = self._accounts.get(session_id)
        effects = [] if account is None else self._lose(account)  # others have had it since
        known.recoveries[session_id] = RecoveryUnderWay(reply, message.tries)
        return [self._accounts.take_over(session_id), *effects]

    def _taken_over(self, session_id: str, lease: Any, error: BaseException | None) -> Effects:
        machine, recovery = self._state.machine, self._known.recoveries.get(session_id)
        effects = self._disclaim(session_id) if lease is None else []
        if recovery is None:
            return effects
        if machine.generations.nobodys(session_id) and not machine.draining:
            recovery.incarnation = machine.recover(session_id)
            effects.append(effects_of.Build(_turn_of_nobody(session_id), recovery.incarnation))
        else:
            problem = None if error is None else text_of(error)
            self._recovery_over(session_id, Recovered(problem=problem, settled=False))
        return effects

    def recovered(self, incarnation: int, problem: str | None) -> Effects:
        """An agent that was to recover a session id has done what it could, or could not be built."""
        effects = Effects()
        for session_id, recovery in list(self._known.recoveries.items()):
            if recovery.incarnation != incarnation:
                continue
            self._say_recovered(session_id, problem)
            account = self._accounts.get(session_id)
            in_use = account is self._accounts.in_use(self._state.machine)
            if problem is not None and account is not None and not in_use:
                effects += self._give_back(account, problem, recovery.tries)
            self._recovery_over(session_id, Recovered(problem=problem, settled=True))
        return effects

    def _recovery_over(self, session_id: str, answer: Recovered) -> None:
        self._state.answer_later(self._known.recoveries.pop(session_id).reply, answer)

    def _say_recovered(self, session_id: str, problem: str | None) -> None:
        key = self._state.key
        if problem is None:
            self._context.tell_supervisor(SessionRecovered(key=key, session_id=session_id))
            return
        logger.warning(
            "%s: what another room left uncommitted of %r could not be committed: %s",
            self._actor,
            session_id,
            problem,
        )
        self._context.tell_supervisor(RecoveryFailure(key=key, session_id=session_id, problem=problem))

    def _give_back(self, account: Account, problem: str, tries: int) -> Effects:
        """Leave a session id to the room that tries next; the ledger says when that may be."""
        session_id, policy = account.session_id, self._context.policy
        self._close(account)
        self._accounts.doubts[session_id] = 0  # if it cannot be told, it is let go of at least
        failed = FailRecovery(
            session_id=session_id,
            epoch=account.epoch,
            problem=problem,
            pause=policy.pause_after(tries + 1),
            most=policy.recover_tries,
        )
        return [failed, *self._state.machine.lose(session_id, account.epoch)]

    # After a restart of the actor, and for people.

    def go_on(self) -> None:
        """Timers are gone. Answers that are on their way still come, and do no harm."""
        known, machine, tell = self._known, self._state.machine, self._actor.actor_ref.tell
        known.lease_timer = None
        if machine.mode is Mode.FAILED:
            self._watch_lease()  # it may be what it fails on: not at once, or it does nothing else
        else:
            tell(LookAtLease())
        for account in self._accounts.by_id.values():
            if account.timer is not None:
                account.timer = self._retry_later(account.session_id, account.tries)
        for session_id, tries in self._accounts.doubts.items():
            self._retry_later(session_id, tries + 1)
        if machine.place is Place.ENTERING:
            tell(EnterAgain(ticket=self._accounts.ticket))

    def give_up_answers(self) -> Effects:
        """The actor has failed too often. What it failed on was left out, and may have been an answer of
        the store: wait for none any more. Those that still come do no harm."""
        effects = Effects()
        asked = list(self._accounts.asked)
        self._accounts.asked.clear()
        for session_id in asked:
            effects += self._doubt(session_id)
        for account in self._accounts.by_id.values():
            account.asked = 0
            self._tell_again(account)  # after a pause: the answer to that may be what it fails on
        for session_id, recovery in list(self._known.recoveries.items()):
            if not recovery.incarnation:
                self._recovery_over(session_id, Recovered(problem=None, settled=False))
        why = "its session has failed, and with it what the store may have answered"
        return effects + self.give_up_recording(why)

    def shown(self) -> Account | None:
        """The account of the current session id, or the last that was known of it."""
        return self._accounts.shown(self._state.session_id)

    def holder(self) -> str | None:
        """Who has the session."""
        held = self._accounts.is_held(self._state.session_id, self._now())
        return self._books.owner if held else self._known.holder


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
