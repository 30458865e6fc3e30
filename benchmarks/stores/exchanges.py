"""Messages that come together: added with one `extend()`, one by one with `append()`, and by the bare
driver to a table without triggers, in one transaction.

    python -m benchmarks.stores.exchanges [how many]
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing

import psycopg

from benchmarks.stores.databases import start_databases
from greenroom.store import open_store

REPETITIONS = 3

Said = list[tuple[str, str]]

TABLE = "CREATE TABLE said (session_id TEXT, position INTEGER, role TEXT, content TEXT)"


def extend(url: str, said: Said) -> float:
    with open_store(url) as store:
        store.create_session("s", key="k")
        return _seconds(lambda: store.extend("s", said))


def append(url: str, said: Said) -> float:
    with open_store(url) as store:
        store.create_session("s", key="k")

        def one_by_one() -> None:
            for role, content in said:
                store.append("s", role=role, content=content)

        return _seconds(one_by_one)


def bare(url: str, said: Said) -> float:
    rows = [("s", position, role, content) for position, (role, content) in enumerate(said, 1)]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = FULL")
            file.execute(TABLE)

            def insert() -> None:
                with file:
                    file.executemany("INSERT INTO said VALUES (?, ?, ?, ?)", rows)

            return _seconds(insert)
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(TABLE)

        def insert_there() -> None:
            with server.transaction(), server.cursor() as cursor:
                cursor.executemany("INSERT INTO said VALUES (%s, %s, %s, %s)", rows)

        return _seconds(insert_there)


def _seconds(write: Callable[[], object]) -> float:
    began = time.perf_counter()
    write()
    return time.perf_counter() - began


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    said = [(("user", "assistant")[n % 2], f"Message {n} says something.") for n in range(number)]
    print(f"{number:,} messages, durability full: median seconds of {REPETITIONS}")
    with start_databases() as databases:
        for kind in ("sqlite", "postgresql"):
            for way in (extend, bare, append):
                took = [way(databases.fresh(kind), said) for _ in range(REPETITIONS)]
                print(f"{kind:12}{way.__name__:8}{statistics.median(took):8.2f}", flush=True)


if __name__ == "__main__":
    main()
