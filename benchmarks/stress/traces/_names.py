"""Where a trace is asked for: a file, or the name of a made-up one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from greenroom.stress.traces._synthetic import NAMES, synthesize
from greenroom.stress.traces._trace import Entry, TraceError, TraceWriter, read_trace

__all__ = ["open_trace", "write_synthetic"]


def open_trace(name: str | Path, *, seed: int = 0) -> Iterator[Entry]:
    """The entries of a trace: `chat`, `cron` or `storm` (made up with this seed), or a file.

    A file that has one of these names can be had as `./chat`. What is not there is said at once, what is
    wrong with a line when it is come to: `TraceError`.
    """
    text = str(name) if not isinstance(name, Path) else ""
    if text in NAMES:
        return synthesize(text, seed=seed)
    path = Path(name)
    if not path.is_file():
        msg = f"there is no trace {str(name)!r}: name a file of JSON lines, or {', '.join(NAMES)}"
        raise TraceError(msg)
    return read_trace(path)


def write_synthetic(name: str, path: str | Path, *, seed: int = 0) -> int:
    """Write a made-up trace to a file that is not there yet. Returns how many lines it has."""
    lines = 0
    with TraceWriter(path, note=f"made up: {name}, seed {seed}") as writer:
        for entry in synthesize(name, seed=seed):
            writer.write(entry)
            lines += 1
    return lines
