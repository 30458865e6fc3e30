"""What both processes need of the system: uvicorn's event loop, many open files, the peak of memory."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

from benchmarks.machine import memory_in_use

try:
    import uvloop
except ImportError:  # where there is none, uvicorn does without as well
    new_loop = asyncio.new_event_loop
else:
    new_loop = uvloop.new_event_loop

__all__ = ["allow_many_files", "new_loop", "peak_memory"]

_STATUS = Path("/proc/self/status")


def allow_many_files() -> None:
    """As many as this process may have: every connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def peak_memory() -> int:
    """The most bytes that this process has occupied; where that cannot be had, what it occupies.

    Not `ru_maxrss`, which on Linux begins with what the parent had when it started this process.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                return int(value.split()[0]) * 1024
    return memory_in_use()
