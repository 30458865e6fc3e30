"""What a room raises.

GreenroomError
├── SessionBusy      somebody else has the turn, and you would not wait
├── TurnTimeout      you waited for the turn as long as you would
├── Overloaded       too many wait for the turn already
├── RoomClosed       the room is being drained, or is closed
├── BuildFailed      `build` raised; its exception is the cause
├── SessionFailed    the session's actor failed too often, and takes no turn until it is ended
└── NotSettled       something was still under way when `settle()` had waited long enough
"""

from __future__ import annotations

__all__ = [
    "BuildFailed",
    "GreenroomError",
    "NotSettled",
    "Overloaded",
    "RoomClosed",
    "SessionBusy",
    "SessionFailed",
    "TurnTimeout",
]


class GreenroomError(Exception):
    """Whatever goes wrong in a room."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key
        """The session that it is about, if it is about one."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.key)


class SessionBusy(GreenroomError):
    """The session is in a turn, and `on_busy="reject"` was asked for."""


class TurnTimeout(GreenroomError, TimeoutError):
    """The turn did not begin within its timeout."""


class Overloaded(GreenroomError):
    """As many turns wait for the session as may."""


class RoomClosed(GreenroomError):
    """No turn begins any more: the room is being drained, or is closed."""


class BuildFailed(GreenroomError):
    """The agent could not be built. The exception that `build` raised is the cause."""


class SessionFailed(GreenroomError):
    """The session's actor failed too often. End the session to begin afresh."""


class NotSettled(GreenroomError, TimeoutError):
    """Builds, commits, releases or closes are still under way."""
