"""Which method a message is for, and what a mailbox does itself with those that are for none."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Any

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from greenroom.actors.runtime._resume import LookForDropped, Resume
from greenroom.messages import Call, ChildFailed, StopActor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._mailbox import Mailbox

__all__ = ["SPECIAL", "Handlers"]

HOOKS = {"child_failed", "dropped", "failure", "receive", "start", "stop"}
"""An actor has methods by these names that are for no message."""


class Handlers(dict[type, "Callable[[Any, Any], Any]"]):
    """The methods of an actor class by the messages they handle, each looked up once: `on_begin_turn`
    for a `BeginTurn`, or for the first of its base classes that there is a method for."""

    def __init__(self, actor_class: type[Actor]) -> None:
        self._actor_class = actor_class

    def __missing__(self, kind: type) -> Callable[[Any, Any], Any]:
        words = [re.sub(r"\B([A-Z])", r"_\1", base.__name__).lower() for base in kind.__mro__]
        names = [f"on_{word}" for word in words if word not in HOOKS]
        methods = (getattr(self._actor_class, name, None) for name in names)
        self[kind] = handler = next(filter(None, methods), pykka.Actor.on_receive)
        return handler


def _reach(mailbox: Mailbox, path: Sequence[str]) -> Any:
    return reduce(getattr, path, mailbox.actor)


def _call(mailbox: Mailbox, message: ProxyCall) -> Any:
    return _reach(mailbox, message.attr_path)(*message.args, **message.kwargs)


def _get(mailbox: Mailbox, message: ProxyGetAttr) -> Any:
    return _reach(mailbox, message.attr_path)


def _set(mailbox: Mailbox, message: ProxySetAttr) -> None:
    *path, last = message.attr_path
    setattr(_reach(mailbox, path), last, message.value)


def _stop(mailbox: Mailbox, _: StopActor) -> None:
    mailbox.stop()


def _child_failed(mailbox: Mailbox, message: ChildFailed) -> None:
    actor = mailbox.actor
    assert actor is not None
    actor.on_child_failed(message)


def _call_own(mailbox: Mailbox, message: Call) -> None:
    getattr(mailbox.actor, message.name)(*message.args)


def _resume(mailbox: Mailbox, _: Resume) -> None:
    actor = mailbox.actor
    assert actor is not None
    actor.do(())


def _refuse_dropped(mailbox: Mailbox, _: LookForDropped) -> None:
    mailbox.refuse_dropped()


SPECIAL: dict[type, Callable[[Mailbox, Any], Any]] = {
    ProxyCall: _call,
    ProxyGetAttr: _get,
    ProxySetAttr: _set,
    StopActor: _stop,
    Call: _call_own,
    ChildFailed: _child_failed,
    Resume: _resume,
    LookForDropped: _refuse_dropped,
}
"""One look-up by exact class, in the place of pykka's chain of `isinstance`. `Mailbox.ask` names these
classes once more, but for `Call` and `Resume`, which are never asked: its short way must not touch a
dict that all actors share."""
