"""How a turn ended, in one word that metrics and traces can count by.

    ok        ok
    refused   the turn never began: session_busy, overloaded, wait_timeout, too_many_sessions, draining,
              store_away
    stopped   somebody ended it: client_gone, interrupted, cancelled
    error     bad_request, agent_failed, agent_not_built, agent_unavailable, session_failed,
              session_moved, turn_timeout

The words for errors are the codes that clients get. There are no others: whatever else an agent raises
is `agent_failed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from greenroom import (
    BuildFailed,
    LostOwnership,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    TurnTimeout,
)
from greenroom.gateway._admission import TooManySessions
from greenroom.gateway._agent import BadRequest, Unavailable
from greenroom.gateway._performance import Interrupted, TookTooLong
from greenroom.gateway.api._replies import ClientGone

__all__ = ["OUTCOMES", "outcome_of"]

_OUTCOMES: Mapping[type[BaseException], str] = {
    BadRequest: "bad_request",
    BuildFailed: "agent_not_built",
    ClientGone: "client_gone",
    GeneratorExit: "cancelled",
    Interrupted: "interrupted",
    LostOwnership: "session_moved",
    Overloaded: "overloaded",
    RoomClosed: "draining",
    SessionBusy: "session_busy",
    SessionFailed: "session_failed",
    StoreAway: "store_away",
    TookTooLong: "turn_timeout",
    TooManySessions: "too_many_sessions",
    TurnTimeout: "wait_timeout",
    Unavailable: "agent_unavailable",
    asyncio.CancelledError: "cancelled",
}

OUTCOMES: Mapping[str, str] = {
    "ok": "ok",
    "session_busy": "refused",
    "overloaded": "refused",
    "wait_timeout": "refused",
    "too_many_sessions": "refused",
    "draining": "refused",
    "store_away": "refused",
    "client_gone": "stopped",
    "interrupted": "stopped",
    "cancelled": "stopped",
    "bad_request": "error",
    "agent_failed": "error",
    "agent_not_built": "error",
    "agent_unavailable": "error",
    "session_failed": "error",
    "session_moved": "error",
    "turn_timeout": "error",
}
"""All outcomes, and of which kind each is."""


def outcome_of(error: BaseException | None) -> str:
    """How a turn ended that ended with this."""
    if error is None:
        return "ok"
    for kind in type(error).__mro__:
        if kind in _OUTCOMES:
            return _OUTCOMES[kind]
    return "agent_failed"
