"""The machine and the versions, for the report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

__all__ = ["describe_machine"]


def describe_machine() -> dict[str, Any]:
    """Python, system, processors, memory, versions. What nobody tells is left out."""
    described: dict[str, Any] = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": _cores(),
        "memory": _memory(),
    }
    for name in ("greenroom", "pykka"):
        try:
            described[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {name: value for name, value in described.items() if value is not None}


def _cores() -> int | None:
    allowed = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() if allowed is None else len(allowed(0))


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
