"""A turn: from checking the agent out to giving it back, in a thread or on an event loop."""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any, Self

from greenroom.actors._loops import running_loop
from greenroom.actors.holding import held_here, hold, let_go
from greenroom.messages import BeginTurn, DescribeSession, EndTurn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType

    from greenroom._room import Greenroom
    from greenroom.actors import ActorRef
    from greenroom.actors.session import Session
    from greenroom.messages import Reason

__all__ = ["Turn"]


class Turn:
    """One turn of one session. Made by `room.turn()`, used once, with `with` or `async with`.

    Inside, `turn.agent` is yours alone. Leaving the block normally completes the turn; an exception,
    `cancel()`, or `ephemeral=True` gives the agent back without that.
    """

    __slots__ = (
        "_agent",
        "_cancelled",
        "_completing",
        "_discarded",
        "_ephemeral",
        "_generation",
        "_key",
        "_past",
        "_reject",
        "_request",
        "_room",
        "_session",
        "_session_id",
        "_signature",
        "_spec",
        "_timeout",
        "completed",
        "rebuild_reason",
        "reused",
    )

    def __init__(
        self,
        room: Greenroom,
        key: str,
        spec: Any,
        signature: str | None,
        session_id: str,
        reject: bool,
        timeout: float | None,
        ephemeral: bool,
    ) -> None:
        self._room = room
        self._key = key
        self._spec = spec
        self._signature = signature
        self._session_id = session_id
        self._reject = reject
        self._timeout = timeout
        self._ephemeral = ephemeral
        self._request: BeginTurn | None = None
        self._session: ActorRef[Session] | None = None
        self._agent: Any = None
        self._past: weakref.ref[Any] | None = None
        self._cancelled = False
        self._completing = False
        self._discarded: str | None = None
        self._generation = 0
        self.completed = False
        """Whether it is over, and counts. Not so if its session was closed by force before that."""
        self.reused = False
        """Whether the agent was there already."""
        self.rebuild_reason: Reason | None = None
        """Why the session's last agent is not this one. `None` if it is, or if this is the first."""

    def __repr__(self) -> str:
        begun = "over" if self._session is None else "running"
        state = "not begun" if self._request is None else begun
        return f"<Turn of {self._key!r}, {state}>"

    @property
    def key(self) -> str:
        """The key of the session."""
        return self._key

    @property
    def session_id(self) -> str:
        """The conversation that this turn belongs to."""
        return self._session_id

    @property
    def agent(self) -> Any:
        """The agent. It is yours while the turn lasts; afterwards nothing here keeps it alive."""
        agent = self._agent
        if agent is None and self._past is not None:
            agent = self._past()
        if agent is None:
            state = "has not begun: use it with 'with'" if self._request is None else "is over"
            msg = f"the turn of {self._key!r} {state}, and has no agent"
            raise RuntimeError(msg)
        return agent

    @property
    def generation(self) -> int:
        """How many turns of the session are completed: this one too, once it is."""
        if self._session is not None:
            row = self._room._ask_session(self._key, DescribeSession())
            return 0 if row is None else int(row.generation)
        return self._generation

    def cancel(self) -> None:
        """Do not count this turn as completed when it ends."""
        self._cancelled = True

    def discard(self, reason: str = "discarded by the turn") -> None:
        """Release the agent after this turn, in the place of caching it. The next turn builds anew."""
        self._discarded = str(reason)

    # In a thread.

    def __enter__(self) -> Self:
        request = self._ask_for_turn(None)
        room = self._room
        self._session, granted = room._begin(self._key, request)
        self._agent = granted.agent
        self.reused = granted.reused
        self.rebuild_reason = granted.rebuild_reason
        hold(request)
        if room._prepare is not None:
            self._prepare_now(room._prepare)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        request = self._request
        try:
            end = self._give_back(exception_type is None)
            self._ended(self._room._end(self._key, end))
        except BaseException:
            if request is not None:
                # A Ctrl-C, at whatever point: the turn must not stay held.
                self._room._withdraw(self._key, request)
                self._ended(None)
            raise

    # On an event loop.

    async def __aenter__(self) -> Self:
        request = self._ask_for_turn(running_loop())
        self._session, granted = await self._room._begin_async(self._key, request)
        self._agent = granted.agent
        self.reused = granted.reused
        self.rebuild_reason = granted.rebuild_reason
        hold(request)
        prepare = self._room._prepare
        if prepare is not None:
            try:
                prepared = prepare(self._agent, self)
                if inspect.isawaitable(prepared):
                    await prepared
            except BaseException:
                await self.__aexit__(*sys.exc_info())
                raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end = self._give_back(exception_type is None)
        try:
            generation = await self._room._end_async(self._key, end)
        except BaseException:
            self._ended(None)
            raise
        self._ended(generation)

    # Both.

    def _prepare_now(self, prepare: Callable[[Any, Turn], Any]) -> None:
        try:
            self._room.runtime._call_and_await(prepare, (self._agent, self), None)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def _ask_for_turn(self, loop: asyncio.AbstractEventLoop | None) -> BeginTurn:
        if self._request is not None:
            msg = f"this turn of {self._key!r} was used before: call room.turn() for another one"
            raise RuntimeError(msg)
        self._request = request = BeginTurn(
            spec=self._spec,
            signature=self._signature,
            session_id=self._session_id,
            reject=self._reject,
            timeout=self._timeout,
            held=held_here(),
            loop=loop,
        )
        return request

    def _give_back(self, whole: bool) -> EndTurn:
        if self._request is None:
            msg = f"this turn of {self._key!r} has not begun: use it with 'with' or 'async with'"
            raise RuntimeError(msg)
        weight = None
        if self._session is not None:
            weight = self._room._board.weigh(self._key, self._agent)
        self._completing = whole and not self._cancelled and not self._ephemeral
        return EndTurn(
            turn=self._request,
            completed=self._completing,
            discard=self._discarded,
            weight=weight,
        )

    def _ended(self, generation: int | None) -> None:
        if self._session is None or self._request is None:
            return  # it was given back before
        self._session = None
        let_go(self._request)
        if generation is not None:
            self._generation = generation
            self.completed = self._completing
        try:
            self._past = weakref.ref(self._agent)
        except TypeError:
            pass
        self._agent = None
