"""The four small machines of a session: what each of them can be, and what each input makes of it.

The *place* is where the session's agent is. It holds at most one.

             ENTER           STOP            BUILD            BUILT                 END
    EMPTY ─────────> ENTERING ──> as before ───────> BUILDING ─────> IDLE <────────────────┐
      ^                                                 │ STOP       │  │ GRANT            │
      │<────────────────────────────────────────────────┘            │  └────────> IN_TURN ┤
      │                                                        LEAVE │                ^  │ │ RECORDED
      │<───────────────── GO: the agent is a departure ──────────────┤          GRANT │  │ │
      │                                                              v                │  v │
      └<───────────────── GO: committed, or in vain ───────────── LEAVING ────────────┘ RECORDING

    ENTERING    with a store: it is asked whether the next turn may begin. The agent, if there is one,
                stays as it is: idle, or leaving
    BUILDING    an agent is built for the next turn
    RECORDING   with a store: the turn has ended, and the store is told
    LEAVING     the agent is released as soon as it has committed. It is still whole: a turn that it
                fits calls the release off

The *commit* of the oldest turns, one at a time for the session. Its hook is called in STARTED. One that
does not come back in time is STUCK and stays the one in flight, so that two never overlap.

    NONE ──SEND──> SENT ──START──> STARTED        END, from everywhere: NONE
                     └──TIME_OUT──────┴──TIME_OUT──> STUCK

A *departure* is an agent on its way out, of which there may be several. There is no way back.

    COMMITTING ──COMMITTED──> TEARING ──TORN_DOWN──> GONE
       │    ^                    ^
       │    └──RETRY───┐         │ COMMITTED, GIVE_UP
       └──FAIL──> RETAINED ──────┘

The *mode* says whether turns begin at all, and whether commits do.

    OPEN <──END── FAILED        OPEN, FAILED ──DRAIN──> DRAINING ──ABANDON──> ABANDONED
      └────FAIL─────^

A pair that is not in a table changes nothing.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["COMMIT", "DEPARTURE", "MODE", "PLACE", "CommitState", "Mode", "Phase", "Place"]


class _State(Enum):
    """A state is looked up in tables all the time: by its identity, and not by its name."""

    __hash__ = object.__hash__


class Place(_State):
    """Where the agent is."""

    EMPTY = "empty"
    ENTERING = "entering"
    BUILDING = "building"
    IN_TURN = "in turn"
    RECORDING = "recording"
    IDLE = "idle"
    LEAVING = "leaving"


class CommitState(_State):
    """How far the commit in flight has come."""

    NONE = "none"
    SENT = "sent"
    STARTED = "started"
    STUCK = "stuck"


class Phase(_State):
    """How far a departure has come."""

    COMMITTING = "committing"
    RETAINED = "retained"
    TEARING = "tearing"
    GONE = "gone"


class Mode(_State):
    """What the session does at all."""

    OPEN = "open"
    FAILED = "failed"
    """No turn begins until the session is ended: its actor failed too often."""

    DRAINING = "draining"
    """No turn begins any more. What runs may end; everything else is committed and closed."""

    ABANDONED = "abandoned"
    """No commit begins any more, either: what leaves is closed without."""


EMPTY, ENTERING, BUILDING, IN_TURN, RECORDING, IDLE, LEAVING = Place
NONE, SENT, STARTED, STUCK = CommitState
COMMITTING, RETAINED, TEARING, GONE = Phase
OPEN, FAILED, DRAINING, ABANDONED = Mode

# Each table: input, state before, state after.

PLACE: dict[str, dict[Place, Place]] = {
    "enter": {EMPTY: ENTERING, IDLE: ENTERING, LEAVING: ENTERING},  # the store is asked
    "build": {EMPTY: BUILDING},
    "stop": {ENTERING: EMPTY, BUILDING: EMPTY},  # what was done for the next turn is over
    "fill": {BUILDING: IDLE, EMPTY: IDLE},  # an agent was built, here or elsewhere
    "grant": {IDLE: IN_TURN, LEAVING: IN_TURN},
    "end": {IN_TURN: IDLE},
    "record": {IN_TURN: RECORDING},  # the turn has ended, and the store is told
    "recorded": {RECORDING: IDLE},
    "leave": {IDLE: LEAVING, LEAVING: LEAVING},
    "go": {IDLE: EMPTY, LEAVING: EMPTY, ENTERING: ENTERING},  # the agent is a departure
}

COMMIT: dict[str, dict[CommitState, CommitState]] = {
    "send": {NONE: SENT},
    "start": {SENT: STARTED, STARTED: STARTED},  # again, if the actor crashed while it answered
    "time out": {SENT: STUCK, STARTED: STUCK},
    "end": {SENT: NONE, STARTED: NONE, STUCK: NONE},  # it came back, or was put off
}

DEPARTURE: dict[str, dict[Phase, Phase]] = {
    "committed": {COMMITTING: TEARING, RETAINED: TEARING},  # it has nothing left to commit
    "fail": {COMMITTING: RETAINED},
    "retry": {RETAINED: COMMITTING},
    "give up": {COMMITTING: TEARING, RETAINED: TEARING},
    "torn down": {TEARING: GONE},
}

MODE: dict[str, dict[Mode, Mode]] = {
    "fail": {OPEN: FAILED},
    "end": {FAILED: OPEN},  # the session is ended, and the next one begins
    "drain": {OPEN: DRAINING, FAILED: DRAINING},
    "abandon": {DRAINING: ABANDONED},
}
