"""The line from a room to its actors: how it asks the supervisor and the sessions.

A session may end while a message is on its way to it. The caller then gets `ActorDeadError`, and asks
the supervisor for the session of that key. The supervisor knows of the end, or hears of it first, and so
never names the session that has ended.

A turn must not stay held, whatever goes wrong on the way. A caller that stops waiting for one (a Ctrl-C,
a cancelled task) cannot know whether it was granted meanwhile. It tells the session to withdraw the
turn, which is right in both cases. A caller that gives a turn back and hears that the session failed on
this sends it once more, as a notice: a restarted session is handed its notices.

When no actor is left to ask, the room is closed, and says why.

In a forked child the room is the parent's (K2). The child has copies of the actors and none of their
threads: what it did with them would be done twice, or never. All calls reach the actors by the cards or
by the supervisor, so that in the child both are replaced by what refuses everything. No call has to ask
in which process it is.

A thread and a task differ in how they wait, so that `open()`, `begin()` and `end()` have a twin each.
One generator for both, which yields what to ask and is sent the answer, was tried: every turn that takes
a message became slower by more than a twentieth.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import pykka

from greenroom.actors import GreenroomError, NotRecorded, RoomClosed, RuntimeClosed
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session import Session
from greenroom.actors.session.slow_work import SlowWork
from greenroom.messages import BuildHere, OpenSession, TurnRecorded, WithdrawTurn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from greenroom.actors import ActorRef, RoomContext
    from greenroom.actors.ledger.bookkeeping import ToWrite
    from greenroom.messages import BeginTurn, EndTurn, RecordTurn, Request, TurnGranted

recorded_now = Session.recorded_now

__all__ = ["CLOSED", "FORKED", "Line", "check_key"]

logger = get_log("greenroom")

T = TypeVar("T")
U = TypeVar("U")

CLOSED = "the room is being drained, or is closed. Open another one"
UNKNOWN = "the turn is given back, but whether it was recorded could not be learned"
FORKED = "the room belongs to the parent process, which this one was forked from. Open another one here"


class Line:
    """Sends messages to the supervisor and to sessions, and brings back what they answer."""

    def __init__(self, context: RoomContext, supervisor: ActorRef[Any]) -> None:
        self._context = context
        self.supervisor = supervisor
        self.closed = ""
        """Why nothing can be asked any more: `CLOSED` or `FORKED`. Empty while the room is open."""
        _lines.add(self)

    def leave_to_parent(self) -> None:
        """In a forked child: refuse every call from now on."""
        self.closed = FORKED
        self.supervisor = self._context.cards = cast("Any", _Parents())
        self._context.warm = None  # the end of a turn knows its session, and would not ask the cards

    # Anything.

    def ask(self, request: Request[T], otherwise: U, timeout: float | None = None) -> T | U:
        """Ask the supervisor; a closed room answers with `otherwise`."""
        try:
            return cast("T", self.supervisor.ask(request, timeout=timeout))
        except pykka.ActorDeadError:
            return otherwise

    def require(self, request: Request[T]) -> T:
        """Ask the supervisor of a room that is neither closed nor being drained."""
        if self.closed or self._context.draining:
            raise RoomClosed(self.closed or CLOSED)
        return cast("T", self.supervisor.ask(request))

    def find(self, key: str) -> ActorRef[Session] | None:
        """The session of a key, if there is one. It may end at any moment."""
        card = self._context.cards.get(key)
        return None if card is None else card.ref

    def open(self, key: str) -> ActorRef[Session]:
        """Have the supervisor name the session of a key, or start one."""
        try:
            return cast("ActorRef[Session]", self.supervisor.ask(OpenSession(key=key)))
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self.closed or CLOSED, key) from error

    async def open_async(self, key: str) -> ActorRef[Session]:
        """`open()` for a task."""
        opened = self.supervisor.ask(OpenSession(key=key), block=False)
        try:
            return cast("ActorRef[Session]", await opened)
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self.closed or CLOSED, key) from error

    def ask_session(self, key: str, request: Request[T], *, create: bool = False) -> T | None:
        """Ask a session; `None` if there is none, unless it is to be created."""
        check_key(key)
        session = self.find(key)
        while session is not None or create:
            session = session or self.open(key)
            try:
                return cast("T", session.ask(request))
            except pykka.ActorDeadError:  # it ended before it came to this
                session = None
        return None

    # Turns that take more than a warm step.

    def begin(self, key: str, request: BeginTurn) -> TurnGranted:
        """Begin a turn. The agent is built on this thread if the session says so."""
        session = self.find(key) or self.open(key)
        while True:
            try:
                answer = session.actor_inbox.ask(request, gives_way=False)
                break
            except pykka.ActorDeadError:
                # It ended before it came to this. The supervisor knows, or hears of it first.
                session = self.open(key)
        if isinstance(answer, BuildHere):
            answer = SlowWork(self._context, key, session).build_here(request, answer)
        return cast("TurnGranted", answer)

    async def begin_async(self, key: str, request: BeginTurn) -> TurnGranted:
        """`begin()` for a task, which builds nothing itself."""
        session = self.find(key) or await self.open_async(key)
        while True:
            try:
                return cast("TurnGranted", await session.ask(request, block=False))
            except pykka.ActorDeadError:
                session = await self.open_async(key)

    def end(self, key: str, end: EndTurn) -> int | None:
        """Give a turn back. Returns the session's generation; `None` if that is not known."""
        session = self._find_holder(key)
        if session is None:
            return None
        try:
            return cast("int | None", session.actor_inbox.ask(end))
        except Exception as error:
            self._insist(key, session, end, error)
            return None

    async def end_async(self, key: str, end: EndTurn) -> int | None:
        """`end()` for a task."""
        session = self._find_holder(key)
        if session is None:
            return None
        try:
            return cast("int | None", await session.ask(end, block=False))
        except Exception as error:
            self._insist(key, session, end, error)
        return None

    def record(self, entry: ToWrite) -> int | None:
        """Have the end of a turn recorded, and its session told. Returns the generation of its session
        id; `None` if that is not known."""
        self._context.writer.record(entry)
        value, error = None, None
        try:
            value = entry.answer.get()
        except Exception as failed:
            if is_strike(failed):
                raise
            error = failed
        mailbox, request = entry.session, entry.request
        generation: int | None = mailbox.step(LOCAL.state, recorded_now, (request, value), True)
        if generation is not None:
            return generation
        try:
            told = TurnRecorded(request=request, value=value, error=error)
            return cast("int | None", mailbox.ask(told))
        except Exception as failed:
            return _end_of(request, error, failed)

    async def record_async(self, entry: ToWrite, loop: asyncio.AbstractEventLoop | None) -> int | None:
        """`record()` for a task. What ends in one round of its event loop is written together."""
        writer = self._context.writer
        writer.put_down(entry)
        if loop is not None:  # else it is simulated
            await NEXT_ROUND
        writer.write_soon()
        value, error = None, None
        try:
            value = await entry.answer
        except Exception as failed:
            if is_strike(failed):
                raise
            error = failed
        mailbox, request = entry.session, entry.request
        generation: int | None = mailbox.step(LOCAL.state, recorded_now, (request, value))
        if generation is not None:
            return generation
        told = TurnRecorded(request=request, value=value, error=error)
        answer = mailbox.create_future(told)
        try:
            mailbox.deliver(told, answer)
            return cast("int | None", await answer)
        except Exception as failed:
            return _end_of(request, error, failed)

    def insist(self, key: str, end: EndTurn) -> None:
        """Give a turn back whose end was struck, or was not answered."""
        if self.closed != FORKED:
            _tell(self.find(key), end)

    def withdraw(self, key: str, turn: object) -> None:
        """Give up a turn that may have been granted meanwhile, or may not."""
        if self.closed != FORKED:
            _tell(self.find(key), WithdrawTurn(turn=turn))

    def _find_holder(self, key: str) -> ActorRef[Session] | None:
        """The session to give a turn back to."""
        if self.closed == FORKED:
            return None  # the turn is the parent's
        session = self.find(key)
        if session is None:
            _warn_too_late(key)
        return session

    def _insist(self, key: str, session: ActorRef[Session], end: EndTurn, error: Exception) -> None:
        """Deal with the answer that a turn could not be given back, or not as it should be."""
        if isinstance(error, GreenroomError) or is_strike(error):
            raise error  # it is over, and this is what came of it; or it is this thread's own
        if isinstance(error, pykka.ActorDeadError):
            _warn_too_late(key)
            return
        # The session failed on it. As a notice, it is its supervisor's business: the session is
        # restarted, and does not get away without handling it.
        _tell(session, dataclasses.replace(end, insists=True))
        books = self._context.books
        if books is not None and books.ledger and end.completed:
            raise NotRecorded(UNKNOWN) from error


