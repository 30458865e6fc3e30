"""What a session actor is asked and told: by callers, by the supervisor, and by its own slow work.

A turn is named by an object, compared by identity: the `BeginTurn` that asked for it, or what a caller
made up that began it without a message. So there is no number to hand out, and a turn that was withdrawn
can never be mistaken for another.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from greenroom.messages._protocol import Notice, Request, message
from greenroom.messages._reason import Reason

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = [
    "AdoptAgent",
    "BeginTurn",
    "BuildEnded",
    "BuildHere",
    "CheckTurn",
    "CloseSession",
    "CommitEnded",
    "CommitOutcome",
    "CommitSession",
    "DescribeSession",
    "DrainSession",
    "EndTurn",
    "EvictAgent",
    "InterruptTurn",
    "ReleaseAgent",
    "RenewSession",
    "SessionRow",
    "StartCommit",
    "TeardownEnded",
    "TurnGranted",
    "TurnRecorded",
    "UseSettings",
    "WithdrawTurn",
]


@message(eq=False)
class TurnGranted:
    """A turn has begun: the answer to `BeginTurn`."""

    agent: Any
    session_id: str
    reused: bool
    rebuild_reason: Reason | None
    """Why the session's last agent is not this one. `None` if it is, or if it is the first."""


@message(eq=False)
class BeginTurn(Request[TurnGranted]):
    """Check the agent out, building it if need be, when all turns that came before are over."""

    spec: Any = field(repr=False)  # it may hold secrets
    signature: str | None
    """`None`: any agent will do."""

    session_id: str | None
    """`None`: the current conversation of the key, when the turn begins."""

    reject: bool
    """Refuse at once, rather than wait, if the session is busy."""

    timeout: float | None
    held: tuple[object, ...] = field(repr=False)
    """The turns that the caller is in already, and cannot wait for."""

    loop: asyncio.AbstractEventLoop | None
    """Where to run the agent's async hooks, and its async build."""

    given: Any = field(default=None, repr=False)
    """For `build`, beside the spec: no part of the signature."""

    provisional: bool = False
    """If it is the session's first turn, the session is the first to leave until its second."""

    block: Callable[[], object] | None = field(default=None, repr=False)
    """A weak reference to the turn itself. Once it is gone, nobody is in its block any more."""

    caller: str = ""
    """Who asks, for the log: a task or a thread."""

    here: bool = False
    """The caller waits on a thread of its own, and builds there if an agent must be built: the answer is
    then `BuildHere`."""


@message(eq=False)
class BuildHere:
    """Build the agent where you are, with nothing held, and hand it in with `BuildEnded`: the other
    answer to `BeginTurn`."""

    incarnation: int
    context: Any


@message()
class EndTurn(Request[int | None]):
    """Give the agent back. Answered with the session's generation; `None` if that turn was over
    before."""

    turn: Any
    completed: bool
    discard: str | None
    weight: int | None
    insists: bool = False
    """It is told and not asked, for the session did not manage to answer it. It may have ended the turn
    all the same."""


@message()
class TurnRecorded(Request[int | None]):
    """The caller of a turn has had its end recorded, or could not. Answered with the generation of its
    session id."""

    request: Any
    """The `RecordTurn` that the session has given it."""

    value: Any = None
    """What was seen of the transcript. `None`: the turn is lost, or there was an error."""

    error: BaseException | None = None


@message()
class WithdrawTurn(Notice):
    """Its caller does not want this turn any more: take it out of the queue, or end it if it has
    begun."""

    turn: Any


@message()
class CheckTurn(Notice):
    """See whether the running turn still has a caller that will end it."""


@message()
class ReleaseAgent(Notice):
    """Let the agent go, unless it is in a turn or was used since; or, if the session has expired, end
    it. Answered to the supervisor with `ReleaseAnswered`."""

    number: int
    reason: Reason
    seen: float | None = None
    """The last use that the supervisor knew of. `None`: it does not matter."""

    cutoff: float | None = None
    """For idleness: the session must have rested since then, on the runtime's clock."""


@message()
class EvictAgent(Request[bool]):
    """Release the agent now, or when its turn ends. True if there is one."""


@message()
class InterruptTurn(Request[bool]):
    """Tell the agent to stop what it does. True if it is in a turn."""


@message()
class CloseSession(Request[bool]):
    """End the session now, or when its turn ends. True if there was anything to end."""

    interrupt: bool
    reason: Reason


