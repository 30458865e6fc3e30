"""What objects are at one moment, so that they can be put back: for `Actor.save()` and `restore()`.

One level deep: an object's fields, a collection's items. Who saves names each object that may change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

__all__ = ["Saved", "put_back", "take_down"]

Saved = list[tuple[Any, Any]]

COLLECTIONS: tuple[Any, ...] = (dict, list, set, deque)


def take_down(objects: Iterable[Any]) -> Saved:
    """Take down what these are now."""
    return [(one, _ways[one.__class__](one)) for one in objects]


def put_back(saved: Saved) -> None:
    """Make them what they were then."""
    for one, then in saved:
        if issubclass(one.__class__, COLLECTIONS):
            one.clear()
            (one.update if hasattr(one, "update") else one.extend)(then)
        else:
            for name, value in zip(_names(one.__class__), then, strict=True):
                setattr(one, name, value)


def _names(kind: type) -> list[str]:
    """The fields of a class: its slots, by the names that they have outside of it."""
    names: list[str] = []
    for base in kind.__mro__:
        slots: str | Iterable[str] = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if not slot.startswith("__"):
                names.append(slot)
            elif not slot.endswith("__"):
                names.append(f"_{base.__name__.lstrip('_')}{slot}")
    if not names:
        msg = f"{kind.__name__} has no __slots__: name its __dict__ in the place of it"
        raise TypeError(msg)
    return names


class _Ways(dict[type, Callable[[Any], Any]]):
    """How to take each kind of object down, found out once."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        fields: Any = kind
        # Of a subclass, such as a `Counter`, the items are enough, and copying it would be slow.
        copies = [base for base in COLLECTIONS if issubclass(kind, base)]
        names = [] if copies else _names(fields)
        way: Callable[[Any], Any]
        if len(names) == 1:
            self[kind] = way = _Single(names[0])
        else:
            self[kind] = way = copies[0].copy if copies else attrgetter(*names)
        return way


class _Single:
    """An `attrgetter` of one name that returns a tuple, as those of several do."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, one: Any) -> tuple[Any, ...]:
        return (getattr(one, self._name),)


_ways = _Ways()
