"""What a process holds of the machine: memory, threads, open files. `None` where nobody tells."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Holdings", "holdings"]

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """How much of each."""

    memory: int | None = None
    """Bytes that are resident."""

    threads: int | None = None
    files: int | None = None


def holdings(pid: int | None = None, proc: Path = _PROC) -> Holdings:
    """Look at a process: at this one, by default. What may not be seen of another one is `None`."""
    place = proc / ("self" if pid is None else str(pid))
    return Holdings(
        memory=_memory(place / "statm"),
        threads=_entries(place / "task"),
        files=_entries(place / "fd"),
    )


def _memory(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _entries(path: Path) -> int | None:
    try:
        return len(os.listdir(path))
    except OSError:
        return None
