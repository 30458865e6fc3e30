"""The command line, run in the process of the test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from greenroom.__main__ import main

__all__ = ["Ended", "Run", "running"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def running(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Make a function that runs `greenroom COMMAND` with the arguments it is given."""

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["greenroom", command, *map(str, arguments)])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        written = capsys.readouterr()
        return Ended(code, written.out, written.err)

    return run
