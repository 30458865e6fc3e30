"""What was said in a conversation, as a framework writes it, in the room's store.

    history = History(context.store, key, session_id)
    await history.load()                 # when a conversation is taken up
    history.items                        # JSON, oldest first
    await history.add([…])               # an exchange, when it is whole

An exchange (what the user said, calls of tools and their results, the answer) is one row of the store:
it is there, or nothing of it is, also when the process is killed. Half of one would be refused by most
models from then on: a call without its result. Rows of other roles are left alone.

Without a store, or with one that keeps no messages, a history lasts as long as its agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from greenroom.integrations._waiting import wait_ended

__all__ = ["History"]


class History:
    """The items of one conversation. Belongs to one agent, and to one turn at a time."""

    def __init__(self, store: Any, key: str, session_id: str, *, role: str) -> None:
        self._store: Any = store if callable(getattr(store, "messages_soon", None)) else None
        self._key = key
        self._role = role
        self._known = True
        self._exchanges: list[list[Any]] = []
        self.session_id = session_id
        """Which conversation this is."""
        self.is_sure = True
        """Whether it is what the store has. Not so after a write that failed or was given up with its
        loop: nobody knows whether that came to something. Load another one."""

    def __repr__(self) -> str:
        return f"<History of {self.session_id!r}: {len(self._exchanges)} exchanges>"

    @property
    def is_stored(self) -> bool:
        """Whether a store has it, so that it can be loaded again."""
        return self._store is not None

    @property
    def items(self) -> list[Any]:
        """All items, oldest first, in a list of the caller's own."""
        return [item for exchange in self._exchanges for item in exchange]

    async def load(self) -> None:
        """Read what the store has."""
        if self._store is None:
            return
        try:
            rows = await self._store.messages_soon(self.session_id)
        except Exception as error:
            if getattr(error, "session_id", None) != self.session_id:
                raise
            self._known = False  # there is no such session yet: the first exchange creates it
            rows = []
        self._exchanges = []
        for row in rows:
            if row.role == self._role:
                self._take(row.content)

    async def add(self, items: Sequence[Any]) -> None:
        """Add an exchange. Whoever is cancelled meanwhile waits until it is written."""
        await self._write({"items": list(items)})

    async def replace(self, items: Sequence[Any]) -> None:
        """Let the conversation consist of these from now on. What the store has stays there."""
        await self._write({"items": list(items), "anew": True})

    async def _write(self, content: dict[str, Any]) -> None:
        writing = asyncio.ensure_future(self._append(content))
        await wait_ended(writing)
        writing.result()

    async def _append(self, content: dict[str, Any]) -> None:
        if self._store is not None:
            if not self._known:
                await self._create()
            self.is_sure = False
            await self._store.append_soon(self.session_id, role=self._role, content=content)
            self.is_sure = True
        self._take(content)

    async def _create(self) -> None:
        try:
            await self._store.create_session_soon(self.session_id, key=self._key)
        except Exception as error:
            if getattr(error, "session_id", None) != self.session_id:
                raise
            # Somebody was faster.
        self._known = True

    def _take(self, content: Any) -> None:
        """Keep in memory what is in the store. What another program put there may be of any form."""
        row: dict[str, Any] = content if isinstance(content, dict) else {}
        items = row.get("items")
        if isinstance(items, list):
            if row.get("anew"):
                self._exchanges = []
            self._exchanges.append([*items])
