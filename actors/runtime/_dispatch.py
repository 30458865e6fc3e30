"""What a mailbox does itself with the messages that are not for `on_receive()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from greenroom.actors.runtime._resume import Resume
from greenroom.messages import ChildFailed, StopActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._mailbox import Mailbox

__all__ = ["SPECIAL"]


def _call(mailbox: Mailbox, message: ProxyCall) -> Any:
    callee: Any = mailbox.actor
    for name in message.attr_path:
        callee = getattr(callee, name)
    return callee(*message.args, **message.kwargs)


def _get(mailbox: Mailbox, message: ProxyGetAttr) -> Any:
    value: Any = mailbox.actor
    for name in message.attr_path:
        value = getattr(value, name)
    return value


def _set(mailbox: Mailbox, message: ProxySetAttr) -> None:
    *path, last = message.attr_path
    owner: Any = mailbox.actor
    for name in path:
        owner = getattr(owner, name)
    setattr(owner, last, message.value)


def _stop(mailbox: Mailbox, _: StopActor) -> None:
    mailbox.stop()


def _child_failed(mailbox: Mailbox, message: ChildFailed) -> None:
    actor = mailbox.actor
    assert actor is not None
    actor.on_child_failed(message)


def _resume(mailbox: Mailbox, _: Resume) -> None:
    actor = mailbox.actor
    assert actor is not None
    actor.do(())


SPECIAL: dict[type, Callable[[Mailbox, Any], Any]] = {
    ProxyCall: _call,
    ProxyGetAttr: _get,
    ProxySetAttr: _set,
    StopActor: _stop,
    ChildFailed: _child_failed,
    Resume: _resume,
}
"""One look-up by exact class, in the place of pykka's chain of `isinstance`. `Mailbox.ask` names these
classes once more, but for `Resume`, which is never asked: its short way must not touch a dict that all
actors share."""
