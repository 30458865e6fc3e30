"""What a store answers: rows, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["Burial", "Fence", "LeaseRow", "Message", "RoomRow", "SessionRow", "StoreInfo"]


class Fence(Protocol):
    """What a write can be made to depend on: a lease that is still good. A `LeaseRow` is one."""

    @property
    def owner(self) -> str | None:
        """The room that has the session."""
        ...

    @property
    def epoch(self) -> int:
        """Since which change of owners."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a transcript."""

    session_id: str
    position: int
    """1, 2, 3, … within the session. A deleted message leaves a gap."""
    role: str
    content: object
    """A string, or what JSON can hold. It equals what was appended."""
    created: float
    """Seconds since 1970, by the clock of the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session: its transcript's version, its place in the ledger, and who has it."""

    session_id: str
    key: str
    source: str | None
    message_count: int
    version: int
    """Grows with each change of the transcript, whoever makes it."""
    generation: int
    """How many turns were completed."""
    committed: int
    """How many of them were committed."""
    intended: int
    """The generation of a commit that was begun and of which no end is known. 0: none."""
    created: float
    updated: float
    ended: float | None
    owner: str | None
    """The room that has it."""
    epoch: int
    """How often it changed hands."""
    free_at: float | None
    """When others may take it. `None` for as long as its owner is in a turn."""
    tries: int
    """How many commits failed in a row."""
    next_try: float | None
    problem: str | None
    """Why the last one failed."""
    dead: bool
    """Nobody tries any more, until `retry()`."""

    @property
    def dirty(self) -> bool:
        """Tell whether completed turns are uncommitted."""
        return self.generation > self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """What became of taking a session, and what it is like."""

    session_id: str
    key: str
    held: bool
    """Whether the caller has it now."""
    owner: str | None
    """Who has it now."""
    epoch: int
    version: int
    ended: bool
    generation: int
    committed: int
    intended: int
    conversation: str
    """The current conversation of the key under which it was to be taken."""
    wait: float | None
    """If it is not held: in how many seconds it may be free. `None` if nobody can tell: the caller's own
    room is in a turn of it, under another key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRow:
    """A room that has, or had, leases."""

    room: str
    expires: float
    started: float
    host: str
    pid: int
    lock_name: str | None
    """What it holds while its process lives. `None`: nothing, and only its lease tells."""
    alive: bool
    """Whether its leases are good now, by the clock of the database."""


class Burial(NamedTuple):
    """What a look for dead rooms has shown."""

    buried: tuple[str, ...]
    """The rooms that are known to be dead, since this look."""

    again: bool
    """Whether there are others whose lock was free: look again after a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """How much is in a store."""

    schema_version: int
    sessions: int
    ended: int
    messages: int
    dirty: int
    """Sessions with completed turns that are uncommitted."""
    uncommitted: int
    """Those turns."""
    dead: int
    rooms: int
    size: int
    """Bytes, as the database counts them."""
