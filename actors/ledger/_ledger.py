"""What a session does only where there is a store. `accounts` decides; this asks, and sets timers.

    a turn begins          EnterStore: is the session id this room's, and does the agent know all of it?
                           Not asked if this room had it a moment ago and a peek shows nothing new
    a turn has ended       RecordTurn: its generation is in the ledger before its caller goes on
    renew()                RenewConversation: the old one is ended and the new one current, in one
                           transaction, before the session ends here
    a commit               `intend`, the hook, `commit` (in `slow_work.py`)

What is asked of the store writer, who does the writing, is an effect of the session like any other: the
request itself. Its answer comes as `Answered`, with the request, which names what it is about: the
number of the question, or the turn, and the epoch. An answer that comes late is about something that is
over, and only the hold that it may bring with it is still of interest.

A turn that names no session id is one of the key's current conversation. The store says with every hold
which one that is, so that the session need only guess: the one that it knew last, or the key. If it was
another one, the session ends here what belonged to the old one, and asks again. Nobody is asked while
the hold lasts and a peek shows that the one that is known has not ended: a renewal ends it.

What has its time is looked at when that has come (`look`), with one timer for all of it: a session id of
another room is asked for again, the hold of a turn that lasts is made to last, a session id that has
lingered for nothing is given back, and the store is told what it could not be told before.

Lingering: the end of a turn gives its session id back in the same write, and the next turn takes it
again. But if turns come in quick succession, and the store can peek, the session id stays with the room
and its turns begin without a write. Where the store cannot peek, the next turn has to ask it anyway.

What if the store cannot be reached? A turn that begins goes on with the agent that is there, if
this room was the last that had the session. One that has ended counts, its caller is told
(`NotRecorded`), and the store is told again and again, with growing pauses, and with the next turn.

Recovery: what another room has left is committed by an agent that is built for nothing else, with its
key and session id and no spec. It is never in the place: a turn that comes meanwhile gets one of its
own. What fails is noted in the ledger, with when it may be tried again, and the session id let go of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import LostOwnership, NotRecorded, StoreAway, text_of
from greenroom.actors.ledger._bound_store import BoundStore, Fences
from greenroom.actors.ledger.accounts import IN_DOUBT, PINNED, Account, Accounts, judge
from greenroom.actors.ledger.bookkeeping import ToWrite
from greenroom.actors.ledger.coherence import NO_VERSION
from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.session.machine import Mode, Place
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import Entry, Recorded
from greenroom.messages import (
    Answered,
    BeginTurn,
    Call,
    CallLedger,
    EnterStore,
    OwnershipLost,
    RecordTurn,
    Recovered,
    RecoverSession,
    RecoveryFailure,
    RenewConversation,
    SessionRecovered,
    StoreFailure,
    TurnRecorded,
)

if TYPE_CHECKING:
    from greenroom.actors.ledger.bookkeeping import Bookkeeping
    from greenroom.actors.ledger.coherence import Remembered, TranscriptVersion
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.runtime._timers import Timer
    from greenroom.actors.session._session import Session
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.generations import Segment
    from greenroom.messages import Entered

__all__ = ["Ledger", "LedgerState", "RecoveryUnderWay"]

logger = get_log("greenroom.actors")

LINGER = 0.05
"""How many seconds a session id stays with the room after a turn that came as soon after the last."""

TERM = 2.0
"""For how many seconds the store keeps a session id that lingers. Much longer, because the room may be
late: a turn that begins in the first half has the rest of the time to have its hold made to last."""

FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.02, 0.08, 1.1
"""How long to wait before another room's session is asked for again: 20 ms, and a tenth of the time that
was waited so far."""

ASKING, SLOWEST_PAUSE = 5.0, 1.0
"""But so many times as long as the store took to answer, up to a second: many who wait must not keep it
busy."""

NEVER = float("inf")

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


@dataclass(slots=True)
class LedgerState:
    """What a session knows of the store."""

    accounts: Accounts
    fences: Fences
    seen: TranscriptVersion | None = None
    """What was last seen of the transcript of the next turn."""

    holder: str | None = None
    """Which other room was last seen to have the session."""

    trouble: BaseException | None = None
    """Why the store could not be asked, the last time."""

    ender: Reply | None = None
    """Who waits for the end of a turn to be recorded."""

    recording: ToWrite | None = None
    """What the caller of the turn that ends has the store told, if that caller does so itself."""

    renewers: tuple[Reply, ...] = ()
    """Who waits for the next conversation to be current."""

    recoveries: dict[str, RecoveryUnderWay] = field(default_factory=dict[str, RecoveryUnderWay])
    """The session ids that are being recovered."""

    entered_at: float = 0.0
    """When the store was asked for it the last time."""

    enter_at: float = NEVER
    """When the next turn's session id, which another room has, is asked for again."""

    look_at: float = 0.0
    """When the timer ends."""

    timer: Timer | None = None

    @property
    def under_way(self) -> bool:
        """Whether the store is being asked or told something, or will be."""
        return bool(self.recoveries or self.renewers) or self.accounts.under_way

    def parts(self) -> list[Any]:
        """All that may change, for `Actor.save`."""
        accounts, recoveries = self.accounts, self.recoveries
        held = (accounts, accounts.by_id, *accounts.by_id.values(), accounts.asked)
        return [self, *held, self.fences, recoveries, *recoveries.values()]


