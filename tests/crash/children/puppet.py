"""Does what it is told: opens a store or a room, takes turns, writes, says what it sees.

A puppet that is only told to execute SQL never loads greenroom: it is the program that knows nothing but
the schema.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import resource
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

from tests.crash.children.life import Agent, Memory, arguments, heard, kinds, say, wait_for_locks

if TYPE_CHECKING:
    from greenroom import Greenroom, Turn


class Puppet:
    """Everything that it has, and a method for each command."""

    def __init__(self) -> None:
        self.store: Any = None
        self._room: Greenroom | None = None
        self._memory: Memory | None = None
        self._turns: dict[str, Turn] = {}
        self._open: dict[str, contextlib.ExitStack] = {}
        """What ends the turn of a lane."""

        self._lanes: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._ballast: str = ""

    # How commands arrive.

    def obey(self) -> None:
        """Hand each command to its lane, for as long as there is a parent."""
        for command in heard():
            lane = command["lane"]
            if lane not in self._lanes:
                self._lanes[lane] = queue.Queue()
                threading.Thread(target=self._work, args=(lane,), daemon=True).start()
            self._lanes[lane].put(command)
        os._exit(0)

    def _work(self, lane: str) -> None:
        while True:
            command = self._lanes[lane].get()
            answer: dict[str, Any]
            try:
                value = getattr(self, command["do"])(lane, **command["arguments"])
                answer = {"value": value}
            except Exception as error:
                answer = {"kinds": kinds(error), "text": str(error)}
            say({"number": command["number"], **answer})

    # A store, and what another program does with one.

    def open_store(self, lane: str, url: str) -> None:
        from greenroom.store import open_store

        if self.store is not None:
            self.store.close()
        self.store = open_store(url)

    def create(self, lane: str, session_id: str, key: str) -> None:
        self.store.create_session(session_id, key=key)

    def write(self, lane: str, session_id: str, content: Any) -> int:
        """Append as another program would: outside of any turn."""
        position: int = self.store.append(session_id, role="user", content=content).position
        return position

    def end_session(self, lane: str, session_id: str) -> None:
        self.store.end_session(session_id)

    def row(self, lane: str, session_id: str) -> dict[str, Any]:
        return dataclasses.asdict(self.store.session(session_id))

    def contents(self, lane: str, session_id: str) -> list[Any]:
        return [message.content for message in self.store.messages(session_id)]

    def dirty(self, lane: str) -> list[str]:
        return [row.session_id for row in self.store.sessions(dirty=True)]

    def execute(self, lane: str, url: str, sql: str, values: list[Any]) -> int:
        """Execute a statement as a program that only knows the schema. Returns how many rows it hit."""
        if url.startswith("sqlite:///"):
            path = url.removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(path, timeout=30.0)) as file, file:
                return file.execute(sql, values).rowcount
        import psycopg

        with psycopg.connect(url, connect_timeout=30) as server:
            return server.execute(sql.replace("?", "%s").encode(), values).rowcount

    # A room.

    def open_room(self, lane: str, url: str, policy: dict[str, Any], memory: str | None = None) -> None:
        """Open a room, with a store beside it to look at what it does."""
        from greenroom import Greenroom, Policy

        wait_for_locks()
        self._memory = None if memory is None else Memory(memory)
        self.open_store(lane, url)
        self._room = Greenroom(self._build, policy=Policy(**policy), store=url)

    def _build(self, context: Any) -> Agent:
        return Agent(context, self._memory)

    @property
    def room(self) -> Greenroom:
        assert self._room is not None, "open_room comes first"
        return self._room

    def begin(self, lane: str, key: str, **how: Any) -> dict[str, Any]:
        """Begin the turn of this lane."""
        with contextlib.ExitStack() as until_told:
            turn = until_told.enter_context(self.room.turn(key, **how))
            told = {
                "reused": turn.reused,
                "reason": turn.rebuild_reason,
                "generation": turn.generation,
            }
            self._turns[lane] = turn
            self._open[lane] = until_told.pop_all()
        return told

    def append(self, lane: str, content: Any) -> int:
        """Append to the transcript, in the turn of this lane."""
        turn = self._turns[lane]
        agent: Agent = turn.agent
        return agent.write(turn.session_id, "assistant", content)

    def end(self, lane: str) -> int:
        """Complete the turn of this lane. Returns its generation."""
        turn = self._turns.pop(lane)
        self._open.pop(lane).close()
        return turn.generation

    def commit(self, lane: str, key: str) -> bool:
        return bool(self.room.commit(key, timeout=20.0))

    def evict(self, lane: str, key: str) -> bool:
        return self.room.evict(key)

    def explain(self, lane: str, key: str) -> str:
        return str(self.room.explain(key))

    def stats(self, lane: str) -> dict[str, Any]:
        return dataclasses.asdict(self.room.stats())

    def drain(self, lane: str, deadline: float = 20.0) -> dict[str, Any]:
        return dataclasses.asdict(self.room.close(deadline=deadline))

    # Trouble.

    def limit_files(self, lane: str, size: int | None) -> None:
        """Let no file grow beyond this; as far as it may, again, for `None`."""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if size is None else size, most))

    def fill_disk(self, lane: str, folder: str) -> str:
        """Write a file until the disk is full. Returns what the system said then."""
        self._ballast = os.path.join(folder, "ballast")
        file = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        os.write(file, bytes(size))
            os.write(file, b"1")
        except OSError as error:
            return str(error)
        finally:
            os.close(file)
        return "there is always room"

    def empty_disk(self, lane: str) -> None:
        os.unlink(self._ballast)


if __name__ == "__main__":
    arguments()
    Puppet().obey()
