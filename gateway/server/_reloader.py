"""`greenroom serve --reload`: serves in a process of its own, and starts it again when a file changes.

Looks at the Python files below some folders, and at the configuration, a few times a second. When one
has changed, the server is told to end as by SIGTERM: running turns end, everything is committed, and
the next server begins. A server that could not start is tried again with the next change.

SIGTERM, SIGINT and SIGHUP reach the server through this process (a terminal sends Ctrl-C to this one
only, since the server has a process group of its own): once drains it, twice ends it at once. Its exit
code is that of the last server.

Not uvicorn's own supervisor for this: it stops its server with a second signal after the one of the
terminal, which to ours means "at once", and without `watchfiles` it looks at Python files only.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Reloader", "python_files"]

logger = logging.getLogger("greenroom.gateway")

EVERY = 0.25
"""Seconds between looks."""

MOST = 20_000
"""Files that are looked at below one folder: a server may run in the root of a disk."""

Seen = dict[str, tuple[int, int]]
"""When each file was changed, and how large it is."""


class Reloader:
    """Runs a command again and again."""

    def __init__(self, command: Sequence[str], folders: Iterable[Path], files: Iterable[Path]) -> None:
        self._command = command
        self._folders = list(dict.fromkeys(folder.resolve() for folder in folders))
        self._files = list(files)
        self._told: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Serve until a signal ends it; return the exit code of the last server."""
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._on_end)
        code = 0
        while self._told is None:
            seen = self._look()
            self._process = process = self._start()
            changed = self._wait_for_change(seen, process)
            if changed:
                logger.info("%s has changed: starting again", changed)
            process.send_signal(self._told or signal.SIGTERM)  # not lost, if it came before the start
            code = process.wait()
        return code if code >= 0 else 128 - code  # as a shell has it

    def _start(self) -> subprocess.Popen[bytes]:
        group = 0 if os.name == "posix" else None
        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, process_group=group)

    def _on_end(self, number: int, _: FrameType | None) -> None:
        if self._told is not None and self._process is not None:
            self._process.send_signal(number)  # a second one: the server exits at once
        self._told = signal.SIGTERM if number != signal.SIGINT else number

    def _wait_for_change(self, seen: Seen, process: subprocess.Popen[bytes]) -> str:
        """Return the name of a file that has changed; empty, if a signal came first."""
        ended = False
        while self._told is None:
            now = self._look()
            if now != seen:
                return min(name for name in {*now, *seen} if now.get(name) != seen.get(name))
            if not ended and process.poll() is not None:
                ended = True
                logger.warning(
                    "The server has ended, with code %s: waiting for a change", process.poll()
                )
            time.sleep(EVERY)
        return ""

    def _look(self) -> Seen:
        found: Seen = {}
        for path in itertools.chain(self._files, *map(python_files, self._folders)):
            try:
                stat = path.stat()
            except OSError:
                continue  # it is gone, or nobody's business
            found[str(path)] = (stat.st_mtime_ns, stat.st_size)
        return found


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files below a folder, but for those of environments and hidden folders."""

    def below() -> Iterator[Path]:
        for here, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if _is_source(Path(here, name)))
            yield from (Path(here, name) for name in sorted(files) if name.endswith(".py"))

    return itertools.islice(below(), MOST)


def _is_source(folder: Path) -> bool:
    installed = folder.name in ("__pycache__", "node_modules", "site-packages")
    return not (folder.name.startswith(".") or installed or (folder / "pyvenv.cfg").exists())
