"""A room with a store beside a room without one, and beside what else notes a turn on disk.

Rooms differ in where their store is and in what a completed turn survives (`durability`). Beside them
stand an `INSERT` of one row with sqlite3, committed by itself and with the same settings, and the
session of openai-agents, which is what many would take. Every one of them has a fresh database for
every measurement, on one file system: see `databases`.

What is measured is in `scenarios`, what is expected in `bars`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.contender import Contender

NO_STORE = "no_store"
READS_ONLY = "reads_only"
SQLITE_NORMAL, SQLITE_FULL = "sqlite_normal", "sqlite_full"
POSTGRES_NORMAL, POSTGRES_FULL = "postgres_normal", "postgres_full"
INSERT_NORMAL, INSERT_FULL = "insert_normal", "insert_full"
AGENTS = "agents_session"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One contender: a class `Contestant`, its database, and how it is set up."""

    title: str
    module: str
    database: str = "sqlite"
    settings: dict[str, Any] = field(default_factory=dict)
    declines: dict[str, str] = field(default_factory=dict)
    """The scenarios that it cannot do, and why."""


def _room(title: str, database: str, **settings: Any) -> Part:
    return Part(title=title, module="ours", database=database, settings=settings)


def _insert(level: str) -> Part:
    return Part(title=f"sqlite3, {level}", module="insert", settings={"synchronous": level.upper()})


PARTS = {
    NO_STORE: _room("no store", "none", durability="off"),
    READS_ONLY: _room("SQLite, only read", "sqlite", durability="off"),
    SQLITE_NORMAL: _room("SQLite, normal", "sqlite", durability="normal"),
    SQLITE_FULL: _room("SQLite, full", "sqlite", durability="full"),
    POSTGRES_NORMAL: _room("PostgreSQL, normal", "postgresql", durability="normal"),
    POSTGRES_FULL: _room("PostgreSQL, full", "postgresql", durability="full"),
    INSERT_NORMAL: _insert("normal"),
    INSERT_FULL: _insert("full"),
    AGENTS: Part(
        title="openai-agents",
        module="agents_session",
        declines={"turn_64": "its sessions on one file share a lock, and write one after the other"},
    ),
}
NAMES = tuple(PARTS)
TITLES = {name: part.title for name, part in PARTS.items()}
ROOMS = tuple(name for name, part in PARTS.items() if part.module == "ours")

NOTES = {
    READS_ONLY: (
        "durability off: a look at the transcript's version when a turn begins and when it ends, and"
        " nothing written"
    ),
    INSERT_NORMAL: (
        "one row and a commit with sqlite3, in a write-ahead log; normal and full are the values of"
        " synchronous; with 64 threads each has its connection, and the busy timeout makes them wait"
    ),
    AGENTS: (
        "add_items() of one item with its SQLiteSession on a file, which is in a write-ahead log with"
        " synchronous as SQLite comes, full; called by a coroutine, as it must be"
    ),
}

DISTRIBUTIONS = ("greenroom", "pykka", "SQLAlchemy", "psycopg", "openai-agents")


def load(name: str) -> Callable[[str], Contender]:
    """What makes the contender of that name, given a database. Raises ImportError where a library is
    missing."""
    part = PARTS[name]
    contestant = importlib.import_module(f"benchmarks.stores.{part.module}").Contestant

    def make(url: str) -> Contender:
        made = contestant(url, **part.settings)
        assert isinstance(made, Contender)
        return made

    return make
