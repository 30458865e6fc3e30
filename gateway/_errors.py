"""Errors as clients of OpenAI's API know them: a status, and a JSON object that says what, and of which
kind.

    what the room and the stage raise ──┐
    BadRequest, Unavailable: agents   ──┼──> ApiError ──> {"error": {message, type, param, code}}
    ApiError: routes                  ──┘

A text that goes to a client names what it sent and what it may do. What went wrong inside the agent is
the operator's business: it is in the log, under the request id that the client is told.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

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

__all__ = ["ApiError", "api_error", "bad_request", "not_found"]

logger = logging.getLogger("greenroom.gateway")


class ApiError(Exception):
    """An answer other than what was asked for."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """What goes with it."""
        if self.retry_after is None:
            return {}
        return {"retry-after": str(max(1, math.ceil(self.retry_after)))}

    def body(self) -> dict[str, Any]:
        """The answer."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """What was sent makes no sense."""
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, *, code: str, param: str | None = None) -> ApiError:
    """What was named does not exist, or is not theirs: which of the two is nobody's business."""
    return ApiError(404, message, param=param, code=code)


_STANDS_FOR: Mapping[type[BaseException], tuple[int, str, str, float | None]] = {
    Interrupted: (409, "conflict_error", "interrupted", None),
    TookTooLong: (504, "server_error", "turn_timeout", None),
    TooManySessions: (429, "rate_limit_error", "too_many_sessions", 60.0),
    SessionBusy: (409, "conflict_error", "session_busy", 1.0),
    LostOwnership: (409, "conflict_error", "session_moved", 1.0),
    TurnTimeout: (429, "rate_limit_error", "wait_timeout", 5.0),
    Overloaded: (429, "rate_limit_error", "overloaded", 1.0),
    RoomClosed: (503, "server_error", "draining", 5.0),
    StoreAway: (503, "server_error", "store_away", 5.0),
    SessionFailed: (500, "server_error", "session_failed", None),
    BuildFailed: (502, "server_error", "agent_not_built", None),
}
"""For what each error of a turn stands: status, type, code, and after how many seconds to try again."""

_TEXTS: Mapping[str, str] = {
    "interrupted": "This turn was interrupted by another one, or by an operator.",
    "turn_timeout": "This turn took longer than turns may.",
    "too_many_sessions": "You have as many live sessions as you may. End some, or go on with one.",
    "session_busy": "This session is in a turn. Wait, or send it with busy=queue or busy=interrupt.",
    "session_moved": "Another server has taken this session over. Send the request again.",
    "wait_timeout": "The turn could not begin in time: too many are waiting. Try again later.",
    "overloaded": "Too many requests are waiting. Try again later.",
    "draining": "The server is shutting down and begins no turn. Try again in a moment.",
    "store_away": "The session's store cannot be reached. Try again later.",
    "session_failed": "This session has failed. End it, and begin another one.",
    "agent_not_built": "The session's agent could not be built. The server's log says why.",
}


def api_error(error: BaseException) -> ApiError:
    """What a client is told of an error, whatever raised it. Unknown ones are logged: they are ours."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BadRequest):
        return bad_request(str(error))
    if isinstance(error, Unavailable):
        return ApiError(
            503,
            str(error),
            type="server_error",
            code="agent_unavailable",
            retry_after=5.0 if error.retry_after is None else error.retry_after,
        )
    for kind in type(error).__mro__:
        if kind in _STANDS_FOR:
            status, type_, code, retry_after = _STANDS_FOR[kind]
            logger.log(
                logging.WARNING if status >= 500 else logging.INFO, "A turn was refused: %s", error
            )
            return ApiError(status, _TEXTS[code], type=type_, code=code, retry_after=retry_after)
    logger.error("The agent failed in a turn", exc_info=error)
    return ApiError(
        500,
        "The agent failed in this turn. The server's log says why.",
        type="server_error",
        code="agent_failed",
    )
