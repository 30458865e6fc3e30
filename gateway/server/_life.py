"""The life of a server: it listens, reads its configuration again when told to, and ends.

    SIGHUP             the configuration is read again, and what may change live does; what is wrong is
                       logged, and the old one stays. From a terminal that was closed: as SIGTERM
    SIGTERM, SIGINT    1. not ready: /readyz says 503, no turn begins, answers close their connections
                       2. turns that run may end, until shortly before `drain_deadline`; then they are
                          stopped
                       3. the room drains: what is uncommitted is committed, agents are closed
                       4. nobody listens any more, streams that are left are ended
                       5. exit code 0 if the room has drained, whatever came of it: see the log
    a second one       exit at once, with 128 and the signal's number; the ledger knows what is dirty
    nothing helps      exit 70, a few seconds after the deadline: the drain did not come back; or 0 if it
                       did, and only something afterwards is stuck

A turn is stopped shortly before the room's deadline and not at it: at the deadline the room takes its
sessions from whoever is in a turn, and a turn that ended just then would tell its client of an end that
the ledger does not know.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.gateway._aside import on_a_thread
from greenroom.gateway.config._config import changed_names, live_changes
from greenroom.gateway.server._draining import Turns, log_report
from greenroom.gateway.server._last_resort import LastResort, exit_now
from greenroom.gateway.server._pulse import EXTENSION, Pulse

if TYPE_CHECKING:
    from types import FrameType

    from greenroom.gateway._stage import Stage
    from greenroom.gateway.config._config import Config
    from greenroom.gateway.server._listener import Listener
    from greenroom.gateway.server._notify import Notifier

__all__ = ["NOT_DRAINED", "Life"]

logger = logging.getLogger("greenroom.gateway")

NOT_DRAINED = 70
"""The exit code of a server whose room did not drain: `EX_SOFTWARE` of sysexits.h."""

GRACE = 6.0
"""Seconds after `drain_deadline` by which the process is gone. `deploy/` allows for them."""

MARGIN = 0.5
"""Seconds before the deadline of a drain at which turns are stopped; a tenth of it, if that is less."""

CHORES = 0.5
"""Seconds that what was to be done behind answers may still take."""

CLOSING = 2.0
"""Seconds that the room may take to close once it has drained."""

EXITING = 2.0
"""Seconds that the interpreter may take to exit, where threads are left."""


class Life:
    """One server, from when it listens to its exit code."""

    def __init__(
        self,
        stage: Stage,
        listener: Listener,
        notifier: Notifier,
        *,
        reload: Callable[[], Config],
        ready: Callable[[str], object],
    ) -> None:
        """`reload` reads the configuration again, or raises; `ready` gets the URL, once it listens."""
        self._stage = stage
        self._listener = listener
        self._notifier = notifier
        self._reload = reload
        self._ready = ready
        self._last_resort = LastResort()
        self._turns = Turns()
        self._loop: asyncio.AbstractEventLoop
        self._told: asyncio.Future[int]
        self._hangups: asyncio.Queue[int] = asyncio.Queue()
        self._ended_by: int | None = None
        self._code = 1
        self._has_terminal = os.isatty(0)

    # Signals. Handlers of Python's own and not the loop's: they run even while the loop is blocked.

    def _handle_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only there can they be handled
        signal.signal(signal.SIGTERM, self._on_end)
        signal.signal(signal.SIGINT, self._on_end)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._on_hangup)

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        if self._has_terminal and not os.isatty(0):
            # It was started on a terminal, which has been closed: whoever did that wants no server left.
            self._on_end(number, frame)
        else:
            self._soon(self._hangups.put_nowait, number)

    def _on_end(self, number: int, _: FrameType | None) -> None:
        if self._ended_by is not None:
            name = signal.Signals(number).name
            exit_now(128 + number, f"{name} again: exiting at once, with code {128 + number}")
        self._ended_by = number
        self._last_resort.arm(
            self._stage.config.drain_deadline + GRACE, NOT_DRAINED, "The drain did not come back in time"
        )
        self._soon(self.end, number)

    def _soon(self, function: Callable[..., Any], number: int) -> None:
        try:
            self._loop.call_soon_threadsafe(function, number)
        except RuntimeError:
            pass  # the loop is closed, and everything over

    def end(self, number: int = signal.SIGTERM) -> None:
        """End, as a signal does. On the event loop."""
        if not self._told.done():
            self._told.set_result(number)

    # Living.

    async def live(self) -> int:
        """Serve until told to end; return the exit code."""
        self._loop = asyncio.get_running_loop()
        self._told = self._loop.create_future()
        self._handle_signals()
        self._stage.watchers.append(self._turns)
        serving = asyncio.ensure_future(self._listener.serve())
        await asyncio.wait([serving, self._listener.listening], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await self._close_stage()
            serving.result()  # raises why
            return 1
        return await self._serve(serving)

    async def _serve(self, serving: asyncio.Future[None]) -> int:
        url = self._listener.url
        try:
            self._ready(url)
        except Exception as error:
            logger.warning("Nobody could be told that it is ready: %r", error)
        logger.info("Listening on %s", url)
        self._notifier.tell(READY=1, STATUS=f"listening on {url}")
        helpers = [asyncio.ensure_future(self._obey_hangups())]
        if self._notifier.heard:
            helpers.append(
                asyncio.ensure_future(Pulse.from_environment(self._stage, self._notifier).run())
            )
        ends: list[asyncio.Future[Any]] = [serving, self._told]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self._code = await self._drain()
        await self._listener.end(serving)
        await self._wait_chores()
        await self._close_stage()
        for helper in helpers:
            helper.cancel()
        if not self._told.done():
            logger.error("The server ended without having been told to")
            return 1
        return self._code

    async def _obey_hangups(self) -> None:
        while True:
            await self._hangups.get()
            if self._stage.draining:
                logger.warning("The server drains: the configuration is not read again")
                continue
            self._notifier.reloading()
            try:
                await self._reconfigure()
            except Exception as error:
                logger.error("The configuration stays as it was. Reading it again failed: %s", error)
            if (
                not self._stage.draining
            ):  # if it does by now, STOPPING has been said, and is the last word
                self._notifier.tell(READY=1)

    async def _reconfigure(self) -> None:
        old, new = self._stage.config, await on_a_thread(self._reload)
        live, later = live_changes(old, new)
        self._stage.reconfigure(live)
        if later:
            logger.warning("These need a restart, and stay as they were: %s", ", ".join(later))
        changed = changed_names(old, live)
        logger.info("The configuration was read again. Changed: %s", ", ".join(changed) or "nothing")

    # Ending.

    def _why(self) -> str:
        return signal.Signals(self._told.result()).name if self._told.done() else "The server has failed"

    async def _drain(self) -> int:
        stage = self._stage
        deadline, began = stage.config.drain_deadline, time.monotonic()
        stage.draining = True
        logger.info("%s: no turn begins any more, those that run have %g s", self._why(), deadline)
        self._notifier.tell(STOPPING=1, STATUS="draining", EXTEND_TIMEOUT_USEC=int(EXTENSION * 1e6))
        stop = self._loop.call_later(deadline - min(MARGIN, deadline / 10), self._turns.stop)
        try:
            report = await asyncio.wait_for(stage.drain(deadline), deadline + 2.0)
        except Exception as error:
            logger.error("The room did not drain within %.1f s: %r", time.monotonic() - began, error)
            return NOT_DRAINED
        finally:
            stop.cancel()
        log_report(report)
        if self._ended_by is not None:
            self._last_resort.arm(GRACE, 0, "The room has drained, but something keeps the process")
        return 0

    async def _wait_chores(self) -> None:
        try:
            await asyncio.wait_for(self._stage.wait_chores(), CHORES)
        except TimeoutError:
            logger.warning(
                "What was to be done behind answers is not done after %s s: it is left", CHORES
            )

    async def _close_stage(self) -> None:
        try:
            await asyncio.wait_for(on_a_thread(self._stage.close), CLOSING)
        except TimeoutError:
            logger.warning("The room is not closed after %s s: it is left as it is", CLOSING)
        except Exception as error:
            logger.warning("The room could not be closed: %r", error)

    def over(self) -> None:
        """The loop is closed: all that can be stuck now is a thread that the interpreter waits for."""
        here = threading.current_thread()
        left = [one.name for one in threading.enumerate() if not one.daemon and one is not here]
        if not left:
            self._last_resort.disarm()
        elif self._ended_by is not None:
            self._last_resort.arm(EXITING, self._code, f"All is over, but for threads: {left[:10]}")
