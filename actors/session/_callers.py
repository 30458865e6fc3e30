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
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.session._session_state import Waiter
from greenroom.actors.session.holding import names_in
from greenroom.actors.session.machine.effects import Refusal
from greenroom.messages import BeginTurn, BuildEnded, BuildHere, Call, CommitOutcome, CommitSession

if TYPE_CHECKING:
    from greenroom.actors.session._session import Session
    from greenroom.actors.session._session_state import SessionState

logger = get_log("greenroom.actors")

LONG_WAIT = 30.0
"""A turn that has waited in line for so many seconds is named in the log."""

INSIDE = (
    ". It is wanted inside that very turn: if the turn waits for it (TaskGroup, gather(), to_thread()), "
    "neither goes on. End the turn first"
)

# For a turn.


def wait_for_turn(session: Session, turn: BeginTurn) -> None:
    """The caller in hand waits for its turn. (Its timer is set later, if it still does then.)"""
    state, timeout, now = session._state, turn.timeout, session.runtime.clock()
    due = None if timeout is None else now + timeout
    if state.waiters is None:
        state.waiters = {}
    state.waiters[turn] = Waiter(session.defer_reply(), copy_context(), due, now)


def waiter_of(state: SessionState, turn: object) -> Waiter | None:
    """Who waits for a turn."""
    waiters: dict[Any, Waiter] = state.waiters or {}
    return None if isinstance(turn, tuple) else waiters.get(turn)  # nobody waits for a warm turn


def forget(state: SessionState, turn: object) -> Waiter | None:
    """Nobody waits for this turn any more."""
    waiters: dict[Any, Waiter] = state.waiters or {}
    waiter = None if isinstance(turn, tuple) else waiters.pop(turn, None)
    state.waiters = state.waiters or None
    if waiter is not None and waiter.timer is not None:
        waiter.timer.cancel()
    return waiter


def refuse(session: Session, turn: BeginTurn, why: Refusal, cause: BaseException | None = None) -> None:
    """Tell who waits for a turn that it does not begin."""
    state = session._state
    waiter = waiter_of(state, turn)
    if waiter is not None and waiter.reply is None:
        waiter.refusal = waiter.refusal or error(session, why, turn, cause)  # it hears when it has built
    elif waiter is not None:
        inside = why in (Refusal.BUSY, Refusal.TIMEOUT) and _is_inside(waiter, state.machine.turn)
        forget(state, turn)
        _answer(state, waiter, error(session, why, turn, cause, INSIDE if inside else ""))


def watch(session: Session, turn: BeginTurn, waiter: Waiter) -> None:
    """Set the timer of a caller that waits for its turn, if it does not wait for ever; and before that,
    if it waits for others for long, the one after which it is named in the log."""
    told_at = waiter.since + LONG_WAIT
    if _waits_for_others(session, turn) and (waiter.due is None or told_at < waiter.due):
        if waiter.timer is not None:
            waiter.timer.cancel()
        left = max(0.0, told_at - session.runtime.clock())
        waiter.timer = session.call_later(left, Call(session._waits_long, turn))
    else:
        set_timer(session, waiter, Call(session._expire_turn, turn))


def tell_long_wait(session: Session, turn: BeginTurn) -> None:
    """Name a caller that has waited for long, and what it waits for. Its own timer, if any, goes on."""
    waiter = waiter_of(session._state, turn)
    if waiter is None:
        return
    if _waits_for_others(session, turn):
        logger.warning(
            "%s: a turn that %s wants has waited for %.0f s, for %s",
            *(session, turn.caller or "a caller", session.runtime.clock() - waiter.since),
            _waited_for(session, waiter),
        )
    set_timer(session, waiter, Call(session._expire_turn, turn))


def _waited_for(session: Session, waiter: Waiter) -> str:
    state = session._state
    running: Any = state.machine.turn
    if running is None:
        build = "the build of the next turn's agent, or the store"
        return f"a turn {_elsewhere(session)}" if state.machine.enter_tries else build
    who = f" of {running.caller}" if isinstance(running, BeginTurn) and running.caller else ""
    seconds = turn_seconds(session)
    began = "" if seconds is None else f" that began {seconds:.0f} s ago"
    return f"a turn{who}{began}{INSIDE if _is_inside(waiter, running) else ''}"


