"""Whether an agent still knows all that is in its transcript. Pure.

What is remembered belongs to an agent: for each session id that it has served, the version that the
transcript had when the agent was built, or when its last turn there ended (*own writes*: whatever this
process does in its own turn, the agent knows of). The session id that it was built for is its *home*.

    its version is the same, but for own writes      the agent knows it all
    it has grown by more                             another process wrote: stale
    another session id, never served                 nothing to compare with: reused
    another session id, and home has ended           stale: what it was built for is over
    the store cannot tell, or knows no such session  reused: at worst one stale turn, never a storm
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MOST_REMEMBERED", "NO_VERSION", "Remembered", "TranscriptVersion"]

NO_VERSION = -1
"""A version that no transcript has."""

MOST_REMEMBERED = 8
"""How many session ids an agent's versions are remembered for, besides its home."""


class TranscriptVersion(NamedTuple):
    """What was seen of a session id in the store."""

    version: int
    ended: bool
    finished: int = 0
    """How many versions this process had added, in turns or between them, before it looked …"""

    begun: int = 0
    """… and was adding or had added after it had. What lies between may be in the version, or not."""


class Remembered:
    """What one agent knows of the transcripts that it has served."""

    __slots__ = ("_marks", "home")

    def __init__(self, home: str | None) -> None:
        self.home = home
        """`None`: it was built elsewhere, for the conversation of its first turn here."""
        self._marks: dict[str, TranscriptVersion] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._marks

    def expected(self, session_id: str) -> int:
        """The version that a session id has if nobody else has written to it."""
        mark = self._marks.get(session_id)
        return NO_VERSION if mark is None else mark.version

    def remember(self, session_id: str, seen: TranscriptVersion | None) -> None:
        """The agent knows everything up to here. `None`: nobody can tell."""
        self.home = self.home or session_id
        if seen is None:
            self._marks.pop(session_id, None)
            return
        self._marks[session_id] = seen
        if len(self._marks) > MOST_REMEMBERED + 1:
            del self._marks[next(other for other in self._marks if other not in (self.home, session_id))]

    def is_stale(
        self, session_id: str, seen: TranscriptVersion | None, home: TranscriptVersion | None
    ) -> bool:
        """Tell whether the agent must not serve a turn of this session id, seen like this; `home` is
        what was seen of the session id that it was built for, if that is another one."""
        if home is not None and home.ended and session_id != self.home:
            return True
        mark = self._marks.get(session_id)
        if mark is None or seen is None:
            return False
        grown = seen.version - mark.version
        return not 0 <= grown <= seen.begun - mark.finished
