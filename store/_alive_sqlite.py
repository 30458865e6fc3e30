"""A room's lock beside an SQLite file: `flock` on a file of its own, `greenroom.db-room-` and a number.

The system frees it when the last process that has the file open ends. So a child must not have it: one
that is forked closes it, and one that runs another program never gets it. (A child that is forked in the
very moment of taking it, or past Python's hooks, keeps it as long as it lives: the lease decides.)

The room holds it exclusively, and lookers try to share it, so that they do not find each other. The file
has gone when the room ends in order; a dead room's is removed by whoever buries it. A file that is not
there tells nothing.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom.store._alive import NoLock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["FileLock", "FileLocks"]

BOOT_ID = "/proc/sys/kernel/random/boot_id"
TRIES = 5
_NUMBER = re.compile(r"[0-9a-f]{16}")


class FileLock:
    """A locked file, open."""

    def __init__(self, path: str, file: int, name: str) -> None:
        self.name: str | None = name
        self.said: str | None = None
        self.path = path
        self._file = file

    def there(self) -> bool:
        """Whether nobody has deleted the file."""
        return _is_at(self._file, self.path)

    def let_go(self) -> None:
        """Delete it, and close it."""
        with suppress(OSError):
            if self.there():
                os.unlink(self.path)
        self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """Close it. A lock is given back when everybody has."""
        os.close(self._file)


class FileLocks:
    """The locks beside one SQLite file."""

    def __init__(self, database: str) -> None:
        self._database = os.path.realpath(database)
        self._prefix = f"{self._database}-room-"
        self._boot_id: str | None = None

    def take(self, owner: str) -> FileLock:
        """Take a lock on a new file."""
        world = self._world()
        assert fcntl is not None
        mode = stat.S_IMODE(os.stat(self._database).st_mode)
        for _ in range(TRIES):
            number = secrets.token_hex(8)
            path, name = self._prefix + number, f"{number}@{world}"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(file, path):
                    return FileLock(path, file, name)
            except BlockingIOError:
                pass  # whoever tidies up has found it before we had it locked, and removes it
            except BaseException:
                os.close(file)
                os.unlink(path)
                raise
            os.close(file)
        raise NoLock(f"others remove {self._prefix}*")

    def free(self, names: Collection[str]) -> set[str]:
        """Which of these can be locked."""
        return {name for name in names if self._is_free(name)}

    def _is_free(self, name: str) -> bool:
        number, _, world = name.partition("@")
        try:
            if world != self._world() or not _NUMBER.fullmatch(number):
                return False
            return _is_unlocked(self._prefix + number)
        except (NoLock, OSError):
            return False  # nobody can tell

    def remove(self, name: str) -> None:
        """Remove the file."""
        with suppress(OSError):
            os.unlink(self._prefix + name.partition("@")[0])

    def tidy(self, names: Collection[str]) -> None:
        """Remove files that no living room names, and nobody has locked."""
        named = {name.partition("@")[0] for name in names}
        folder, prefix = os.path.split(self._prefix)
        with suppress(NoLock, OSError):
            there = {name.removeprefix(prefix) for name in os.listdir(folder) if name.startswith(prefix)}
            for name in self.free({f"{number}@{self._world()}" for number in there - named}):
                self.remove(name)

    def _world(self) -> str:
        """This boot of this machine."""
        if fcntl is None:
            raise NoLock("this system has no flock")
        if self._boot_id is None:
            self._boot_id = _boot_id()
        return self._boot_id


def _is_unlocked(path: str) -> bool:
    """Whether nobody has a lock on the file of this name."""
    assert fcntl is not None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _is_at(file, path)
    finally:
        os.close(file)


def _is_at(file: int, path: str) -> bool:
    """Whether an open file is the one that has this name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _boot_id() -> str:
    with suppress(OSError), open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    with suppress(OSError, subprocess.SubprocessError):  # macOS
        asked = ("sysctl", "-n", "kern.bootsessionuuid")
        said = subprocess.run(asked, capture_output=True, text=True, timeout=5.0, check=True).stdout
        if said.strip():
            return said.strip()
    raise NoLock("this system does not tell one boot from another")
