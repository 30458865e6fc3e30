"""Hooks that cannot be called, or that would do nothing if they were, fail. None is taken for done."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks, Greenroom
from tests.room.agents import Cast, touch, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Text:
    commit_memory_session = "yes"


class TextInTheInstance:
    def __init__(self) -> None:
        self.commit_memory_session = "yes"


class TextInAProperty:
    @property
    def commit_memory_session(self) -> str:
        return "yes"


class Generates:
    def commit_memory_session(self) -> Iterator[None]:
        yield


class GeneratesAsync:
    async def commit_memory_session(self, generation: int) -> AsyncIterator[int]:
        yield generation


class ReturnsAGenerator:
    def commit_memory_session(self) -> Iterator[int]:
        return (number for number in range(3))


class ReturnsAGeneratorAsync:
    async def commit_memory_session(self) -> Iterator[int]:
        return (number for number in range(3))


@pytest.mark.parametrize(
    "kind",
    [
        Text,
        TextInTheInstance,
        TextInAProperty,
        Generates,
        GeneratesAsync,
        ReturnsAGenerator,
        ReturnsAGeneratorAsync,
    ],
)
def test_a_commit_hook_that_commits_nothing_fails_and_the_turns_are_kept(
    cast: Cast, kind: Callable[[], Any]
) -> None:
    """G4, G9"""
    room = cast.room(build=lambda _: kind())
    touch(room, "a")

    outcome = room.commit("a")

    assert (bool(outcome), outcome.left) == (False, 1)
    assert "commit" in outcome.note
    assert "TypeError" in outcome.note
    room.evict("a")
    room.settle()
    stats = room.stats()
    assert (stats.retained, stats.dirty, stats.commits) == (1, 1, 0)
    assert "TypeError" in str(room.explain("a"))
    assert tuple(room.close().failed) == ("a",)


@pytest.mark.parametrize("hook", ["release_clients", "close", "shutdown_memory_provider", "interrupt"])
@pytest.mark.parametrize("odd", ["text", "generator"])
def test_another_hook_that_does_nothing_is_logged_and_counted_once(
    cast: Cast, caplog: pytest.LogCaptureFixture, hook: str, odd: str
) -> None:
    """S5"""

    def generates(_: object) -> Iterator[None]:
        yield

    agent = type("Agent", (), {hook: "yes" if odd == "text" else generates})
    room = cast.room(build=lambda _: agent())
    with room.turn("a"):
        room.end("a", interrupt=True)
    until(lambda: room.stats().hook_failures == 1, "a hook that failed")
    room.close()

    assert room.stats().hook_failures == 1
    (text,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert hook in text
    assert "TypeError" in text
    assert ("cannot be called" if odd == "text" else "must not yield") in text


def test_a_generator_function_in_the_place_of_a_function_is_refused_at_once() -> None:
    def generates(*_: Any) -> Iterator[None]:
        yield

    async def generates_async(*_: Any) -> AsyncIterator[None]:
        yield

    for odd in (generates, generates_async):
        with pytest.raises(TypeError, match=r"commit must be .* generator function"):
            AgentHooks(commit=odd)
        with pytest.raises(TypeError, match=r"build must be .* generator function"):
            Greenroom(odd)
        with pytest.raises(TypeError, match=r"prepare must be .* generator function"):
            Greenroom(lambda _: object(), prepare=odd)
