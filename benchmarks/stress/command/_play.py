"""Plays a run, and ends it when somebody says so.

Ctrl-C, SIGTERM     no more turns begin, those that run end, the room is drained; there is a report
Ctrl-C again        the process ends at once, with status 130, and there is none
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from greenroom._cli_terminal import say

if TYPE_CHECKING:
    from greenroom.stress._result import Result
    from greenroom.stress.command._live import View

__all__ = ["HARD", "Playable", "play", "when_asked_to_end"]

HARD = 130
"""The exit status of a run that was ended at once: 128 and the number of the signal."""


class Playable(Protocol):
    """A run."""

    async def play(self) -> Result:
        """Have it."""
        ...

    def stop(self) -> None:
        """End it soon."""
        ...


def play(run: Playable, view: View) -> Result:
    """Have a run on a loop of its own."""
    return asyncio.run(_play(run, view))


async def _play(run: Playable, view: View) -> Result:
    when_asked_to_end(_Ending(run, view).asked)
    return await run.play()


def when_asked_to_end(act: Callable[[int], object]) -> None:
    """Have Ctrl-C and SIGTERM call this, with the number of the signal, on the running loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            # Not on every system, and only in the main thread.
            loop.add_signal_handler(number, act, number)


class _Ending:
    def __init__(self, run: Playable, view: View) -> None:
        self._run = run
        self._view = view
        self._under_way = False

    def asked(self, number: int) -> None:
        if not self._under_way:
            self._under_way = True
            self._run.stop()
            self._view.phase("Ending: turns that run may end, then the report. Ctrl-C again: at once.")
        elif number == signal.SIGINT:
            self._view.stop()
            say(
                "greenroom: ended at once: what was under way is lost, and there is no report",
                style="red",
            )
            sys.stdout.flush()
            # Hooks may hang in threads that Python would wait for.
            os._exit(HARD)