def _end_of(request: RecordTurn, unwritten: Exception | None, failed: Exception) -> int | None:
    """What a turn has come to whose session could not be told how its record went."""
    if isinstance(failed, GreenroomError) or is_strike(failed):
        raise failed
    if not isinstance(failed, pykka.ActorDeadError):
        raise NotRecorded(UNKNOWN) from failed  # and the turn is given back once more
    if unwritten is None or request.generation is None:
        return request.generation
    raise unwritten if isinstance(unwritten, GreenroomError) else NotRecorded(UNKNOWN) from unwritten


def check_key(key: object) -> None:
    """Refuse what cannot name a session (G10)."""
    if not isinstance(key, str) or not key:
        msg = f"a key must be a string that is not empty, such as 'telegram:12345', not {key!r}"
        raise ValueError(msg)


def _tell(session: ActorRef[Session] | None, message: Any) -> None:
    try:
        if session is not None:
            session.tell(message)
    except pykka.ActorDeadError:
        pass


def _warn_too_late(key: str) -> None:
    logger.warning(
        "A turn of %r was given back after its session was closed by force. It is not counted", key
    )


class _NextRound:
    """Let an event loop go on with whatever else it has to do now. In the task, and not in a callback of
    the loop: that would swallow a strike."""

    def __await__(self) -> Generator[None, None, None]:
        yield


NEXT_ROUND = _NextRound()


class _Parents:
    """Stands in a forked child for what is the parent's."""

    def __getattr__(self, _: str) -> NoReturn:
        raise RoomClosed(FORKED)


_lines: weakref.WeakSet[Line] = weakref.WeakSet()


def _after_fork() -> None:
    for line in list(_lines):
        if not line.closed:  # else nobody has it, and what it can still tell is right here, too
            line.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
