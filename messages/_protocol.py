"""What every message is: a request, which is answered, or a notice, which is not."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Notice", "Request"]

R = TypeVar("R")


class Request(Generic[R]):
    """A message that is answered with an `R`. It must be asked; a type checker refuses to tell it."""

    __slots__ = ()


class Notice:
    """A message that nobody answers: it is told."""

    __slots__ = ()
