"""The slow work of a session: what runs on workers or event loops, and how its outcome comes back.

Each piece is a coroutine, wherever it runs. If all that it calls is async, it runs on a loop; else on a
worker, where what it awaits (`Calls`) is done at once, so that nothing in it is ever suspended.

Each piece tells its session itself how it ended, in time or late; what it raises never gets out of it,
`SystemExit` neither. The future of the work only tells what that could not: that it was never
begun, or is stuck. A late outcome names its incarnation, and the session knows what to do with it.
"""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pykka

from greenroom.actors.errors import GreenroomError, LostOwnership, RoomClosed
from greenroom.actors.runtime._calls import is_async, name_of
from greenroom.actors.runtime._errors import RuntimeClosed, WorkNotBegun, WorkTimedOut
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._loops import pass_on, running_loop, usable
from greenroom.actors.runtime._strikes import is_strike
from greenroom.actors.runtime._threads import LOCAL
from greenroom.actors.session.holding import end_out_of_order, hold_for_build, hold_here
from greenroom.actors.session.hooks import forget_transcript
from greenroom.actors.session.policy import MOST_RECOVERED
from greenroom.messages import BuildEnded, CommitEnded, StartCommit, TeardownEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from greenroom.actors.runtime._future import Future
    from greenroom.actors.runtime._ref import ActorRef
    from greenroom.actors.runtime._runtime import Runtime
    from greenroom.actors.session._session_state import HeldAgent
    from greenroom.actors.session.context import RoomContext
    from greenroom.actors.session.holding import Held
    from greenroom.actors.session.resources import BuildContext
    from greenroom.messages import BeginTurn, BuildHere, Request, TurnGranted

__all__ = ["SlowWork"]

logger = get_log("greenroom.actors")

BUILDS, HOOKS, RECOVERY, DRAIN = "build", "hooks", "recovery", "drain"
"""The lanes: however many hooks are slow, builds have workers, and so has a drain. What is done for the
turns of a dead room takes no worker from those of this one."""

MOST_IN_A_DRAIN = 512
"""How many hooks may run at once in a drain: nearly all there are."""

Hooks: TypeAlias = "list[tuple[str, Callable[[], Any]]]"
Errors: TypeAlias = tuple[tuple[str, BaseException], ...]


