"""In the place of the Hermes web UI's `api/session_lifecycle.py`: the same functions, on session actors.

`api/session_lifecycle.py` becomes one line:

    from greenroom.integrations.hermes_webui import *

A memory provider that extracts in batches must hear of every completed turn once, from the agent that
completed it. The program marks turns as completed, commits at the boundaries of a session (a new chat,
an agent that leaves the cache, shutdown) and drains before it exits. Here each session is an actor,
which owns the session's generations and its agents; no lock is shared between sessions.
`docs/hermes-webui.md` tells what is the same, what is better and what differs.

The names with an underscore are the program's own: it calls two of them, and its tests look at the rest.
"""

from greenroom.integrations.hermes_webui._background import (
    _background_commit_threads,
    _background_commit_threads_lock,
    _register_background_commit_thread,
    _unregister_background_commit_thread,
)
from greenroom.integrations.hermes_webui._drain import drain_all_on_shutdown
from greenroom.integrations.hermes_webui._lifecycle import (
    _reset_for_tests,
    commit_session_memory,
    discard_session,
    has_uncommitted_work,
    mark_turn_completed,
    register_agent,
    unregister_agent,
)

__all__ = [
    "_background_commit_threads",
    "_background_commit_threads_lock",
    "_register_background_commit_thread",
    "_reset_for_tests",
    "_unregister_background_commit_thread",
    "commit_session_memory",
    "discard_session",
    "drain_all_on_shutdown",
    "has_uncommitted_work",
    "mark_turn_completed",
    "register_agent",
    "unregister_agent",
]
