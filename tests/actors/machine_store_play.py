"""The situations of a session with a store. `machine_play.py` has the words."""

from __future__ import annotations

from greenroom.actors.session.machine.effects import Entry
from tests.actors.machine_play import Play


def empty() -> Play:
    return Play(has_store=True)


def entering() -> Play:
    return empty().begin("t")


def entering_and_line() -> Play:
    return entering().begin("w")


def entering_and_other_line() -> Play:
    """Behind it waits a turn of another session id."""
    return entering().begin("w", session_id="r")


def entering_idle() -> Play:
    """On an agent that is there."""
    return idle().begin("t")


def entering_dirty() -> Play:
    """On an agent that has uncommitted turns."""
    return dirty().begin("t")


def entering_leaving() -> Play:
    """It has called a release off, whose commit is in flight."""
    return leaving().begin("t")


def held() -> Play:
    """Another room is in a turn of it: a pause."""
    return entering().entered(Entry.HELD)


def building() -> Play:
    return entering().entered()


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


def turn_and_line() -> Play:
    return turn().begin("w")


def turn_and_evict() -> Play:
    return turn().do("evict")


def turn_and_close() -> Play:
    return turn().close()


def recording() -> Play:
    return turn().end()


def recording_discard() -> Play:
    return turn().end(discard=True)


def recording_again() -> Play:
    """On an agent that has uncommitted turns."""
    return turn_again().end()


def recording_and_evict() -> Play:
    return recording().do("evict")


def recording_and_close() -> Play:
    return recording_again().close()


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


def recovering() -> Play:
    """An agent is being built that is to commit them."""
    return resumed().recover()


def recovering_late() -> Play:
    """Its build was given up, and has not come back."""
    return recovering().given_up(1)


def recovery_agent_committing() -> Play:
    return recovering().built(1)


def recovery_agent_stuck() -> Play:
    return recovery_agent_committing().start_commit().do("commit_stuck")


def recovery_agent_in_line() -> Play:
    """It waits for an agent that is in a turn and has older ones to commit."""
    return turn_again().resume().recover().built(2)


def draining_recording() -> Play:
    return recording_again().do("drain")


def draining_recovering() -> Play:
    return recovering().do("drain")


def _without(play: Play) -> Play:
    """Another turn may be called "t" from now on."""
    play.turns["over"] = play.turns.pop("t")
    return play
