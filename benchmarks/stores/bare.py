"""What one writes without greenroom: a plain table, and statements on the driver's own connection."""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from benchmarks.contender import Call, Contender, Stage
from benchmarks.rooms.scenarios import names
from benchmarks.stores import KEY

Row = tuple[object, ...]
Write = Callable[[Row], object]

TABLE = """CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, owner TEXT, epoch BIGINT,
generation BIGINT NOT NULL, committed BIGINT NOT NULL, updated FLOAT, free_at FLOAT)"""
INSERT = "INSERT INTO sessions VALUES (?, ?, 1, ?, 0, 0.0, 0.0)"
SELECT = "SELECT generation, free_at FROM sessions WHERE session_id = ?"
UPDATE = """UPDATE sessions SET generation = ?, updated = ?, free_at = ?
WHERE session_id = ? AND owner = ? AND epoch = ?"""

TAKE = """INSERT INTO sessions VALUES (?, ?, 1, 0, 0, 0.0, NULL) ON CONFLICT (session_id) DO UPDATE
SET owner = excluded.owner, epoch = sessions.epoch + 1, free_at = NULL WHERE sessions.owner IS NULL"""
GIVE = """UPDATE sessions SET owner = NULL, generation = generation + 1, updated = ?
WHERE session_id = ? AND owner = ?"""
FREE = "UPDATE sessions SET owner = NULL WHERE session_id = ?"
COMMIT = "UPDATE sessions SET committed = generation WHERE session_id = ?"

OWNER = "a room"
LINGER = 2.0


class Database:
    """A connection that is kept, and its one cursor. Statements are SQLite's."""

    def __init__(self, url: str, synchronous: str | None) -> None:
        self.path = None if synchronous is None else url.removeprefix("sqlite:///")
        self._connection = self._connect(url, synchronous)
        self._cursor = self._connection.cursor()
        self.run(TABLE)

    def _connect(self, url: str, synchronous: str | None) -> Any:
        if self.path is None:
            return importlib.import_module("psycopg").connect(url, autocommit=True)
        connection = importlib.import_module("sqlite3").connect(
            self.path, timeout=60.0, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        return connection

    def text(self, statement: str) -> str:
        return statement if self.path is not None else statement.replace("?", "%s")

    def run(self, statement: str, *values: object) -> Any:
        return self._cursor.execute(self.text(statement), values)

    def change(self, statement: str, *values: object) -> None:
        """Change one row."""
        changed = self.run(statement, *values).rowcount
        assert changed == 1, f"{changed} rows changed: {statement} {values}"

    def writer(self, statement: str) -> Write:
        """What runs a statement as a transaction of its own."""
        text, cursor, execute = self.text(statement), self._cursor, self._cursor.execute

        def write(row: Row) -> None:
            execute(text, row)
            assert cursor.rowcount == 1

        return write

    def looker(self, statement: str) -> Write:
        """What runs a statement and fetches its row."""
        text, execute = self.text(statement), self._cursor.execute
        return lambda row: execute(text, row).fetchone()

    def write_all(self, statement: str, rows: list[Row]) -> None:
        """Run a statement for each row, in one transaction."""
        self._cursor.execute("BEGIN")
        self._cursor.executemany(self.text(statement), rows)
        assert self._cursor.rowcount == len(rows), f"{self._cursor.rowcount} of {len(rows)} rows"
        self._cursor.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Combining:
    """Threads put their write on a list. The one that gets the lock writes all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.pending: deque[list[Row]] = deque()
        """Rows that nobody writes yet. An entry is emptied when its row is taken."""
        self._lock = threading.Lock()

    def write(self, row: Row) -> None:
        entry = [row]
        self.pending.append(entry)
        with self._lock:
            if not entry:
                return  # somebody else wrote it
            rows = []
            while self.pending:
                rows.append(self.pending.popleft().pop())
            self._database.write_all(UPDATE, rows)


class Contestant(Contender):
    def __init__(self, url: str, *, synchronous: str | None = None, writes: int = 1) -> None:
        self._url = url
        self._synchronous = synchronous
        self._writes = writes

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        """A row for each thread."""
        with closing(Database(self._url, self._synchronous)) as database:
            keys = list(names(actors))
            database.write_all(INSERT, [(key, OWNER, 0) for key in keys])
            if not self._writes:
                assert threads == 1, "threads cannot share its cursor"
                yield Stage(calls=[looking(database.looker(SELECT), key) for key in keys])
                return
            write = database.writer(UPDATE) if threads == 1 else Combining(database).write
            yield Stage(calls=[turning(write, key, self._writes) for key in keys])

    def life(self, lease_ttl: float | None, hook: float) -> Life:
        """A process that shares its database with others."""
        return Life(Database(self._url, self._synchronous), hook)


def looking(look: Write, key: str) -> Call:
    row = (key,)
    return lambda _: look(row)


def turning(write: Write, key: str, writes: int) -> Call:
    """A turn that takes its session, which it has already, and is recorded; or the latter alone."""
    number, clock = itertools.count(1).__next__, time.time
    frees = (None, LINGER)[-writes:]

    def turn(_: int) -> None:
        generation = number()
        for linger in frees:
            now = clock()
            write((generation, now, linger and now + linger, key, OWNER, 1))

    return turn


class Life:
    """A process whose end the system makes known: it holds a lock that goes with it."""

    def __init__(self, database: Database, hook: float) -> None:
        self._open = ExitStack()
        self._database = self._open.enter_context(closing(database))
        self._hook = hook
        self._owner = f"{OWNER} {os.getpid()}"

    def _lock(self) -> None:
        """Wait for the lock that is this process's for as long as it lives."""
        if self._database.path is None:
            self._database.run("SELECT pg_advisory_lock(1)")
        else:
            import fcntl

            file = self._open.enter_context(open(f"{self._database.path}.lock", "w"))  # noqa: SIM115  # kept
            fcntl.flock(file, fcntl.LOCK_EX)

    def hold(self) -> None:
        """Begin a turn, and never end it."""
        self._lock()
        self._database.change(TAKE, KEY, self._owner)

    def turn(self) -> None:
        """Take the session, and give it back with one turn more."""
        self._database.change(TAKE, KEY, self._owner)
        self._database.change(GIVE, time.time(), KEY, self._owner)

    def inherit(self) -> None:
        """The same for a session whose process was killed."""
        self._lock()
        self._database.change(FREE, KEY)
        self.turn()

    def fill(self, count: int) -> None:
        """Note a turn of each of so many sessions, and commit none."""
        for key in names(count):
            self._database.change(INSERT, key, None, 1)

    def recover(self, count: int) -> None:
        """Commit and release what a dead process left, one after the other."""
        found = self._database.run("SELECT session_id FROM sessions WHERE generation > committed")
        for (key,) in found.fetchall():
            time.sleep(self._hook)
            self._database.change(COMMIT, key)
            time.sleep(self._hook)

    def close(self) -> None:
        self._open.close()

    def check(self, sessions: int, turns: int) -> None:
        """See that the table has all of it, and close."""
        found = self._database.run("SELECT count(*), sum(generation) FROM sessions").fetchone()
        assert tuple(found) == (sessions, turns), f"{found} instead of {sessions, turns}"
        self.close()
