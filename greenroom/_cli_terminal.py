"""What commands share: failing in one line, tables and figures that read well, progress.

What comes from a store was written by strangers. `plain` makes it fit for a terminal: a session id may
hold escape sequences, and the text of a provider's error is whatever a server somewhere sent.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "CommandFailed",
    "Progress",
    "console",
    "count",
    "duration",
    "plain",
    "progress_bar",
    "say",
    "write_json",
]

Progress = Callable[[int, int | None], None]
"""Called with how much is done, and of how much if that is known."""

ENDLESS = 10_000
"""Columns of what is no terminal: a program that reads our output wants no ids broken in two."""


class CommandFailed(Exception):
    """The command cannot do what it was asked. The text is one line for whoever typed it."""

    def __init__(self, text: str, *, exit_code: int = 1) -> None:
        super().__init__(" ".join(text.split()))
        self.exit_code = exit_code


def console(stream: IO[str] | None = None) -> Console:
    """Make a console on stdout or another stream. Colours obey NO_COLOR, the width obeys COLUMNS."""
    from rich.console import Console

    target: IO[str] = sys.stdout if stream is None else stream
    fixed = target.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(
        file=target, width=None if fixed else ENDLESS, markup=False, highlight=False, emoji=False
    )


def say(text: str, *, style: str | None = None) -> None:
    """Write a line about the command itself, to stderr."""
    console(sys.stderr).print(plain(text), style=style, soft_wrap=True)


def write_json(value: Any) -> None:
    """Write one JSON document to stdout."""
    typer.echo(json.dumps(value, indent=2))


def plain(text: str) -> str:
    """Escape what a terminal would act upon, or could not show.

    >>> plain("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    shown = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return "".join(shown)


def count(number: int, one: str, many: str | None = None) -> str:
    """Say how many.

    >>> count(1, "turn"), count(1200, "turn")
    ('1 turn', '1,200 turns')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Say how long, in the two largest units that matter.

    >>> duration(0.2), duration(75), duration(7_300), duration(200_000)
    ('1 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    left = max(1, round(seconds))
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or parts:
            parts.append(f"{amount} {unit}" if amount else "")
    return " ".join(part for part in parts[:2] if part)


@contextmanager
def progress_bar(label: str, *, unit: str, shown: bool = True) -> Iterator[Progress]:
    """Show a bar on stderr while the block runs, if that is a terminal. It leaves nothing behind."""
    if not shown or not sys.stderr.isatty():
        yield _ignore
        return
    from rich import progress

    amount = "{task.completed:,.0f} " + unit
    bars = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.FileSizeColumn() if unit == "bytes" else progress.TextColumn(amount),
        progress.TimeRemainingColumn(compact=True),
        console=console(sys.stderr),
        transient=True,
    )
    with bars:
        bar = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _ignore(done: int, total: int | None) -> None:
    """Take the place of a bar that nobody would see."""
