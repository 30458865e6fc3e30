"""The hooks of a Hermes agent: what is done at a commit, a release and a close.

A room calls hooks without arguments. Of an `AIAgent` as it is, `commit_memory_session()` would then have
memories extracted from nothing at all: it is handed the transcript by whoever calls it. `interrupt()` is
right as it is: what it is given is taken for the user's next message.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from greenroom import AgentHooks
from greenroom.integrations.hermes._memory import extract, extract_past
from greenroom.integrations.hermes._notes import notes_of, transcript_of

if TYPE_CHECKING:
    from greenroom.integrations.hermes._notes import Transcript

__all__ = ["HERMES_HOOKS", "hermes_hooks"]


def commit(agent: Any) -> None:
    """Have memories extracted from the transcript; first from conversations that were left meanwhile.

    A turn may begin while this runs, and take the agent elsewhere. So what is to be committed is looked
    up before anything else."""
    notes = notes_of(agent)
    now = transcript_of(agent)
    notes.owed = False
    try:
        for transcript in tuple(notes.past):
            _extract(agent, transcript)
            notes.settle(transcript)
        _extract(agent, now)
    except BaseException:
        notes.owed = True
        raise
    notes.committed = now
    notes.settle(now)  # it was left meanwhile


def _extract(agent: Any, transcript: Transcript) -> None:
    if transcript.session_id == agent.session_id:
        extract(agent, transcript.messages)
    else:
        extract_past(agent, transcript.session_id, transcript.messages)


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
    the last commit has failed: the last chance, and else the second time."""
    notes = notes_of(agent)
    with ExitStack() as stack:
        messages = transcript_of(agent).messages if notes.owed else None
        stack.callback(agent.shutdown_memory_provider, messages)
        if notes.owed:
            for transcript in reversed(notes.past):
                stack.callback(extract_past, agent, *transcript)


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
    notes_of(agent).forget()


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
