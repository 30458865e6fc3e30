"""Agents that read and write transcripts, and those who write to them from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.room.agents import Agent

if TYPE_CHECKING:
    from greenroom import BuildContext
    from tests.crash.process import Puppet
    from tests.room.agents import Cast


class Reader(Agent):
    """An agent that has read the transcript when it is built, and writes to it."""

    def __init__(self, cast: Cast, key: str, name: str, context: BuildContext | None = None) -> None:
        super().__init__(cast, key, name, context)
        assert context is not None
        self.store = context.store
        self.read = [message.content for message in self.store.messages(context.session_id)]

    def write(self, session_id: str, text: str = "ours") -> None:
        self.store.append(session_id, role="assistant", content=text)


@dataclass
class Foreign:
    """Another process that writes to the same database: with our store, or with plain SQL."""

    puppet: Puppet
    url: str
    plain: bool

    def write(self, session_id: str, text: str = "theirs") -> None:
        if self.plain:
            sql = "INSERT INTO greenroom_messages(session_id, role, content) VALUES (?, ?, ?)"
            self.execute(sql, session_id, "user", text)
        else:
            self.puppet.ask("write", session_id=session_id, content=text)

    def end(self, session_id: str) -> None:
        if self.plain:
            self.execute("UPDATE greenroom_sessions SET ended = 1.0 WHERE session_id = ?", session_id)
        else:
            self.puppet.ask("end_session", session_id=session_id)

    def execute(self, sql: str, *values: str) -> None:
        hit = self.puppet.ask("execute", url=self.url, sql=sql, values=values)
        assert hit == 1, f"{sql} hit {hit} rows"


@dataclass
class Row:
    version: int
    ended: float | None = None


class Shelf:
    """A store with the one method that coherence needs. It can be out of order."""

    def __init__(self) -> None:
        self.rows = {"a": Row(version=1)}
        self.trouble: Exception | None = None

    def session(self, session_id: str) -> Row:
        if self.trouble is not None:
            raise self.trouble
        return self.rows[session_id]
