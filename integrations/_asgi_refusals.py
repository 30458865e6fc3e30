"""What a client is told of an error of the room: the same as greenroom's own gateway tells it.

A status, `Retry-After` where it helps, and `{"error": {message, type, param, code}}`. What went wrong
inside is the operator's business, and in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, cast

from greenroom import (
    BuildFailed,
    GreenroomError,
    LostOwnership,
    NotRecorded,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    TurnTimeout,
)

__all__ = ["Refusal", "errors_of", "refusal_of"]


class Refusal(NamedTuple):
    """What an error of the room stands for."""

    status: int
    type: str
    code: str
    retry_after: int | None
    text: str

    @property
    def body(self) -> bytes:
        """The answer."""
        error = {"message": self.text, "type": self.type, "param": None, "code": self.code}
        return json.dumps({"error": error}).encode()

    @property
    def close_code(self) -> int:
        """For websockets: the service restarts, try again later, or something is broken."""
        if self.code == "draining":
            return 1012
        return 1011 if self.retry_after is None else 1013

    def headers(self, http_version: str) -> list[tuple[bytes, bytes]]:
        """What goes with the answer."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self.body)).encode()),
        ]
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if self.code == "draining" and http_version.startswith("1"):
            headers.append((b"connection", b"close"))
        return headers


_REFUSALS: Mapping[type[GreenroomError], Refusal] = {
    SessionBusy: Refusal(409, "conflict_error", "session_busy", 1, "This session is in a turn. Wait."),
    LostOwnership: Refusal(
        409,
        "conflict_error",
        "session_moved",
        1,
        "Another server has taken this session over. Send the request again.",
    ),
    TurnTimeout: Refusal(
        429, "rate_limit_error", "wait_timeout", 5, "The turn could not begin in time. Try again later."
    ),
    Overloaded: Refusal(
        429, "rate_limit_error", "overloaded", 1, "Too many requests are waiting. Try again later."
    ),
    RoomClosed: Refusal(
        503,
        "server_error",
        "draining",
        5,
        "The server is shutting down and begins no turn. Try again in a moment.",
    ),
    StoreAway: Refusal(
        503,
        "server_error",
        "store_away",
        5,
        "The session's store cannot be reached. Try again later.",
    ),
    NotRecorded: Refusal(
        500,
        "server_error",
        "not_recorded",
        None,
        "The turn is done, but could not be recorded yet. Sent again, it would be done twice.",
    ),
    SessionFailed: Refusal(
        500,
        "server_error",
        "session_failed",
        None,
        "This session has failed. End it, and begin another one.",
    ),
    BuildFailed: Refusal(
        502,
        "server_error",
        "agent_not_built",
        None,
        "The session's agent could not be built. The server's log says why.",
    ),
}


def errors_of(error: Exception) -> list[Exception]:
    """This error; of a group, which is what a task group raises, those in it."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    group = cast("ExceptionGroup[Exception]", error)
    return [one for part in group.exceptions for one in errors_of(part)]


def refusal_of(error: Exception) -> Refusal | None:
    """What this error stands for. `None`: it is nothing that a client could be told.

    A group does if all that is in it does. Nobody is invited to come back if one of them forbids it.
    """
    refusals = [_refusal_of_one(one) for one in errors_of(error)]
    found = [refusal for refusal in refusals if refusal is not None]
    if len(found) < len(refusals):
        return None
    return min(found, key=lambda refusal: refusal.retry_after is not None)


def _refusal_of_one(error: Exception) -> Refusal | None:
    kinds = (kind for kind in type(error).__mro__ if issubclass(kind, GreenroomError))
    return next((_REFUSALS[kind] for kind in kinds if kind in _REFUSALS), None)
