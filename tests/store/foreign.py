"""Programs that know the tables and not greenroom: the plain drivers, in this process or another."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

from sqlalchemy import make_url

from tests.house import ROOT

__all__ = ["execute", "execute_elsewhere", "python", "refusals"]


def execute(url: str, statement: str, *values: object) -> list[Any]:
    """Run a statement, with `?` for its values, through the plain driver. Returns its rows."""
    if url.startswith("sqlite"):
        path = make_url(url).database
        with closing(sqlite3.connect(str(path), timeout=5.0)) as connection, connection:
            return connection.execute(statement, values).fetchall()
    import psycopg  # not on every Python that the other tests run on

    with psycopg.connect(url) as server:
        cursor = server.execute(statement.replace("?", "%s").encode(), values)
        return [] if cursor.description is None else cursor.fetchall()


def refusals() -> tuple[type[Exception], ...]:
    """What the plain drivers raise for a row that the tables refuse."""
    try:
        import psycopg
    except ModuleNotFoundError:
        return (sqlite3.IntegrityError,)
    return (sqlite3.IntegrityError, psycopg.IntegrityError)


def execute_elsewhere(url: str, statement: str, *values: object) -> None:
    """The same in another process."""
    code = (
        "import sys\nfrom tests.store.foreign import execute\n"
        "execute(sys.argv[1], sys.argv[2], *sys.argv[3:])"
    )
    python(code, url, statement, *map(str, values)).check_returncode()


def python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run some Python in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
