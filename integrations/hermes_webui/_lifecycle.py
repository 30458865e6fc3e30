"""The functions for one session. Each finds the session's actor and asks it.

Falsy session ids are no sessions: nothing happens, and what comes back says so.

A session that is discarded ends its actor. A message that comes too late for that is refused, which is
as if it had come just after: there is nothing to commit, nothing uncommitted and nobody registered any
more, and that is the answer. Only what begins a session, a registration or a turn, is sent again, to
the next.
"""

from __future__ import annotations

from typing import Any

import pykka

from greenroom.integrations.hermes_webui._desk import BACKGROUND, close_desk, desk
from greenroom.integrations.hermes_webui._messages import (
    Commit,
    DiscardSession,
    HasUncommitted,
    MarkTurn,
    RegisterAgent,
)

__all__ = [
    "_reset_for_tests",
    "commit_session_memory",
    "discard_session",
    "has_uncommitted_work",
    "mark_turn_completed",
    "register_agent",
    "unregister_agent",
]


def register_agent(session_id: str | None, agent: Any) -> None:
    """Say which agent completes the next turns. What is uncommitted keeps its owners."""
    if session_id:
        _ask(session_id, RegisterAgent(agent=agent))


def unregister_agent(session_id: str | None) -> None:
    """Forget the agent for turns to come. What is uncommitted keeps its owners."""
    if session_id:
        _ask_if_there(session_id, RegisterAgent(agent=None), None)


def discard_session(session_id: str | None) -> bool:
    """Forget a session. False if it was not, because something is uncommitted or being committed."""
    return bool(session_id) and bool(_ask_if_there(session_id, DiscardSession(), True))


def mark_turn_completed(session_id: str | None, *, agent: Any = None) -> int:
    """Count one more completed turn, of this agent or of the one that is registered. It commits nothing.

    Returns the new generation. While a commit is in flight it returns at once all the same, and that
    commit does not cover the turn.
    """
    return int(_ask(session_id, MarkTurn(agent=agent))) if session_id else 0


def has_uncommitted_work(session_id: str | None) -> bool:
    """Tell whether completed turns of a session are not committed."""
    return bool(session_id) and bool(_ask_if_there(session_id, HasUncommitted(), False))


def commit_session_memory(
    session_id: str | None, agent: Any = None, *, wait: bool = False, timeout: float | None = None
) -> bool:
    """Commit the oldest uncommitted segment: call `commit_memory_session()` of the agent that owns it.

    True when it was committed. False if there was nothing to commit, if it failed, or if there is
    nobody to do it: a segment without an owner takes `agent`, or else the one that is registered, and
    keeps it for the next try. While another commit of the session is in flight the answer is False at
    once; with `wait` it waits for that, `timeout` seconds at most, and then goes on. Its own commit it
    always waits for.
    """
    if not session_id:
        return False
    commit = Commit(agent=agent, wait=bool(wait), timeout=timeout)
    return bool(_ask_if_there(session_id, commit, False))


def _reset_for_tests() -> None:
    """Forget everything: all sessions, all background threads, and that there was a drain.

    Whoever waits for a commit gets False. A hook that is running goes on, and how it ends is ignored.
    """
    close_desk()
    BACKGROUND.clear()


def _ask(session_id: str, message: Any) -> Any:
    """Ask a session, which begins with this if there is none."""
    while True:
        found = desk()
        try:
            return found.session(session_id).ask(message)
        except pykka.ActorDeadError:
            # It was discarded, or all of them were by a reset: then there is a new one, or will be.
            # Unless the desk itself was ended, by a SystemExit that a signal raised in one of its
            # handlers.
            if not found.directory.is_alive() and found is desk():
                raise


def _ask_if_there(session_id: str | None, message: Any, otherwise: Any) -> Any:
    """Ask a session, if there is one."""
    ref = desk().refs.get(session_id)
    if ref is None:
        return otherwise
    try:
        return ref.ask(message)
    except pykka.ActorDeadError:
        return otherwise
