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

    def decorate(cls: C) -> C:
        made = dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=eq)(cls)
        fields = dataclasses.fields(made)
        if all(field.default_factory is dataclasses.MISSING for field in fields):
            _write_init(made, fields)
        return made  # type: ignore[return-value]  # the same class, in slots

    return decorate


def _write_init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> None:
    """Give the class a constructor that sets its slots directly.

    That of a frozen dataclass goes through `object.__setattr__`, looking up each name again; this one
    takes half the time, and a warm turn makes five messages.
    """
    if not fields:
        return
    names: dict[str, Any] = {}
    parameters: list[str] = []
    for field in fields:
        names[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        if field.default is dataclasses.MISSING:
            parameters.append(field.name)
        else:
            names[f"_default_{field.name}"] = field.default
            parameters.append(f"{field.name}=_default_{field.name}")
    body = "\n".join(f"    _set_{field.name}(self, {field.name})" for field in fields)
    source = f"def __init__(self, *, {', '.join(parameters)}):\n{body}\n"
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), names)  # as dataclasses does it
    cls.__init__ = names["__init__"]
