"""What a contender has to offer to take part.

A `Stage` is one or more of its actors, set up for one measurement. A `Population` is many idle
actors. A contender that cannot do a thing raises `NotOffered` with the reason, which becomes a
footnote of the table.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, ClassVar

Call = Callable[[int], object]
AwaitableCall = Callable[[int], Awaitable[object]]


class NotOffered(Exception):
    """The contender cannot do this. The text says why."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Actors that are ready to be called, by threads or by tasks."""

    calls: Sequence[Call] = ()
    """One for each actor; may be called from any thread."""

    async_calls: Sequence[AwaitableCall] = ()
    """One for each actor; called on the loop on which `Contender.run` runs."""

    drain: Call | None = None
    """Returns when all that was told before has been handled."""

    async_drain: AwaitableCall | None = None


class Population(abc.ABC):
    """Many actors that do nothing, for what it costs to have them."""

    ceiling: ClassVar[int] = 100_000
    """More than this cannot be had."""

    def __init__(self) -> None:
        self.members: list[Any] = []

    @abc.abstractmethod
    def start(self) -> Any:
        """Start one."""

    @abc.abstractmethod
    def stop(self, member: Any) -> None:
        """Stop one, and return when it has stopped."""

    def grow(self, count: int) -> list[int]:
        """Start so many; the nanoseconds that each took."""
        taken = []
        for _ in range(count):
            begin = perf_counter_ns()
            member = self.start()
            taken.append(perf_counter_ns() - begin)
            self.members.append(member)
        return taken

    def shrink(self, leaving: Sequence[Any]) -> list[int]:
        """Stop these; the nanoseconds that each took."""
        taken = []
        for member in leaving:
            begin = perf_counter_ns()
            self.stop(member)
            taken.append(perf_counter_ns() - begin)
        return taken

    def pick(self, count: int) -> list[Any]:
        """Take so many out of `members`, from all over."""
        step = max(1, len(self.members) // count)
        picked = self.members[::step][:count]
        del self.members[: step * count : step]
        return picked

    def clear(self) -> None:
        """Stop whoever is left."""
        leaving, self.members = self.members, []
        self.shrink(leaving)


class Contender(abc.ABC):
    """One library, or one bare limit."""

    title: ClassVar[str]
    note: ClassVar[str] = ""
    """How it is used here, where there was a choice."""

    prefers_loop: ClassVar[bool] = False
    """A single caller is a coroutine on its event loop, because that is its fastest."""

    @abc.abstractmethod
    def stage(self, kind: str, *, actors: int, threads: int) -> AbstractContextManager[Stage]:
        """Set up for calls of a kind: `ask`, `proxy`, `tell`, `loop` (ask on an event loop)."""

    def population(self) -> Population:
        """An empty population."""
        raise NotOffered("no actor: nothing to start, to stop or to leave idle")

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the contender's event loop."""
        return asyncio.run(coroutine)

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """Leave nothing running."""
