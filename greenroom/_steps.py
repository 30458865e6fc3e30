"""What is asked of actors in several steps, written once for threads and for event loops.

A generator yields an actor and a request, and is sent the answer; if the request fails, the exception is
raised where it yielded. So it reads like a function that asks and goes on:

    def open_and_ask(supervisor, key, request):
        session = yield supervisor, OpenSession(key=key)
        return (yield session, request)

`take()` waits for each answer on the caller's thread, `take_async()` awaits it.

An exception out of nowhere (a Ctrl-C, a cancelled task) may strike between two steps as well. Then the
generator is closed where it stands: steps must not need a last word.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from greenroom.actors import ActorRef

__all__ = ["Steps", "take", "take_async"]

T = TypeVar("T")
Steps: TypeAlias = "Generator[tuple[ActorRef[Any], Any], Any, T]"


def take(steps: Steps[T], *, gives_way: bool = True) -> T:
    """Take the steps on this thread. For `gives_way`, see `Mailbox.ask`, which makes no future."""
    try:
        actor, request = next(steps)
        while True:
            try:
                answer = actor.actor_inbox.ask(request, gives_way=gives_way)
            except BaseException as error:
                actor, request = steps.throw(error)
            else:
                actor, request = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the steps return


async def take_async(steps: Steps[T]) -> T:
    """Take the steps in this task."""
    try:
        actor, request = next(steps)
        while True:
            try:
                answer = await actor.ask(request, block=False)
            except BaseException as error:
                actor, request = steps.throw(error)
            else:
                actor, request = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the steps return
