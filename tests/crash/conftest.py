"""What every test with other processes gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.databases import sqlite_url
from tests.crash.process import Family

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import PostgresServer

__all__ = ["family", "url"]


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """Children. None of them outlives the test."""
    with Family(tmp_path) as family:
        yield family


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "greenroom.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()
