"""The last resort: a process that should have ended, and has not, is ended.

Everything that an end waits for has a limit of its own. This is for what nobody thought of: an event
loop that an agent blocks for ever, a thread of somebody's that the interpreter waits for on its way
out.

    arm(seconds, code, why)    after so many seconds the process exits with this code, and says why
    a little later             it exits with code 1, even if some C code never gives the interpreter
                               back; where every thread stood is then on stderr

It may be armed in a signal handler: it takes no lock that whatever was interrupted could hold.
"""

from __future__ import annotations

import _thread
import faulthandler
import logging
import os
import time
from typing import NoReturn

__all__ = ["LastResort", "exit_now"]

logger = logging.getLogger("greenroom.gateway")

LATER = 2.0
"""After how many seconds more not even the interpreter is waited for."""

ONE_LINE = 1.0
"""Seconds that the last line of the log may take: whoever reads it may have stopped reading."""


class LastResort:
    """Ends the process in time."""

    def __init__(self) -> None:
        self._number = 0

    def arm(self, seconds: float, code: int, why: str) -> None:
        """Exit after so many seconds. The last call counts."""
        self._number += 1
        try:
            faulthandler.dump_traceback_later(seconds + LATER, exit=True)
        except (OSError, RuntimeError, ValueError, AttributeError):
            pass  # there is no stderr to say it on
        # Not a Thread of the threading module, which takes a lock to start. They end with the process.
        _thread.start_new_thread(self._wait, (self._number, seconds, code, why))

    def disarm(self) -> None:
        """All went well."""
        self._number += 1
        faulthandler.cancel_dump_traceback_later()

    def _wait(self, number: int, seconds: float, code: int, why: str) -> None:
        time.sleep(seconds)
        if number == self._number:
            _show_threads()
            exit_now(code, f"{why}: exiting with code {code}")


def _show_threads() -> None:
    """Where every thread stands, on stderr: what was waited for is among them."""
    try:
        faulthandler.dump_traceback()
    except (OSError, RuntimeError, ValueError, AttributeError):
        pass


def exit_now(code: int, line: str) -> NoReturn:
    """Log a line, and exit without waiting for anything."""

    def insist() -> None:
        time.sleep(ONE_LINE)
        os._exit(code)

    try:
        _thread.start_new_thread(insist, ())
    except RuntimeError:
        pass  # Python 3.12.1 starts no thread on its way out. If the line takes long, `arm` ends it
    logger.error("%s", line)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(code)
