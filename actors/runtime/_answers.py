"""Ask another actor, and have its answer as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pykka

from greenroom.messages import Answered

if TYPE_CHECKING:
    from greenroom.actors.runtime._actor import Actor
    from greenroom.actors.runtime._ref import ActorRef

__all__ = ["ask_and_hear"]


def ask_and_hear(actor: Actor, ref: ActorRef[Any] | None, request: Any) -> None:
    """Have this actor told `Answered(request=…)` when the other has answered, or cannot any more."""
    try:
        if ref is None:
            raise pykka.ActorDeadError("there is nobody to ask")
        answer = ref.ask(request, block=False)
    except pykka.ActorDeadError as error:
        actor.actor_ref.tell(Answered(request=request, error=error))
        return
    actor.pipe_to_self(
        answer,
        lambda value: Answered(request=request, value=value),
        lambda error: Answered(request=request, error=error),
    )
