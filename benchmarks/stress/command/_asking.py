"""What a turn does with an agent of the gateway's kind: it asks it to `answer`.

Such an agent is called with a request and may answer in any of four ways: as an async generator, a
coroutine, a generator or plain text (`docs/agents.md`). All of them are heard to their end here, and
nothing of it is kept. Those that are not async run on threads.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from greenroom.stress._target import Planned

__all__ = ["Ask", "answers", "asking"]

MESSAGE = "Hello, this is turn {number}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, with all that the gateway's own has."""

    messages: tuple[Mapping[str, Any], ...]
    model: str = ""
    instructions: str | None = None
    complete: bool = False
    ephemeral: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    request_id: str = ""


def answers(agent: Any) -> bool:
    """Whether it is an agent of the gateway's kind."""
    return callable(getattr(agent, "answer", None))


def asking(message: str | None = None) -> Callable[[Any, Planned], Any]:
    """Make what a turn does: say this, and hear the answer.

    An agent of another kind is kept for as long as the turn was planned to take; if there is a message,
    somebody expected it to be heard, and that is an error.
    """

    async def ask(agent: Any, planned: Planned) -> None:
        if not answers(agent):
            if message is not None:
                kind = type(agent).__name__
                msg = f"an agent that is told something needs answer(request), and {kind} has none"
                raise TypeError(msg)
            await _wait(planned.seconds)
            return
        seconds = f"{min(planned.seconds, 3600.0):.3f}"
        text = (
            (message or MESSAGE).replace("{number}", str(planned.number)).replace("{seconds}", seconds)
        )
        request = Ask(
            messages=({"role": "user", "content": text},), request_id=f"stress-{planned.number}"
        )
        await _hear(agent.answer, request)

    return ask


async def _wait(seconds: float) -> None:
    if math.isinf(seconds):
        await asyncio.get_running_loop().create_future()  # until the run cancels it
    await asyncio.sleep(seconds)


async def _hear(answer: Callable[[Ask], Any], request: Ask) -> None:
    if inspect.isasyncgenfunction(answer) or inspect.iscoroutinefunction(answer):
        await _to_its_end(answer(request))
        return
    rest = await _on_a_thread(lambda: _plainly(answer(request)))
    if rest is not None:
        await _to_its_end(rest)


def _plainly(given: Any) -> Any:
    """Hear what needs no loop. Returns what does."""
    later: Any = given
    if inspect.isawaitable(given) or isinstance(given, AsyncIterable):
        return later
    if isinstance(given, Iterable) and not isinstance(given, str):
        for _ in cast("Iterable[object]", given):
            pass
    return None


async def _to_its_end(given: Any) -> None:
    whole = await given if inspect.isawaitable(given) else given
    if isinstance(whole, AsyncIterable):
        async for _ in cast("AsyncIterable[object]", whole):
            pass
    else:
        _plainly(whole)


async def _on_a_thread(work: Callable[[], Any]) -> Any:
    """Run it on a thread of its own, as the gateway does: a pool would bound what a room is to bear."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            result, problem = work(), None
        except BaseException as error:
            result, problem = None, error
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            pass  # the run is over

    threading.Thread(target=run, name="stress-answer", daemon=True).start()
    return await done
