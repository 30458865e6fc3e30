"""The machine, the versions, and what this process holds of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import sys
import threading
from pathlib import Path

_STATM = Path("/proc/self/statm")
_TASKS = Path("/proc/self/task")
_MOUNTS = Path("/proc/self/mounts")


def memory_in_use() -> int:
    """Bytes of memory that this process occupies; where that cannot be had, its peak."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def threads_in_use() -> int:
    """Threads of this process, those that Python does not know of included where they show."""
    return len(list(_TASKS.iterdir())) if _TASKS.exists() else threading.active_count()


def describe_machine() -> dict[str, str | int]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 0,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "gil": "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off",
    }


def file_system_of(path: Path) -> str:
    """The type of the file system that a path is on, where the system tells."""
    if not _MOUNTS.exists():
        return "unknown"
    mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    above = [(point, kind) for _, point, kind, *_ in mounts if path.resolve().is_relative_to(point)]
    # Of two on the same point, the later one hides the other.
    return max(reversed(above), key=lambda mount: len(mount[0]))[1]


def versions_of(distributions: tuple[str, ...]) -> dict[str, str]:
    """What is installed of these."""
    found = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found
