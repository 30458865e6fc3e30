"""Fresh databases for the contenders: SQLite files and a PostgreSQL server, side by side on one disk.

Not in the system's folder for temporary files, which may be in memory: nothing there waits for a disk.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from benchmarks.machine import file_system_of
from benchmarks.workers import ROOT
from tests.postgres import OwnServer, PostgresServer, find_programs

FOLDER = ROOT / "build"


class Databases:
    """As many as are asked for."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self._folder = folder
        self._server = server
        self._numbers = itertools.count(1)

    def fresh(self, kind: str) -> str:
        """The URL of a new and empty one: `sqlite`, `postgresql`, or none at all."""
        if kind == "none":
            return ""
        if kind == "postgresql":
            return self._server.fresh_url()
        return f"sqlite:///{self._folder / f'{next(self._numbers)}.db'}"

    def versions(self) -> dict[str, str]:
        server = self._setting("server_version").partition(" ")[0]  # Debian adds its own
        return {"SQLite": sqlite3.sqlite_version, "PostgreSQL": server}

    def machine(self) -> dict[str, str]:
        """What decides how long a write waits."""
        return {
            "file_system": file_system_of(self._folder),
            "postgresql_fsync": self._setting("fsync"),
        }

    def _setting(self, name: str) -> str:
        with psycopg.connect(self._server.url()) as connection:
            found = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
        assert found is not None
        return str(found[0])


@contextmanager
def start_databases() -> Iterator[Databases]:
    """A folder and a server, gone at the end."""
    programs = find_programs()
    if programs is None:
        raise SystemExit("The benchmarks of stores start a PostgreSQL: install its programs")
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="stores-", dir=FOLDER))
    folder.chmod(0o755)  # root starts the server as another user
    try:
        with OwnServer(programs, data=folder / "postgresql", fsync=True) as server:
            yield Databases(folder, server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
