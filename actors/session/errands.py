"""The slow work of a session: what runs on workers or event loops, and how its outcome comes back.

Each errand tells its session itself how it ended, in time or late; what it raises never gets out of it,
`SystemExit` neither. The future of the work only tells what the errand could not: that it was never
begun, or is stuck. A late outcome names its incarnation, and the session knows what to do with it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

import pykka

from greenroom.actors.errors import GreenroomError, LostOwnership, RoomClosed
from greenroom.actors.runtime._calls import is_async
from greenroom.actors.runtime._errors import RuntimeClosed, WorkNotBegun, WorkTimedOut
from greenroom.actors.runtime._loops import running_loop, usable
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session.hooks import forget_transcript
from greenroom.messages import (
    BuildEnded,
    CommitEnded,
    CommitStuck,
    ResourcesClosed,
    StartCommit,
    TeardownEnded,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.session._session_state import HeldAgent
    from greenroom.actors.session.board import Board
    from greenroom.actors.session.resources import BuildContext
    from greenroom.messages import BeginTurn, BuildHere, Request, TurnGranted

__all__ = ["Errands"]

logger = logging.getLogger("greenroom.actors")

BUILDS, HOOKS, DRAIN = "build", "hooks", "drain"
"""The lanes: however many hooks are slow, builds have workers, and so has a drain."""

MOST_IN_A_DRAIN = 512
"""How many hooks may run at once in a drain: nearly all there are."""

PUT_OFF = object()
"""What a commit returns that was not to begin."""


class Errands:
    """Sends a session's slow work on its way."""

    __slots__ = ("_board", "_key", "_ref", "_shown")

    def __init__(self, board: Board, key: str, ref: ActorRef[Any]) -> None:
        self._board = board
        self._key = key
        self._shown = key if key.isprintable() else repr(key)  # in the names of threads, and in logs
        self._ref = ref

    def build(
        self, incarnation: int, context: BuildContext, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        """Build an agent. `BuildEnded` comes back, and again if it was given up and returns late."""
        board, runtime, loop = self._board, self._board.runtime, usable(loop)
        began = runtime.clock()

        def ended(agent: Any = None, error: BaseException | None = None, returned: bool = True) -> None:
            if agent is None and error is None:
                error = TypeError("build() returned None in the place of an agent")
            weight = 0 if error is not None else board.weigh(self._key, agent) or 0
            self._hand_in(
                BuildEnded(
                    incarnation=incarnation,
                    agent=agent,
                    error=error,
                    weight=weight,
                    seconds=runtime.clock() - began,
                    returned=returned,
                ),
                otherwise=lambda: self._close_stray(agent) if error is None else None,
            )

        work = _calling(runtime, loop, board.build, (context,), ended, lambda e: ended(error=e))
        self._send(
            work,
            f"build {self._shown}",
            board.policy.build_timeout,
            loop,
            lambda error: ended(error=error, returned=not _may_come_back(error)),
            lane=BUILDS,
        )

    def build_here(self, turn: BeginTurn, here: BuildHere) -> TurnGranted:
        """Build on this very thread, which is that of the turn's caller, and hand the agent in.

        A strike in `build` is a failed build for the session, and reaches the caller as it is.
        """
        board, runtime = self._board, self._board.runtime
        began = runtime.clock()
        agent: Any = None
        error: BaseException | None = None
        try:
            work = functools.partial(runtime._call_and_await, board.build, (here.context,), None)
            # A loop of one: after a call returns, a signal may strike before its value is in hand; after
            # a step of a loop it does not.
            for agent in map(copy_context().run, (work,)):  # noqa: B007  # it is used behind the loop
                break
            if agent is None:
                error = TypeError("build() returned None in the place of an agent")
        except BaseException as raised:
            error = raised
        weight = 0 if error is not None else board.weigh(self._key, agent) or 0
        ended: BuildEnded | None = BuildEnded(
            incarnation=here.incarnation,
            agent=agent,
            error=error,
            weight=weight,
            seconds=runtime.clock() - began,
            returned=True,
            turn=turn,
        )
        if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
            self._tell(ended)
            raise error
        try:
            return cast("TurnGranted", self._ref.actor_inbox.ask(ended, gives_way=False))
        except pykka.ActorDeadError as dead:
            if error is None:
                self._close_stray(agent)
            msg = f"session {self._key!r} was closed before its agent was built"
            raise RoomClosed(msg, self._key) from dead
        except GreenroomError as refusal:
            refused = refusal
        except BaseException:
            # The session failed on it, which its supervisor sees to, or this thread was struck.
            self._tell(ended, lambda: self._close_stray(agent) if error is None else None)
            raise
        agent = ended = None
        raise refused.with_traceback(None)  # which has frames, and these have the agent

    def commit(
        self,
        attempt: int,
        hook: Callable[[], Any],
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None,
        entry: tuple[Request[bool], Request[bool]] | None = None,
    ) -> None:
        """Commit. `CommitEnded` comes back, or `CommitStuck` and then, perhaps, `CommitEnded`.

        With a ledger, `entry` is what that is told before the hook is called, and after: what was begun
        has its number for good, and what the provider has done counts once the ledger knows it.
        """
        runtime, loop = self._board.runtime, usable(loop)
        began = runtime.clock()

        def ended(result: Any = None, error: BaseException | None = None) -> None:
            if result is not PUT_OFF:
                seconds = runtime.clock() - began
                # The last that this worker does for it. If the agent is to be let go now, it does that,
                # too: one trip, and nobody is woken.
                thread = LOCAL.state
                thread.finishing = True
                try:
                    self._tell(CommitEnded(attempt=attempt, error=error, seconds=seconds))
                finally:
                    thread.finishing = False

        def failed(error: BaseException) -> None:
            if _may_come_back(error):
                self._tell(CommitStuck(attempt=attempt, error=error))
            else:
                ended(error=error)

        start = StartCommit(attempt=attempt)

        clerk = self._board.clerk
        before, after = entry or (None, None)

        async def on_a_loop() -> Any:
            if clerk is not None and before is not None:
                self._see_whether_lost(await clerk.ask(before, block=False))
            if not await self._ref.ask(start, block=False):
                return PUT_OFF
            result = await hook()
            if clerk is not None and after is not None:
                self._see_whether_lost(await clerk.ask(after, block=False))
            return result

        def on_a_worker() -> Any:
            if clerk is not None and before is not None:
                self._see_whether_lost(clerk.ask(before))
            if not self._ref.ask(start):
                return PUT_OFF
            result = runtime._call_and_await(hook, (), loop)
            if clerk is not None and after is not None:
                self._see_whether_lost(clerk.ask(after))
            return result

        call = on_a_loop if is_async(hook) else on_a_worker
        work = _calling(runtime, loop, call, (), ended, lambda e: ended(error=e))
        self._send(work, f"commit {self._shown}", timeout, loop, failed)

    def _see_whether_lost(self, held: bool) -> None:
        if not held:
            msg = f"session {self._key!r}: another room has taken it over, and answers for its turns"
            raise LostOwnership(msg, self._key)

    def tear_down(
        self,
        incarnation: int,
        tenant: HeldAgent,
        hooks: list[tuple[str, Callable[[], Any]]],
        *,
        close: bool,
    ) -> None:
        """Call the hooks of a release or of a close. `TeardownEnded` comes back, once."""
        runtime, agent, loop = self._board.runtime, tenant.agent, usable(tenant.loop)
        began = runtime.clock()

        def ended(errors: tuple[tuple[str, BaseException], ...]) -> None:
            seconds = runtime.clock() - began
            self._tell(TeardownEnded(incarnation=incarnation, errors=errors, seconds=seconds))

        def last(errors: list[tuple[str, BaseException]]) -> None:
            if not close:
                forget_transcript(agent)
            ended(tuple(errors))

        what = "close" if close else "release"
        name, timeout = f"{what} {self._shown}", self._board.policy.teardown_timeout

        def failed(error: BaseException) -> None:
            if isinstance(error, WorkNotBegun) and loop is not None:
                # Not one hook was called. The agent's own loop does not run them, so ours does.
                again = _calling_all(runtime, None, hooks, last)
                self._send(again, name, timeout, None, lambda error: ended(((what, error),)))
            else:
                ended(((what, error),))

        self._send(_calling_all(runtime, loop, hooks, last), name, timeout, loop, failed)

    def close_resources(self, number: int, closers: list[tuple[str, Callable[[], Any]]]) -> None:
        """Close the resources of an ended session. `ResourcesClosed` comes back."""

        def ended(errors: list[tuple[str, BaseException]]) -> None:
            self._tell(ResourcesClosed(number=number, errors=tuple(errors)))

        work = _calling_all(self._board.runtime, None, closers, ended)
        name, timeout = f"close resources {self._shown}", self._board.policy.teardown_timeout
        self._send(work, name, timeout, None, lambda error: ended([("resources", error)]))

    def interrupt(
        self,
        hook: Callable[[], Any],
        loop: asyncio.AbstractEventLoop | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        """Interrupt an agent. Nothing comes back, unless it fails."""
        loop = usable(loop)
        work = _calling(self._board.runtime, loop, hook, (), lambda _: None, failed)
        timeout = self._board.policy.teardown_timeout
        self._send(work, f"interrupt {self._shown}", timeout, loop, failed)

    def _send(
        self,
        work: Callable[[], Any],
        name: str,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None,
        failed: Callable[[BaseException], None],
        lane: str = HOOKS,
    ) -> None:
        """Have it done. `failed` hears if it never began, or is stuck."""
        most = None
        if self._board.draining:
            # Whoever hangs in a drain hangs to its end: there are workers for the others.
            lane, most = DRAIN, MOST_IN_A_DRAIN
        runtime = self._board.runtime
        try:
            future = runtime.submit(work, timeout=timeout, name=name, loop=loop, lane=lane, most=most)
        except RuntimeClosed as error:
            failed(error)
            return

        def look(done: Any) -> None:
            try:
                done.get()
            except BaseException as error:
                failed(error)

        future.on_done(look)

    def _hand_in(self, message: BuildEnded, otherwise: Callable[[], object]) -> None:
        """Tell the session of an agent. It must not get lost with a session that stops just then: so the
        message is asked, and whoever it is refused to closes the agent."""
        mailbox = self._ref.actor_inbox
        answer = mailbox.create_future(message)

        def look(answered: Future[Any]) -> None:
            try:
                answered.get()
            except pykka.ActorDeadError:
                otherwise()
            except BaseException:
                self._tell(message, otherwise)  # the session failed on it: its supervisor sees to that

        answer.on_done(look)
        try:
            mailbox.deliver(message, answer)
        except pykka.ActorDeadError:
            otherwise()

    def _tell(self, message: Any, otherwise: Callable[[], object] = lambda: None) -> None:
        try:
            self._ref.actor_inbox.deliver(message)
        except pykka.ActorDeadError:
            otherwise()

    def _close_stray(self, agent: Any) -> None:
        """Close an agent whose session is gone: its build outlasted a drain.

        On this very thread, which is the one that built it: the runtime may have ended, too.
        """
        for name, hook in self._board.hooks.farewell(agent, close=True):
            try:
                result = hook()
                if inspect.isawaitable(result):
                    _run_to_its_end(result)
            except BaseException as error:
                logger.warning("%s() raised for a late agent of %r: %r", name, self._key, error)


def _may_come_back(error: BaseException) -> bool:
    """Tell whether work is stuck, and not just not done."""
    return isinstance(error, WorkTimedOut) and not isinstance(error, WorkNotBegun)


def _run_to_its_end(awaitable: Awaitable[Any]) -> None:
    async def awaited() -> None:
        await awaitable

    loop = running_loop()
    if loop is None:
        asyncio.run(awaited())
    else:
        _last_tasks.add(task := loop.create_task(awaited()))
        task.add_done_callback(_last_tasks.discard)


_last_tasks: set[asyncio.Task[None]] = set()
"""A loop keeps only weak references to its tasks."""


def _calling(
    runtime: Runtime,
    loop: asyncio.AbstractEventLoop | None,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    succeeded: Callable[[Any], object],
    failed: Callable[[BaseException], object],
) -> Callable[[], Any]:
    """Make work of a call, sync or async, that reports its own outcome and raises nothing."""

    async def on_a_loop() -> None:
        try:
            result = await call(*args)
        except BaseException as error:
            failed(error)
        else:
            succeeded(result)

    def on_a_worker() -> None:
        try:
            result = runtime._call_and_await(call, args, loop)
        except BaseException as error:
            failed(error)
        else:
            succeeded(result)

    return on_a_loop if is_async(call) else on_a_worker


def _calling_all(
    runtime: Runtime,
    loop: asyncio.AbstractEventLoop | None,
    calls: list[tuple[str, Callable[[], Any]]],
    ended: Callable[[list[tuple[str, BaseException]]], object],
) -> Callable[[], Any]:
    """Make work of several calls, each of which is made whatever the others raise."""
    errors: list[tuple[str, BaseException]] = []

    async def on_a_loop() -> None:
        for name, call in calls:
            try:
                await call()
            except BaseException as error:
                errors.append((name, error))
        ended(errors)
        errors.clear()  # they hold tracebacks, these hold frames, and these hold the agent

    def on_a_worker() -> None:
        for name, call in calls:
            try:
                runtime._call_and_await(call, (), loop)
            except BaseException as error:
                errors.append((name, error))
        ended(errors)
        errors.clear()

    return on_a_loop if calls and all(is_async(call) for _, call in calls) else on_a_worker
