"""Anybody's agents, watched: their builds and hooks are written into the log, and else nothing changes.

The room is given hooks that find what it would find without them: the same methods, sync or async, with
the generation or without. Around each, what happens is noted. An agent is not touched, not wrapped, and
not kept alive.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from greenroom import AgentHooks, BuildContext, Generation
from greenroom.stress._observations import Kind, Log

__all__ = ["Roster", "WatchedHooks", "is_async", "watched_build"]

Call = Callable[[], Any]

TEARDOWNS = ("release_clients", "close", "aclose", "__aexit__")
"""What an agent is torn down with: one of these, once."""


class Roster:
    """The agents that are alive, by what Python calls their identity: they may be any objects at all."""

    __slots__ = ("_numbers", "_there", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self._numbers = itertools.count(1)
        self._there: dict[int, tuple[str, int]] = {}

    def number(self) -> int:
        """A number for the next build."""
        return next(self._numbers)

    def enter(self, agent: Any, key: str, number: int) -> None:
        """An agent was built."""
        whose, _ = self._there.setdefault(id(agent), (key, number))
        if self._there[id(agent)] != (key, number):
            msg = (
                f"the factory returned for {key!r} the agent that {whose!r} has: make one for each "
                "call, or nobody can tell whose turns it is in"
            )
            raise ValueError(msg)

    def find(self, agent: Any) -> tuple[str, int]:
        """Its key and its number. One that is not there, or not any more, has the number 0."""
        return self._there.get(id(agent), ("(unknown)", 0))

    def leave(self, agent: Any) -> None:
        """It is being let go. The next object at its place in memory is another one."""
        self._there.pop(id(agent), None)


def watched_build(
    factory: Callable[[BuildContext], Any], roster: Roster
) -> Callable[[BuildContext], Any]:
    """The factory, sync or async as it is, with what it does noted."""
    log = roster.log

    def entered(agent: Any, key: str, number: int) -> Any:
        if agent is None:  # the room has something to say about that
            log.write(Kind.UNBUILT, key, number)
        else:
            roster.enter(agent, key, number)
            log.write(Kind.BUILT, key, number)
        return agent

    async def build_async(context: BuildContext) -> Any:
        number = roster.number()
        log.write(Kind.BUILDING, context.key, number)
        try:
            made = factory(context)  # which raises here, if it takes no context
        except BaseException:
            log.write(Kind.UNBUILT, context.key, number)
            raise
        return await entering(made, context.key, number)

    async def entering(made: Awaitable[Any], key: str, number: int) -> Any:
        try:
            return entered(await made, key, number)
        except BaseException:
            log.write(Kind.UNBUILT, key, number)
            raise

    def build(context: BuildContext) -> Any:
        key, number = context.key, roster.number()
        log.write(Kind.BUILDING, key, number)
        try:
            made = factory(context)
            return (
                entering(made, key, number) if inspect.isawaitable(made) else entered(made, key, number)
            )
        except BaseException:
            log.write(Kind.UNBUILT, key, number)
            raise

    return build_async if is_async(factory) else build


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedHooks(AgentHooks):
    """Finds what `AgentHooks` finds, and has it noted when it is called."""

    roster: Roster

    def __post_init__(self) -> None:
        """There is nothing to check: no hook is given."""

    # `super()` does not work in a dataclass with slots: there it names the class without them.

    def find_commit(self, agent: Any, generation: Generation) -> Call | None:
        """The commit hook. To an agent without one, everything is committed."""
        key, number = self.roster.find(agent)
        log = self.roster.log
        hook = AgentHooks.find_commit(self, agent, generation)
        begin = functools.partial(log.write, Kind.COMMIT, key, number, int(generation))
        if hook is None:
            begin()
            log.write(Kind.COMMITTED, key, number, True)
            return None
        return _noted(hook, begin, lambda error: log.write(Kind.COMMITTED, key, number, error is None))

    def farewell(self, agent: Any, *, close: bool) -> list[tuple[str, Call]]:
        """The hooks of a release or a close. An agent that has none to be torn down with is let go right
        here; one that has, and is not to be, is never seen to go."""
        key, number = self.roster.find(agent)
        log = self.roster.log

        def begin() -> None:
            log.write(Kind.TEARDOWN, key, number)
            self.roster.leave(agent)

        def end(_: BaseException | None) -> None:
            log.write(Kind.TORN, key, number)

        hooks = AgentHooks.farewell(self, agent, close=close)
        torn = [name for name, _ in hooks if name in TEARDOWNS]
        if not torn and any(inspect.getattr_static(agent, name, None) for name in TEARDOWNS):
            return hooks
        if not hooks:
            begin()
            end(None)
        noted: list[tuple[str, Call]] = []
        for place, (name, hook) in enumerate(hooks, 1):
            first, last = place == 1 or name in torn[1:], place == len(hooks)
            noted.append((name, _noted(hook, begin if first else _nothing, end if last else _nothing)))
        return noted


def is_async(call: Callable[..., Any]) -> bool:
    """Tell whether calling this makes a coroutine."""
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004  # an object whose __call__ is async
    )


def _nothing(_: BaseException | None = None) -> None:
    pass


def _noted(hook: Call, begin: Callable[[], None], end: Callable[[BaseException | None], None]) -> Call:
    """The hook, sync or async as it is, with its beginning and its end noted."""

    async def on_a_loop() -> Any:
        begin()
        try:
            result = hook()  # which raises here, if it cannot be called like this
        except BaseException as error:
            end(error)
            raise
        return await ending(result)

    async def ending(result: Awaitable[Any]) -> Any:
        try:
            value = await result
        except BaseException as error:
            end(error)
            raise
        end(None)
        return value

    def on_a_worker() -> Any:
        begin()
        try:
            result = hook()
        except BaseException as error:
            end(error)
            raise
        if inspect.isawaitable(result):
            return ending(result)
        end(None)
        return result

    return on_a_loop if is_async(hook) else on_a_worker
