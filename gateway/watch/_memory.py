"""How much memory the process holds: for people. The room decides by its own reading."""

from __future__ import annotations

import mmap
from pathlib import Path

__all__ = ["memory_held"]

ROOT = Path("/")


def memory_held(root: Path = ROOT) -> int | None:
    """The bytes that are resident. `None` where the system does not tell."""
    try:
        return int((root / "proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return None
