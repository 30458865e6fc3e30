"""What a function makes for one session: when it is let go, and by whom."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom import BuildContext, BuildFailed, Greenroom
from greenroom.integrations._made import make
from greenroom.testing import evict_now
from tests.actors.actors import PATIENCE
from tests.integrations.framework import Told, echo

CONTEXT: Any = SimpleNamespace(key="a")


class Lent(Told):
    """A conversation that has something made for its session."""

    def __init__(self, context: BuildContext, given: Any) -> None:
        super().__init__(context, echo)
        self.thing = given

    async def _make(self, context: BuildContext) -> None:
        self.thing = await make(self.thing, context, self._made)


def lending(given: Any) -> Any:
    async def build(context: BuildContext) -> Lent:
        lent = Lent(context, given)
        await lent.open(context)
        return lent

    return build


class Lender:
    """Makes things, and remembers in which task it opened and closed each."""

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.closed: list[Any] = []

    async def lend(self, context: BuildContext) -> AsyncGenerator[str, None]:
        self.opened.append(asyncio.current_task())
        try:
            yield f"thing of {context.key}"
        finally:
            self.closed.append(asyncio.current_task())


def plain(context: Any) -> str:
    return f"thing of {context.key}"


async def eventual(context: Any) -> str:
    return f"thing of {context.key}"


def named(name: str, context: Any) -> str:
    return f"{name} of {context.key}"


@pytest.mark.parametrize("given", [plain, eventual, Lender().lend, functools.partial(named, "thing")])
def test_a_function_may_be_plain_or_async_or_yield(given: Any) -> None:
    async def ask() -> Any:
        async with AsyncExitStack() as made:
            return await make(given, CONTEXT, made)

    assert asyncio.run(ask()) == "thing of a"


def test_what_is_no_function_is_shared_and_not_closed() -> None:
    shared = SimpleNamespace(aclose=None)

    async def ask() -> Any:
        async with AsyncExitStack() as made:
            return await make(shared, CONTEXT, made)

    assert asyncio.run(ask()) is shared


@pytest.mark.parametrize("how", ["release", "close"])
def test_what_was_yielded_is_let_go_with_its_agent_by_the_task_that_made_it(how: str) -> None:
    """S1, S2"""
    lender = Lender()

    async def chat() -> None:
        async with Greenroom(lending(lender.lend)) as room:
            async with room.turn("a") as turn:
                assert turn.agent.thing == "thing of a"
                assert not lender.closed
            if how == "release":
                await asyncio.to_thread(evict_now, room, "a", PATIENCE)
            else:
                room.end("a")
                await asyncio.to_thread(room.settle, PATIENCE)
            assert len(lender.opened) == 1
            assert lender.closed == lender.opened

    asyncio.run(chat())
    assert len(lender.closed) == 1


def test_what_was_yielded_is_let_go_if_the_build_fails_after_it() -> None:
    """T5"""
    lender = Lender()

    class Failing(Lent):
        async def _take_up(self) -> Any:
            raise LookupError("no history")

    async def build(context: BuildContext) -> Lent:
        lent = Failing(context, lender.lend)
        await lent.open(context)
        return lent

    async def chat() -> None:
        async with Greenroom(build) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert isinstance(failed.value.__cause__, LookupError)
            assert lender.closed == lender.opened

    asyncio.run(chat())


def test_what_fails_before_its_yield_fails_the_build() -> None:
    """T5"""

    async def lend(context: BuildContext) -> AsyncGenerator[str, None]:
        if context:
            raise LookupError("no such server")
        yield "never"

    async def chat() -> None:
        async with Greenroom(lending(lend)) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert isinstance(failed.value.__cause__, LookupError)

    asyncio.run(chat())


def test_who_is_cancelled_while_something_is_made_has_ended_it() -> None:
    async def ask() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def lend(context: Any) -> AsyncGenerator[str, None]:
            try:
                begun.set()
                await asyncio.sleep(PATIENCE)
                yield context.key
            finally:
                ended.set()

        async def use() -> None:
            async with AsyncExitStack() as made:
                await make(lend, CONTEXT, made)

        using = asyncio.create_task(use())
        await begun.wait()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert ended.is_set()

    asyncio.run(ask())


def test_a_function_that_yields_nothing_or_twice_is_told_so() -> None:
    async def nothing(context: Any) -> AsyncGenerator[str, None]:
        if not context:
            yield "never"

    async def twice(context: Any) -> AsyncGenerator[str, None]:
        yield context.key
        yield context.key

    async def ask(given: Any) -> None:
        async with AsyncExitStack() as made:
            await make(given, CONTEXT, made)

    with pytest.raises(RuntimeError, match="without a yield"):
        asyncio.run(ask(nothing))
    with pytest.raises(RuntimeError, match="yielded twice"):
        asyncio.run(ask(twice))


def test_what_was_made_on_a_loop_that_has_gone_is_let_go_without_an_error() -> None:
    lender = Lender()
    made = AsyncExitStack()
    asyncio.run(make(lender.lend, CONTEXT, made))
    assert lender.closed == lender.opened  # the loop has ended all its tasks
    asyncio.run(made.aclose())


def test_what_was_made_on_another_loop_is_let_go_there() -> None:
    async def ask() -> None:
        lender = Lender()
        made = AsyncExitStack()
        await make(lender.lend, CONTEXT, made)
        await asyncio.to_thread(asyncio.run, made.aclose())
        assert lender.closed == lender.opened

    asyncio.run(ask())
