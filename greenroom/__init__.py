"""greenroom keeps the live agents of a chat gateway.

One actor a session, a bounded number of agents in memory, none of them taken away in the middle of a
turn, and no finished turn ever forgotten.

    async with Greenroom(build, policy=Policy(cap=128, idle_ttl=3600.0)) as room:
        async with room.turn("telegram:12345", spec) as turn:    # `with`, in a thread
            reply = await turn.agent.arun(text)

- `greenroom.actors`: the actor runtime, on pykka, and the session actor.
- `greenroom.messages`: what actors send each other; events are among them.
- `greenroom.supervisor`: what is kept alive, and what is restarted.
- `greenroom.store`: transcripts, and the ledger of completed turns.
- `greenroom.testing`: agents, clocks and faults for your tests.
"""

from greenroom._explanation import Explanation
from greenroom._room import Greenroom
from greenroom._spec import AgentSpec
from greenroom._stores import open_store
from greenroom._tools import ToolDefinitionCache
from greenroom._turn import Turn
from greenroom.actors import (
    Actor,
    AgentHooks,
    BuildContext,
    BuildFailed,
    Future,
    GreenroomError,
    LostOwnership,
    NotRecorded,
    NotSettled,
    Overloaded,
    Policy,
    RoomClosed,
    Runtime,
    SessionBusy,
    SessionFailed,
    Settings,
    StoreAway,
    TurnTimeout,
    put_back,
    take_down,
)
from greenroom.actors.session.generations import Generation, Generations
from greenroom.messages import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    AgentRetained,
    AgentReused,
    BuildFailure,
    CommitFailure,
    CommitOutcome,
    CommitSucceeded,
    DrainReport,
    Event,
    HookFailure,
    OwnershipLost,
    Reason,
    RecoveryFailure,
    RoomStats,
    SessionEnded,
    SessionFailure,
    SessionRecovered,
    SessionRow,
    StoreFailure,
)

__all__ = [
    "Actor",
    "AgentBuilt",
    "AgentClosed",
    "AgentHooks",
    "AgentReleased",
    "AgentRetained",
    "AgentReused",
    "AgentSpec",
    "BuildContext",
    "BuildFailed",
    "BuildFailure",
    "CommitFailure",
    "CommitOutcome",
    "CommitSucceeded",
    "DrainReport",
    "Event",
    "Explanation",
    "Future",
    "Generation",
    "Generations",
    "Greenroom",
    "GreenroomError",
    "HookFailure",
    "LostOwnership",
    "NotRecorded",
    "NotSettled",
    "Overloaded",
    "OwnershipLost",
    "Policy",
    "Reason",
    "RecoveryFailure",
    "RoomClosed",
    "RoomStats",
    "Runtime",
    "SessionBusy",
    "SessionEnded",
    "SessionFailed",
    "SessionFailure",
    "SessionRecovered",
    "SessionRow",
    "Settings",
    "StoreAway",
    "StoreFailure",
    "ToolDefinitionCache",
    "Turn",
    "TurnTimeout",
    "open_store",
    "put_back",
    "take_down",
]
