"""A conversation whose history is in the room's store, as its framework writes it.

Several session ids may alternate under one key. With a store, one history is in memory at a time, and is
read again when its session id comes back: others may have written to it meanwhile, and a room does not
rebuild for that (H3). Without a store, each lasts as long as the agent.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from greenroom.integrations._conversation import Conversation
from greenroom.integrations._history import History

if TYPE_CHECKING:
    from greenroom import BuildContext

__all__ = ["RecordedConversation"]


class RecordedConversation(Conversation):
    """A conversation with a history, and with what was made for its session."""

    role: str
    """What the rows of the history are marked with in the store."""

    def __init__(self, context: BuildContext) -> None:
        super().__init__(context)
        self._store = context.store
        self._made = AsyncExitStack()
        self._histories: dict[str, History] = {}

    async def open(self, context: BuildContext) -> None:
        """Make what is needed, and read the history. If that fails, what was made is let go."""
        try:
            await self._make(context)
            await self._take_up()
        except BaseException:
            await self.release_clients()
            raise

    async def _make(self, context: BuildContext) -> None:
        """Make what a run needs. How to let go of it is pushed on `_made`."""

    async def history(self, session_id: str | None = None) -> list[Any]:
        """What was said in a conversation, in this one by default: whole exchanges, oldest first."""
        return (await self._read(session_id or self.session_id)).items

    async def release_clients(self) -> None:
        """Let go of what was said, and of what was made for this session. An answer that still runs, for
        it was left and not closed, is ended first."""
        await self._end_left()
        self._histories.clear()
        await self._made.aclose()

    async def close(self) -> None:
        """The session is over: the same. What was said stays in the store."""
        await self.release_clients()

    async def _take_up(self) -> History:
        """Return the history of the conversation that is gone on with."""
        history = await self._read(self.session_id)
        if history.is_stored and self.session_id not in self._histories:
            self._histories.clear()
        self._histories[self.session_id] = history
        return history

    async def _read(self, session_id: str) -> History:
        history = self._histories.get(session_id)
        if history is None or not history.is_sure:
            history = History(self._store, self.key, session_id, role=self.role)
            await history.load()
        return history
