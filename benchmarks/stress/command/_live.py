"""What is shown while a run goes on: a board on a terminal, a line each second elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from greenroom._cli_terminal import console, say
from greenroom.stress.command._board import Board

if TYPE_CHECKING:
    from rich.console import RenderableType

    from greenroom.stress._result import Second

__all__ = ["View", "view"]

REFRESH = 2.0
"""Times a second. Drawing takes milliseconds of the interpreter that is measured: seldom is good."""


class View:
    """Shows nothing. `watch` is called with each second of the run, on its loop."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def watch(self, second: Second) -> None:
        """A second is over."""
        self.board.add(second)

    def phase(self, text: str) -> None:
        """Something else goes on now: `draining`."""

    def stop(self) -> None:
        """Show no more. Whatever comes after is written below."""


class _Lines(View):
    """A line each second."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._heard = True

    def watch(self, second: Second) -> None:
        super().watch(second)
        if not self._heard:
            return
        try:
            typer.echo(self.board.line())
        except BrokenPipeError:  # `| head`: whoever reads has gone, and the run goes on
            self._heard = False

    def phase(self, text: str) -> None:
        say(text)


class _Screen(View):
    """A board that is drawn in place."""

    def __init__(self, board: Board) -> None:
        from rich.live import Live

        super().__init__(board)
        self._began: float | None = None
        self.live = Live(
            get_renderable=self._draw, console=console(), refresh_per_second=REFRESH, transient=True
        )

    def _draw(self) -> RenderableType:
        """Called on a thread of Rich's."""
        return self.board.render(self._elapsed())

    def _elapsed(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began

    def watch(self, second: Second) -> None:
        super().watch(second)
        self._began = time.monotonic() - second.at

    def phase(self, text: str) -> None:
        self.board.phase = text
        self.live.refresh()

    def stop(self) -> None:
        self.live.stop()


@contextmanager
def view(title: str, total: float, *, quiet: bool) -> Iterator[View]:
    """Show a run while the block runs. The last board stays on the terminal."""
    board = Board(title, total)
    if quiet:
        yield View(board)
        return
    if not sys.stdout.isatty():
        yield _Lines(board)
        return
    screen = _Screen(board)
    with screen.live:
        yield screen
