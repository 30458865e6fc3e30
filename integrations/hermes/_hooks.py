"""The hooks of a Hermes agent: what is done at a commit, a release and a close.

A room calls hooks without arguments. Of an `AIAgent` as it is, `commit_memory_session()` would then have
memories extracted from nothing at all: it is handed the transcript by whoever calls it. `interrupt()` is
right as it is: what it is given is taken for the user's next message.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any

from greenroom import AgentHooks
from greenroom.integrations.hermes._memory import extract, extract_past
from greenroom.integrations.hermes._notes import notes_of, transcript_of

__all__ = ["HERMES_HOOKS", "hermes_hooks"]


def commit(agent: Any) -> None:
    """Have memories extracted from the transcript; first from conversations that were left meanwhile."""
    notes = notes_of(agent)
    notes.owed = True
    for session_id, messages in list(notes.past.items()):
        extract_past(agent, session_id, messages)
        notes.past.pop(session_id, None)
    extract(agent, transcript_of(agent))
    notes.owed = notes.begun = False


def release(agent: Any) -> None:
    """Let go of what this object holds: its clients, its transcript, and its own memory manager, for the
    next agent brings another. The manager is not told that the session has ended, as it has not."""
    manager = getattr(agent, "_memory_manager", None)
    with ExitStack() as stack:
        if manager is not None:
            stack.callback(manager.shutdown_all)
        stack.callback(_drop_transcript, agent)
        stack.callback(_clear_stale_clients)
        stack.callback(agent.release_clients)


def shutdown_memory(agent: Any) -> None:
    """Shut the memory provider. It extracts what it is handed, so it is handed the transcript only where
    the commit before has failed: the last chance, and else the second time."""
    agent.shutdown_memory_provider(transcript_of(agent) if notes_of(agent).owed else None)


def close(agent: Any, *, end_sessions: bool) -> None:
    """Close: clients, and what the conversation has of processes, terminals and browsers."""
    if not end_sessions:
        agent._end_session_on_close = False
    with ExitStack() as stack:
        stack.callback(_clear_stale_clients)
        stack.callback(agent.close)


def _drop_transcript(agent: Any) -> None:
    # Another list, not an empty one: the gateway may hold the one that the last turn returned.
    agent._session_messages = []


def _clear_stale_clients() -> None:
    """Clients of helping models are kept by event loop, process-wide: close those whose loop is gone."""
    from agent.auxiliary_client import cleanup_stale_async_clients

    cleanup_stale_async_clients()


def hermes_hooks(*, end_sessions: bool = False) -> AgentHooks:
    """The hooks, with a choice: whether closing an agent ends its conversation in the database, too.

    A drain closes every agent, and their conversations go on after the restart; so, as in Hermes's own
    shutdown, they are left open, and whoever resets a conversation ends it.
    """
    return AgentHooks(
        commit=commit,
        release=release,
        close=functools.partial(close, end_sessions=end_sessions),
        shutdown_memory=shutdown_memory,
    )


HERMES_HOOKS = hermes_hooks()
"""The hooks as a room of Hermes agents uses them."""
