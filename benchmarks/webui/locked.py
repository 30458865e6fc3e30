"""A dict, one lock and one condition for all sessions: what the web UI does today.

The lock is held for as little as there is, and never while a hook runs. What is kept of the web UI's
ways is that every change notifies all who wait, whichever session they wait for, and that a drain
commits one session after another, each on a thread that is given what is left of the deadline.
What nothing here measures is left out: agents that are registered, and background threads.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

logger = logging.getLogger("benchmarks.webui")


@dataclass(slots=True)
class Segment:
    """Turns that one agent completed, up to and including `end`."""

    end: int
    owner: Any


@dataclass(slots=True)
class Session:
    agent: Any = None
    generation: int = 0
    in_flight: bool = False
    uncommitted: deque[Segment] = field(default_factory=deque[Segment])


_sessions: dict[str, Session] = {}
_changed = threading.Condition(threading.Lock())


def mark_turn_completed(session_id: str, *, agent: Any = None) -> int:
    with _changed:
        session = _sessions.get(session_id)
        if session is None:
            session = _sessions[session_id] = Session()
        if agent is not None:
            session.agent = agent
        session.generation += 1
        segments = session.uncommitted
        if segments and not session.in_flight and segments[-1].owner is session.agent:
            segments[-1].end = session.generation
        else:
            segments.append(Segment(session.generation, session.agent))
        _changed.notify_all()
        return session.generation


def has_uncommitted_work(session_id: str) -> bool:
    with _changed:
        session = _sessions.get(session_id)
        return session is not None and bool(session.uncommitted)


def commit_session_memory(
    session_id: str, agent: Any = None, *, wait: bool = False, timeout: float | None = None
) -> bool:
    until = None if timeout is None else monotonic() + timeout
    with _changed:
        while (session := _sessions.get(session_id)) is not None and session.in_flight:
            left = None if until is None else until - monotonic()
            if not wait or (left is not None and left <= 0):
                return False
            _changed.wait(left)
        if session is None or not session.uncommitted:
            return False
        segment = session.uncommitted[0]
        if segment.owner is None:
            segment.owner = agent if agent is not None else session.agent
        if segment.owner is None:
            return False
        session.in_flight = True
    try:
        segment.owner.commit_memory_session()
    except Exception:
        logger.exception("%s: commit failed", session_id)
        succeeded = False
    else:
        succeeded = True
    with _changed:
        session.in_flight = False
        if succeeded:
            session.uncommitted.popleft()
        _changed.notify_all()
    return succeeded


def discard_session(session_id: str) -> bool:
    with _changed:
        session = _sessions.get(session_id)
        if session is None:
            return True
        if session.in_flight or session.uncommitted:
            return False
        del _sessions[session_id]
        _changed.notify_all()
        return True


def drain_all_on_shutdown(deadline: float = 30.0) -> None:
    until = monotonic() + deadline
    while uncommitted := _uncommitted():
        progress = False
        for session_id in uncommitted:
            left = until - monotonic()
            if left <= 0:
                logger.warning("deadline hit, uncommitted are: %s", sorted(uncommitted))
                return
            progress |= _commit_within(session_id, left)
        if not progress:
            return


def _uncommitted() -> list[str]:
    with _changed:
        return [session_id for session_id, session in _sessions.items() if session.uncommitted]


def _commit_within(session_id: str, seconds: float) -> bool:
    """Commit on a thread of its own, which is left behind when the time is up."""
    succeeded: list[bool] = []

    def commit() -> None:
        succeeded.append(commit_session_memory(session_id, wait=True))

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    thread.join(seconds)
    return succeeded == [True]
