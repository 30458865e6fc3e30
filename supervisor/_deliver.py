"""Tell an actor that may have stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pykka

if TYPE_CHECKING:
    from greenroom.actors import ActorRef

__all__ = ["deliver"]


def deliver(ref: ActorRef[Any], message: Any) -> bool:
    """Tell an actor. False if it has stopped."""
    try:
        ref.actor_inbox.deliver(message)
    except pykka.ActorDeadError:
        return False
    return True
