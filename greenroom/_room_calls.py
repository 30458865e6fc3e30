"""The room, first layer: how it asks its actors.

A session may end while a message is on its way to it. Whoever asked gets `ActorDeadError` then, and asks
the supervisor for the session of that key: the supervisor knows of the end, or hears of it first, and so
never names the one that is gone.

A turn must not stay held, whatever goes wrong on the way. Who stops waiting for one (a Ctrl-C, a
cancelled task) cannot know whether it was granted meanwhile, and tells the session that it is not
wanted: that is right in both cases. Who gives one back and hears that the session failed on that says it
once more, as a notice: then a restarted session is handed it.

When there is nobody left to ask, the room is closed, and says why.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, cast

import pykka

from greenroom.actors import GreenroomError, NotRecorded, RoomClosed, RuntimeClosed
from greenroom.actors.session.slow_work import SlowWork
from greenroom.messages import BuildHere, OpenSession, WithdrawTurn

if TYPE_CHECKING:
    from greenroom.actors import ActorRef, RoomContext
    from greenroom.actors.session import Session
    from greenroom.messages import BeginTurn, EndTurn, TurnGranted

__all__ = ["RoomCalls", "bad_key"]

logger = logging.getLogger("greenroom")


class RoomCalls:
    """Sends messages to the supervisor and to sessions, and brings back what they answer."""

    def __init__(self, context: RoomContext, supervisor: ActorRef[Any]) -> None:
        self._context = context
        self._supervisor = supervisor
        self._closed = False
        self._forked = False
        self._why_closed = "the room is being drained, or is closed. Open another one"

    # Anything.

    def _refuse_when_closed(self) -> None:
        if self._closed or self._context.draining:
            raise RoomClosed(self._why_closed)

    def _open(self, key: str) -> ActorRef[Session]:
        try:
            return cast("ActorRef[Session]", self._supervisor.ask(OpenSession(key=key)))
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self._why_closed, key) from error

    async def _open_async(self, key: str) -> ActorRef[Session]:
        try:
            return cast(
                "ActorRef[Session]", await self._supervisor.ask(OpenSession(key=key), block=False)
            )
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self._why_closed, key) from error

    def _ask(self, request: Any, otherwise: Any, timeout: float | None = None) -> Any:
        """Ask the supervisor; a closed room answers with `otherwise`."""
        try:
            return self._supervisor.ask(request, timeout=timeout)
        except pykka.ActorDeadError:
            return otherwise

    def _find(self, key: str) -> ActorRef[Session] | None:
        card = self._context.cards.get(key)
        return None if card is None else card.ref

    def _ask_session(self, key: str, request: Any, *, create: bool = False) -> Any:
        """Ask a session; `None` if there is none, unless it is to be created."""
        if not isinstance(key, str) or not key:
            raise ValueError(bad_key(key))
        session = self._find(key)
        while True:
            if session is None and not create:
                return None
            try:
                return (session or self._open(key)).ask(request)
            except pykka.ActorDeadError:  # it ended before it came to this
                session = self._open(key) if create else None

    # Turns that take more than a warm step.

    def _begin(self, key: str, request: BeginTurn) -> TurnGranted:
        session = self._find(key) or self._open(key)
        while True:
            try:
                answer = session.actor_inbox.ask(request, gives_way=False)
                break
            except pykka.ActorDeadError:
                # It ended before it came to this. The supervisor knows, or hears of it first.
                session = self._open(key)
        if isinstance(answer, BuildHere):
            answer = SlowWork(self._context, key, session).build_here(request, answer)
        return cast("TurnGranted", answer)

    async def _begin_async(self, key: str, request: BeginTurn) -> TurnGranted:
        session = self._find(key) or await self._open_async(key)
        while True:
            try:
                return cast("TurnGranted", await session.ask(request, block=False))
            except pykka.ActorDeadError:
                session = await self._open_async(key)

    def _end(self, key: str, end: EndTurn) -> int | None:
        session = self._find(key)
        if self._forked:
            return None  # the turn is the parent's
        try:
            if session is not None:
                return cast("int | None", session.actor_inbox.ask(end))
            _too_late(key)
        except GreenroomError:
            raise  # it is over, and this is what came of it
        except pykka.ActorDeadError:
            _too_late(key)
        except Exception as error:
            self._insist(session, end, error)
        return None

    async def _end_async(self, key: str, end: EndTurn) -> int | None:
        session = self._find(key)
        if self._forked:
            return None
        try:
            if session is not None:
                return cast("int | None", await session.ask(end, block=False))
            _too_late(key)
        except GreenroomError:
            raise
        except pykka.ActorDeadError:
            _too_late(key)
        except Exception as error:
            self._insist(session, end, error)
        except BaseException:
            # Cancelled: whatever the answer will be, nobody hears it.
            _tell(session, dataclasses.replace(end, insists=True))
            raise
        return None

    def _insist(self, session: ActorRef[Session] | None, end: EndTurn, error: Exception) -> None:
        """The session could not handle it, and said so. As a notice, it is its supervisor's business:
        the session is restarted, and does not get away without handling it."""
        _tell(session, dataclasses.replace(end, insists=True))
        books = self._context.books
        if books is not None and books.ledger and end.completed:
            msg = "the turn is given back, but whether it was recorded could not be learned"
            raise NotRecorded(msg) from error

    def _withdraw(self, key: str, turn: object) -> None:
        """Whether it was granted meanwhile or not: the turn is not held any more."""
        _tell(self._find(key), WithdrawTurn(turn=turn))


def bad_key(key: object) -> str:
    """What is said of a key that is none."""
    return f"a key must be a string that is not empty, such as 'telegram:12345', not {key!r}"


def _tell(session: ActorRef[Session] | None, message: Any) -> None:
    try:
        if session is not None:
            session.tell(message)
    except pykka.ActorDeadError:
        pass


def _too_late(key: str) -> None:
    logger.warning(
        "A turn of %r was given back after its session was closed by force. It is not counted", key
    )
