"""What a contender holds of the machine, the processes that it has started included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import describe_machine

_PROC = Path("/proc")
_SET_CHILD_SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER`, of Linux."""


@dataclass(frozen=True)
class Held:
    bytes: int
    threads: int
    processes: int


def held() -> Held:
    """Of this process and of all that came from it. Memory that they share is counted once."""
    found = [_look(pid) for pid in family()]
    seen = [one for one in found if one is not None]
    return Held(sum(size for size, _ in seen), sum(threads for _, threads in seen), len(seen))


def family() -> list[int]:
    """This process and its descendants, of whom `adopt_orphans` lets none get lost."""
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # After the name, which may hold anything, in brackets: the state and the parent.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    kin = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in kin} - kin:
        kin |= more
    return sorted(kin)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own is gone: thespian's processes leave theirs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """What has not ended by itself ends now, and what it may have started meanwhile too."""
    for _ in range(100):
        children = [pid for pid in family() if pid != os.getpid()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def _look(pid: int) -> tuple[int, int] | None:
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
        threads = len(list((_PROC / str(pid) / "task").iterdir()))
    except OSError:
        return None  # it has ended meanwhile
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, flags=re.MULTILINE)
    return (int(found[1]) * 1024 if found else 0), threads


def describe() -> dict[str, str | int]:
    """The machine, with what figures of several processes depend on."""
    return describe_machine() | {
        "processor": _first(r"^model name\s*: (.+)$", _PROC / "cpuinfo") or platform.processor(),
        "memory_kb": int(_first(r"^MemTotal:\s+(\d+)", _PROC / "meminfo") or 0),
        "kernel": platform.release(),
    }


def _first(pattern: str, path: Path) -> str:
    if not path.exists():
        return ""
    found = re.search(pattern, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found[1] if found else ""
