"""Databases to test with: SQLite files, SQLite in memory, and a real PostgreSQL server.

Other folders use them as well: `from tests.store.urls import store, store_url` in their `conftest.py`
gives them the fixtures. The server is everybody's, by `tests/conftest.py`: a fixture that is imported in
several places is one of its own in each, and starts a server in each.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom.store import Store, open_store
from tests.postgres import NO_PROGRAMS, NONE_HERE, OwnServer, PostgresServer, find_programs, given_url
from tests.required import missing

__all__ = [
    "DATABASES",
    "own_postgres",
    "postgres_server",
    "postgres_url",
    "store",
    "store_url",
]

DATABASES = ("sqlite-file", "sqlite-memory", "postgresql")


def own_postgres() -> OwnServer:
    """Start a server. Without the programs of one, the test is skipped."""
    programs = find_programs()
    if programs is not None:
        return OwnServer(programs)
    if given_url() is not None:
        pytest.skip(NO_PROGRAMS)
    return missing("postgres", NONE_HERE)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this process of the test run."""
    url = given_url()
    with own_postgres() if url is None else PostgresServer(url) as server:
        yield server


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
