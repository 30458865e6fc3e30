"""Stacks of a workload, from py-spy."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.workers import ROOT

RATE = 250
"""Looks a second. More would slow down what is looked at, on a machine with few cores."""

Stack = tuple[str, ...]
Stacks = Counter[Stack]
"""How often each stack was seen, outermost frame first. A frame is `function (file)`."""

_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>[^()]*?)(:\d+)?\)$")


def record(workload: str, seconds: int) -> Stacks:
    """Look at a workload for so many seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.profiles.workloads", workload],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the workload {workload!r} ended before it began: see above")
        return _stacks(_look(process.pid, seconds))
    finally:
        process.kill()
        process.wait()


def _look(pid: int, seconds: int) -> str:
    spy = Path(sys.executable).with_name("py-spy")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "stacks")
        # Non-blocking: now and then a stack is read while it changes, but nobody is stopped for it.
        # And only the thread that has the interpreter counts: the others wait, for it or for work.
        options = ["--nonblocking", "--gil", "--format", "raw", "--rate", str(RATE)]
        options += ["--duration", str(seconds)]
        command = [str(spy), "record", *options, "--output", str(raw), "--pid", str(pid)]
        subprocess.run(command, check=True, capture_output=True)
        return raw.read_text(encoding="utf-8")


def _stacks(raw: str) -> Stacks:
    stacks: Stacks = Counter()
    for line in raw.splitlines():
        frames, _, count = line.rpartition(" ")
        stacks[tuple(_frame(frame) for frame in frames.split(";"))] += int(count)
    return stacks


def _frame(frame: str) -> str:
    """Without the line, and with a file name that says nothing of this machine."""
    match = _FRAME.match(frame)
    if match is None:
        return frame
    file = match["file"].removeprefix(f"{ROOT}/")
    return f"{match['function']} ({Path(file).name if file.startswith('/') else file})"


def only(stacks: Stacks, function: str) -> Stacks:
    """Those in which this function is, from there on."""
    found: Stacks = Counter()
    for stack, count in stacks.items():
        at = next((n for n, frame in enumerate(stack) if frame.startswith(f"{function} (")), None)
        if at is not None:
            found[stack[at:]] += count
    return found
