"""Runs a server: the stage, the app, and an event loop for both, until the process ends.

What keeps it from starting (the port is taken, the store cannot be opened) is one line of the log and
exit code 1. How it lives and ends: `_life.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom.gateway._stage import Stage
from greenroom.gateway.app import create_app
from greenroom.gateway.server import _sockets
from greenroom.gateway.server._collector import calm_collector
from greenroom.gateway.server._life import Life
from greenroom.gateway.server._listener import Listener
from greenroom.gateway.server._notify import Notifier

if TYPE_CHECKING:
    import socket

    from greenroom.gateway._stage import Factory
    from greenroom.gateway.config._config import Config

__all__ = ["run"]

logger = logging.getLogger("greenroom.gateway")

NOT_STARTED = 1
"""The exit code of a server that could not start."""

LEFT_TASKS = 0.5
"""Seconds that tasks may take to end when they are cancelled, at the very end."""


def run(
    config: Config,
    factory: Factory,
    *,
    reload: Callable[[], Config],
    ready: Callable[[str], object],
) -> int:
    """Serve until a signal ends it; return the exit code. See `_life.py`.

    Args:
        config: what to serve, and where.
        factory: makes agents.
        reload: reads the configuration again, on SIGHUP; may raise, and the old one stays.
        ready: called with the server's URL, once it listens.
    """
    bound: list[socket.socket] = []
    try:
        bound = _sockets.bind(config.host, config.port)
        return _run(config, factory, bound, reload, ready)
    except Exception as error:
        logger.error("The server could not start: %s", _line(error))
        logger.debug("Where that came from", exc_info=error)
        return NOT_STARTED
    finally:
        _sockets.close(bound)


def _run(
    config: Config,
    factory: Factory,
    bound: list[socket.socket],
    reload: Callable[[], Config],
    ready: Callable[[str], object],
) -> int:
    stage = Stage(config, factory)
    try:
        app = create_app(stage)
    except BaseException:
        stage.close()
        raise
    notifier = Notifier.from_environment()
    lives: list[Life] = []

    async def live() -> int:
        listener = Listener(app, stage, bound)
        lives.append(Life(stage, listener, notifier, reload=reload, ready=ready))
        return await lives[0].live()

    loop = _new_loop()
    try:
        with calm_collector():
            return loop.run_until_complete(live())
    finally:
        # Not asyncio.run(): that waits for the threads of the loop's executor, and one may be stuck.
        _end_tasks(loop)
        loop.close()
        notifier.close()
        for life in lives:
            life.over()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=LEFT_TASKS))


def _line(error: Exception) -> str:
    """What an error says, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
