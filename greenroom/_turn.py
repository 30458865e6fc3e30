"""A turn: from checking the agent out to giving it back, in a thread or on an event loop.

Nearly every turn finds its agent idle, and begins and ends with one short step of its session
(`Session.begin_now`, `Session.end_now`), on the caller's thread and without a message. What takes more
than that, the session says no to: then the turn asks with a message.

A turn must not stay held, whatever happens on the way. An exception inside `__enter__` (a Ctrl-C, a
cancelled task) cannot know whether the turn was granted before it: so it withdraws the turn, which is
right in both cases. One inside `__exit__` gives the turn back once more, with a notice. If that is
struck, too, or the stack is full, the runtime's rescuer does it.

An exception on *entry* to `__exit__` runs none of our code. So the name of a turn refers weakly to the
turn itself: when the turn is garbage and its name is not over, nobody is in its block any more, and
the session withdraws it. See `holding` for a turn that was left and is not yet garbage.
"""

from __future__ import annotations

import inspect
import sys
import threading
from asyncio import current_task, get_running_loop
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import ref

from greenroom.actors.errors import GreenroomError
from greenroom.actors.ledger.bookkeeping import ToWrite
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session import Session
from greenroom.actors.session.holding import (
    BLOCK,
    HELD,
    NAME,
    OUTER,
    OVER,
    THREAD,
    TOKEN,
    end_out_of_order,
    held_here,
    innermost,
)
from greenroom.messages import BeginTurn, DescribeSession, EndTurn

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from greenroom._room import Greenroom
    from greenroom.actors.runtime._mailbox import Mailbox
    from greenroom.actors.session.holding import Held
    from greenroom.messages import Reason, TurnGranted

__all__ = ["Turn"]

begin_now, end_now = Session.begin_now, Session.end_now

NOTES_LOOP = sys.version_info >= (3, 12)
"""Whether a warm turn notes its event loop. Python 3.11 asks the system for the number of the process
each time that it is asked for the loop, which would make a warm turn 15 % slower."""


