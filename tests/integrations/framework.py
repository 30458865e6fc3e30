"""A framework that does what a test says, and rooms of conversations with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from greenroom.integrations._recorded import RecordedConversation
from tests.actors.actors import PATIENCE

if TYPE_CHECKING:
    from greenroom import BuildContext

Script = Callable[[str], AsyncGenerator[str, None]]


class Told(RecordedConversation):
    """A conversation whose runs are a script. It keeps what was asked and said."""

    role = "told"

    def __init__(self, context: BuildContext, script: Script) -> None:
        super().__init__(context)
        self.script = script
        self.ended: list[str] = []
        """What was asked in the runs that are over, however they ended."""
        self._new: list[str] = []

    async def _answer(self, text: str) -> AsyncGenerator[str, None]:
        self._new = [text]
        await self._take_up()
        try:
            async for piece in self.script(text):
                self._new.append(piece)
                yield piece
        finally:
            self.ended.append(text)

    async def _finish(self) -> None:
        await (await self._take_up()).add(self._new)

    async def _keep(self, text: str, said: str) -> None:
        await (await self._take_up()).add([text, said, "…"])


def telling(script: Script) -> Callable[[BuildContext], Any]:
    """What builds a room's agents."""

    async def build(context: BuildContext) -> Told:
        told = Told(context, script)
        await told.open(context)
        return told

    return build


async def echo(text: str) -> AsyncGenerator[str, None]:
    """Answer in two pieces."""
    yield "You said "
    yield f"{text}."


class Silence:
    """A script that says two words and then nothing, until it is ended."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        """Set when it has said them."""

    async def __call__(self, text: str) -> AsyncGenerator[str, None]:
        yield "Let me "
        yield "think"
        self.reached.set()
        await asyncio.sleep(PATIENCE)
        yield " no more."
