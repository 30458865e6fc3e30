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

__all__ = [
    "AT_REST",
    "COMMIT",
    "DEPARTURE",
    "MODE",
    "PLACE",
    "CommitInput",
    "CommitState",
    "DepartureInput",
    "Mode",
    "ModeInput",
    "Phase",
    "Place",
    "PlaceInput",
]


class Place(Enum):
    """Where the agent is."""

    EMPTY = "empty"
    ENTERING = "entering"
    BUILDING = "building"
    IN_TURN = "in turn"
    RECORDING = "recording"
    IDLE = "idle"
    LEAVING = "leaving"


class PlaceInput(Enum):
    """What happens to the place."""

    ENTER = "the store is asked about the next turn"
    BUILD = "an agent is built for the next turn"
    STOP = "what was done for the next turn is over"
    BUILT = "the agent is built"
    ADOPT = "an agent that was built elsewhere is put in"
    GRANT = "the next turn begins"
    END = "the turn has ended"
    RECORD = "the turn has ended, and the store is told"
    RECORDED = "the store has answered"
    LEAVE = "the agent is to be released"
    GO = "the agent is a departure"


AT_REST = frozenset({Place.EMPTY, Place.IDLE, Place.LEAVING})
"""The places at which nothing is done for a turn: the next one may begin."""

PLACE: dict[tuple[Place, PlaceInput], Place] = {
    (Place.EMPTY, PlaceInput.ENTER): Place.ENTERING,
    (Place.IDLE, PlaceInput.ENTER): Place.ENTERING,
    (Place.LEAVING, PlaceInput.ENTER): Place.ENTERING,
    (Place.ENTERING, PlaceInput.STOP): Place.EMPTY,
    (Place.ENTERING, PlaceInput.GO): Place.ENTERING,
    (Place.EMPTY, PlaceInput.BUILD): Place.BUILDING,
    (Place.BUILDING, PlaceInput.STOP): Place.EMPTY,
    (Place.BUILDING, PlaceInput.BUILT): Place.IDLE,
    (Place.EMPTY, PlaceInput.ADOPT): Place.IDLE,
    (Place.IDLE, PlaceInput.GRANT): Place.IN_TURN,
    (Place.LEAVING, PlaceInput.GRANT): Place.IN_TURN,
    (Place.IN_TURN, PlaceInput.END): Place.IDLE,
    (Place.IN_TURN, PlaceInput.RECORD): Place.RECORDING,
    (Place.RECORDING, PlaceInput.RECORDED): Place.IDLE,
    (Place.IDLE, PlaceInput.LEAVE): Place.LEAVING,
    (Place.IDLE, PlaceInput.GO): Place.EMPTY,
    (Place.LEAVING, PlaceInput.GO): Place.EMPTY,
}


class CommitState(Enum):
    """How far the commit in flight has come."""

    NONE = "none"
    SENT = "sent"
    STARTED = "started"
    STUCK = "stuck"


class CommitInput(Enum):
    """What happens to the commit."""

    SEND = "it is sent on its way to a worker"
    START = "its hook is called"
    TIME_OUT = "it has not come back in time"
    END = "it came back, or was put off"


COMMIT: dict[tuple[CommitState, CommitInput], CommitState] = {
    (CommitState.NONE, CommitInput.SEND): CommitState.SENT,
    (CommitState.SENT, CommitInput.START): CommitState.STARTED,
    (CommitState.STARTED, CommitInput.START): CommitState.STARTED,  # asked twice, after a crash
    (CommitState.SENT, CommitInput.TIME_OUT): CommitState.STUCK,
    (CommitState.STARTED, CommitInput.TIME_OUT): CommitState.STUCK,
    (CommitState.SENT, CommitInput.END): CommitState.NONE,
    (CommitState.STARTED, CommitInput.END): CommitState.NONE,
    (CommitState.STUCK, CommitInput.END): CommitState.NONE,
}


class Phase(Enum):
    """How far a departure has come."""

    COMMITTING = "committing"
    RETAINED = "retained"
    TEARING = "tearing"
    GONE = "gone"


class DepartureInput(Enum):
    """What happens to a departure."""

    COMMITTED = "nothing is left for it to commit"
    FAIL = "a commit has failed"
    GIVE_UP = "a commit has failed, and there will be no other try"
    RETRY = "the pause is over"
    TORN_DOWN = "its hooks were called"


DEPARTURE: dict[tuple[Phase, DepartureInput], Phase] = {
    (Phase.COMMITTING, DepartureInput.COMMITTED): Phase.TEARING,
    (Phase.RETAINED, DepartureInput.COMMITTED): Phase.TEARING,
    (Phase.COMMITTING, DepartureInput.FAIL): Phase.RETAINED,
    (Phase.RETAINED, DepartureInput.RETRY): Phase.COMMITTING,
    (Phase.COMMITTING, DepartureInput.GIVE_UP): Phase.TEARING,
    (Phase.RETAINED, DepartureInput.GIVE_UP): Phase.TEARING,
    (Phase.TEARING, DepartureInput.TORN_DOWN): Phase.GONE,
}


class Mode(Enum):
    """What the session does at all."""

    OPEN = "open"
    FAILED = "failed"
    """No turn begins until the session is ended: its actor failed too often."""

    DRAINING = "draining"
    """No turn begins any more. What runs may end; everything else is committed and closed."""

    ABANDONED = "abandoned"
    """No commit begins any more, either: what leaves is closed without."""


class ModeInput(Enum):
    """What happens to the mode."""

    FAIL = "the actor failed too often"
    END = "the session is ended, and the next one begins"
    DRAIN = "the room is drained"
    ABANDON = "commits have had their time"


MODE: dict[tuple[Mode, ModeInput], Mode] = {
    (Mode.OPEN, ModeInput.FAIL): Mode.FAILED,
    (Mode.FAILED, ModeInput.END): Mode.OPEN,
    (Mode.OPEN, ModeInput.DRAIN): Mode.DRAINING,
    (Mode.FAILED, ModeInput.DRAIN): Mode.DRAINING,
    (Mode.DRAINING, ModeInput.ABANDON): Mode.ABANDONED,
}
