"""What the store writer is asked, who alone writes to the store, and what sessions hear of it.

Every request names the epoch under which the session holds its session id: what comes late, from a room
that was suspended meanwhile, changes nothing, and is answered with "lost".
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from greenroom.messages._protocol import Notice, Request, message

__all__ = [
    "Beat",
    "CloseBooks",
    "DisclaimSession",
    "EnterAgain",
    "EnterStore",
    "Entered",
    "FailRecovery",
    "FindOrphans",
    "HandOver",
    "IntendCommit",
    "LookAtLease",
    "LookForOrphans",
    "PinLease",
    "RecordCommit",
    "RecordTurn",
    "RecoverSession",
    "Recovered",
    "RenewLeases",
    "RetryRecord",
    "StoreRequest",
    "StoreWritten",
]

R = TypeVar("R")


# What the store writer is asked.


class StoreRequest(Request[R]):
    """What is asked of the store, through the store writer, who writes for all in one transaction."""

    __slots__ = ()

    verb: ClassVar[str]
    """The method of the ledger that does it. The fields of the request are its arguments."""


@message()
class Entered:
    """What the store said when a turn was to begin: the answer to `EnterStore`."""

    lease: Any = None
    """How the session id stands in the ledger, and whether this room has it now. `None`: no ledger."""

    seen: Any = None
    """What was seen of its transcript. `None`: the store knows no such session."""

    home: Any = None
    """The same of the session id that the agent was built for, if that was asked for."""


@message()
class EnterStore(StoreRequest[Entered]):
    """Take a session id for a turn, and look at its transcript."""

    session_id: str
    key: str
    home: str | None = None
    """Look at this one, too."""

    ticket: int = 0
    """Which of the session's questions it is. 0: it is asked for a recovery."""


@message()
class PinLease(StoreRequest[bool]):
    """Hold a session id until further notice: a turn of it is running. False: it is lost."""

    verb = "pin"
    session_id: str
    epoch: int


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
class IntendCommit(StoreRequest[bool]):
    """Record that a commit up to this generation is about to begin. False: the session id is lost."""

    verb = "intend"
    session_id: str
    epoch: int
    generation: int


@message()
class RecordCommit(StoreRequest[bool]):
    """Record that everything up to this generation is committed. False: the session id is lost."""

    verb = "commit"
    session_id: str
    epoch: int
    generation: int


@message()
class FindOrphans(StoreRequest[list[Any]]):
    """List session ids with uncommitted turns that no living room answers for."""

    verb = "orphans"
    limit: int


@message()
class FailRecovery(StoreRequest[bool]):
    """Record that recovering a session id has failed, and let go of it."""

    verb = "fail"
    session_id: str
    epoch: int
    problem: str
    pause: float
    most: int


@message()
class HandOver(StoreRequest[bool]):
    """Let go of a session id, so that another room may have it at once. False: one has it already."""

    verb = "hand_over"
    session_id: str
    epoch: int


@message()
class DisclaimSession(StoreRequest[bool]):
    """Let go of a session id, should this room have it unknowingly: what it asked for was done, perhaps,
    and the answer did not come. True: it had."""

    verb = "disclaim"
    session_id: str
    key: str


@message()
class CloseBooks(Request[bool]):
    """Write what is to be written, and hand everything over: this room answers for nothing any more."""


# What the store writer tells itself.


@message()
class RenewLeases(Notice):
    """It is time to tell the other rooms that this one lives."""


@message()
class Beat(Request[bool]):
    """Tell the other rooms that this one lives. False: they may have thought otherwise meanwhile."""

    ttl: float


@message()
class StoreWritten(Notice):
    """A transaction was written, or could not be, or is given up and may still be written."""

    number: int
    asked: float
    """When it was sent on its way."""

    results: list[Any] | None
    error: BaseException | None


# What sessions hear.


@message()
class EnterAgain(Notice):
    """Ask the store again for the turn that is to begin."""

    ticket: int


@message()
class LookAtLease(Notice):
    """See to it that a turn does not outlast the room's hold on its session id."""


@message()
class RetryRecord(Notice):
    """Record what could not be recorded when its turn ended."""

    session_id: str


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


@message()
class LookForOrphans(Notice):
    """It is time to look for what other rooms have left."""


# What the supervisor hears.
