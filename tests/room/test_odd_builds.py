"""What a `build` returns by mistake: refused, with what to do instead, and never given to a turn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import BuildFailed
from tests.room.agents import Cast, take_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


entered: list[str] = []


@contextlib.contextmanager
def in_a_context(_: Any) -> Iterator[object]:
    entered.append("a")
    yield object()


@contextlib.asynccontextmanager
async def in_an_async_context(_: Any) -> AsyncIterator[object]:
    entered.append("a")
    yield object()


async def later(context: Any) -> Any:
    return in_an_async_context(context)


def closing(_: Any) -> Any:
    return contextlib.closing(contextlib.ExitStack())


def generator(_: Any) -> Any:
    return (number for number in range(3))


@pytest.mark.parametrize("on_a_loop", [False, True])
@pytest.mark.parametrize("build", [in_a_context, in_an_async_context, later, closing, generator])
def test_a_build_that_returns_a_context_or_a_generator_is_refused_with_what_to_do(
    cast: Cast, build: Callable[[Any], Any], on_a_loop: bool
) -> None:
    """T5"""
    room = cast.room(build=build)

    async def main() -> None:
        async with room.turn("a"):
            pass

    with pytest.raises(BuildFailed, match=r"no agent: enter a context in build.* close") as refused:
        asyncio.run(main()) if on_a_loop else take_turn(room, "a")

    assert isinstance(refused.value.__cause__, TypeError)
    assert len(room) == 0
    assert entered == []


@pytest.mark.parametrize("timeout", [None, 10.0])
def test_a_build_that_fails_is_logged_once_with_where_it_failed(
    cast: Cast, caplog: pytest.LogCaptureFixture, timeout: float | None
) -> None:
    """T5"""

    def reach_the_provider() -> None:
        raise ConnectionError("no provider")

    cast.at["build"] = reach_the_provider
    room = cast.room()

    with pytest.raises(BuildFailed):
        take_turn(room, "a", timeout=timeout)

    (record,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.exc_info is not None
    assert "in reach_the_provider" in "".join(traceback.format_exception(*record.exc_info))


def test_an_agent_that_is_a_context_manager_itself_is_an_agent(cast: Cast) -> None:
    """S2"""
    left: list[str] = []

    class Agent:
        async def __aenter__(self) -> Agent:
            raise AssertionError("its build would have done that")

        async def __aexit__(self, *_: object) -> None:
            left.append("a")

    room = cast.room(build=lambda _: Agent())
    with room.turn("a") as turn:
        assert isinstance(turn.agent, Agent)
    room.close()
    assert left == ["a"]
