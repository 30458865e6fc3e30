"""Whether calling something makes a coroutine."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.actors.runtime._calls import is_async

if TYPE_CHECKING:
    from collections.abc import Callable


async def coroutine() -> None: ...


def plain() -> None: ...


async def generator() -> Any:
    yield


class Object:
    async def method(self) -> None: ...

    def plain_method(self) -> None: ...

    @staticmethod
    async def static() -> None: ...

    @classmethod
    async def of_the_class(cls) -> None: ...

    async def __call__(self) -> None: ...


ASYNC: list[Callable[..., Any]] = [
    coroutine,
    functools.partial(coroutine),
    functools.partial(functools.partial(Object().method)),
    Object().method,
    Object.static,
    Object.of_the_class,
    Object(),
]
PLAIN: list[Callable[..., Any]] = [plain, generator, Object().plain_method, Object, len, [].append]


@pytest.mark.parametrize("call", ASYNC)
def test_what_makes_a_coroutine_is_async(call: Callable[..., Any]) -> None:
    assert is_async(call)


@pytest.mark.parametrize("call", PLAIN)
def test_what_makes_none_is_not_async(call: Callable[..., Any]) -> None:
    assert not is_async(call)


@pytest.mark.skipif(not hasattr(inspect, "markcoroutinefunction"), reason="Python 3.12 brought it")
def test_a_function_that_is_marked_as_async_is_async() -> None:
    mark = getattr(inspect, "markcoroutinefunction")  # noqa: B009  # not there in Python 3.11

    def marked() -> Any:
        return coroutine()

    class Marked:
        method = mark(marked)

    assert is_async(mark(marked))
    assert is_async(Marked().method)
    assert is_async(functools.partial(marked))


def test_a_function_with_attributes_of_its_own_is_looked_at() -> None:
    async def cached() -> None: ...

    def counted() -> None: ...

    vars(cached)["calls"] = vars(counted)["calls"] = 0

    assert is_async(cached)
    assert not is_async(counted)


def test_a_method_that_is_bound_to_something_else_than_a_function_is_looked_at() -> None:
    bound = types.MethodType(Object(), "self")

    assert is_async(bound) == inspect.iscoroutinefunction(bound)
