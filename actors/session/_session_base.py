"""The session actor, first layer: its state, and how it talks to callers and to the supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors.errors import (
    BuildFailed,
    GreenroomError,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    TurnTimeout,
)
from greenroom.actors.runtime._actor import Actor
from greenroom.actors.session._session_state import Answer, SessionState, Tenant, Waiter
from greenroom.actors.session.errands import Errands
from greenroom.actors.session.machine import Mode
from greenroom.actors.session.machine.effects import Refusal
from greenroom.messages import (
    BeginTurn,
    CommitOutcome,
    SessionDrained,
    SessionStopped,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    from greenroom.actors.runtime._reply import Reply
    from greenroom.actors.session.board import Board
    from greenroom.actors.session.card import Card

__all__ = ["SessionBase", "text_of"]


class SessionBase(Actor):
    """What all layers of the session actor stand on."""

    def __init__(
        self,
        board: Board,
        key: str,
        card: Card,
        state: SessionState | None = None,
    ) -> None:
        """Begin a session, or go on with the state that another incarnation of the actor left."""
        super().__init__()
        self._board = board
        self._key = key
        self._restarted = state is not None
        if state is None:
            state = SessionState(key, card, None if board.books is None else board.books.owner)
        self._state = state

    def __str__(self) -> str:
        return f"session {self._key!r}"

    def hand_over(self) -> SessionState:
        """Everything."""
        return self._state

    def _tenant(self, incarnation: int, agent: Any, session_id: str) -> Tenant:
        self._state.tenants[incarnation] = tenant = Tenant(agent, session_id, None)
        return tenant

    def _errands(self) -> Errands:
        return Errands(self._board, self._key, self.actor_ref)

    def _ask_settings(self, method: str, *args: Any) -> Any:
        return self.actor_ref.ask(UseSettings(method=method, args=args))

    def _tell(self, message: Any) -> None:
        """Tell the supervisor, if there still is one."""
        supervisor = self._board.supervisor
        if supervisor is not None:
            try:
                supervisor.actor_inbox.deliver(message)
            except pykka.ActorDeadError:
                pass

    _event = _tell

    def _waiting(self) -> int:
        stage = self._state.stage
        return len(stage.waiting) + (stage.next_turn is not None)

    def _publish(self) -> bool:
        """Write the card, and tell whether the supervisor should look at it."""
        state = self._state
        stage, card = state.stage, state.card
        was_cached, was_busy, was_in_turn = card.cached, card.busy, card.in_turn
        tenant = state.tenants.get(stage.agent)
        card.cached = bool(stage.agent) and stage.leaving is None
        card.in_turn = stage.in_use
        card.dirty = stage.generations.dirty > 0
        card.waiting = self._waiting()
        card.retained = stage.retained
        card.busy = stage.busy
        card.weight = 0 if tenant is None else tenant.weight
        card.failed = stage.mode is Mode.FAILED
        card.unrecorded = self._unrecorded()
        turn_over = was_in_turn and not card.in_turn
        owed = card.owes is not None and not (card.in_turn and card.used == card.owes)
        if owed:
            card.owes = None
        return (
            owed
            or card.cached is not was_cached
            or (turn_over and self._board.weighing)
            or (was_busy and not card.busy and self._board.settling)
        )

    def _unrecorded(self) -> bool:
        ledger = self._state.ledger
        return ledger is not None and any(a.unrecorded for a in ledger.accounts.values())

    def _telling_the_store(self) -> bool:
        ledger = self._state.ledger
        if ledger is None:
            return False
        under_way = ledger.rescues or ledger.doubts or ledger.asked
        return bool(under_way) or any(a.untold or a.asked for a in ledger.accounts.values())

    def _nothing_to_remember(self) -> bool:
        state = self._state
        if not state.stage.forgettable or (self._telling_the_store() and not state.stage.draining):
            return False
        return state.stage.draining or not (state.settings or state.resources)

    def _retire(self) -> None:
        """Tell the supervisor that nothing is left."""
        state = self._state
        if state.drain is not None:
            left = state.stage.generations.dirty
            self._tell(
                SessionDrained(
                    key=self._key,
                    committed=state.stage.generations.extracted > state.drained_from and not left,
                    left=left,
                    abandoned=state.forced,
                    problem=state.problem,
                )
            )
        self._tell(SessionStopped(key=self._key, ref=self.actor_ref))

    def _set_timer(self, waiter: Waiter, message: Any) -> None:
        if waiter.due is not None:
            waiter.timer = self.call_later(max(0.0, waiter.due - self.runtime.clock()), message)

    def _forget_waiter(self, turn: BeginTurn) -> Waiter | None:
        state = self._state
        waiter = (state.waiters or {}).pop(turn, None)
        state.waiters = state.waiters or None
        if waiter is not None and waiter.timer is not None:
            waiter.timer.cancel()
        return waiter

    def _answer_committers(self) -> None:
        state = self._state
        generations = state.stage.generations
        for request, waiter in list((state.committers or {}).items()):
            # What was disowned since may have been among what was to be committed, or not.
            target = min(waiter.target + generations.disowned - waiter.disowned, generations.generation)
            if generations.committed >= target and state.committers is not None:
                del state.committers[request]
                self._answer_commit(waiter, "")
        state.committers = state.committers or None

    def _answer_commit(self, waiter: Waiter, note: str) -> None:
        generations = self._state.stage.generations
        if waiter.timer is not None:
            waiter.timer.cancel()
        committed = generations.extracted - waiter.before
        self._answer(waiter, CommitOutcome(committed=committed, left=generations.dirty, note=note))

    def _answer(self, waiter: Waiter, answer: Any, turn: BeginTurn | None = None) -> None:
        """Answer somebody, once the supervisor has been told: whoever is answered may ask it at once."""
        assert waiter.reply is not None
        self._answer_behind(waiter.reply, answer, turn)

    def _answer_behind(self, reply: Reply, answer: Any, turn: BeginTurn | None = None) -> None:
        """The same, for a reply that nobody has a timer for."""
        if self._state.answers is None:
            self._state.answers = []
        self._state.answers.append(Answer(reply, answer, turn))

    def _send_answer(self, effect: Answer) -> None:
        if isinstance(effect.answer, BaseException):
            effect.reply.set_exception(effect.answer)
        elif not effect.reply.set(effect.answer) and effect.turn is not None:
            # Whoever wanted the turn is gone, and so is the way to say so.
            self.actor_ref.tell(WithdrawTurn(turn=effect.turn))

    def _elsewhere(self) -> str:
        ledger, books = self._state.ledger, self._board.books
        holder = None if ledger is None else ledger.holder
        here = books is not None and holder == books.owner
        return "under another key of this room" if here else f"in another room, {holder}"

    def _error(self, why: Refusal, turn: BeginTurn | None = None) -> GreenroomError:
        text, kind = _REFUSALS[why]
        ledger = self._state.ledger
        fill = {
            "waited": "" if turn is None else f"{turn.timeout} s",
            "most": self._board.policy.max_waiting,
            "elsewhere": self._elsewhere(),
            "session_id": None if turn is None else repr(turn.session_id),
            "trouble": "" if ledger is None or ledger.trouble is None else text_of(ledger.trouble),
        }
        error = kind(f"{self} {text.format(**fill)}", self._key)
        if why is Refusal.STORE and ledger is not None:
            error.__cause__ = ledger.trouble
        return error


_REFUSALS: dict[Refusal, tuple[str, type[GreenroomError]]] = {
    Refusal.BUSY: (
        "is in a turn. Try again later, or wait for it with on_busy='wait'",
        SessionBusy,
    ),
    Refusal.SELF: (
        "is in a turn of this very caller, which would wait for itself. End that turn first",
        SessionBusy,
    ),
    Refusal.OVERLOADED: (
        "has {most} turns waiting, its max_waiting. Try again later, or raise max_waiting",
        Overloaded,
    ),
    Refusal.TIMEOUT: (
        "did not become free within {waited}. Wait longer, or interrupt the turn that has it",
        TurnTimeout,
    ),
    Refusal.ELSEWHERE: (
        "is in a turn {elsewhere}, which has {session_id}. Try again later, or wait: on_busy='wait'",
        SessionBusy,
    ),
    Refusal.STORE: (
        "begins no turn while the store is away, for {session_id} is not known here ({trouble})",
        StoreAway,
    ),
    Refusal.BUILD: ("could not be given an agent", BuildFailed),
    Refusal.CLOSED: ("begins no turn any more: the room is being drained, or is closed", RoomClosed),
    Refusal.FAILED: (
        "failed too often and takes no turn. The log says why. End it with room.end() to begin afresh",
        SessionFailed,
    ),
}


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