@message()
class RenewSession(Request[str]):
    """End the session now, or when its turn ends, and begin another conversation: its session id."""


@message()
class CommitOutcome:
    """What a commit came to. True if something was committed."""

    committed: int = 0
    """How many turns."""

    left: int = 0
    """How many completed turns are still uncommitted."""

    note: str = ""
    """Why nothing, or not everything, was committed."""

    def __bool__(self) -> bool:
        return self.committed > 0


@message(eq=False)
class CommitSession(Request[CommitOutcome]):
    """Commit every dirty segment, oldest first, and stop at a failure."""

    wait: bool = True
    """Wait for a commit that is in flight already; else answer at once that there is one."""

    timeout: float | None = None
    agent: Any = None
    """Offered for turns that were completed by no agent that we know."""

    held: tuple[object, ...] = field(default=(), repr=False)
    """The turns that the caller is in, and cannot wait for."""


@message()
class AdoptAgent(Request[None]):
    """Hold an agent that was built elsewhere."""

    agent: Any
    signature: str | None
    session_id: str | None
    weight: int | None
    loop: asyncio.AbstractEventLoop | None


@message()
class UseSettings(Request[Any]):
    """Call a method of the session's settings, which are a dict."""

    method: str
    args: tuple[Any, ...] = field(default=(), repr=False)


@message()
class SessionRow:
    """One session, as `snapshot()` and `explain()` show it."""

    key: str
    session_id: str | None
    state: str
    """`in turn`, `entering`, `building`, `idle`, `leaving`, `closing`, `retained`, `known`, `failed`."""

    cached: bool
    incarnation: int
    generation: int
    committed: int
    waiting: int
    retained: int
    idle_seconds: float | None
    weight: int
    last_reason: Reason | None
    last_error: str | None
    holder: str | None
    """With a store: the room that has the session, as far as is known. `None`: nobody."""

    busy: bool
    """A build, commit, release or close is under way."""

    used: float
    """When it was last used: a number that grows with every use of a session of the room."""

    empty: bool
    """There is nothing to remember about it."""

    agents: int = 0
    """How many agents it has had, the one that it has included."""

    waited_seconds: float | None = None
    """How long the first turn in line has waited. `None`: none waits in line."""

    turn_seconds: float | None = None
    """How long the running turn has lasted, where that is known."""

    @property
    def dirty(self) -> bool:
        """Whether completed turns are uncommitted."""
        return self.generation > self.committed


@message()
class DescribeSession(Request[SessionRow]):
    """Say how the session is."""


# Drain.


@message()
class DrainSession(Notice):
    """Begin no turn; when the running one is over, commit and close everything, and stop."""

    deadline: float
    """When the drain is to be over, on the runtime's clock."""

    force: bool = False
    """The running turn has had its time: it is over now, whatever its holder thinks."""

    abandon: bool = False
    """Commits have had their time: close what is left without waiting for them."""


# What becomes of slow work. `incarnation` is the agent's, so that nothing late hits another one.


@message(eq=False)
class BuildEnded(Request[Any]):
    """A build is over, in time or long after it was given up. Answered at once, or, if the turn's caller
    has built, with `TurnGranted`."""

    incarnation: int
    agent: Any = None
    error: BaseException | None = None
    weight: int = 0
    seconds: float = 0.0
    returned: bool = True
    """Whether `build` itself has returned. Otherwise it was given up, and may still return."""

    turn: BeginTurn | None = None
    """The turn whose caller has built."""

    unclaimed: list[None] | None = field(default=None, repr=False)
    """Emptied when the session answers for the agent. A caller that is struck cannot know that."""


@message()
class StartCommit(Request[bool]):
    """A commit is about to call its hook. False: not now, a turn has begun since it was sent."""

    attempt: int


@message()
class CommitEnded(Notice):
    """A commit is over, in time or late, or has had its time."""

    attempt: int
    error: BaseException | None = None
    seconds: float = 0.0
    returned: bool = True
    """Whether its hook has returned, or was never called. Otherwise it is stuck, and remains the one in
    flight."""


@message()
class TeardownEnded(Notice):
    """The hooks of a release or close were called; or the resources of an ended session are closed."""

    incarnation: int = 0
    """The agent. 0: it was resources."""

    number: int = 0
    """If it was resources, which of the sessions of this key had them."""

    errors: tuple[tuple[str, BaseException], ...] = ()
    """What raised, by name."""

    seconds: float = 0.0
