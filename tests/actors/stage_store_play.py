"""A stage with a store to play with: the further states that it can be in, and what the store can say.

The session id is "s", under epoch 1, unless told otherwise; "r" is another one of the same key. As in
`stage_play.py`, "t" is the turn that has or had the place, "w" the one behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actors.effects import Entry, Recorded
from tests.actors.stage_play import INPUTS as INPUTS_WITHOUT
from tests.actors.stage_play import ONLY_WHEN_DRAINING, STRANGER, Play

if TYPE_CHECKING:
    from collections.abc import Callable


# The states.


def empty() -> Play:
    return Play(checked=True)


def entering() -> Play:
    return empty().begin("t")


def entering_and_line() -> Play:
    return entering().begin("w")


def entering_and_other_line() -> Play:
    """Behind it waits a turn of another session id."""
    return entering().begin("w", session_id="r")


def entering_for_nobody() -> Play:
    return _withdrawn(entering())


def entering_for_nobody_and_line() -> Play:
    return _withdrawn(entering_and_other_line())


def entering_and_evict() -> Play:
    return entering_idle().do("evict")


def entering_and_close() -> Play:
    return entering_idle().close()


def entering_idle() -> Play:
    """On an agent that is there."""
    return idle().begin("t")


def entering_idle_for_nobody() -> Play:
    return _withdrawn(entering_idle())


def entering_other_spec() -> Play:
    return idle().begin("t", "b")


def entering_dirty() -> Play:
    """On an agent that has uncommitted turns."""
    return dirty().begin("t")


def entering_flushing() -> Play:
    """While its commit is in flight."""
    return flushing().begin("t")


def entering_leaving() -> Play:
    """It has called a release off, whose commit is in flight."""
    return leaving().begin("t")


def held() -> Play:
    """Another room is in a turn of it: a pause."""
    return entering().entered(Entry.HELD)


def held_and_line() -> Play:
    return held().begin("w")


def held_idle() -> Play:
    return entering_idle().entered(Entry.HELD)


def held_for_nobody() -> Play:
    return _withdrawn(held())


def building() -> Play:
    return entering().entered()


def building_and_line() -> Play:
    return building().begin("w")


def building_and_other_line() -> Play:
    """Behind it waits a turn of another session id, of which the store was not asked."""
    return building().begin("w", session_id="r")


def building_resumed() -> Play:
    """The store knows of turns that nobody here completed."""
    return entering().resume("s").entered()


def turn() -> Play:
    return building().built()


def turn_again() -> Play:
    return entering_dirty().entered()


def turn_at_once() -> Play:
    """The store was not asked."""
    return idle().begin_at_once("t")


def turn_and_line() -> Play:
    return turn().begin("w")


def turn_and_evict() -> Play:
    return turn().do("evict")


def turn_and_close() -> Play:
    return turn().close()


def turn_and_flush() -> Play:
    return turn_again().do("flush")


def turn_resumed() -> Play:
    """The agent in it answers for what nobody here completed."""
    return building_resumed().built()


def recording() -> Play:
    return turn().end()


def recording_not_completed() -> Play:
    return turn().end(completed=False)


def recording_discard() -> Play:
    return turn().end(discard=True)


def recording_again() -> Play:
    """On an agent that has uncommitted turns."""
    return turn_again().end()


def recording_and_line() -> Play:
    return recording().begin("w")


def recording_and_evict() -> Play:
    return recording().do("evict")


def recording_and_close() -> Play:
    return recording_again().close()


def recording_and_flush() -> Play:
    return recording_again().do("flush")


def recording_resumed() -> Play:
    return turn_resumed().end()


def idle() -> Play:
    return _without(turn().end(completed=False).recorded())


def dirty() -> Play:
    return _without(recording().recorded())


def flushing() -> Play:
    return dirty().do("flush")


def flushing_failed() -> Play:
    """Its commit was begun, and failed: nothing joins it any more."""
    return flushing().committed(succeeded=False)


def leaving() -> Play:
    return dirty().release()


def committing() -> Play:
    return _without(recording_discard().recorded())


def retained() -> Play:
    return committing().committed(succeeded=False)


def resumed() -> Play:
    """Turns that nobody here completed, and no agent."""
    return empty().resume()


def resumed_intended() -> Play:
    """The same, and a commit was begun for the first of them."""
    return empty().resume(intended=1)


def resumed_beside() -> Play:
    """The same, of another session id than the agent's, which is idle."""
    return idle().resume()


def rescuing() -> Play:
    """An agent is being built that is to commit them."""
    return resumed().recover()


def rescuing_beside() -> Play:
    """The same, beside an agent in a turn."""
    return turn().resume().recover()


