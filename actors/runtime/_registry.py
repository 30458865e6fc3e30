"""The registry of running actors: pykka's, with tables in the place of a list."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar, TypeVar

import pykka

from greenroom.actors.runtime._logging import get_log

__all__ = ["ActorRegistry"]

logger = get_log("greenroom.actors")

A = TypeVar("A", bound=pykka.Actor)


class ActorRegistry(pykka.ActorRegistry):
    """Every running actor of ours. See `pykka.ActorRegistry` for `broadcast()` and `stop_all()`.

    It is not pykka's own registry: `pykka.ActorRegistry.stop_all()` in the shutdown of a program that
    also uses pykka must not end sessions which still want to be drained. Taking an actor out costs the
    same whether ten or a million are in.
    """

    # Plain dicts, and each change a single step: there is nothing here that needs a lock. Only actors
    # without a parent are in them. The others are found through their parents.
    _refs: ClassVar[dict[pykka.ActorRef[Any], None]] = {}
    _weak: ClassVar[dict[int, weakref.ref[pykka.ActorRef[Any]]]] = {}
    """Those that the registry does not keep alive (`Actor.lives_on`), by the `id()` of the reference."""

    @classmethod
    def get_all(cls) -> list[pykka.ActorRef[Any]]:
        """Get all running actors: parents before their children, else in the order they were started."""
        return [ref for ref in cls.every() if ref.is_alive()]

    @classmethod
    def every(cls) -> list[pykka.ActorRef[Any]]:
        """As `get_all()`, with those that have stopped and whose children have not."""
        found: list[pykka.ActorRef[Any]] = []
        weak = [ref() for ref in list(cls._weak.values())]
        left = [*list(cls._refs), *(ref for ref in weak if ref is not None)][::-1]
        while left:
            found.append(left.pop())
            children: dict[Any, Any] = getattr(
                found[-1].actor_inbox, "children", {}
            )  # pykka's have none
            left += list(children.values())[::-1]
        return found

    @classmethod
    def get_by_class(cls, actor_class: type[A]) -> list[pykka.ActorRef[A]]:
        """Get all running actors of the class or a subclass."""
        return [ref for ref in cls.get_all() if issubclass(ref.actor_class, actor_class)]

    @classmethod
    def get_by_class_name(cls, actor_class_name: str) -> list[pykka.ActorRef[Any]]:
        """Get all running actors whose class has this name."""
        return [ref for ref in cls.get_all() if ref.actor_class.__name__ == actor_class_name]

    @classmethod
    def get_by_urn(cls, actor_urn: str) -> pykka.ActorRef[Any] | None:
        """Get an actor by its URN. It looks at every actor: a URN is for logs, a reference for use."""
        return next((ref for ref in cls.get_all() if ref.actor_urn == actor_urn), None)

    @classmethod
    def register(cls, actor_ref: pykka.ActorRef[Any], *, lives_on: bool = True) -> None:
        """Add an actor that has no parent. Starting it does this."""
        key, weak = id(actor_ref), cls._weak
        if lives_on:
            cls._refs[actor_ref] = None
        else:
            weak[key] = weakref.ref(actor_ref, lambda _: weak.pop(key, None))
        logger.debug("Registered %s", actor_ref)

    @classmethod
    def unregister(cls, actor_ref: pykka.ActorRef[A]) -> None:
        """Take an actor out. Stopping it does this."""
        if cls._refs.pop(actor_ref, logger) is None or cls._weak.pop(id(actor_ref), None) is not None:
            logger.debug("Unregistered %s", actor_ref)
        else:
            logger.debug("Unregistered %s (not found in registry)", actor_ref)