class Turn:
    """One turn of one session. Made by `room.turn()`, used once, with `with` or `async with`.

    Inside, `turn.agent` is yours alone. Leaving the block normally completes the turn; an exception,
    `cancel()`, or `ephemeral=True` gives the agent back without that.
    """

    # Attributes that the usual turn does not set. Those that it reads are set in the constructor: on
    # Python 3.11 a value that only the class has is slow to read.

    _held: Held
    """Its entry among the turns that the caller is in: see `holding`."""

    _mailbox: Mailbox | None = None
    """Where it may end with a step. `None`: it ends with a message."""

    _agent: Any = None
    """`None`: it has not begun, or is over."""

    _loop: asyncio.AbstractEventLoop | None = None
    """Where it was entered with `async with`. Nobody ends it when that is closed: see `holding`."""

    _conversation: str | None = None
    """For a warm turn that names no session id: what that means. `None`: the key."""

    _generation = 0

    completed = False
    """Whether it is over, and counts. Not so if its session was closed by force before that."""

    reused = False
    """Whether the agent was there already."""

    rebuild_reason: Reason | None = None
    """Why the session's last agent is not this one. `None` if it is, or if this is the first."""

    def __init__(
        self,
        room: Greenroom,
        key: str,
        spec: Any,
        signature: str | None,
        session_id: str | None,
        on_busy: str,
        timeout: float | None,
        ephemeral: bool,
        given: Any = None,
        provisional: bool = False,
    ) -> None:
        self._name: Any = None
        """What the session knows the turn by. `None`: it has not begun."""
        self._room = room
        self._key = key
        self._spec = spec
        self._signature = signature
        self._session_id = session_id
        self._on_busy = on_busy
        self._timeout = timeout
        self._counts = not ephemeral
        self._discarded: str | None = None
        self._given = given
        self._provisional = provisional

    def __repr__(self) -> str:
        begun = "over" if self._agent is None else "running"
        state = "not begun" if self._name is None else begun
        return f"<Turn of {self._key!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        msg = f"the turn of {self._key!r} cannot be pickled or copied: it is of this process's room"
        raise TypeError(msg)

    @property
    def key(self) -> str:
        """The key of the session."""
        return self._key

    @property
    def session_id(self) -> str:
        """The conversation that this turn belongs to. If none was named, the turn must have begun."""
        return self._session_id or self._conversation or self._key

    @property
    def agent(self) -> Any:
        """The agent. It is yours while the turn lasts: afterwards, asking for it is an error."""
        agent = self._agent
        if agent is None:
            begin, keep = "has not begun: use it with 'with'", "is over: keep a reference if you want it"
            msg = f"the turn of {self._key!r} has no agent, it {begin if self._name is None else keep}"
            raise RuntimeError(msg)
        return agent

    @property
    def generation(self) -> int:
        """How many turns of the session are completed: this one too, once it is."""
        if self._agent is None:
            return self._generation
        row = self._room._line.ask_session(self._key, DescribeSession())
        return 0 if row is None else int(row.generation)

    def cancel(self) -> None:
        """Do not count this turn as completed when it ends."""
        self._counts = False

    def discard(self, reason: str = "discarded by the turn") -> None:
        """Release the agent after this turn, in the place of caching it. The next turn builds anew."""
        self._discarded = str(reason)

    # In a thread.

    def __enter__(self) -> Self:
        if self._name is not None:
            raise RuntimeError(self._used_before())
        room, key, thread = self._room, self._key, LOCAL.state
        context = room._context
        self._name = asked = (self._signature, self._session_id, ref(self))
        held: Held = [asked, context, key, thread, None, thread.held]
        self._held = held
        try:
            card = context.cards.get(key)
            agent = None
            if card is not None:
                self._mailbox = mailbox = card.mailbox
                agent = mailbox.step(thread, begin_now, asked)
                self._conversation = card.conversation
            if agent is not None:
                self._agent = agent
                self.reused = True
            else:
                here = self._timeout is None and context.builds_here and running_loop() is None
                self._name = held[NAME] = request = self._request(None, here=here)
                self._granted(room._line.begin(key, request))
            thread.held = held
            if room._prepare is not None:
                room.runtime._call_and_await(room._prepare, (self._agent, self), None)
            return self
        except BaseException as error:
            try:
                self._not_entered(error)
            except BaseException:
                held[NAME] = OVER
                room.runtime.rescuer.put((self._not_entered, error))
                raise
            raise

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        name, mailbox = self._name, self._mailbox
        counts = exception_type is None and self._counts
        try:
            if mailbox is not None and self._discarded is None:
                ended = mailbox.step(LOCAL.state, end_now, (name, counts), True)
                if ended is not None:
                    if isinstance(ended, ToWrite):
                        ended = self._room._line.record(ended)
                    self._ended(ended, counts)
                    return
            self._ended(self._room._line.end(self._key, self._end(counts)), counts)
        except BaseException:
            if name is not None:
                try:
                    self._give_back(counts)
                except BaseException:
                    self._held[NAME] = OVER
                    self._room.runtime.rescuer.put((self._give_back, counts))
                    raise
            raise

    # On an event loop.

    async def __aenter__(self) -> Self:
        if self._name is not None:
            raise RuntimeError(self._used_before())
        room, key, thread = self._room, self._key, LOCAL.state
        context = room._context
        self._name = asked = (self._signature, self._session_id, ref(self))
        held: Held = [asked, context, key, thread, None, innermost(HELD.get())]
        self._held = held
        try:
            if NOTES_LOOP:
                try:
                    self._loop = get_running_loop()
                except RuntimeError:  # what drives this coroutine is none
                    pass
            card = context.cards.get(key)
            agent = None
            if card is not None and (card.loop is None or not card.loop.is_closed()):
                self._mailbox = mailbox = card.mailbox
                agent = mailbox.step(thread, begin_now, asked)
                self._conversation = card.conversation
            if agent is not None:
                self._agent = agent
                self.reused = True
            else:
                self._loop = running_loop()
                self._name = held[NAME] = request = self._request(self._loop)
                self._granted(await room._line.begin_async(key, request))
            held[TOKEN] = HELD.set(held)
            if room._prepare is not None:
                prepared = room._prepare(self._agent, self)
                if inspect.isawaitable(prepared):
                    await prepared
            return self
        except BaseException as error:
            try:
                self._not_entered(error)
            except BaseException:
                held[NAME] = OVER
                room.runtime.rescuer.put((self._not_entered, error))
                raise
            raise

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        name, mailbox = self._name, self._mailbox
        counts = exception_type is None and self._counts
        try:
            if mailbox is not None and self._discarded is None:
                ended = mailbox.step(LOCAL.state, end_now, (name, counts))
                if ended is not None:
                    if isinstance(ended, ToWrite):
                        self._loop = running_loop()  # if it is closed, nobody brings the answer
                        ended = await self._room._line.record_async(ended, self._loop)
                    self._ended(ended, counts)
                    return
            self._ended(await self._room._line.end_async(self._key, self._end(counts)), counts)
        except BaseException:
            if name is not None:
                try:
                    self._give_back(counts)
                except BaseException:
                    self._held[NAME] = OVER
                    self._room.runtime.rescuer.put((self._give_back, counts))
                    raise
            raise

    # Both.

    def _used_before(self) -> str:
        return f"this turn of {self._key!r} was used before: call room.turn() for another one"

    def _granted(self, granted: TurnGranted) -> None:
        card = self._room._context.cards.get(self._key)
        self._mailbox = None if card is None else card.mailbox
        self._agent = granted.agent
        self._session_id = granted.session_id
        self.reused = granted.reused
        self.rebuild_reason = granted.rebuild_reason

    def _not_entered(self, error: BaseException) -> None:
        """Entering was struck, at whatever point. (A refusal of the session's needs no withdrawal.)"""
        if self._agent is not None or not isinstance(error, GreenroomError):
            self._room._line.withdraw(self._key, self._name)
        self._ended(None, False)

    def _give_back(self, counts: bool) -> None:
        """Leaving was struck, at whatever point, or refused. What was said before does no harm."""
        name = self._name
        if name is not OVER:
            end = EndTurn(
                turn=name, completed=counts, discard=self._discarded, weight=None, insists=True
            )
            self._room._line.insist(self._key, end)
        self._ended(None, counts)

    def _request(self, loop: asyncio.AbstractEventLoop | None, here: bool = False) -> BeginTurn:
        return BeginTurn(
            spec=self._spec,
            signature=self._signature,
            session_id=self._session_id,
            reject=self._on_busy == "reject",
            timeout=self._timeout,
            held=held_here(blocking=loop is None),
            loop=loop,
            given=self._given,
            provisional=self._provisional,
            caller=_who_asks(loop),
            here=here,
            block=self._name[BLOCK],
        )

    def _end(self, completed: bool) -> EndTurn:
        if self._name is None:
            msg = f"this turn of {self._key!r} has not begun: use it with 'with' or 'async with'"
            raise RuntimeError(msg)
        weight = None
        if self._agent is not None:
            weight = self._room._context.weigh(self._key, self._agent)
        return EndTurn(turn=self._name, completed=completed, discard=self._discarded, weight=weight)

    def _ended(self, generation: int | None, completing: bool) -> None:
        if self._agent is None:
            return  # it was given back before
        held = self._held
        thread, outer = held[THREAD], held[OUTER]
        if thread.held is held:
            thread.held = outer and innermost(outer)
        else:
            end_out_of_order(held)
        self._agent = None  # last: behind a strike, this is called again
        self._name = OVER
        if generation is not None:
            self._generation = generation
            self.completed = completing


def _who_asks(loop: asyncio.AbstractEventLoop | None) -> str:
    task = None if loop is None else current_task(loop)
    if task is not None:
        return f"task {task.get_name()!r}"
    return f"thread {threading.current_thread().name!r}"
