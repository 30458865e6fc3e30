"""The drain: what is uncommitted is committed before the program exits, all sessions at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from time import monotonic
from typing import Any

import pykka

from greenroom import Future
from greenroom.integrations.hermes_webui._desk import Desk, desk
from greenroom.integrations.hermes_webui._messages import BeginDrain, Flush, HasUncommitted

__all__ = ["drain_all_on_shutdown"]

logger = logging.getLogger("greenroom.integrations")

LOOK = 0.25
"""While it waits, a drain looks so often, in seconds, for what was marked meanwhile: a session, or a
thread, that hangs must not keep it from the others."""

ANSWER = 1.0
"""A session that cannot say for so many seconds whether it is uncommitted counts as if it were. None
takes so long, unless the drain has interrupted it: in a signal handler, on the same thread."""

Flushing = dict[Hashable, Future[bool]]
"""What each session that was uncommitted has answered to `Flush`, or will."""


def drain_all_on_shutdown(deadline: float = 30.0) -> None:
    """Commit everything, and wait for the background threads: `deadline` seconds at most, whatever
    hangs.

    From its first moment no background thread is registered any more. Each session commits its segments
    oldest first, behind a commit that is in flight, and stops at one that fails; a session that fails,
    or hangs, stops no other. What is marked meanwhile is committed too. A WARNING names the sessions
    that stay uncommitted: they are as they were, and another drain tries again.
    """
    found, until = desk(), monotonic() + deadline
    begun: Future[list[threading.Thread]] = found.registry.ask(BeginDrain(), block=False)
    flushing: Flushing = {}
    while monotonic() < until:
        # What is under way first, and then what is uncommitted: what the one leaves behind is seen.
        asked: list[Future[Any]] = [begun, *flushing.values()]
        futures = [future for future in asked if not future.done()]
        threads = [thread for thread in _threads(begun) if _has_to_be_joined(thread)]
        more = _flush(found, flushing, until)
        if not (futures or threads or more):
            break
        _wait([*futures, *more], threads, min(monotonic() + LOOK, until))
    left = _uncommitted(found)
    if left:
        names = ", ".join(sorted(map(repr, left)))
        logger.warning("Drained, but these sessions stay uncommitted: %s", names)


def _flush(found: Desk, flushing: Flushing, until: float) -> list[Future[bool]]:
    """Flush what is uncommitted, except what is being flushed or has failed. Returns what was begun."""
    more: Flushing = {}
    for session_id in _uncommitted(found):
        ref: Any = found.refs.get(session_id)
        if ref is not None and (session_id not in flushing or _succeeded(flushing[session_id])):
            more[session_id] = ref.ask(Flush(until=until), block=False)
    flushing |= more
    return list(more.values())


def _succeeded(flushed: Future[bool]) -> bool:
    try:
        return flushed.done() and flushed.get()
    except pykka.ActorDeadError:
        return True  # it was discarded, and has begun again


def _uncommitted(found: Desk) -> list[Hashable]:
    asked: list[tuple[Hashable, Any]] = [
        (session_id, ref.ask(HasUncommitted(), block=False))
        for session_id, ref in list(found.refs.items())
    ]
    return [session_id for session_id, answer in asked if _may_be_true(answer)]


def _may_be_true(answer: Future[bool]) -> bool:
    try:
        return answer.get(timeout=ANSWER)
    except pykka.ActorDeadError:
        return False  # it was discarded
    except pykka.Timeout:
        return True


def _threads(begun: Future[list[threading.Thread]]) -> list[threading.Thread]:
    """The background threads, once the registry has named them: not while somebody holds their set."""
    try:
        return begun.get() if begun.done() else []
    except pykka.ActorDeadError:
        return []  # a reset has ended it


def _has_to_be_joined(thread: threading.Thread) -> bool:
    # One that is not alive has ended, or is yet to be started: then it finds everything committed.
    return thread.is_alive() and thread is not threading.current_thread()


def _wait(futures: list[Future[Any]], threads: list[threading.Thread], until: float) -> None:
    """Wait for all of these, until that time."""
    for future in futures:
        try:
            future.get(timeout=max(0.0, until - monotonic()))
        except (pykka.Timeout, pykka.ActorDeadError):
            pass  # the next look tells
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
