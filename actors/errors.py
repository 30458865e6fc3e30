"""What a room raises.

GreenroomError
├── SessionBusy      somebody else has the turn, and you would not wait
├── TurnTimeout      you waited for the turn as long as you would
├── Overloaded       too many wait for the turn already
├── RoomClosed       the room is being drained, is closed, or belongs to the parent process
├── BuildFailed      `build` raised; its exception is the cause
├── LostOwnership    another room has taken the session over: what this turn did does not count
├── NotRecorded      the turn is completed and known, but the store could not record it yet
├── StoreAway        the store cannot be reached, and nothing is known here of the session
├── SessionFailed    the session's actor failed too often, and takes no turn until it is ended
└── NotSettled       something was still under way when `settle()` had waited long enough
"""

from __future__ import annotations

__all__ = [
    "BuildFailed",
    "GreenroomError",
    "LostOwnership",
    "NotRecorded",
    "NotSettled",
    "Overloaded",
    "RoomClosed",
    "SessionBusy",
    "SessionFailed",
    "StoreAway",
    "TurnTimeout",
    "text_of",
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
    """The room is being drained or is closed, or this process was forked from the room's."""


class BuildFailed(GreenroomError):
    """The agent could not be built. The exception that `build` raised is the cause."""


class LostOwnership(GreenroomError):
    """Another room has taken the session over while this turn ran: it is not counted, and its agent is
    let go. The other room goes on from what the store had."""


class NotRecorded(GreenroomError):
    """The turn is completed, but the store could not record it: the cause says why. It counts, and is
    recorded as soon as that works. Only if this process ends before is it forgotten."""


class StoreAway(GreenroomError):
    """The store cannot be reached, and the room knows nothing of the session: the cause says why."""


class SessionFailed(GreenroomError):
    """The session's actor failed too often. End the session to begin afresh."""


class NotSettled(GreenroomError, TimeoutError):
    """Builds, commits, releases or closes are still under way."""


def text_of(error: BaseException) -> str:
    """An exception in one line, also if it says nothing."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
