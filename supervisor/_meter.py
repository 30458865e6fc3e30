"""How much memory this process uses, and how much it may use (C10).

In use is what is resident. How much may be used is the smallest of the limits of the cgroup that the
process is in, of every cgroup above it that can be seen, and of the machine's memory. Linux tells both
in files; elsewhere psutil is asked, if it is installed.

Functions that read files take a `root`, so that a test can show them another machine.
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import re
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BLIND", "MemoryUnknown", "budget_bytes", "give_back", "memory_limit", "resident"]

ROOT = Path("/")

LIMIT_FILES = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}
"""Where a cgroup's limit stands, by the type of the file system: version 1 and version 2."""

UNLIMITED = 2**62
"""Version 1 writes "no limit" as 2**63 cut down to a page. Pages differ, and nobody has half of it."""


class MemoryUnknown(RuntimeError):
    """The system does not tell, and psutil is not there to be asked. Not the caller's fault."""


# In use

_opened: dict[int, int] = {}
"""The descriptor of statm, by the process that opened it."""


def resident(root: Path = ROOT) -> int:
    """Return the bytes of memory that this process holds. Cheap enough to ask at the end of every turn.

    Raises `MemoryUnknown` where neither /proc nor psutil tells.
    """
    try:
        return _read_statm() if root is ROOT else _resident_in((root / "proc/self/statm").read_bytes())
    except (OSError, ValueError):
        psutil = _psutil()
    if psutil is None:
        msg = "this system has no /proc/self/statm to tell how much memory is in use: install psutil"
        raise MemoryUnknown(msg)
    return int(psutil.Process().memory_info().rss)


def _read_statm() -> int:
    # The file stays open, since a read costs a fraction of what opening it does. Two things could go
    # wrong. After a fork the descriptor still means the parent: so there is one for each process id. And
    # whoever becomes a daemon closes every descriptor there is: the number is then nobody's, or that of
    # another file, which does not look like a statm. Neither is closed here: it may not be ours.
    process = os.getpid()
    descriptor = _opened.get(process)
    if descriptor is not None:
        try:
            return _resident_in(os.pread(descriptor, 256, 0))
        except (OSError, ValueError):
            _opened.pop(process, None)
    mine = os.open("/proc/self/statm", os.O_RDONLY)
    kept = _opened.setdefault(process, mine)
    if kept != mine:  # another thread was here first
        os.close(mine)
    return _resident_in(os.pread(kept, 256, 0))


def _resident_in(statm: bytes) -> int:
    _, pages, _, _, _, _, _ = statm.split()
    return int(pages) * mmap.PAGESIZE


def _psutil() -> Any:
    try:
        return importlib.import_module("psutil")
    except ImportError:
        return None


