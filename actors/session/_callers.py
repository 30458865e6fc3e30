"""The callers of a session: who waits for a turn or a commit, until when, and what they are told."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import (
    BuildFailed,
    GreenroomError,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    TurnTimeout,
    text_of,
)
from greenroom.actors.runtime._errors import WorkTimedOut
from greenroom.actors.session._session_state import Waiter
from greenroom.actors.session.machine.effects import Refusal
from greenroom.messages import (
    BuildEnded,
    BuildHere,
    CommitOutcome,
    CommitSession,
    ExpireCommit,
    ExpireTurn,
    TurnGranted,
)

if TYPE_CHECKING:
    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.session._session_state import SessionState
    from greenroom.actors.session.context import RoomContext
    from greenroom.messages import BeginTurn

__all__ = ["Callers"]


class Callers:
    """Those who wait. The state is the session's: this is made anew whenever it is needed, as there may
    be very many sessions."""

    __slots__ = ("_actor", "_context", "_state")

    def __init__(self, actor: Actor, context: RoomContext, state: SessionState) -> None:
        self._actor = actor
        self._context = context
        self._state = state

    # For a turn.

    def wait_for_turn(self, turn: BeginTurn) -> None:
        """The caller in hand waits for its turn. (Its timer is set later, if it still does then.)"""
        state, timeout = self._state, turn.timeout
        due = None if timeout is None else self._actor.runtime.clock() + timeout
        if state.waiters is None:
            state.waiters = {}
        state.waiters[turn] = Waiter(self._actor.defer_reply(), copy_context(), due)

    def limit_turn(self, turn: BeginTurn) -> None:
        """Set the timer of a turn, if it waits."""
        waiter = self.of(turn)
        if waiter is not None:
            self._set_timer(waiter, ExpireTurn(turn=turn))

    def of(self, turn: object) -> Waiter | None:
        """Who waits for a turn."""
        waiters: dict[Any, Waiter] = self._state.waiters or {}  # a warm turn's name is no message
        return waiters.get(turn)

    def forget(self, turn: object) -> Waiter | None:
        """Nobody waits for this turn any more."""
        state = self._state
        waiters: dict[Any, Waiter] = state.waiters or {}
        waiter = waiters.pop(turn, None)
        state.waiters = state.waiters or None
        if waiter is not None and waiter.timer is not None:
            waiter.timer.cancel()
        return waiter

    def grant(self, turn: BeginTurn, granted: TurnGranted) -> None:
        """Give a turn to who waits for it."""
        waiter = self.forget(turn)
        if waiter is not None:
            self._answer(waiter, granted, turn)

    def refuse(self, turn: BeginTurn, error: BaseException) -> None:
        """Tell who waits for a turn that it does not begin."""
        waiter = self.of(turn)
        if waiter is not None and waiter.reply is None:
            waiter.refusal = waiter.refusal or error  # it hears when it has built
        elif waiter is not None:
            self.forget(turn)
            self._answer(waiter, error)

    def refuse_build(self, turn: BeginTurn, error: BaseException) -> None:
        """Tell who waits for a turn that its agent could not be built."""
        msg = (
            f"{self._actor}: its agent could not be built: {text_of(error)}. Nothing was cached; the "
            "next turn tries again"
        )
        failure = BuildFailed(msg, self._state.key)
        failure.__cause__ = error
        self.refuse(turn, failure)

    # Who builds its agent itself.

    def have_built(self, waiter: Waiter, here: BuildHere) -> None:
        """Its caller waits for the agent anyway, and builds it: no thread need be woken."""
        self._answer(waiter, here)
        waiter.reply, waiter.builds = None, here.incarnation
        self._limit_build(waiter)

    def _limit_build(self, waiter: Waiter) -> None:
        """Should its caller take too long to build."""
        timeout = self._context.policy.build_timeout
        if timeout is not None:
            late = _given_up(waiter.builds, timeout)
            waiter.timer = self._actor.call_later(timeout, late)

    def hear_builder(self, turn: BeginTurn | None) -> None:
        """Somebody hands an agent in. From here on that is the session's business, whatever happens: who
        brought it may go, unless it is the caller of the turn, which waits for that now."""
        waiter = None if turn is None else self.of(turn)
        reply = self._actor.defer_reply()
        if waiter is None or waiter.reply is not None:
            reply.set(None)
            return
        waiter.reply = reply
        if waiter.refusal is not None:
            self.forget(turn)
            self._answer(waiter, waiter.refusal)

    # For a commit.

    def wait_for_commit(self, request: CommitSession) -> None:
        """The caller in hand waits until everything that is completed now is committed."""
        state, generations = self._state, self._state.machine.generations
        due = None if request.timeout is None else self._actor.runtime.clock() + request.timeout
        if state.committers is None:
            state.committers = {}
        state.committers[request] = Waiter(
            self._actor.defer_reply(),
            None,
            due,
            target=generations.generation,
            before=generations.extracted,
            disowned=generations.disowned,
        )

    def limit_commit(self, request: CommitSession) -> None:
        """Set the timer of a commit, if it is waited for."""
        waiter = (self._state.committers or {}).get(request)
        if waiter is not None:
            self._set_timer(waiter, ExpireCommit(request=request))

    def answer_committed(self) -> None:
        """Answer those whose turns are committed."""
        state = self._state
        generations = state.machine.generations
        for request, waiter in list((state.committers or {}).items()):
            # What was disowned since may have been among what was to be committed, or not.
            target = min(waiter.target + generations.disowned - waiter.disowned, generations.generation)
            if generations.committed >= target and state.committers is not None:
                del state.committers[request]
                self._answer_commit(waiter, "")
        state.committers = state.committers or None

    def give_up_commits(self) -> None:
        """Answer everybody who waits for a commit: there will be none now."""
        committers, self._state.committers = self._state.committers, None
        for waiter in (committers or {}).values():
            self._answer_commit(waiter, self._state.last_error or "nobody could be asked to commit")

    def expire_commit(self, request: CommitSession) -> None:
        """Who waits for this commit has waited long enough."""
        waiter = (self._state.committers or {}).pop(request, None)
        if waiter is not None:
            self._answer_commit(waiter, "it took longer than the caller would wait, and goes on")

    def _answer_commit(self, waiter: Waiter, note: str) -> None:
        generations = self._state.machine.generations
        if waiter.timer is not None:
            waiter.timer.cancel()
        committed = generations.extracted - waiter.before
        self._answer(waiter, CommitOutcome(committed=committed, left=generations.dirty, note=note))

    # All of them.

    def set_timers_again(self) -> None:
        """After a restart of the actor."""
        for turn, waiter in (self._state.waiters or {}).items():
            if waiter.reply is None:
                self._limit_build(waiter)
            else:
                self.limit_turn(turn)
        for request in self._state.committers or ():
            self.limit_commit(request)

    def _set_timer(self, waiter: Waiter, message: Any) -> None:
        if waiter.due is not None:
            left = max(0.0, waiter.due - self._actor.runtime.clock())
            waiter.timer = self._actor.call_later(left, message)

    def _answer(self, waiter: Waiter, answer: Any, turn: BeginTurn | None = None) -> None:
        assert waiter.reply is not None
        self._state.answer_later(waiter.reply, answer, turn)

    def error(self, why: Refusal, turn: BeginTurn | None = None) -> GreenroomError:
        """What a caller is told that gets no turn."""
        text, kind = _REFUSALS[why]
        ledger, books = self._state.ledger, self._context.books
        holder = None if ledger is None else ledger.holder
        here = books is not None and holder == books.owner
        trouble = None if ledger is None else ledger.trouble
        fill = {
            "waited": "" if turn is None else f"{turn.timeout} s",
            "most": self._context.policy.max_waiting,
            "elsewhere": "under another key of this room" if here else f"in another room, {holder}",
            "session_id": None if turn is None else repr(turn.session_id),
            "trouble": "" if trouble is None else text_of(trouble),
        }
        error = kind(f"{self._actor} {text.format(**fill)}", self._state.key)
        if why is Refusal.STORE:
            error.__cause__ = trouble
        return error


def _given_up(incarnation: int, timeout: float) -> BuildEnded:
    msg = f"build() was still running after {timeout} seconds. An agent that comes late is released"
    return BuildEnded(
        incarnation=incarnation,
        agent=None,
        error=WorkTimedOut(msg),
        weight=0,
        seconds=timeout,
        returned=False,
    )


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
