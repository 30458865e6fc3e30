"""How much memory the process holds, and how much the room's budget allows: figures to be looked at.

The room decides by its own reading; this one is for people. Where the system does not tell, the answer
is `None` and not an error.
"""

from __future__ import annotations

import mmap
from pathlib import Path

__all__ = ["budget_of", "memory_held", "memory_limit"]

ROOT = Path("/")


def memory_held(root: Path = ROOT) -> int | None:
    """The bytes that are resident."""
    try:
        return int((root / "proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return None


def budget_of(budget: float | None, root: Path = ROOT) -> int | None:
    """A room's budget in bytes: a whole number is bytes already, a fraction is a share of the limit."""
    if budget is None or isinstance(budget, int):
        return budget
    limit = memory_limit(root)
    return None if limit is None else int(limit * budget)


def memory_limit(root: Path = ROOT) -> int | None:
    """What the process may use: the smallest limit of its cgroup, of those above, of the machine."""
    limits = [limit for limit in (*_cgroup_limits(root), _machine(root)) if limit is not None]
    return min(limits, default=None)


def _cgroup_limits(root: Path) -> list[int | None]:
    folder = root / "sys/fs/cgroup"
    names = _own_cgroup(root)
    folders = [folder.joinpath(*names[:depth]) for depth in range(len(names) + 1)]
    return [_number(folder / "memory.max") for folder in folders]


def _own_cgroup(root: Path) -> list[str]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return [name for name in line[3:].split("/") if name and name != ".."]
    return []


def _machine(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    return None


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
