"""Why an agent is let go, or was built again."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Reason"]


class Reason(StrEnum):
    """Why an agent is let go, or was built again. Equal to its text: `Reason.IDLE == "idle"`."""

    IDLE = "idle"
    """Unused for longer than `idle_ttl`."""

    CAPACITY = "capacity"
    """Among the least recently used beyond the cap."""

    MEMORY = "memory"
    """Among the least recently used when memory was above its budget."""

    SPEC = "spec"
    """The next turn came with another signature."""

    COHERENCE = "coherence"
    """Another process wrote to the session, or has taken it over."""

    LOOP_CLOSED = "loop-closed"
    """It is async, the event loop that it was built for is closed, and the next turn is on another."""

    RECOVERY = "recovery"
    """It was built only to commit what a room before this one left uncommitted."""

    EXPLICIT = "explicit"
    """The gateway asked for it: `evict()`, `end()`, or another agent was adopted."""

    DISCARD = "discard"
    """The turn said so: `turn.discard()`; or nobody wanted the agent any more when it was built."""

    SHUTDOWN = "shutdown"
    """The room is being drained."""

    SESSION_EXPIRED = "session-expired"
    """The session was unused for longer than `session_ttl`."""

    FAILURE = "failure"
    """Something went wrong: a hook raised, or the session actor failed once too often."""
