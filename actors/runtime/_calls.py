"""What messages and work are called in logs, and whether figures make sense."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from greenroom.messages import Answered, Call

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LONGEST",
    "check_at_least",
    "check_function",
    "check_seconds",
    "check_wait",
    "describe",
    "is_async",
    "name_of",
]


def describe(message: Any) -> str:
    """Name a message for a log: never what is in it."""
    kind: type[Any] = message.__class__
    if kind is ProxyCall:
        return f"{'.'.join(message.attr_path)}()"
    if kind is ProxyGetAttr:
        return f"a look at {'.'.join(message.attr_path)}"
    if kind is ProxySetAttr:
        return f"a change of {'.'.join(message.attr_path)}"
    if kind is Answered:
        return f"Answered({message.request.__class__.__name__})"
    if kind is Call:
        return f"{message.name}()"
    return kind.__name__


def name_of(call: Callable[..., Any]) -> str:
    """Name work that was given no name: the same in every process, so no address in it."""
    plain = _without_arguments(call)
    return str(getattr(plain, "__qualname__", type(plain).__qualname__))


def is_async(call: Callable[..., Any]) -> bool:
    """Tell whether calling this makes a coroutine."""
    call = _without_arguments(call)
    plain = call.__func__ if isinstance(call, types.MethodType) else call
    if isinstance(plain, types.FunctionType) and not plain.__dict__:
        # The flags tell all there is to know about a function without attributes: it carries no mark of
        # `inspect.markcoroutinefunction()`. inspect says the same, and takes ten times as long.
        return bool(plain.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(type(call), "__call__", None)  # noqa: B004  # an object whose __call__ is async
    )


def _without_arguments(call: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(call, functools.partial):
        call = call.func
    return call


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a number that is too small, or none."""
    if not isinstance(value, int) or value < least:
        msg = f"{name} must be a whole number, {least} or more, not {value!r}"
        raise ValueError(msg)


def check_seconds(name: str, value: float | None) -> None:
    """Refuse a time that is not more than nothing. `None` is fine."""
    if value is not None and not value > 0:
        msg = f"{name} must be more than 0 seconds, or None, not {value!r}"
        raise ValueError(msg)


def check_function(
    name: str, what: str, value: object, may_be_none: bool = False, *, may_yield: bool = False
) -> None:
    """Refuse what cannot be called, or would do nothing when it is."""
    if not may_yield and (inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value)):
        msg = f"{name} must be {what}, not a generator function: {name_of(value)}() must not yield"
        raise TypeError(msg)
    if not callable(value) and not (value is None and may_be_none):
        msg = f"{name} must be {what}, not {value!r}"
        raise TypeError(msg)


def check_wait(name: str, value: float | None) -> None:
    """Refuse what is no time that one could wait. `None` is fine."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= LONGEST):
        msg = f"{name} must be from 0 to {LONGEST:g} seconds, not {value!r}"
        raise ValueError(msg)


LONGEST = 1e9
"""The longest wait, in seconds: thirty years. What is longer is meant to be for ever."""
