"""What the store writer is asked, who alone writes to the store, and what sessions hear of it.

Every request names the epoch under which the session holds its session id: what comes late, from a room
that was suspended meanwhile, changes nothing, and is answered with "lost".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

from greenroom.messages._protocol import Request, message

__all__ = [
    "CallLedger",
    "CloseBooks",
    "EnterStore",
    "Entered",
    "RecordTurn",
    "RecoverSession",
    "Recovered",
    "RenewConversation",
    "StoreRequest",
]

R = TypeVar("R")


# What the store writer is asked.


class StoreRequest(Request[R]):
    """What is asked of the store, through the store writer, who writes for all in one transaction."""

    __slots__ = ()


@message()
class Entered:
    """What the store said when a turn was to begin: the answer to `EnterStore`."""

    lease: Any = None
    """How the session id stands in the ledger, and whether this room has it now. `None`: no ledger."""

    seen: Any = None
    """What was seen of its transcript. `None`: the store knows no such session."""

    home: Any = None
    """The same of the session id that the agent was built for, if that was asked for."""

    conversation: str | None = None
    """The current conversation of the key. `None`: the store does not remember such things."""


@message()
class EnterStore(StoreRequest[Entered]):
    """Take a session id for a turn, and look at its transcript."""

    session_id: str
    key: str
    home: str | None = None
    """Look at this one, too."""

    ticket: int = 0
    """Which of the session's questions it is. 0: it is asked for a recovery."""

    here: bool = False
    """Whether the caller of the turn may write it, and has the time."""


@message()
class RecordTurn(StoreRequest[Any]):
    """Record that a turn has ended. Answered with what is seen of the transcript; `None`: it is lost."""

    session_id: str
    epoch: int
    generation: int | None
    """Which of the session id it was. `None`: it was not completed."""

    linger: float
    """For how many seconds the session id stays with this room."""

    turn: Any = None
    """`None`: it is recorded after the fact."""

    asked: float = 0.0
    """When, on the runtime's clock."""


@message()
class RenewConversation(StoreRequest[str]):
    """End the current conversation of a key, and begin another. Answered with the one before."""

    session_id: str
    """The current one, as far as is known."""

    key: str
    to: str


@message()
class CallLedger(StoreRequest[R]):
    """Call a method of the ledger, and nothing else. Those that are called, and what they answer:

    pin         bool        hold a session id until further notice: a turn of it is running
    intend      bool        a commit up to this generation is about to begin
    commit      bool        everything up to this generation is committed
    fail        bool        a recovery has failed: note why, and let go of the session id
    hand_over   bool        let go of a session id, so that another room may have it at once
    disclaim    bool        let go of a session id, should this room have it unknowingly
    orphans     list        session ids with uncommitted turns that no living room answers for

    False: this room does not have the session id, or not under this epoch any more.
    """

    verb: str
    session_id: str = ""
    """Empty: it is about none."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The other arguments, without the owner: that is this room."""

    @property
    def epoch(self) -> int:
        """Under which the session holds the session id. 0: whatever it is."""
        return int(self.values.get("epoch", 0))


@message()
class CloseBooks(Request[bool]):
    """Write what is to be written, and hand everything over: this room answers for nothing any more."""


# What sessions hear.


@message()
class Recovered:
    """What came of a recovery: the answer to `RecoverSession`."""

    problem: str | None
    """What went wrong. `None`: nothing."""

    settled: bool
    """The ledger says so. False: it was not tried, and the ledger is as it was."""


@message()
class RecoverSession(Request[Recovered]):
    """Commit what another room left uncommitted of this session id."""

    session_id: str
    epoch: int
    """Of whoever left it."""

    tries: int
    """How often that has failed before."""