class Calls:
    """How a piece of slow work calls hooks and asks actors: on a loop it awaits them, and on a worker
    it waits for them."""

    __slots__ = ("_loop", "_runtime", "on_loop")

    def __init__(
        self, runtime: Runtime, loop: asyncio.AbstractEventLoop | None, *, on_loop: bool
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self.on_loop = on_loop

    async def call(self, hook: Callable[..., Any], *args: Any) -> Any:
        if self.on_loop:
            return await hook(*args)
        return self._runtime._call_and_await(hook, args, self._loop)

    async def call_hook(self, hook: Callable[[], Any]) -> None:
        result = await self.call(hook)
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            msg = f"{name_of(hook)}() returned a generator, and has done nothing: it must not yield"
            raise TypeError(msg)

    async def call_all(self, hooks: Hooks, ended: Callable[[Errors], object]) -> None:
        """Make several calls, each of which is made whatever the others raise."""
        errors: list[tuple[str, BaseException]] = []
        for name, hook in hooks:
            try:
                await self.call_hook(hook)
            except BaseException as error:
                pass_on(error)
                errors.append((name, error))
        ended(tuple(errors))
        errors.clear()  # they hold tracebacks, these hold frames, and these hold the agent

    async def ask(self, ref: ActorRef[Any], message: Any) -> Any:
        return await ref.ask(message, block=False) if self.on_loop else ref.ask(message)


class SlowWork:
    """Sends a session's slow work on its way; or that of an agent that only recovers turns."""

    __slots__ = ("_key", "_recovers", "_ref", "_room", "_shown")

    def __init__(
        self, room: RoomContext, key: str, ref: ActorRef[Any], *, recovers: bool = False
    ) -> None:
        self._recovers = recovers
        self._room = room
        self._key = key
        self._shown = key if key.isprintable() else repr(key)  # in the names of threads, and in logs
        self._ref = ref

    def build(self, incarnation: int, context: BuildContext, turn: BeginTurn) -> None:
        """Build an agent for a turn. `BuildEnded` comes back, and again if it was given up and returns
        late."""
        room = self._room
        began = room.runtime.clock()

        def ended(agent: Any = None, error: BaseException | None = None, returned: bool = True) -> None:
            message = self._built(incarnation, began, agent, error, returned=returned)
            self._hand_in(message, lambda: self._close_stray(message))

        async def work(calls: Calls) -> None:
            held = hold_for_build(turn, room, self._key)
            try:
                agent = await calls.call(_goes_on(room.build, held), context)
            except BaseException as error:
                pass_on(error)
                ended(error=error)
            else:
                ended(agent)
            finally:
                end_out_of_order(held)

        def failed(error: BaseException) -> None:
            ended(error=error, returned=not _may_come_back(error))

        timeout = room.policy.build_timeout
        self._send(work, [room.build], f"build {self._shown}", timeout, turn.loop, failed, lane=BUILDS)

    def _built(
        self,
        incarnation: int,
        began: float,
        agent: Any,
        error: BaseException | None,
        *,
        returned: bool = True,
        turn: BeginTurn | None = None,
        unclaimed: list[None] | None = None,
    ) -> BuildEnded:
        if error is None:
            error = _not_an_agent(agent)
            agent = None if error is not None else agent
        return BuildEnded(
            incarnation=incarnation,
            agent=agent,
            error=error,
            weight=0 if error is not None else self._room.weigh(self._key, agent) or 0,
            seconds=self._room.runtime.clock() - began,
            returned=returned,
            turn=turn,
            unclaimed=unclaimed,
        )

    def build_here(self, turn: BeginTurn, here: BuildHere) -> TurnGranted:
        """Build on this very thread, which is that of the turn's caller, and hand the agent in.

        A strike in `build` is a failed build for the session, and reaches the caller as it is.
        """
        room, runtime = self._room, self._room.runtime
        began = runtime.clock()
        agent: Any = None
        error: BaseException | None = None
        copy, unclaimed = copy_context(), [None]
        run: Callable[..., Any] = copy.run
        held = copy.run(hold_for_build, turn, room, self._key)
        try:
            # A loop of one: after a call returns, a signal may strike before its value is in hand; after
            # a step of a loop it does not.
            for agent in map(run, (room.build,), (here.context,)):  # noqa: B007  # used behind it
                break
            if inspect.isawaitable(agent):
                waiting, agent = _go_on(agent, held), None
                again = map(runtime._call_and_await, (lambda: waiting,), ((),), (None,))
                for agent in again:  # noqa: B007  # the same
                    break
        except BaseException as raised:
            error = raised
        ended: BuildEnded | None = None
        try:
            end_out_of_order(held)
            # If there is an agent, the strike came behind its build.
            failure = error if agent is None else None
            ended = self._built(here.incarnation, began, agent, failure, turn=turn, unclaimed=unclaimed)
            if error is not None and _is_callers_own(error):
                self._tell(ended)
                raise error
            return cast("TurnGranted", self._ref.actor_inbox.ask(ended, gives_way=False))
        except pykka.ActorDeadError as dead:
            self._close_stray(ended)
            msg = f"session {self._key!r} was closed before its agent was built"
            raise RoomClosed(msg, self._key) from dead
        except GreenroomError as refusal:
            refused = refusal
        except BaseException:
            # The session failed on it, which its supervisor sees to, or this thread was struck.
            built = here.incarnation, began, agent, error if agent is None else None
            runtime.rescuer.put((self._hand_in_again, built, turn, unclaimed))
            raise
        agent = ended = None
        raise refused.with_traceback(None)  # which has frames, and these have the agent

    def _hand_in_again(
        self,
        built: tuple[int, float, Any, BaseException | None],
        turn: BeginTurn,
        unclaimed: list[None],
    ) -> None:
        """On the rescuer: hand in what a struck caller has built, if the session does not have it."""
        if unclaimed:
            ended = self._built(*built, turn=turn, unclaimed=unclaimed)
            self._hand_in(ended, lambda: self._close_stray(ended))

    def commit(
        self,
        attempt: int,
        hook: Callable[[], Any],
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None,
        entry: tuple[Request[bool], Request[bool]] | None = None,
    ) -> None:
        """Commit. `CommitEnded` comes back, and again if it was stuck and returns late.

        With a ledger, `entry` is what that is told before the hook is called, and after: what was begun
        has its number for good, and what the provider has done counts once the ledger knows it.
        """
        clock, writer = self._room.runtime.clock, self._room.writer
        began = clock()
        before, after = entry or (None, None)

        async def note(calls: Calls, request: Request[bool] | None) -> None:
            if writer is not None and request is not None and not await calls.ask(writer, request):
                msg = f"session {self._key!r}: another room has taken it over, and answers for its turns"
                raise LostOwnership(msg, self._key)

        async def work(calls: Calls) -> None:
            failure: BaseException | None = None
            try:
                await note(calls, before)
                if not await calls.ask(self._ref, StartCommit(attempt=attempt)):
                    return  # it was put off
                await calls.call_hook(hook)
                await note(calls, after)
            except BaseException as error:
                pass_on(error)
                failure = error
            # The last that this worker does for it. If the agent is to be let go now, it does that,
            # too: one trip, and nobody is woken.
            thread = LOCAL.state
            thread.finishing = True
            try:
                self._tell(CommitEnded(attempt=attempt, error=failure, seconds=clock() - began))
            finally:
                thread.finishing = False
                failure = None  # its traceback has this frame, and this has the agent

        def failed(error: BaseException) -> None:
            stuck = _may_come_back(error)
            seconds = 0.0 if stuck else clock() - began
            self._tell(CommitEnded(attempt=attempt, error=error, seconds=seconds, returned=not stuck))

        self._send(work, [hook], f"commit {self._shown}", timeout, loop, failed)

    def tear_down(self, held: HeldAgent, hooks: Hooks, *, close: bool) -> None:
        """Call the hooks of a release or of a close. `TeardownEnded` comes back, once."""
        clock, incarnation, agent = self._room.runtime.clock, held.incarnation, held.agent
        began = clock()

        def ended(errors: Errors) -> None:
            seconds = clock() - began
            self._tell(TeardownEnded(incarnation=incarnation, errors=errors, seconds=seconds))

        def last(errors: Errors) -> None:
            if not close:
                forget_transcript(agent)
            ended(errors)

        what, loop = "close" if close else "release", usable(held.loop)

        def given_up(error: BaseException) -> None:
            ended(((what, error),))

        def failed(error: BaseException) -> None:
            if isinstance(error, WorkNotBegun) and loop is not None:
                # Not one hook was called. The agent's own loop does not run them, so ours does.
                self._call_all(hooks, last, what, None, given_up)
            else:
                given_up(error)

        self._call_all(hooks, last, what, loop, failed)

    def close_resources(self, number: int, closers: Hooks) -> None:
        """Close the resources of an ended session. `TeardownEnded` comes back."""

        def ended(errors: Errors) -> None:
            self._tell(TeardownEnded(number=number, errors=errors))

        def failed(error: BaseException) -> None:
            ended((("resources", error),))

        self._call_all(closers, ended, "close resources", None, failed)

    def _call_all(
        self,
        hooks: Hooks,
        ended: Callable[[Errors], object],
        what: str,
        loop: asyncio.AbstractEventLoop | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        def work(calls: Calls) -> Coroutine[Any, Any, None]:
            return calls.call_all(hooks, ended)

        each, timeout = [hook for _, hook in hooks], self._room.policy.teardown_timeout
        self._send(work, each, f"{what} {self._shown}", timeout, loop, failed)

    def interrupt(
        self,
        hook: Callable[[], Any],
        loop: asyncio.AbstractEventLoop | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        """Interrupt an agent. Nothing comes back, unless it fails."""

        def ended(errors: Errors) -> None:
            for _, error in errors:
                failed(error)

        self._call_all([("interrupt", hook)], ended, "interrupt", loop, failed)

    def _send(
        self,
        work: Callable[[Calls], Coroutine[Any, Any, None]],
        hooks: list[Callable[..., Any]],
        name: str,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None,
        failed: Callable[[BaseException], None],
        lane: str = HOOKS,
    ) -> None:
        """Have it done, and these hooks called. `failed` hears if it never began, or is stuck."""
        most, runtime, loop = None, self._room.runtime, usable(loop)
        if self._room.draining:
            # Whoever hangs in a drain hangs to its end: there are workers for the others.
            lane, most = DRAIN, MOST_IN_A_DRAIN
        elif self._recovers:
            lane, most = RECOVERY, MOST_RECOVERED
        calls = Calls(runtime, loop, on_loop=all(map(is_async, hooks)))

        async def on_a_loop() -> None:
            await work(calls)

        def on_a_worker() -> None:
            for _ in work(calls).__await__():
                raise AssertionError  # nothing in it is suspended there

        call = on_a_loop if calls.on_loop else on_a_worker
        try:
            future = runtime.submit(call, timeout=timeout, name=name, loop=loop, lane=lane, most=most)
        except RuntimeClosed as error:
            failed(error)
            return

        def look(done: Any) -> None:
            if done.failure is not None:
                failed(done.failure)

        future.on_done(look)

    def _hand_in(self, message: BuildEnded, otherwise: Callable[[], object]) -> None:
        """Tell the session of an agent. It must not get lost with a session that stops just then: so the
        message is asked, and whoever it is refused to closes the agent."""
        mailbox = self._ref.actor_inbox
        answer = mailbox.create_future(message)

        def look(answered: Future[Any]) -> None:
            if isinstance(answered.failure, pykka.ActorDeadError):
                otherwise()
            elif answered.failure is not None:
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

    def _close_stray(self, built: BuildEnded | None) -> None:
        """Close an agent whose session is gone: its build outlasted a drain.

        On this very thread, which is the one that built it: the runtime may have ended, too.
        """
        if built is None or built.error is not None:
            return
        for name, hook in self._room.hooks.farewell(built.agent, close=True):
            try:
                result = hook()
                if inspect.isawaitable(result):
                    _run_to_its_end(result)
            except BaseException as error:
                logger.warning("%s() raised for a late agent of %r: %r", name, self._key, error)


def _is_callers_own(error: BaseException) -> bool:
    """Tell whether what `build` raised on its caller's thread is for the caller as it is."""
    return not isinstance(error, (Exception, asyncio.CancelledError)) or is_strike(error)


def _not_an_agent(made: Any) -> TypeError | None:
    """What is wrong with what `build` returned, if it is surely no agent."""
    if made is None:
        return TypeError("build() returned None in the place of an agent")
    if inspect.iscoroutine(made):
        made.close()
        return TypeError("build() was struck before what it returned could be awaited")
    if type(made).__module__ == "contextlib" or inspect.isgenerator(made) or inspect.isasyncgen(made):
        # Entered and left with the agent, it would need a way out of its own for every way that an
        # agent can go. A hook has them all.
        return TypeError(
            f"build() returned a {type(made).__name__}, and no agent: enter a context in build(), "
            "return the agent that it yields, and leave the context in the agent's close() hook"
        )
    return None


def _goes_on(build: Callable[[Any], Any], held: Held) -> Callable[[Any], Any]:
    """Have a build that returns a coroutine count as one also where that is awaited."""

    def call(context: BuildContext) -> Any:
        result = build(context)
        return _go_on(result, held) if inspect.isawaitable(result) else result

    return call


async def _go_on(result: Awaitable[Any], held: Held) -> Any:
    hold_here(held)
    return await result


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
