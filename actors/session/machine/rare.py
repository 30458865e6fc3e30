"""Fields that few sessions have a use for: kept apart, so that the many others need no room for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["HasRare", "Rare"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class HasRare:
    """An object with rare fields: those that are not as they are at first are in a dict, which is there
    only if there are any."""

    rare: dict[str, Any] | None = None


class Rare(Generic[T]):
    """A field of such an object, and what it is at first. Which field, it learns from its name."""

    __slots__ = ("_first", "_name")

    def __init__(self, first: T) -> None:
        self._first = first

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, of: HasRare, owner: type) -> T:
        rare = of.rare
        return self._first if rare is None else rare.get(self._name, self._first)

    def __set__(self, of: HasRare, value: T) -> None:
        rare = of.rare
        if value != self._first:
            if rare is None:
                rare = of.rare = {}
            rare[self._name] = value
        elif rare is not None:
            rare.pop(self._name, None)
            if not rare:
                of.rare = None
