"""The drain: what is uncommitted is committed before the program exits, all sessions at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from time import monotonic
from typing import Any

import pykka

from greenroom.integrations.hermes_webui._desk import Desk, desk
from greenroom.integrations.hermes_webui._messages import BeginDrain, Flush, HasUncommitted

__all__ = ["drain_all_on_shutdown"]

logger = logging.getLogger("greenroom.integrations")


def drain_all_on_shutdown(deadline: float = 30.0) -> None:
    """Commit everything, and wait for the background threads: `deadline` seconds at most, whatever
    hangs.

    From its first moment no background thread is registered any more. Each session commits its segments
    oldest first, behind a commit that is in flight, and stops at one that fails; a session that fails,
    or hangs, stops no other. What is marked meanwhile is committed too. A WARNING names the sessions
    that stay uncommitted: they are as they were, and another drain tries again.
    """
    found, until = desk(), monotonic() + deadline
    threads = _begin(found, until)
    given_up: set[Hashable] = set()
    _flush(found, until, given_up)
    _join(threads, until)
    _flush(found, until, given_up)  # what the threads have marked
    left = _uncommitted(found)
    if left:
        names = ", ".join(sorted(map(repr, left)))
        logger.warning("Drained, but these sessions stay uncommitted: %s", names)


def _begin(found: Desk, until: float) -> list[threading.Thread]:
    try:
        threads: list[threading.Thread] = found.registry.ask(BeginDrain(), timeout=_left(until))
    except (pykka.Timeout, pykka.ActorDeadError):
        return []  # somebody holds the set of threads, and never gives it back; or a reset has ended it
    return threads


def _flush(found: Desk, until: float, given_up: set[Hashable]) -> None:
    """Flush sessions until none is uncommitted but those given up, or the time is over."""
    while monotonic() < until:
        sessions = [session_id for session_id in _uncommitted(found) if session_id not in given_up]
        if not sessions:
            return
        flushing = [(session_id, _begin_flush(found, session_id, until)) for session_id in sessions]
        for session_id, flushed in flushing:
            if flushed is not None and not _succeeded(flushed, until):
                given_up.add(session_id)


def _begin_flush(found: Desk, session_id: Hashable, until: float) -> pykka.Future[bool] | None:
    ref = found.refs.get(session_id)
    return None if ref is None else ref.ask(Flush(until=until), block=False)


def _succeeded(flushed: pykka.Future[bool], until: float) -> bool:
    try:
        return flushed.get(timeout=_left(until))
    except (pykka.Timeout, pykka.ActorDeadError):
        return False


def _uncommitted(found: Desk) -> list[Hashable]:
    asked: list[tuple[Hashable, Any]] = [
        (session_id, ref.ask(HasUncommitted(), block=False))
        for session_id, ref in list(found.refs.items())
    ]
    return [session_id for session_id, answer in asked if _is_true(answer)]


def _is_true(answer: pykka.Future[bool]) -> bool:
    try:
        return answer.get()
    except pykka.ActorDeadError:
        return False  # it was discarded


def _join(threads: list[threading.Thread], until: float) -> None:
    for thread in threads:
        # One that is not alive has ended, or is yet to be started: then it finds everything committed.
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join(_left(until))


def _left(until: float) -> float:
    return min(max(0.0, until - monotonic()), threading.TIMEOUT_MAX)