# Allowed


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the bytes of memory that this process may use, read anew each time: limits change live.

    Without a cgroup, or with one that sets no limit, it is the machine's memory, so that a share of it
    always means something. A limit above that is none. None if nothing at all is known.
    """
    known = (_cgroup_limit(root), _physical_memory(root))
    return min((size for size in known if size is not None), default=None)


def _physical_memory(root: Path) -> int | None:
    found = re.search(r"^MemTotal: *([0-9]{1,18}) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024 or None
    if root != ROOT:
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    except (AttributeError, OSError, ValueError):  # no such function, no such figure
        psutil = _psutil()
    return None if psutil is None else int(psutil.virtual_memory().total)


def _cgroup_limit(root: Path) -> int | None:
    mounts = list(_mounts(_read(root / "proc/self/mountinfo")))
    limits = [
        _limit_in(_read(root / folder.lstrip("/") / LIMIT_FILES[kind]))
        for kind, cgroup in _own_cgroups(_read(root / "proc/self/cgroup"))
        for folder in _folders([mount for mount in mounts if mount.kind == kind], cgroup)
    ]
    return min((limit for limit in limits if limit is not None), default=None)


class _Mount(NamedTuple):
    kind: str
    """The type of its file system: "cgroup" or "cgroup2"."""
    top: str
    """The cgroup that is seen at the mount point. In a container that is often its own."""
    point: str


def _own_cgroups(text: str) -> Iterator[tuple[str, str]]:
    """Find the cgroups of this process that may limit its memory, in /proc/self/cgroup.

    A system with both versions of cgroups (systemd calls it hybrid) has a line for each, and the memory
    controller in one of the two. The other has no file with a limit, so that nobody need know which.
    """
    for line in text.split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mounts(text: str) -> Iterator[_Mount]:
    """Find the mounts of cgroups that may limit memory, in /proc/self/mountinfo. See proc(5)."""
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        match before.split(" "), after.split(" "):
            case [_, _, _, top, point, *_], [("cgroup" | "cgroup2") as kind, _, options]:
                if kind == "cgroup2" or "memory" in options.split(","):
                    yield _Mount(kind, _unescape(top), _unescape(point))
            case _:
                pass


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _folders(mounts: list[_Mount], cgroup: str) -> list[str]:
    """List where to see this cgroup, and each above it up to the mount."""
    below = [(mount, _steps_down(mount.top, cgroup)) for mount in mounts]
    seen = [
        "/".join([mount.point, *steps[:depth]])
        for mount, steps in below
        if steps is not None
        for depth in range(len(steps) + 1)
    ]
    # If no mount shows it, a namespace or somebody's bind mount lies between. In a container what is
    # seen at the mount point is then most likely the container's limit, and nothing better is known.
    return seen or [mount.point for mount in mounts]


def _steps_down(top: str, cgroup: str) -> list[str] | None:
    """List the names on the way from `top` down to `cgroup`, or None if it does not lie below.

    Both are seen from the root of the namespace, and may lie above that: "/../.." is two levels up.

    >>> _steps_down("/docker/c1", "/docker/c1/init.scope")
    ['init.scope']
    >>> _steps_down("/../..", "/../../c2")
    ['c2']
    >>> _steps_down("/docker/c1", "/docker/c12") is None
    True
    >>> _steps_down("/", "/../c2") is None
    True
    """
    start, end = ([step for step in path.split("/") if step] for path in (top, cgroup))
    steps = end[len(start) :]
    return steps if end[: len(start)] == start and ".." not in steps else None


def _limit_in(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,20})\n?", text)
    limit = int(found[1]) if found else 0
    return limit if 0 < limit < UNLIMITED else None


def _read(path: Path) -> str:
    """Read a file that may not be there, or not for us. Names in it may be of any bytes."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (OSError, ValueError):  # a path with a zero byte is a ValueError
        return ""


def budget_bytes(budget: int | float, limit: int | None) -> int:
    """Turn a budget into bytes: an int is bytes, a float is a share of the limit. `1.0` is all of it.

    >>> budget_bytes(2_000_000, limit=None)
    2000000
    >>> budget_bytes(0.75, limit=1000)
    750
    """
    if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
        return budget
    if not isinstance(budget, float) or not 0.0 < budget <= 1.0:
        msg = (
            "a memory budget must be an int, more than 0, in bytes, or a float, more than 0.0 and up to "
            f"1.0, a share of the limit, not {budget!r}"
        )
        raise ValueError(msg)
    if limit is None:
        msg = (
            f"a memory budget of {budget!r} is a share of a limit that this system does not tell: "
            "install psutil, or give bytes as an int"
        )
        raise MemoryUnknown(msg)
    return max(1, int(limit * budget))


# Giving back

_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

BLIND = (
    " (a Python without a GIL may keep what they held: give the policy a weigh() to count it)"
    if _FREE_THREADED
    else ""
)
"""What an operator has to know where memory does not fall when agents go."""


def give_back() -> None:
    """Collect garbage, and give memory that is free but kept for later use back to the system.

    For after agents were let go, so that `resident` falls by what they held. It may take long, and other
    threads stand still during the collection: do it now and then, and not in an actor's handler.

    A Python without a GIL has an allocator of its own, which this does not reach: see `BLIND`.
    """
    gc.collect()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Find it where there is one: in glibc."""
    try:
        import ctypes

        trim = ctypes.CDLL(None).malloc_trim
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    # No ctypes, no such library, no such function in it; and Windows wants a name instead of None.
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    found: Callable[[int], int] = trim
    return found
