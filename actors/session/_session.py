"""The session actor: the one authority on its session. A shell around `machine`, which decides.

A message goes to the machine, which returns effects; each effect is performed: answer a caller, send
slow work on its way, tell the supervisor. `on_begin_turn()` handles a `BeginTurn`, and so on; who
performs an effect is in the table at the end. After every message the session writes its card, whole,
and tells the supervisor to look at it if that has to know: a notice that is lost to a crash, or comes
twice, does no harm. A warm turn is no message: it takes one short step at either end.

What takes more than a few lines is in modules of functions that are given the session, and return
effects:

    callers     who waits for a turn or a commit, and what they are told
    agents      builds and teardowns
    commits     what is committed, and what became of it
    ledger      what exists only with a store (`greenroom.actors.ledger`)

What if the actor crashes? Everything it knows is in one `SessionState`, which the supervisor hands to
the next incarnation of the actor. That sets timers anew, and goes on with the effects that were decided
and not performed, or with the message that was not handled (`Actor.do()`). The mailbox, deferred
replies, and slow work under way are untouched by a restart: they know the reference, which stays.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pykka

from greenroom.actors.errors import SessionBusy, SessionFailed
from greenroom.actors.ledger._bound_store import Fences
from greenroom.actors.ledger._ledger import Ledger, LedgerState
from greenroom.actors.ledger.accounts import Accounts
from greenroom.actors.ledger.bookkeeping import LONGEST_NAME
from greenroom.actors.runtime._actor import Actor
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._saving import Saved, put_back, take_down
from greenroom.actors.session import _agents as agents
from greenroom.actors.session import _callers as callers
from greenroom.actors.session import _commits as commits
from greenroom.actors.session._session_state import NOBODY, Answer, SessionState
from greenroom.actors.session.holding import (
    held_around,
    is_lost,
    is_watched,
    names_of,
    was_left,
    watch,
)
from greenroom.actors.session.machine import Mode, Place, SessionMachine
from greenroom.actors.session.machine import effects as effects_of
from greenroom.actors.session.machine.effects import HIT, RESTED, Refusal
from greenroom.messages import (
    AdoptAgent,
    AgentReused,
    Answered,
    BeginTurn,
    BuildEnded,
    Call,
    CallLedger,
    CheckTurn,
    CloseSession,
    CommitEnded,
    CommitOutcome,
    CommitSession,
    DescribeSession,
    DrainSession,
    EndTurn,
    EnterStore,
    EvictAgent,
    InterruptTurn,
    Reason,
    RecordTurn,
    RecoverSession,
    ReleaseAgent,
    ReleaseAnswered,
    RenewConversation,
    RenewSession,
    SessionChanged,
    SessionDrained,
    SessionFailure,
    SessionRow,
    SessionStopped,
    StartCommit,
    TeardownEnded,
    TurnGranted,
    TurnRecorded,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom.actors.ledger.bookkeeping import ToWrite
    from greenroom.actors.ledger.coherence import TranscriptVersion
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.session.card import Card
    from greenroom.actors.session.context import RoomContext

__all__ = ["Session"]

logger = get_log("greenroom.actors")

Effects = list[Any]


class Tell(NamedTuple):
    """An effect of the actor itself: tell the supervisor how the session is, and answer callers."""

    answer: ReleaseAnswered | None = None
    """What the supervisor is to be told about a release."""


class Stop:
    """An effect of the actor itself: nothing is left."""


TELL, STOP = Tell(), Stop()

LONGEST_KEY = LONGEST_NAME - 17
"""How much of a key is in the session ids that the session makes up."""

R = TypeVar("R")


def by_ledger(method: Callable[[Ledger, Any], R]) -> Callable[[Session, Any], R]:
    """Have an effect performed by the ledger, which is there if the machine decides such a thing."""
    return lambda session, effect: method(session._ledger_there_is(), effect)


class Session(Actor):
    """One chat session: its agent, its turns, its generations, its resources and settings."""

    __slots__ = ("_context", "_state")

    def __init__(
        self,
        context: RoomContext,
        key: str,
        card: Card,
        state: SessionState | None = None,
    ) -> None:
        """Begin a session, or go on with the state that another incarnation of the actor left."""
        super().__init__()
        self._context = context
        if state is None:
            ledger = (
                None
                if context.books is None
                else LedgerState(Accounts(key), Fences(context.books.owner))
            )
            machine = SessionMachine(has_store=ledger is not None)
            state = SessionState(key=key, card=card, machine=machine, ledger=ledger)
        self._state = state

    def __str__(self) -> str:
        return f"session {self._state.key!r}"

    def _ledger(self) -> Ledger | None:
        return None if self._state.ledger is None else self._ledger_there_is()

    def _ledger_there_is(self) -> Ledger:
        known, books = self._state.ledger, self._context.books
        assert known is not None
        assert books is not None
        return Ledger(self, self._context, self._state, known, books)

    # Strikes: see `Actor.save`.

    can_restore = True

    def save(self) -> Saved:
        """Everything that a message may change."""
        state = self._state
        machine, ledger = state.machine, state.ledger
        generations = machine.generations
        parts: list[Any] = [state, machine, generations, state.card, *generations.segments]
        parts += (*state.agents, *machine.departures)
        if state.waiters is not None:
            parts += (state.waiters, *state.waiters.values())
        if state.rare is not None:
            parts.append(state.rare)
            parts += (ended._made for ended in (state.ended or {}).values() if ended is not None)
        if machine.rare is not None:
            parts += (machine.rare, *machine.ended)
        if ledger is not None:
            parts += ledger.parts()
            parts += (held.remembered._marks for held in state.agents if held.remembered is not None)
        return take_down(parts)

    def restore(self, saved: Saved) -> None:
        """Put it back."""
        put_back(saved)

    # Restarts.

    def hand_over(self) -> SessionState:
        """Everything."""
        self._state.restarted = True
        return self._state

    def on_start(self) -> None:
        """After a restart: set the timers anew, and go on where the last incarnation stopped."""
        state = self._state
        if not state.restarted:
            return
        state.restarted = False
        ledger = self._ledger()
        callers.set_timers_again(self)
        if ledger is not None:
            ledger.go_on()
        if state.machine.retained:
            commits.pause(self, effects_of.Pause(state.machine.tries))
        failed = state.failing is not None or state.machine.mode is Mode.FAILED
        if state.failing is not None:
            self._context.tell_supervisor(SessionFailure(key=state.key, error=state.failing))
            effects = self._fail(state.failing)
            state.failing = state.left_out = None
            self._perform(effects)
        if ledger is not None and failed:
            self._perform(ledger.give_up_answers())

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        """Begin no turn until the session is ended: what is left out may be what others wait for."""
        state = self._state
        state.failing, state.left_out = exception, dropped
        answers = [answer for answer in (dropped, *state.answers) if isinstance(answer, Answer)]
        if answers and isinstance(answers[0].answer, SessionFailed):
            told = answers.pop(0)  # this very thing cannot be said in good order
            told.reply.set_exception(told.answer)
        # Who is told that the session failed may look at once: so not before its card says so.
        refusal = callers.error(self, Refusal.FAILED)
        state.answers = tuple(Answer(answer.reply, refusal) for answer in answers)
        for answer in answers:
            if answer.turn is not None:
                self.actor_ref.tell(WithdrawTurn(turn=answer.turn))

    def _fail(self, error: BaseException) -> Effects:
        """Take no turn any more. Refuse every turn that still waits here, and take what was left out,
        which may have been the end of something, for failed."""
        state, machine = self._state, self._state.machine
        effects = [*machine.fail(), *self._take_for_failed(state.left_out, error)]
        if machine.place is Place.ENTERING:
            effects += machine.enter_again()
        elif machine.building and state.held(machine.building) is None:
            effects += machine.built(machine.building, succeeded=False)
        for turn in list(state.waiters or ()):
            callers.refuse(self, turn, Refusal.FAILED)
            effects += machine.withdraw(turn)
        return effects

    def _take_for_failed(self, left_out: Any, error: BaseException) -> Effects:
        """A message or an effect was left out, because the actor failed on it again and again. Nobody
        else will tell how that slow work has ended, or that a turn has: it counts as failed."""
        match left_out:
            case effects_of.Build(incarnation=incarnation):
                return agents.build_ended(self, BuildEnded(incarnation=incarnation, error=error))
            case BuildEnded():
                return agents.build_lost(self, left_out, error)
            case effects_of.Commit():
                return commits.ended(self, CommitEnded(attempt=self._state.attempt, error=error))
            case CommitEnded(attempt=attempt):
                return commits.ended(self, CommitEnded(attempt=attempt, error=error))
            case effects_of.CommitGaveUp():
                callers.give_up_commits(self)
            case effects_of.TearDown(incarnation=incarnation, close=close):
                self._state.forget_agent(incarnation)
                errors = (("close" if close else "release", error),)
                return agents.torn_down(self, TeardownEnded(incarnation=incarnation, errors=errors))
            case TeardownEnded():
                return agents.torn_down(self, left_out)
            case effects_of.CloseResources(number=number):
                return agents.torn_down(self, TeardownEnded(number=number))
            case ReleaseAgent():
                return [Tell(self._answer_to(left_out))]
            case Tell(answer=answer):
                return [Tell(answer)]
            case WithdrawTurn() | EndTurn():
                return self._state.machine.withdraw(left_out.turn)
            case _:
                pass
        return []

    # Effects.

    def _perform(self, effects: Iterable[Any], tell: Tell = TELL) -> None:
        """Do what was decided, tell the supervisor what has changed, and stop if nothing is left. All of
        that survives a crash: see `Actor.do()`."""
        self.do((*effects, tell))

    def perform(self, effect: Any) -> Iterable[Any] | None:
        """Do one thing."""
        return self._performers[effect.__class__](self, effect)

    def _tell_the_supervisor(self, effect: Tell) -> Iterable[Any]:
        """Tell what has changed; then it is time for the answers."""
        state, ledger = self._state, self._ledger()
        if state.rare is not None and state.committers:
            callers.answer_committed(state)
        requests = () if ledger is None else ledger.tidy()
        changed = self._publish()
        answer, (answers, state.answers) = effect.answer, (state.answers, ())
        if self._nothing_to_remember():
            self._retire()  # which says all there is to say
            return (*requests, *answers, STOP)
        if changed and not (answer is not None and answer.accepted):
            self._context.tell_supervisor(SessionChanged(key=state.key))
        if answer is not None:
            if answer.held and state.card.owes is None:
                # We failed before we could say that we are held, and the turn was over when we went on:
                # what we owe is told just above. Held from now on, we would owe nothing, and stay held.
                answer = dataclasses.replace(answer, held=False)
            # Behind the card: at no moment does it look as if nothing were under way.
            self._context.tell_supervisor(answer)
        busy = state.machine.busy
        if not busy and state.card.busy:
            self.runtime.send(self._rest, None)
        if not state.card.cached and not busy and not state.machine.late_builds:
            # There may be very many like this: nothing is kept that can be made again.
            state.resources = state.resources or None
        return (*requests, *answers)

    def _rest(self, _: None) -> None:
        """What was under way is over. The card says so only when all that came of it was told, because
        `settle()` waits for what was told, and not for what is about to be."""
        self._state.card.busy = self._state.machine.busy
        if self._context.settling:
            self._context.tell_supervisor(SessionChanged(key=self._state.key))

    def _waiting(self) -> int:
        machine = self._state.machine
        return len(machine.waiting) + (machine.next_turn is not None)

    def _publish(self) -> bool:
        """Write the card, and tell whether the supervisor should look at it."""
        state = self._state
        machine, card = state.machine, state.card
        was_cached, was_in_turn = card.cached, card.in_turn
        if state.here.incarnation != machine.agent:
            state.here = state.held(machine.agent) or NOBODY
        card.cached = bool(machine.agent) and machine.leaving is None
        card.conversation = machine.conversation
        card.in_turn = machine.in_use
        card.dirty = machine.generations.dirty > 0
        card.waiting = self._waiting()
        card.retained = machine.retained
        card.busy = card.busy or machine.busy  # see `_rest`
        card.weight, card.loop = state.here.weight, state.here.bound
        card.failed = machine.mode is Mode.FAILED
        card.unrecorded = state.ledger is not None and state.ledger.accounts.unrecorded
        turn_over = was_in_turn and not card.in_turn
        owed = card.owes is not None and not (card.in_turn and card.used == card.owes)
        if owed:
            card.owes = None
        return owed or card.cached is not was_cached or (turn_over and self._context.weighing)

    def _nothing_to_remember(self) -> bool:
        state = self._state
        machine, ledger = state.machine, state.ledger
        if not machine.forgettable:
            return False
        if machine.draining:
            return True
        return not (ledger is not None and ledger.under_way) and not self._kept()

    def _kept(self) -> bool:
        """Whether there is something that only this actor knows, and that outlives agents."""
        state = self._state
        renewed = state.machine.conversation is not None and not self._stored()
        return bool(state.settings or state.resources or renewed)

    def _stored(self) -> bool:
        """Whether a store remembers which conversation is current."""
        return self._context.books is not None and self._context.books.remembers

    def _retire(self) -> None:
        """Tell the supervisor that nothing is left."""
        state = self._state
        if state.deadline is not None:
            left = state.machine.generations.dirty
            self._context.tell_supervisor(
                SessionDrained(
                    key=state.key,
                    committed=state.machine.generations.extracted > state.drained_from and not left,
                    left=left,
                    abandoned=state.forced,
                    problem=state.problem,
                )
            )
        self._context.tell_supervisor(SessionStopped(key=state.key, ref=self.actor_ref))

    def _end_actor(self, _: Stop) -> None:
        self.stop_now()

    def _send_answer(self, effect: Answer) -> None:
        if isinstance(effect.answer, BaseException):
            effect.reply.set_exception(effect.answer)
        elif not effect.reply.set(effect.answer) and effect.turn is not None:
            # Whoever wanted the turn is gone, and so is the way to say so.
            self.actor_ref.tell(WithdrawTurn(turn=effect.turn))

    # The warm steps: a turn on the agent that is there, and nothing else to do. No message, no notice;
    # the caller's thread runs them with the mailbox's baton in hand (`Mailbox.step`).

    def begin_now(self, asked: tuple[str | None, str | None, object]) -> Any:
        """Begin a turn with this signature and session id, and return the agent. The turn is named by
        this very tuple. `None`: it takes more than that. (Its session id, if it names none, is on the
        card until it ends.)"""
        state, tick = self._state, self._context.warm
        if tick is None:
            return None
        number = tick()
        signature, session_id, _ = asked
        machine = state.machine
        if state.ledger is not None and (
            machine.place is not Place.IDLE or not self._ledger_there_is().enters_now(session_id)
        ):
            return None
        if not machine.begin_now(asked, signature):
            return None
        card = state.card
        agent = state.here.agent
        state.session_id = session_id
        card.used = number
        card.provisional = False
        card.in_turn = True
        card.hits += 1
        return agent

    def end_now(self, given_back: tuple[object, bool]) -> int | ToWrite | None:
        """End a turn, and return the generation; or, with a ledger, what its caller is to have recorded.
        `None`: it takes more than that."""
        state, context = self._state, self._context
        machine, card, tick = state.machine, state.card, context.warm
        if card.owes is not None or tick is None:
            return None
        name, completed = given_back
        books = context.books
        if books is not None:
            ledger = self._ledger_there_is()
            if books.ledger:
                return ledger.record_now(name, completed)
            if not ledger.ends_at_once(name):
                return None
        clock = context.runtime.clock
        now = clock()
        number = now if tick is clock else tick()
        generation = machine.end_now(name, completed)
        if generation is None:
            return None
        card.used = number
        card.idle_since = now
        card.dirty = generation > machine.generations.committed
        card.in_turn = False
        return generation

    def recorded_now(self, written: tuple[RecordTurn, TranscriptVersion | None]) -> int | None:
        """The end of a turn is recorded. Returns the generation of its session id. `None`: it takes more
        than that."""
        state, context = self._state, self._context
        card, tick = state.card, context.warm
        request, seen = written
        if seen is None or card.owes is not None or card.unrecorded or tick is None:
            return None
        clock = context.runtime.clock
        now = clock()
        number = now if tick is clock else tick()
        dirty = state.machine.completes or card.dirty
        generation = self._ledger_there_is().recorded_now(request, seen)
        if generation is None:
            return None
        card.used = number
        card.idle_since = now
        card.dirty = dirty
        card.in_turn = False
        return generation

    # The same by message, and what takes more.

    def on_begin_turn(self, turn: BeginTurn) -> TurnGranted | None:
        """Begin a turn: at once, or when its time has come."""
        state, ledger = self._state, self._ledger()
        running = state.machine.turn
        if running is not None and not self._end_if_lost(running):
            self._check_turn(search=any(running is held for held in turn.held))
        gone: Effects = []
        if turn.loop is not None and state.here.bound is not None and state.here.bound.is_closed():
            gone = state.machine.spoil(Reason.LOOP_CLOSED)
        entered = ledger is not None and ledger.enters_at_once(turn)
        effects = state.machine.begin(turn, self._context.policy.max_waiting, entered=entered)
        if effects is HIT:
            self._note_hit(turn)
            self._publish()
            session_id = state.machine.id_of(turn, state.key)
            return TurnGranted(
                agent=state.here.agent, session_id=session_id, reused=True, rebuild_reason=None
            )
        callers.wait_for_turn(self, turn)
        self._perform((*gone, *effects))
        waiter = callers.waiter_of(state, turn)
        if waiter is not None and waiter.timer is None:
            callers.watch(self, turn, waiter)
        return None

    def _note_use(self, turn: BeginTurn) -> None:
        state = self._state
        state.card.provisional = turn.provisional and state.session_id == ""  # which is its first turn
        state.card.used = self.runtime.tick()
        state.session_id = turn.session_id

    def _note_hit(self, turn: BeginTurn) -> None:
        """A turn found its agent. A listener may want to hear of it."""
        self._note_use(turn)
        state = self._state
        state.card.hits += 1
        if self._context.hits:
            self._context.tell_supervisor(AgentReused(key=state.key, incarnation=state.machine.agent))

    def _grant(self, effect: effects_of.Grant) -> None:
        state, turn = self._state, effect.turn
        machine = state.machine
        if machine.turn is not turn or machine.place is not Place.IN_TURN:
            return  # the session has failed since that was decided, and refuses it
        (self._note_hit if effect.reused else self._note_use)(turn)
        held, waiter = state.held(machine.agent), callers.forget(state, turn)
        if waiter is not None and waiter.reply is not None and held is not None:
            granted = TurnGranted(
                agent=held.agent,
                session_id=machine.id_of(turn, state.key),
                reused=effect.reused,
                rebuild_reason=effect.reason,
            )
            state.answer_later(waiter.reply, granted, turn)

    def _refuse(self, effect: effects_of.Refuse) -> None:
        callers.refuse(self, effect.turn, effect.why)

    def on_end_turn(self, message: EndTurn) -> int | None:
        """End a turn. Whoever ran it goes on when it is in the store, if there is one."""
        state = self._state
        machine, ledger = state.machine, self._ledger()
        incarnation = machine.agent
        effects = machine.end(
            message.turn,
            completed=message.completed,
            discard=message.discard is not None,
            recorded=ledger is not None and ledger.ends_at_once(message.turn),
        )
        if effects is None:
            if not message.insists:
                logger.warning(
                    "%s: a turn was given back that was over before, and changes nothing: it was given "
                    "back twice, or its session was closed by force",
                    self,
                )
            self._perform(())  # a strike may have come between the end and the card
            return None
        held = state.held(incarnation)
        if message.weight is not None and held is not None:
            held.weight = message.weight
        if effects is RESTED:
            effects = [effects_of.TurnOver(message.turn)]
        if machine.place is Place.RECORDING and state.ledger is not None:
            state.ledger.ender = self.defer_reply()
            self.do(effects)  # nothing has changed yet that the supervisor need know
            return None
        generation = machine.generations.generation
        if message.discard is not None:
            logger.info("%s: its agent is discarded after the turn: %s", self, message.discard)
        self._perform(effects)
        return generation

    def _turn_over(self, effect: effects_of.TurnOver) -> None:
        if self._state.rare is not None:
            self._state.watch = None
        self._state.card.used = self.runtime.tick()
        self._state.card.idle_since = self.runtime.clock()

    def on_withdraw_turn(self, message: WithdrawTurn) -> None:
        """Take a turn out of the line, or end it."""
        machine, turn = self._state.machine, message.turn
        waiter = callers.forget(self._state, turn)
        builds = waiter is not None and waiter.reply is None and waiter.builds == machine.building
        if builds and machine.next_turn in (turn, None):  # `None`: a drain has refused it meanwhile
            self._state.forget_agent(machine.building)
            self._perform(machine.not_built())
        else:
            self._perform(machine.withdraw(turn))

    def on_check_turn(self, _: CheckTurn) -> None:
        """See whether anybody will end the running turn."""
        self._check_turn()

    def _check_turn(self, *, search: bool = False) -> None:
        """A caller waits for the end of the running turn. If its block was left, withdraw it; else look
        again when the turn is garbage."""
        state = self._state
        turn = state.machine.turn
        if turn is None:
            return
        if was_left(turn, search=search):
            if search:
                logger.warning("%s: its turn was left by an exception, and is withdrawn", self)
                self._perform(state.machine.withdraw(turn))
            else:
                # Behind what waits here: its end may be there, told before the turn became garbage.
                self.actor_ref.tell(WithdrawTurn(turn=turn))
        elif not is_watched(state.watch, turn):
            # `put` gets the weak reference as well, and takes it for a flag that it ignores: nothing but
            # a C function may be called from wherever a turn becomes garbage.
            check = functools.partial(self.runtime.rescuer.put, (_check, self.actor_inbox))
            state.watch = watch(turn, check)

    def _end_if_lost(self, turn: object) -> bool:
        """End the running turn, which a caller waits for, if nobody else will."""
        lost, machine = is_lost(turn), self._state.machine
        if lost:
            if machine.place is not Place.RECORDING:  # else it is over, and recorded once more
                logger.warning("%s: the event loop of its turn is closed. The turn does not count", self)
            self._perform(machine.withdraw(turn))
        return lost

    def _expire_turn(self, turn: BeginTurn) -> None:
        """A turn has waited for as long as it would."""
        self._perform(self._state.machine.expire(turn))

    def _enter_later(self, effect: effects_of.EnterLater) -> None:
        """Another room has the session."""
        self._ledger_there_is().enter_later(effect)
        turn = self._state.machine.next_turn
        waiter = None if turn is None else callers.waiter_of(self._state, turn)
        if turn is not None and waiter is not None and effect.tries == 1:
            callers.watch(self, turn, waiter)

    def _waits_long(self, turn: BeginTurn) -> None:
        """A turn has waited for long, and goes on waiting."""
        running = self._state.machine.turn
        if running is not None:
            self._end_if_lost(running)
        callers.tell_long_wait(self, turn)

    # Slow work has ended.

    def on_build_ended(self, message: BuildEnded) -> None:
        """An agent was built, or could not be."""
        self._perform(agents.build_ended(self, message))

    def on_start_commit(self, message: StartCommit) -> bool:
        """A commit is about to call its hook. Returns whether it may."""
        machine = self._state.machine
        if message.attempt != self._state.attempt or machine.generations.in_flight is None:
            return False
        put_off = machine.start_commit()
        if put_off is not None:
            self._perform(put_off)  # also if it is empty: the card must not say any more that we commit
        return put_off is None

    def on_commit_ended(self, message: CommitEnded) -> None:
        """A commit is over, or stuck."""
        self._perform(commits.ended(self, message))

    def on_teardown_ended(self, message: TeardownEnded) -> None:
        """An agent is gone, or the resources of an ended session."""
        self._perform(agents.torn_down(self, message))

    # Letting go.

    def on_release_agent(self, message: ReleaseAgent) -> None:
        """Let the agent go if it is still what the supervisor took it for."""
        card, machine = self._state.card, self._state.machine
        if message.reason is Reason.SESSION_EXPIRED:
            closing = self._close(message.reason) if self._expired() else None
            self._perform(closing or (), Tell(self._answer_to(message)))
            return
        if message.cutoff is not None:
            wanted = card.idle_since is not None and card.idle_since < message.cutoff
        else:
            wanted = message.seen in (None, card.used)
        effects = machine.release(message.reason) if wanted else None
        # One that was used since is not what the supervisor took it for: it looks again, at once.
        held = wanted and machine.in_use
        if held:
            card.owes = card.used
        answer = self._answer_to(message, accepted=effects is not None, held=held)
        self._perform(effects or (), Tell(answer))

    def _answer_to(
        self, message: ReleaseAgent, *, accepted: bool = False, held: bool = False
    ) -> ReleaseAnswered:
        number = message.number
        return ReleaseAnswered(key=self._state.key, number=number, accepted=accepted, held=held)

    def _expired(self) -> bool:
        """Whether the session is unused for too long. The supervisor may have looked long ago."""
        since, ttl = self._state.card.idle_since, self._context.policy.session_ttl
        unused = ttl is not None and (since is None or self.runtime.clock() - since > ttl)
        return unused and self._state.machine.at_rest

    def on_evict_agent(self, _: EvictAgent) -> bool:
        """Release the agent, now or when its turn ends. Returns whether there is one."""
        return self.evict()

    def on_interrupt_turn(self, _: InterruptTurn) -> bool:
        """Tell the agent to stop what it does. Returns whether it is in a turn."""
        return self.interrupt()

    def on_close_session(self, message: CloseSession) -> bool:
        """End the session, now or when its turn ends. Returns whether there was anything to end."""
        effects = self._close(message.reason, interrupt=message.interrupt)
        self._perform(effects or ())
        return effects is not None

    def _close(self, reason: Reason, *, interrupt: bool = False) -> Effects | None:
        if self._state.machine.unused and not self._kept():
            return None
        return self._state.machine.close(reason, interrupt=interrupt)

    def on_renew_session(self, _: RenewSession) -> str:
        """End the session, now or when its turn ends, and begin another conversation."""
        return self.renew()

    def begin_conversation(self, conversation: str) -> Effects:
        """The one that was current is over, or is when its turn ends."""
        machine = self._state.machine
        if conversation in (machine.conversation, machine.next_conversation):
            return []
        if machine.unused and not self._kept():
            machine.conversation = conversation
            return []
        return machine.close(Reason.EXPLICIT, conversation=conversation)

    # All others.

    def on_adopt_agent(self, message: AdoptAgent) -> None:
        """Hold an agent that was built elsewhere."""
        effects = agents.adopt(self, message)
        if effects is not None:
            self._perform(effects)
            return
        if self._state.machine.draining:
            raise callers.error(self, Refusal.CLOSED)
        if self._state.machine.mode is Mode.FAILED:
            raise callers.error(self, Refusal.FAILED)
        msg = (
            f"{self} is in a turn, or its agent is being built: no other agent can be adopted now. "
            "Do it when the turn is over"
        )
        raise SessionBusy(msg, self._state.key)

    def on_use_settings(self, message: UseSettings) -> Any:
        """Call a method of the settings."""
        state = self._state
        settings = dict(state.settings or {})
        try:
            return getattr(settings, message.method)(*message.args)
        finally:
            state.settings = settings or None
            self._perform(())

    def on_describe_session(self, _: DescribeSession) -> SessionRow:
        """Say how the session is."""
        return self.describe()

    def on_commit_session(self, message: CommitSession) -> CommitOutcome | None:
        """Commit every dirty segment."""
        state, machine = self._state, self._state.machine
        left = machine.generations.dirty
        if message.agent is not None:
            commits.offer(state, message.agent)
        note = commits.why_not(state, message)
        if note is not None:
            self._perform(machine.flush() if note is commits.IN_OWN_TURN else ())
            return CommitOutcome(left=left, note=note)
        callers.wait_for_commit(self, message)
        self._perform(machine.flush())
        if message.timeout is not None:
            waiter = (state.committers or {}).get(message)
            callers.set_timer(self, waiter, Call(self._expire_commit, message))
        return None

    def _expire_commit(self, request: CommitSession) -> None:
        """Whoever wanted this commit has waited for as long as they would. It goes on."""
        note = "it took longer than the caller would wait, and goes on"
        callers.answer_commit(self._state, request, note)
        self._perform(())

    def _retry_commit(self) -> None:
        """The pause after a failed commit is over."""
        self._state.retry_timer = None
        self._perform(self._state.machine.retry())

    def on_drain_session(self, message: DrainSession) -> None:
        """Commit and close everything: in good time, by force, or without waiting for commits."""
        state, machine = self._state, self._state.machine
        begins = state.deadline is None
        state.deadline = message.deadline
        if begins:
            state.drained_from = machine.generations.extracted
            state.problem = None
            self._check_turn()
            self._perform(machine.drain())
        if message.force:
            self._force()
        if message.abandon:
            if machine.generations.in_flight is not None:
                state.forced = True
                state.problem = "its commit was still running at the deadline"
            self._perform(machine.abandon())

    def _force(self) -> None:
        state, ledger = self._state, self._ledger()
        if ledger is not None:
            self._perform(ledger.give_up_recording("the room was drained before the store had answered"))
        if state.machine.turn is not None:
            state.forced = True
            state.problem = "its turn was still running at the deadline"
            logger.warning("%s: its turn was still running at the deadline of the drain", self)
        self._perform(state.machine.force())

    # What gateways call through a proxy, when they want the actor itself.

    def commit(self, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit every dirty segment. See `Greenroom.commit`."""
        check_wait("timeout", timeout)
        return self.on_commit_session(
            CommitSession(wait=wait, timeout=timeout, held=names_of(held_around()))
        )  # type: ignore[return-value]  # deferred

    def evict(self) -> bool:
        """Release the agent. See `Greenroom.evict`."""
        effects = self._state.machine.evict()
        self._perform(effects or ())
        return effects is not None

    def interrupt(self) -> bool:
        """Interrupt the turn that runs. See `Greenroom.interrupt`."""
        effects = self._state.machine.interrupt()
        self._perform(effects)
        return bool(effects)

    def end(self, *, interrupt: bool = False) -> bool:
        """End the session. See `Greenroom.end`."""
        return self.on_close_session(CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT))

    def renew(self) -> str:
        """Begin another conversation. See `Greenroom.renew`."""
        state, ledger = self._state, self._ledger()
        if state.machine.draining:
            raise callers.error(self, Refusal.CLOSED)
        if state.machine.next_conversation is not None:
            return state.machine.next_conversation  # nobody has used it yet
        conversation = f"{state.key[:LONGEST_KEY]}#{self.runtime.random.getrandbits(64):016x}"
        if ledger is not None and self._stored():
            self._perform(ledger.renew(conversation))
        else:
            self._perform(self.begin_conversation(conversation))
        return conversation  # if the store is told, its answer comes first

    def complete(self, agent: Any = None) -> int:
        """Count a turn that was run elsewhere, by `agent`. Returns the new generation. Without an agent,
        it is committed by the one that is offered with the commit."""
        state = self._state
        state.card.idle_since = self.runtime.clock()
        generation = state.machine.complete_elsewhere(
            None if agent is None else commits.take_in(state, agent)
        )
        self._perform(())
        return generation

    def has_uncommitted(self) -> bool:
        """Tell whether completed turns are uncommitted."""
        dirty = self._state.machine.generations.dirty > 0
        self._perform(())
        return dirty

    def describe(self) -> SessionRow:
        """Say how the session is."""
        state, ledger = self._state, self._ledger()
        machine, card = state.machine, state.card
        resting = machine.turn is None and card.idle_since is not None
        account = None if ledger is None else ledger.shown()
        row = SessionRow(
            key=state.key,
            session_id=None if state.session_id == "" else state.current_id,
            state=machine.state,
            cached=bool(machine.agent) and machine.leaving is None,
            incarnation=machine.agent,
            generation=machine.generations.generation if account is None else account.generation,
            committed=machine.generations.committed if account is None else account.committed,
            waiting=self._waiting(),
            retained=machine.retained,
            idle_seconds=self.runtime.clock() - (card.idle_since or 0.0) if resting else None,
            weight=state.here.weight,
            last_reason=machine.last_reason,
            last_error=state.last_error,
            holder=None if ledger is None else ledger.holder(),
            busy=machine.busy,
            used=card.used,
            empty=self._nothing_to_remember(),
            agents=machine.incarnations,
            waited_seconds=callers.waited_seconds(self),
            turn_seconds=callers.turn_seconds(self),
        )
        self._perform(())
        return row

    # The ledger.

    def on_answered(self, message: Answered) -> None:
        """The store has answered."""
        self._perform(self._answers[message.request.__class__](self._ledger_there_is(), message))

    def on_turn_recorded(self, message: TurnRecorded) -> int | None:
        """The caller of a turn has had it recorded, or could not, and waits for what comes of that."""
        ledger, known = self._ledger_there_is(), self._state.ledger
        assert known is not None
        ender = known.ender = self.defer_reply()
        effects = [*ledger.recorded(message)]
        if known.ender is ender:  # it was over before
            known.ender = None
            generation = message.request.generation
            counts = message.error is None or generation is None
            self._state.answer_later(ender, generation if counts else message.error)
        self._perform(effects)
        return None

    def on_recover_session(self, message: RecoverSession) -> None:
        """Commit what another room has left."""
        self._perform(self._ledger_there_is().recover(message))

    def look_at_ledger(self) -> None:
        """The time has come for something that the session does only with a store."""
        self._perform(self._ledger_there_is().look())

    _answers: ClassVar[dict[type, Callable[[Ledger, Answered], Iterable[Any]]]] = {
        CallLedger: Ledger.called,
        EnterStore: Ledger.entered,
        RecordTurn: Ledger.recorded,
        RenewConversation: Ledger.renewed,
    }

    # Who performs what.

    _performers: ClassVar[dict[type, Callable[[Any, Any], Iterable[Any] | None]]] = {
        effects_of.Build: agents.build,
        effects_of.CloseResources: agents.close_resources,
        effects_of.Commit: commits.commit,
        effects_of.CommitGaveUp: callers.give_up_commits,
        effects_of.EndSession: agents.end_session,
        effects_of.Enter: by_ledger(Ledger.enter),
        effects_of.EnterLater: _enter_later,
        effects_of.Grant: _grant,
        effects_of.Insert: agents.insert,
        effects_of.Interrupt: agents.interrupt,
        effects_of.Pause: commits.pause,
        effects_of.Record: by_ledger(Ledger.record),
        effects_of.Refuse: _refuse,
        effects_of.Retain: commits.retain,
        effects_of.SessionOver: agents.session_over,
        effects_of.TearDown: agents.tear_down,
        effects_of.TurnOver: _turn_over,
        Answer: _send_answer,
        Stop: _end_actor,
        Tell: _tell_the_supervisor,
        **dict.fromkeys(_answers, by_ledger(Ledger.ask)),  # what is asked of the store
    }


def _check(mailbox: Mailbox) -> None:
    """Have a session look whether anybody will end its turn, if it is still there."""
    try:
        mailbox.deliver(CheckTurn())
    except pykka.ActorDeadError:
        pass
