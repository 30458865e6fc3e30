"""What happened to agents: sessions tell the supervisor, which counts it and passes it on to listeners.

`room.events(callback)` calls back with these very objects.
"""

from __future__ import annotations

from typing import ClassVar

from greenroom.messages._protocol import Notice, message
from greenroom.messages._reason import Reason

__all__ = [
    "AgentBuilt",
    "AgentClosed",
    "AgentReleased",
    "AgentRetained",
    "AgentReused",
    "BuildFailure",
    "CommitFailure",
    "CommitSucceeded",
    "Event",
    "HookFailure",
    "OwnershipLost",
    "RecoveryFailure",
    "SessionEnded",
    "SessionFailure",
    "SessionRecovered",
    "StoreFailure",
]


@message()
class Event(Notice):
    """Something happened to a session."""

    kind: ClassVar[str] = "event"
    """`build`, `hit`, `release`, `close`, `commit`, `retain`, `end`, `lost`, `recover` or `failure`."""

    key: str


@message()
class AgentBuilt(Event):
    """An agent was built, or adopted."""

    kind: ClassVar[str] = "build"
    incarnation: int
    session_id: str
    reason: Reason | None
    """Why it was built again. `None` for the first agent of a session."""

    adopted: bool
    seconds: float


@message()
class AgentReused(Event):
    """A turn got the agent that was there."""

    kind: ClassVar[str] = "hit"
    incarnation: int


@message()
class AgentReleased(Event):
    """An agent was let go, and the session may resume."""

    kind: ClassVar[str] = "release"
    incarnation: int
    reason: Reason
    seconds: float


@message()
class AgentClosed(Event):
    """An agent was closed, and its session is over."""

    kind: ClassVar[str] = "close"
    incarnation: int
    reason: Reason
    seconds: float


@message()
class AgentRetained(Event):
    """An agent that was to be let go is kept for its commit, which failed and is tried again."""

    kind: ClassVar[str] = "retain"
    incarnation: int
    reason: Reason
    """Why it was to be let go."""


@message()
class CommitSucceeded(Event):
    """Completed turns were committed."""

    kind: ClassVar[str] = "commit"
    incarnation: int
    turns: int
    generation: int
    """Everything up to this one is committed."""

    seconds: float


@message()
class BuildFailure(Event):
    """A build raised, or took too long."""

    kind: ClassVar[str] = "failure"
    reason: ClassVar[Reason] = Reason.FAILURE
    incarnation: int
    error: BaseException
    seconds: float


@message()
class CommitFailure(Event):
    """A commit raised, or took too long. Its turns stay uncommitted, with their owner."""

    kind: ClassVar[str] = "failure"
    reason: ClassVar[Reason] = Reason.FAILURE
    incarnation: int
    error: BaseException
    tries: int
    seconds: float


@message()
class HookFailure(Event):
    """A hook of a release, close or interrupt raised, or took too long. It stopped nothing else."""

    kind: ClassVar[str] = "failure"
    incarnation: int
    hook: str
    reason: Reason
    error: BaseException


@message()
class SessionFailure(Event):
    """A session actor failed too often: its key answers with an error until it is ended."""

    kind: ClassVar[str] = "failure"
    reason: ClassVar[Reason] = Reason.FAILURE
    error: BaseException


@message()
class SessionEnded(Event):
    """A session is over: its agents and resources are closed, its settings dropped."""

    kind: ClassVar[str] = "end"
    reason: Reason


@message()
class StoreFailure(Event):
    """The store could not be asked, or told. The agent that is there goes on; nothing is forgotten."""

    kind: ClassVar[str] = "failure"
    reason: ClassVar[Reason] = Reason.FAILURE
    session_id: str
    what: str
    """What was to be done: `begin`, `record`, `commit` or `renew`."""

    error: BaseException


@message()
class OwnershipLost(Event):
    """Another room has taken a session id over, with what was uncommitted of it here."""

    kind: ClassVar[str] = "lost"
    session_id: str
    turns: int
    """How many uncommitted turns went with it."""


@message()
class SessionRecovered(Event):
    """What another room had left uncommitted was committed."""

    kind: ClassVar[str] = "recover"
    session_id: str


@message()
class RecoveryFailure(Event):
    """What another room had left uncommitted could not be committed. It is tried again, not for ever."""

    kind: ClassVar[str] = "failure"
    reason: ClassVar[Reason] = Reason.FAILURE
    session_id: str
    problem: str
