"""`greenroom stress`: a described load on a room or a server, and whether its promises held.

    workload, trace ──► planned turns ──► Run ──► Target ──► a room in this process
     (_workload,         (_arrivals)     (_run)  (_target)   or a server over HTTP (server/)
      traces/)                             │         │
                                           ▼         ▼
                         live view ◄── figures     witness ──► checks
                         (command/)   (_figures)  (_witness)      │
                                           └────────► Result ◄────┘ ──► report/

Turns are planned before they happen, and each is begun at its moment whether or not those before it have
ended; what it took counts from that moment. A room that stalls for a second therefore shows a second in
every turn of that second, and not one slow turn among quick ones.

Who owns what: the run's event loop owns the figures and the witness. Agents are built, committed and
torn down on the room's worker threads; what these see they append to a deque, which the loop empties
once a second into the witness. Nothing here takes a lock.

`--replay` needs no clock at all: it walks through a trace in virtual time with the very decisions that
the cache supervisor takes (`greenroom.supervisor.eviction`), once for each policy.
"""

from greenroom.stress._arrivals import planned
from greenroom.stress._result import Check, Latency, Result, Second, Slope, Totals
from greenroom.stress._room_target import RoomTarget
from greenroom.stress._run import Run
from greenroom.stress._target import Level, Outcome, Planned, Target
from greenroom.stress._workload import Change, Length, Workload

__all__ = [
    "Change",
    "Check",
    "Latency",
    "Length",
    "Level",
    "Outcome",
    "Planned",
    "Result",
    "RoomTarget",
    "Run",
    "Second",
    "Slope",
    "Target",
    "Totals",
    "Workload",
    "planned",
]