@dataclass(slots=True)
class Ledger:
    """A session's side of the store. Made anew whenever it is needed."""

    _actor: Session
    _context: RoomContext
    _state: SessionState
    _known: LedgerState
    _books: Bookkeeping

    @property
    def _accounts(self) -> Accounts:
        return self._known.accounts

    def ask(self, request: Any) -> None:
        """Ask the store writer, and have the answer as a message."""
        ask_and_hear(self._actor, self._context.writer, request)

    def store_for_agents(self) -> Any:
        """The store as the session's agents get it."""
        store = self._books.store
        return BoundStore(store, self._state.key, self._known.fences) if self._books.ledger else store

    def _term(self) -> float:
        return min(TERM, self._context.policy.lease_ttl / 2)

    def _linger(self) -> float:
        return min(LINGER, self._term() / 2)

    def _term_of(self, account: Account) -> float:
        """For how long a session id whose turn ends stays with this room. 0: it is given back."""
        return self._term() if account.quick and self._books.peeks else 0.0

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
        self._watch_lease(self._id_of(turn))
        return True

    def enters_now(self, named: str | None) -> bool:
        """The same for a warm step, which sets no timer: there must be one already that sees in time
        whether the hold is to last."""
        if not self._books.ledger:
            return self._verdict_at_once(named) is Entry.FRESH
        soon = self._now() + self._term() / 4
        account = self._accounts.get(self._named(named))
        if account is None or not self._looks_by(soon):
            return False
        if self._verdict_at_once(named) is not Entry.FRESH:
            return False
        account.pin_at = soon
        return True

    def _id_of(self, turn: object) -> str:
        """The session id of the turn at the place; or, of one that comes and names none, a guess."""
        return self._state.machine.id_of(turn, self._state.key)

    def _named(self, named: str | None) -> str:
        return named or self._state.machine.conversation or self._state.key

    def _verdict_at_once(self, named: str | None) -> Entry | None:
        """What the store would say of a turn that names this session id or none, if that can be told
        without waiting for it."""
        books, session_id = self._books, self._named(named)
        guessed = books.remembers and named is None
        if guessed and self._state.machine.conversation is None:
            return None
        if books.ledger and not self._has(session_id):
            return None
        seen = self._peek(session_id)
        home_id = self._home_beside(session_id)
        home = None if home_id is None else self._peek(home_id)
        if seen is None or (home_id is not None and home is None) or (guessed and seen.ended):
            return None
        self._known.seen = seen
        return Entry.STALE if self._is_stale(session_id, seen, home) else Entry.FRESH

    def _peek(self, session_id: str) -> TranscriptVersion | None:
        remembered = self._remembered()
        expected = NO_VERSION if remembered is None else remembered.expected(session_id)
        return self._books.peek(session_id, expected)

    def _has(self, session_id: str) -> bool:
        """Whether a session id is this room's for sure, for a turn that begins now."""
        held = self._accounts.holds(session_id, self._now(), self._term())
        return held and self._books.holds()

    def _is_stale(
        self, session_id: str, seen: TranscriptVersion | None, home: TranscriptVersion | None
    ) -> bool:
        remembered = self._remembered()
        return remembered is not None and remembered.is_stale(session_id, seen, home)

    def _home_beside(self, session_id: str) -> str | None:
        """The session id that the agent was built for, if it is another one."""
        remembered = self._remembered()
        return None if remembered is None or remembered.home == session_id else remembered.home

    def enter(self, effect: effects_of.Enter) -> Effects:
        """Ask the store whether this turn may begin, unless that is known."""
        session_id = self._id_of(effect.turn)
        verdict = self._verdict_at_once(effect.turn.session_id)
        if verdict is None:
            self._known.enter_at, self._known.entered_at = NEVER, self._now()
            home = self._home_beside(session_id)
            return [self._accounts.enter(session_id, home, here=effect.turn.here)]
        self._watch_lease(session_id)
        return self._state.machine.entered(verdict)

    def enter_later(self, effect: effects_of.EnterLater) -> None:
        """Another room has it: ask again after a pause."""
        now = self._now()
        pause = min(FIRST_PAUSE * GROWTH ** min(effect.tries, 100), LONGEST_PAUSE)
        pause = max(pause, min(ASKING * (now - self._known.entered_at), SLOWEST_PAUSE))
        self._known.enter_at = now + pause * self._spread()
        self._look_by(self._known.enter_at)

    def entered(self, message: Answered) -> Effects:
        """The store has given a session id to this room, or not, for a turn or for a recovery."""
        request: EnterStore = message.request
        entered: Entered | None = message.value
        session_id, known, machine = request.session_id, self._known, self._state.machine
        self._accounts.heard_of(session_id, known=entered is not None)
        if entered is None and self._books.ledger:
            self._accounts.doubt(session_id)
        lease = None if entered is None else entered.lease
        lost, effects = None, Effects()
        waits = request.ticket == self._accounts.ticket and machine.place is Place.ENTERING
        current = None if entered is None or not self._is_guess(waits) else entered.conversation
        if current is not None and current != session_id:
            if lease is not None and lease.held:
                self._accounts.doubt(session_id)  # it is not wanted
            return machine.renewed(current)
        if lease is not None and lease.held:
            lost, effects = self._open(lease)
        if request.ticket == 0:
            return effects + self._taken_over(session_id, message.error)
        if not waits:
            return effects
        machine.conversation = current or machine.conversation
        if entered is None:
            return effects + machine.entered(self._enter_without_store(session_id, message.error))
        stale = self._is_stale(session_id, entered.seen, entered.home)
        entry = judge(lease, lost, stale=stale)
        known.holder = entered.lease.owner if entry is Entry.HELD else None
        if entry is Entry.HELD and self._context.dead_rooms is not None:
            self._context.dead_rooms.look()
        known.seen = entered.seen
        return effects + machine.entered(entry)

    def _is_guess(self, waits: bool) -> bool:
        """Whether the turn that waits for the store names no session id."""
        turn = self._state.machine.next_turn if waits else None
        return turn is not None and turn.session_id is None

    def _enter_without_store(self, session_id: str, error: BaseException | None) -> Entry:
        """At worst one stale turn. But what this room knows nothing of could not be recorded, either."""
        self._known.seen, self._known.trouble = None, error
        self._store_failed(session_id, "begin", error)
        self._watch_lease(session_id)
        known = self._books.holds() and self._accounts.get(session_id) is not None
        here = known or not self._books.ledger
        return Entry.FRESH if here else Entry.AWAY

    # A turn has ended.

    def ends_at_once(self, turn: object) -> bool:
        """Whether there is nothing to record, and a peek tells what the agent knows now."""
        if self._books.ledger or turn is not self._state.machine.turn:
            return False
        session_id, remembered = self._id_of(turn), self._remembered()
        seen = self._peek(session_id)
        if seen is not None and remembered is not None:
            remembered.remember(session_id, seen)
        return seen is not None

    def record_now(self, turn: object, completed: bool) -> ToWrite | None:
        """End a turn that is running, and return what its caller has the store told. `None`: it takes
        more than that."""
        account = self._accounts.in_use(self._state.machine)
        if account is None:
            return None
        linger = self._term_of(account)
        request = account.record(turn, completed=completed, now=self._now(), linger=linger)
        if not self._state.machine.record_now(turn, completed):
            return None
        mailbox = self._actor.actor_inbox
        self._known.recording = recording = ToWrite(request, mailbox.create_future(request), mailbox)
        return recording

    def recorded_now(self, request: RecordTurn, seen: TranscriptVersion) -> int | None:
        """The store knows of the end of the turn, and there is nothing else to do. Returns the
        generation of its session id. `None`: it takes more than that."""
        accounts, machine, remembered = self._accounts, self._state.machine, self._remembered()
        account = accounts.get(request.session_id, request.epoch)
        if account is None or remembered is None or len(accounts.by_id) > 1 or accounts.asked:
            return None
        if not self._waits(request.turn):
            return None
        # Again does no harm, should it take more.
        remembered.remember(request.session_id, seen)
        account.told(request)
        # In the middle of a turn it is looked at later. With many busy threads that is nearly always.
        if account.lingers and not self._looks_by(account.ended + 3 * self._linger()):
            return None
        token = account.generation
        if not machine.recorded_now(request.turn, request.session_id, token, account.epoch):
            return None
        self._known.recording = None
        return token

    def record(self, effect: effects_of.Record) -> Effects:
        """Have the store told that a turn has ended."""
        turn = effect.turn
        session_id = self._id_of(turn)
        account = self._accounts.get(session_id)
        teller = account or Account(session_id, 0)
        linger = self._term_of(teller)
        request = teller.record(turn, completed=effect.completed, now=self._now(), linger=linger)
        if account is not None or not self._books.ledger:
            return [request]
        # A commit was told so, in the middle of the turn: it is lost.
        self._actor.actor_ref.tell(Answered(request=request))
        return []

    def recorded(self, message: Answered | TurnRecorded) -> Effects:
        """The store was told that a turn has ended, or could not be, or says that it is lost."""
        request: RecordTurn = message.request
        session_id, waits = request.session_id, self._waits(request.turn)
        account = self._accounts.get(session_id, request.epoch)
        if account is not None and request.turn is None:
            account.heard()
        if message.error is not None:
            return self._not_recorded(session_id, account, message.error, waits=waits)
        if message.value is None:
            return self._record_lost(session_id, account, waits=waits)
        if account is not None:
            account.told(request)
            if account.lingers:
                self._look_by(account.ended + self._linger())
        elif waits and self._books.ledger:
            # 1. the record is written  2. another room takes the session id over, and the turn with it
            # 3. a commit of ours is told so, and the account is closed  4. the answer to 1 comes.
            # The turn counts, but not here.
            return self._end_recording(session_id, None, Recorded.LOST, generation=request.generation)
        if waits:
            return self._end_recording(session_id, account, Recorded.DONE, message.value)
        self._watch_turn(account)
        return []

    def _waits(self, turn: object) -> bool:
        """Whether this turn waits for its record. Else that comes after the fact, or late: the turn was
        ended by force."""
        machine = self._state.machine
        return turn is not None and turn is machine.turn and machine.place is Place.RECORDING

    def _not_recorded(
        self, session_id: str, account: Account | None, error: BaseException, *, waits: bool
    ) -> Effects:
        answer = None
        if waits or (account is not None and account.tries == 0):
            self._store_failed(session_id, "record", error)
        if account is None and self._books.ledger:
            # A commit was told meanwhile that it is lost: nothing is kept that could be recorded later.
            return self._record_lost(session_id, None, waits=waits)
        if account is not None and waits and self._state.machine.completes:
            account.generation += 1
            msg = (
                f"{self._actor}: its turn is completed, but the store could not record it: "
                f"{text_of(error)}. It is kept, and recorded as soon as that works, unless this "
                "process ends before"
            )
            answer = NotRecorded(msg, self._state.key)
            answer.__cause__ = error
        if account is not None:
            self._tell_again(account)
        if not waits:
            return []
        return self._end_recording(session_id, account, Recorded.NOT_NOW, error=answer)

    def _record_lost(self, session_id: str, account: Account | None, *, waits: bool) -> Effects:
        effects = [] if account is None else self._lose(account)  # the next turn must ask for it
        if not waits:
            return effects
        answer = None
        if self._state.machine.completes:
            msg = (
                f"{self._actor}: another room has taken {session_id!r} over while this turn ran. It is "
                "not counted, and its agent is let go; the other room goes on from what the store has"
            )
            answer = LostOwnership(msg, self._state.key)
        return effects + self._end_recording(session_id, account, Recorded.LOST, error=answer)

    def _end_recording(
        self,
        session_id: str,
        account: Account | None,
        outcome: Recorded,
        seen: TranscriptVersion | None = None,
        error: BaseException | None = None,
        generation: int | None = None,
    ) -> Effects:
        """The turn is over. Its agent knows what was `seen` of the transcript (`None`: nobody can tell),
        and its caller gets the generation or the error."""
        machine, remembered = self._state.machine, self._remembered()
        if remembered is not None:
            remembered.remember(session_id, seen)
        if account is None:
            effects = machine.recorded(outcome)
            generation = generation or machine.generations.generation
        else:
            effects = machine.recorded(outcome, session_id, account.generation, account.epoch)
            generation = account.generation
        known = self._known
        ender, known.ender = known.ender, None
        recording, known.recording = known.recording, None
        if ender is not None:
            self._state.answer_later(ender, generation if error is None else error)
        elif recording is not None:  # its caller still waits for the store, and is not to
            recording.fail(error or NotRecorded("the end of the turn is not recorded yet"))
        return effects

    def give_up_recording(self, why: str) -> Effects:
        """The turn is over, recorded or not: its caller does not wait any longer."""
        turn = self._state.machine.turn
        if not self._waits(turn):
            return []
        session_id = self._id_of(turn)
        account = self._accounts.get(session_id)
        return self._not_recorded(session_id, account, TimeoutError(why), waits=True)

    # The next conversation.

    def renew(self, conversation: str) -> Effects:
        """Have the store make this the current one. Callers that ask meanwhile get the same."""
        known, key = self._known, self._state.key
        renewers, reply = known.renewers, self._actor.defer_reply()
        known.renewers = (*renewers, reply)
        before = self._state.machine.conversation or key
        return [] if renewers else [RenewConversation(session_id=before, key=key, to=conversation)]

    def renewed(self, message: Answered) -> Effects:
        """The store has another conversation for the key, or could not be told."""
        request: RenewConversation = message.request
        if message.error is not None:
            self._store_failed(request.session_id, "renew", message.error)
            msg = f"{self._actor}: the store could not be told of another conversation"
            error = StoreAway(f"{msg}: {text_of(message.error)}", self._state.key)
            error.__cause__ = message.error
            self._answer_renewers(error)
            return []
        self._answer_renewers(request.to)
        return self._actor.begin_conversation(request.to)

    def _answer_renewers(self, answer: str | StoreAway) -> None:
        renewers, self._known.renewers = self._known.renewers, ()
        for reply in renewers:
            self._state.answer_later(reply, answer)

    # Accounts.

    def tidy(self) -> Effects:
        """Let go of session ids that are not in use."""
        if not self._accounts.by_id:
            return []
        machine, recovering = self._state.machine, self._known.recoveries
        now, linger = self._now(), self._linger()
        return self._accounts.tidy(machine, self._remembered(), recovering, now, linger)

    def _open(self, lease: Any) -> tuple[Account | None, Effects]:
        """This room has the session id now. Returns what was known of it if others have had it since."""
        anew, lost = self._accounts.open(lease)
        effects = [] if lost is None else self._lose(lost)
        if not anew:
            account = self._accounts.by_id[lease.session_id]
            account.quick = self._now() - account.ended <= self._linger()
        else:
            self._known.fences.set(lease.session_id, lease.epoch)
            self._state.machine.resume(
                lease.session_id,
                lease.epoch,
                generation=lease.generation,
                committed=lease.committed,
                intended=lease.intended,
            )
        return lost, effects

    def _lose(self, account: Account) -> Effects:
        """Another room has, or had, the session id, and answers for what is uncommitted of it."""
        machine = self._state.machine
        self._lost(account, machine.generations.owed(account.session_id))
        return machine.lose(account.session_id, account.epoch)

    def _lost(self, account: Account, turns: int) -> None:
        self._accounts.lose(account)
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

    def commit_lost(self, segment: Segment, turns: int) -> None:
        """A commit was told that another room has its session id."""
        account = self._accounts.get(segment.session_id or "", segment.epoch)
        if account is not None:
            self._lost(account, turns)

    def called(self, message: Answered) -> Effects:
        """The ledger has answered what no turn waits for: the hold of one lasts, or this room has let go
        of a session id; or the store could not be told."""
        request: CallLedger[bool] = message.request
        epoch = IN_DOUBT if request.verb in ("disclaim", "fail") else request.epoch
        account, machine = self._accounts.get(request.session_id, epoch), self._state.machine
        if account is None:
            return []
        account.heard()
        if request.verb == "pin":
            if account.pinned(bool(message.value), message.error):
                self._watch_turn(account)
        elif message.error is not None:
            self._tell_again(account)
        else:
            self._accounts.close(account)
            return machine.lose(account.session_id, account.epoch)
        return []

    def _tell_again(self, account: Account) -> None:
        """The store could not be told: again after a pause, or with the next turn."""
        policy = self._context.policy
        account.not_told(self._now(), lambda tries: policy.pause_after(tries) * self._spread())
        self._look_by(account.due)

    # What has its time.

    def _looks_by(self, due: float) -> bool:
        """Whether there is a timer already that looks then, or before."""
        return self._known.timer is not None and self._known.look_at <= due

    def _look_by(self, due: float) -> None:
        """Look then, if not before."""
        known = self._known
        if self._looks_by(due):
            return
        if known.timer is not None:
            known.timer.cancel()
        known.look_at = due
        pause = max(0.0, due - self._now())
        known.timer = self._actor.call_later(pause, Call(self._actor.look_at_ledger))

    def look(self) -> Effects:
        """The time for something has come. (What has to be done for accounts, `tidy` sees to.)"""
        known, now, effects = self._known, self._now(), Effects()
        known.timer = None
        if known.enter_at <= now:
            known.enter_at = NEVER
            effects = self._state.machine.enter_again()
        dues, used, linger = [known.enter_at], self._accounts.in_use(self._state.machine), self._linger()
        for account in self._accounts.by_id.values():
            dues += account.due, account.pin_at
            if account.lingers:
                dues.append(now + 2 * linger if account is used else account.ended + linger)
        later = [due for due in dues if now < due < NEVER]
        if later:
            self._look_by(min(later))
        return effects

    def _watch_turn(self, account: Account | None) -> None:
        """The same, if a turn of it is running."""
        if account is not None and account is self._accounts.in_use(self._state.machine):
            self._watch_lease(account.session_id)

    def _spread(self) -> float:
        """Not everybody is to try again at the same time."""
        return self._actor.runtime.random.uniform(0.75, 1.25)

    def _watch_lease(self, session_id: str) -> None:
        """A turn begins while the hold on its session id is only a while longer: see to it soon."""
        account = self._accounts.get(session_id)
        if account is not None and account.until != PINNED:
            account.pin_at = self._now() + self._term() / 4
            self._look_by(account.pin_at)

    # Recovery.

    def recover(self, message: RecoverSession) -> Effects:
        """Commit what another room has left."""
        session_id, known, machine = message.session_id, self._known, self._state.machine
        reply = self._actor.defer_reply()
        free = self._accounts.may_take_over(session_id, message.epoch, machine)
        if session_id in known.recoveries or not free:
            # A turn has come first: what it found uncommitted has an owner, who is asked to see to it.
            self._state.answer_later(reply, Recovered(problem=None, settled=False))
            return machine.flush()
        account = self._accounts.get(session_id)
        effects = [] if account is None else self._lose(account)  # others have had it since
        known.recoveries[session_id] = RecoveryUnderWay(reply, message.tries)
        return [self._accounts.take_over(session_id), *effects]

    def _taken_over(self, session_id: str, error: BaseException | None) -> Effects:
        machine, recovery = self._state.machine, self._known.recoveries.get(session_id)
        if recovery is None:
            return []
        if machine.generations.nobodys(session_id) and not machine.draining:
            recovery.incarnation = machine.recover(session_id)
            return [effects_of.Build(_turn_of_nobody(session_id), recovery.incarnation)]
        problem = None if error is None else text_of(error)
        self._recovery_over(session_id, Recovered(problem=problem, settled=False))
        return []

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
        policy = self._context.policy
        self._accounts.lose(account)
        in_doubt = self._accounts.doubt(account.session_id)  # if it cannot be told, it is let go of
        failed = in_doubt.call(
            "fail",
            epoch=account.epoch,
            problem=problem,
            pause=policy.pause_after(tries + 1),
            most=policy.recover_tries,
        )
        return [failed, *self._state.machine.lose(account.session_id, account.epoch)]

    # After a restart of the actor, and for people.

    def go_on(self) -> None:
        """Timers are gone. Answers that are on their way still come, and do no harm."""
        known, machine, now = self._known, self._state.machine, self._now()
        known.timer = None
        if machine.place is Place.ENTERING:
            known.enter_at = now
        # It may be what it fails on: then not at once, or it does nothing else.
        self._look_by(now + self._term() / 4 if machine.mode is Mode.FAILED else now)

    def give_up_answers(self) -> Effects:
        """The actor has failed too often. What it failed on was left out, and may have been an answer of
        the store: wait for none any more. Those that still come do no harm."""
        accounts = self._accounts
        for account in accounts.by_id.values():
            account.asked = 0
            self._tell_again(account)  # after a pause: the answer to that may be what it fails on
        for session_id in accounts.asked if self._books.ledger else ():
            accounts.doubt(session_id)
        accounts.asked.clear()
        for session_id, recovery in list(self._known.recoveries.items()):
            if not recovery.incarnation:
                self._recovery_over(session_id, Recovered(problem=None, settled=False))
        why = "its session has failed, and with it what the store may have answered"
        self._answer_renewers(StoreAway(f"{self._actor}: {why}", self._state.key))
        return self.give_up_recording(why)

    def shown(self) -> Account | None:
        """The account of the current session id, or the last that was known of it."""
        return self._accounts.shown(self._state.current_id)

    def holder(self) -> str | None:
        """Who has the session."""
        held = self._accounts.is_held(self._state.current_id, self._now())
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
