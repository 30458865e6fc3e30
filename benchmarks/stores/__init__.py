"""A room with a store, beside bare drivers that write the same.

Rooms differ in where their store is and in what a completed turn survives (`durability`). Beside them
stands what one writes without greenroom (`bare`): the driver's own statements on a kept connection, and
a table that has nothing else. The session of openai-agents is there because many take it.
Every measurement has a fresh database, on one file system (`databases`), and processes of its own.

What is measured is in `scenarios`, what is expected in `bars`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

KEY = "telegram:0"
"""The session of which there is only one."""

NO_STORE = "no_store"
READS_ONLY = "reads_only"
SQLITE_NORMAL, SQLITE_FULL, POSTGRES_FULL = "sqlite_normal", "sqlite_full", "postgres_full"
LOOK = "bare_look"
BARE_NORMAL, BARE_FULL = "bare_sqlite_normal", "bare_sqlite_full"
BARE_ONE, BARE_POSTGRES = "bare_postgres_one", "bare_postgres"
AGENTS = "agents_session"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One contender: a module with a class `Contestant`, its database, and how it is set up."""

    title: str
    module: str
    database: str = "sqlite"
    settings: dict[str, Any] = field(default_factory=dict)
    declines: dict[str, str] = field(default_factory=dict)
    """The scenarios that it cannot do, and why."""


def _room(title: str, database: str, durability: str) -> Part:
    return Part(title=title, module="ours", database=database, settings={"durability": durability})


def _bare(title: str, database: str, **settings: Any) -> Part:
    return Part(title=title, module="bare", database=database, settings=settings)


PARTS = {
    NO_STORE: _room("no store", "none", "off"),
    READS_ONLY: _room("SQLite, only read", "sqlite", "off"),
    LOOK: _bare("sqlite3, a look", "sqlite", synchronous="NORMAL", writes=0),
    SQLITE_NORMAL: _room("SQLite, normal", "sqlite", "normal"),
    BARE_NORMAL: _bare("sqlite3, normal", "sqlite", synchronous="NORMAL"),
    SQLITE_FULL: _room("SQLite, full", "sqlite", "full"),
    BARE_FULL: _bare("sqlite3, full", "sqlite", synchronous="FULL"),
    POSTGRES_FULL: _room("PostgreSQL, full", "postgresql", "full"),
    BARE_POSTGRES: _bare("psycopg, two writes", "postgresql", writes=2),
    BARE_ONE: _bare("psycopg, one write", "postgresql"),
    AGENTS: Part(
        title="openai-agents",
        module="agents_session",
        declines={"turn_64": "its sessions on one file share a lock, and write one after the other"},
    ),
}
NAMES = tuple(PARTS)
TITLES = {name: part.title for name, part in PARTS.items()}

BESIDE = {
    READS_ONLY: LOOK,
    SQLITE_NORMAL: BARE_NORMAL,
    SQLITE_FULL: BARE_FULL,
    POSTGRES_FULL: BARE_POSTGRES,
}
"""Rooms, and the bare driver that does the same."""

NOTES = {
    READS_ONLY: "durability off: the room looks at the transcript's version, and writes nothing",
    LOOK: "one SELECT of one row",
    BARE_NORMAL: (
        "one UPDATE of a session's row by owner and epoch, its own transaction, in a write-ahead log;"
        " normal and full are the values of synchronous. 64 threads combine: each puts its write on"
        " a list, and the one that gets the lock writes all of them in one transaction"
    ),
    BARE_POSTGRES: (
        "a turn takes its session when it begins, and is recorded when it ends: two such UPDATEs; with"
        " one write, the second alone"
    ),
    AGENTS: (
        "add_items() of one item with its SQLiteSession on a file, which is in a write-ahead log with"
        " synchronous as SQLite comes, full; called by a coroutine, as it must be"
    ),
}

DISTRIBUTIONS = ("greenroom", "pykka", "SQLAlchemy", "psycopg", "openai-agents")


def load(name: str, url: str) -> Any:
    """The contender of that name, on a database. Raises ImportError where a library is missing."""
    part = PARTS[name]
    return importlib.import_module(f"benchmarks.stores.{part.module}").Contestant(url, **part.settings)