def _is_inside(waiter: Waiter, running: object) -> bool:
    """Whether a caller was begun inside the turn that it waits for."""
    return waiter.context is not None and any(name is running for name in names_in(waiter.context))


def _waits_for_others(session: Session, turn: BeginTurn) -> bool:
    """Whether it waits in line, or is the next, and another room has the session."""
    machine = session._state.machine
    elsewhere = machine.next_turn is turn and machine.enter_tries > 0
    return elsewhere or any(waiting is turn for waiting in machine.waiting)


def turn_seconds(session: Session) -> float | None:
    """How long the running turn has lasted. `None`: there is none, or the clock is not the one by which
    it was noted."""
    runtime = session.runtime
    noted = session._state.machine.turn is not None and runtime.tick is runtime.clock
    return runtime.clock() - session._state.card.used if noted else None


def waited_seconds(session: Session) -> float | None:
    """How long the first in line has waited. `None`: nobody waits there."""
    line = session._state.machine.waiting
    waiter = waiter_of(session._state, line[0]) if line else None
    return None if waiter is None else session.runtime.clock() - waiter.since


# Who builds its agent itself.


def have_built(session: Session, waiter: Waiter, here: BuildHere) -> None:
    """Its caller waits for the agent anyway, and builds it: no thread need be woken."""
    _answer(session._state, waiter, here)
    waiter.reply, waiter.builds = None, here.incarnation
    set_timer(session, waiter)


def hear_builder(session: Session, turn: BeginTurn | None) -> None:
    """Somebody hands an agent in. From here on that is the session's business, whatever happens: who
    brought it may go, unless it is the caller of the turn, which waits for that now."""
    waiter = None if turn is None else waiter_of(session._state, turn)
    reply = session.defer_reply()
    if waiter is None or waiter.reply is not None:
        reply.set(None)
        return
    waiter.reply = reply
    if waiter.refusal is not None:
        forget(session._state, turn)
        _answer(session._state, waiter, waiter.refusal)


# For a commit.


def wait_for_commit(session: Session, request: CommitSession) -> None:
    """The caller in hand waits until everything that is completed now is committed."""
    state, generations = session._state, session._state.machine.generations
    due = None if request.timeout is None else session.runtime.clock() + request.timeout
    waiter = Waiter(
        session.defer_reply(),
        None,
        due,
        target=generations.generation,
        before=generations.extracted,
        disowned=generations.disowned,
    )
    state.committers = {**(state.committers or {}), request: waiter}


def answer_committed(state: SessionState) -> None:
    """Answer those whose turns are committed."""
    generations = state.machine.generations
    for request, waiter in (state.committers or {}).items():
        # What was disowned since may have been among what was to be committed, or not.
        target = min(waiter.target + generations.disowned - waiter.disowned, generations.generation)
        if generations.committed >= target:
            answer_commit(state, request, "")


def give_up_commits(session: Session, _: object = None) -> None:
    """Answer everybody who waits for a commit: there will be none now."""
    state = session._state
    for request in state.committers or ():
        answer_commit(state, request, state.last_error or "nobody could be asked to commit")


def answer_commit(state: SessionState, request: CommitSession, note: str) -> None:
    """Answer one who waits for a commit, if it still does."""
    committers = dict(state.committers or {})
    waiter = committers.pop(request, None)
    if waiter is None:
        return
    state.committers = committers or None
    generations = state.machine.generations
    if waiter.timer is not None:
        waiter.timer.cancel()
    committed = generations.extracted - waiter.before
    _answer(state, waiter, CommitOutcome(committed=committed, left=generations.dirty, note=note))


# All of them.


