"""What every message is: a request, which is answered, or a notice, which is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar, dataclass_transform

__all__ = ["Notice", "Request", "message"]

R = TypeVar("R")
C = TypeVar("C", bound=type[Any])


class Request(Generic[R]):
    """A message that is answered with an `R`. It must be asked; a type checker refuses to tell it."""

    __slots__ = ()


class Notice:
    """A message that nobody answers: it is told."""

    __slots__ = ()


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
def message(*, eq: bool = True) -> Callable[[C], C]:
    """Make a class a message: a frozen, slotted, keyword-only dataclass.

    With `eq=False` a message is equal to itself only, which makes it a name for what it asks.
    """
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=eq)  # type: ignore[return-value]  # the same class, in slots
