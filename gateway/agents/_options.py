"""What the options of an agent are, so that they can be checked before there is one.

    @takes(MyOptions)
    def my_agent(context, **options):
        chosen = MyOptions(**options)

A factory that has an attribute `options`, a class or function that takes the options and raises if
they make no sense, has them checked when the server starts, and not when the first session begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_count", "check_seconds", "takes"]

F = TypeVar("F", bound="Callable[..., Any]")

LONGEST = 86_400.0
"""Seconds. Whoever wants to wait for longer than a day has mistaken the unit."""


def takes(options: Callable[..., Any]) -> Callable[[F], F]:
    """Say what checks the options of a factory."""

    def mark(factory: F) -> F:
        factory.options = options  # type: ignore[attr-defined]  # functions take any attribute
        return factory

    return mark


def check_seconds(name: str, value: Any, *, least: float = 0.0) -> None:
    """Refuse what is no time that one would wait."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not least <= value <= LONGEST:
        msg = f"{name} must be a number of seconds from {least:g} to {LONGEST:g}, not {value!r}"
        raise ValueError(msg)


def check_count(name: str, value: Any, *, least: int = 0) -> None:
    """Refuse what is no number of times."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"{name} must be a whole number, {least} or more, not {value!r}"
        raise ValueError(msg)