def set_timer(session: Session, waiter: Waiter | None, late: Call | None = None) -> None:
    """Set the timer of a caller, if it still waits, and not for ever; or if it builds."""
    if waiter is None:
        return
    if waiter.timer is not None:
        waiter.timer.cancel()
    if waiter.reply is None:
        timeout = session._context.policy.build_timeout
        if timeout is not None:
            waiter.timer = session.call_later(timeout, _given_up(waiter.builds, timeout))
    elif waiter.due is not None:
        left = max(0.0, waiter.due - session.runtime.clock())
        waiter.timer = session.call_later(left, late)


def set_timers_again(session: Session) -> None:
    """After a restart of the actor."""
    for turn, waiter in (session._state.waiters or {}).items():
        watch(session, turn, waiter)
    for request, waiter in (session._state.committers or {}).items():
        set_timer(session, waiter, Call(session._expire_commit, request))


def _answer(state: SessionState, waiter: Waiter, answer: Any) -> None:
    assert waiter.reply is not None
    state.answer_later(waiter.reply, answer)


def error(
    session: Session,
    why: Refusal,
    turn: BeginTurn | None = None,
    cause: BaseException | None = None,
    more: str = "",
) -> GreenroomError:
    """What a caller is told that gets no turn."""
    text, kind = _REFUSALS[why]
    state = session._state
    ledger = state.ledger
    if why is Refusal.STORE and ledger is not None:
        cause = ledger.trouble
    fill = {
        "waited": "" if turn is None else f"{turn.timeout} s",
        "most": session._context.policy.max_waiting,
        "elsewhere": _elsewhere(session),
        "session_id": None if turn is None else repr(state.machine.id_of(turn, state.key)),
        "cause": "" if cause is None else text_of(cause),
    }
    error = kind(text.format(session=session, **fill) + more, state.key)
    if cause is not None:
        error.__cause__ = cause
    return error


def _elsewhere(session: Session) -> str:
    ledger, books = session._state.ledger, session._context.books
    holder = None if ledger is None else ledger.holder
    here = books is not None and holder == books.owner
    return "under another key of this room" if here else f"in another room, {holder}"


def _given_up(incarnation: int, timeout: float) -> BuildEnded:
    msg = f"build() was still running after {timeout} seconds. An agent that comes late is released"
    error = WorkTimedOut(msg)
    return BuildEnded(incarnation=incarnation, error=error, seconds=timeout, returned=False)


_REFUSALS: dict[Refusal, tuple[str, type[GreenroomError]]] = {
    Refusal.BUSY: (
        "{session} is in a turn. Try again later, or wait for it with on_busy='wait'",
        SessionBusy,
    ),
    Refusal.SELF: (
        (
            "{session} is in a turn of this very caller, or builds its agent for one: it would wait for "
            "itself. End that turn first"
        ),
        SessionBusy,
    ),
    Refusal.OVERLOADED: (
        "{session} has {most} turns waiting, its max_waiting. Try again later, or raise max_waiting",
        Overloaded,
    ),
    Refusal.TIMEOUT: (
        "{session} did not become free within {waited}. Wait longer, or interrupt the turn that has it",
        TurnTimeout,
    ),
    Refusal.BUILDING: (
        "{session}: its agent was still being built after {waited}. Wait longer: the build goes on",
        TurnTimeout,
    ),
    Refusal.ELSEWHERE: (
        (
            "{session} is in a turn {elsewhere}, which has {session_id}. Try again later, or wait: "
            "on_busy='wait'"
        ),
        SessionBusy,
    ),
    Refusal.STORE: (
        "{session} begins no turn while the store is away, for {session_id} is not known here ({cause})",
        StoreAway,
    ),
    Refusal.BUILD: (
        (
            "{session}: its agent could not be built: {cause}. Nothing was cached; the next turn tries "
            "again"
        ),
        BuildFailed,
    ),
    Refusal.CLOSED: (
        "{session} begins no turn any more: the room is being drained, or is closed",
        RoomClosed,
    ),
    Refusal.FAILED: (
        (
            "{session} failed too often and takes no turn. The log says why. End it with room.end() to "
            "begin afresh"
        ),
        SessionFailed,
    ),
}