def rescuing_late() -> Play:
    """Its build was given up, and has not come back."""
    return rescuing().given_up(1)


def rescuer_committing() -> Play:
    return rescuing().built(1)


def rescuer_stuck() -> Play:
    return rescuer_committing().start_commit().do("commit_stuck")


def rescuer_in_line() -> Play:
    """It waits for an agent that is in a turn and has older ones to commit."""
    return turn_again().resume().recover().built(2)


def failed_entering() -> Play:
    return entering_idle().do("fail")


def draining_entering() -> Play:
    return entering_dirty().do("drain")


def draining_held() -> Play:
    return held().do("drain")


def draining_recording() -> Play:
    return recording_again().do("drain")


def draining_rescuing() -> Play:
    return rescuing().do("drain")


def _withdrawn(play: Play) -> Play:
    return play.do("withdraw", play.turn("t"))


def _without(play: Play) -> Play:
    """Another turn may be called "t" from now on."""
    play.turns["over"] = play.turns.pop("t")
    return play


STATES: dict[str, Callable[[], Play]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        empty,
        entering,
        entering_and_line,
        entering_and_other_line,
        entering_for_nobody,
        entering_for_nobody_and_line,
        entering_and_evict,
        entering_and_close,
        entering_idle,
        entering_idle_for_nobody,
        entering_other_spec,
        entering_dirty,
        entering_flushing,
        entering_leaving,
        held,
        held_and_line,
        held_idle,
        held_for_nobody,
        building,
        building_and_line,
        building_and_other_line,
        building_resumed,
        turn,
        turn_again,
        turn_at_once,
        turn_and_line,
        turn_and_evict,
        turn_and_close,
        turn_and_flush,
        turn_resumed,
        recording,
        recording_not_completed,
        recording_discard,
        recording_again,
        recording_and_line,
        recording_and_evict,
        recording_and_close,
        recording_and_flush,
        recording_resumed,
        idle,
        dirty,
        flushing,
        flushing_failed,
        leaving,
        committing,
        retained,
        resumed,
        resumed_intended,
        resumed_beside,
        rescuing,
        rescuing_beside,
        rescuing_late,
        rescuer_committing,
        rescuer_stuck,
        rescuer_in_line,
        failed_entering,
        draining_entering,
        draining_held,
        draining_recording,
        draining_rescuing,
    )
}


# The inputs.


def _incarnation_built(play: Play) -> int:
    """A build can end only if there is one: the store's answer is no build's."""
    stage = play.stage
    return STRANGER if stage.entering else stage.building or STRANGER


def _rescuer(play: Play) -> int:
    return next(iter(play.stage.rescuers or ()), STRANGER)


FROM_THE_STORE: dict[str, Callable[[Play], Play]] = {
    "begin at once": lambda play: play.begin_at_once("new"),
    "end at once": lambda play: play.end_at_once(),
    "entered": lambda play: play.entered(),
    "entered, stale": lambda play: play.entered(Entry.STALE),
    "entered, held": lambda play: play.entered(Entry.HELD),
    "entered, away": lambda play: play.entered(Entry.AWAY),
    "enter again": lambda play: play.do("enter_again"),
    "recorded": lambda play: play.recorded(),
    "recorded, not now": lambda play: play.recorded(Recorded.NOT_NOW),
    "recorded, lost": lambda play: play.recorded(Recorded.LOST),
    "resume": lambda play: play.resume("q", intended=1),
    "lose": lambda play: play.do("lose", "s", 1),
    "lose, the other": lambda play: play.do("lose", "r", 1),
    "lose, an older epoch": lambda play: play.do("lose", "s", 0),
    "recover": lambda play: play.recover("q"),
    "rescuer built": lambda play: play.built(_rescuer(play)),
    "rescuer failed": lambda play: play.built(_rescuer(play), succeeded=False),
    "rescuer given up": lambda play: play.given_up(_rescuer(play)),
    "commit lost": lambda play: play.do("commit_lost"),
}

INPUTS: dict[str, Callable[[Play], Play]] = {
    **INPUTS_WITHOUT,
    "built": lambda play: play.built(_incarnation_built(play)),
    "build failed": lambda play: play.built(_incarnation_built(play), succeeded=False),
    **FROM_THE_STORE,
}
"""Everything that can happen without a store, and what the store says."""


def cells_of(given: str) -> list[str]:
    """The states in which this can happen."""
    states = list(STATES)
    if given in ONLY_WHEN_DRAINING:
        return [state for state in states if STATES[state]().stage.draining]
    if given.startswith("rescuer"):
        return [state for state in states if STATES[state]().stage.rescuers]
    return states
