"""An agent of a room whose turns are runs of somebody's framework.

    async with room.turn("telegram:12345") as turn:
        async for piece in turn.agent.stream("Hello"):        # or: await turn.agent.run("Hello")
            await send(piece)

Frameworks differ in what a run is, and agree in what goes wrong with it: it is left in the middle (the
client hung up), cancelled (the turn took too long), or to be ended from another thread (somebody pressed
*stop*). What is promised, whatever the framework:

- **A run is one task.** It is begun and ended in the same one, as cancel scopes want it, whoever takes
  its pieces, and from wherever. The context variables of whoever began it are its own.
- **Whoever leaves a stream ends the run**: by `break`, by an exception, by cancellation. What it waits
  for is cancelled. With `aclosing()` around the stream, the turn goes on only when that has ended;
  without, the next answer does.
- **`interrupt()` ends a run from any thread.** The stream ends without an error: what was said so far is
  the answer, and is kept as such where the framework allows it. Between runs it does nothing, and
  nothing to the next one either.
- **Nothing is kept of a run that failed or was cancelled**, unless the framework itself writes between
  its steps.

Who takes pieces slowly slows nobody down: what a model has said waits in memory, one answer at most.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from greenroom.integrations._waiting import await_on, wait_ended

if TYPE_CHECKING:
    from greenroom import BuildContext, Turn

__all__ = ["Conversation", "follow"]


def follow(agent: Conversation, turn: Turn) -> None:
    """Let an agent go on with the conversation of its turn: `Greenroom(…, prepare=follow)`.

    Several session ids may alternate under one key, and the agent stays the same. Without this it would
    go on with the one that it was built for.
    """
    agent.session_id = turn.session_id


class Conversation(ABC):
    """An agent that runs a framework. It belongs to one session, and to one turn at a time."""

    def __init__(self, context: BuildContext) -> None:
        self.key = context.key
        self.session_id = context.session_id
        """Which conversation is gone on with."""
        self.interrupted = False
        """Whether the last answer was ended by `interrupt()`."""
        self._run: _Run | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.key!r}>"

    @abstractmethod
    def _answer(self, text: str) -> AsyncGenerator[str, None]:
        """Run the framework once, and yield what it says."""

    async def _finish(self) -> None:  # noqa: B027
        """Keep an exchange that is whole. The run is over: whoever interrupts this comes too late."""

    async def _keep(self, text: str, said: str) -> None:  # noqa: B027
        """Keep an exchange that was interrupted. Where this is not overridden, nothing is kept."""

    async def stream(self, text: str, *, keep: bool = True) -> AsyncGenerator[str, None]:
        """Answer, piece by piece. Without `keep`, the conversation does not remember it."""
        if not text:
            raise ValueError("there is nothing to answer: text is empty")
        await self._end_left()
        self.interrupted = False
        run = self._run = _Run(self._answer(text))
        said: list[str] = []
        try:
            async with aclosing(run.pieces()) as pieces:
                async for piece in pieces:
                    said.append(piece)
                    yield piece
            self.interrupted = run.interrupted
            if not keep:
                return
            if run.interrupted:
                await self._keep(text, "".join(said))
            else:
                await self._finish()
        finally:
            try:
                await run.end()
            finally:
                if self._run is run:
                    self._run = None

    async def run(self, text: str, *, keep: bool = True) -> str:
        """Answer in one piece."""
        async with aclosing(self.stream(text, keep=keep)) as pieces:
            return "".join([piece async for piece in pieces])

    async def answer(self, request: Any) -> AsyncGenerator[str, None]:
        """Answer a client of the gateway: `greenroom serve --agent module:factory`.

        The conversation is ours: of what the client sent, the last message is taken. Of a request whose
        session ends with it, nothing is kept.
        """
        text, keep = _text_of(request.messages[-1]), not request.ephemeral
        async with aclosing(self.stream(text, keep=keep)) as pieces:
            async for piece in pieces:
                yield piece

    def interrupt(self) -> None:
        """End the running answer soon, with what was said so far. From any thread; returns at once.

        What was said and not taken yet is still to be taken.
        """
        run = self._run
        if run is not None:
            run.interrupt()

    async def _end_left(self) -> None:
        """End a run that was left by `break`, and is not closed yet."""
        while (left := self._run) is not None:
            await left.end()
            if self._run is left:
                self._run = None


class _Run:
    """One run of a framework, in a task of its own.

    The task puts pieces into a queue and ends; its end is the last thing in the queue. So there is one
    place to wait at, and nothing that was said before the end is lost.
    """

    def __init__(self, pieces: AsyncGenerator[str, None]) -> None:
        self.interrupted = False
        self._given_up = False
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._play(pieces))
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))

    async def _play(self, pieces: AsyncGenerator[str, None]) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                self._queue.put_nowait(piece)

    async def pieces(self) -> AsyncGenerator[str, None]:
        """What the run says, up to its end, or its error."""
        while (piece := await self._queue.get()) is not None:
            yield piece
        if self._given_up:
            raise RuntimeError(
                "this answer was given up: another answer was begun, or the agent released"
            )
        if not (self.interrupted and self._task.cancelled()):
            self._task.result()

    def interrupt(self) -> None:
        """End it. From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupt)
        except RuntimeError:
            pass  # the loop was closed, and the run with it

    def _interrupt(self) -> None:
        if not self._task.done() and not self._stopped:
            self.interrupted = True
            self._stop()

    def _stop(self) -> None:
        # Once: a second cancellation would hit the run where it clears up after the first.
        if not self._stopped:
            self._stopped = True
            self._task.cancel()

    async def end(self) -> None:
        """End it if it still runs, and wait until it has, whoever is cancelled meanwhile. Its error is
        told by `pieces`, or by nobody: whoever left did not want to know."""
        self._given_up = True  # also if it is over, and only its last pieces wait to be taken
        await await_on(self._loop, self._end)

    async def _end(self) -> None:
        self._stop()
        await wait_ended(self._task)
        if not self._task.cancelled():
            self._task.exception()


def _text_of(message: Mapping[str, Any]) -> str:
    """The text of a message in OpenAI's form, whose content is text or a list of parts."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content
    parts: list[Any] = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
