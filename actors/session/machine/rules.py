"""What one machine makes another do: the rules, and the actions that they share with the inputs.

    committed agents go        an agent that leaves goes when it has committed, or cannot; one that has
                               gone is torn down then
    what was deferred happens  a place at rest lets its agent go, or the session ends
    resources are closed       of an ended session, when its last agent is gone
    the next turn is served    at a place at rest
    the next commit begins     if one is wanted, none is in flight, and its owner is not in a turn

After every input `settle` takes the first rule that has something to do, until none has. Their order is
the order of effects: agents go before their session ends, a build begins before the commit beside it.

A commit's hook is called only while its owner is not in a turn, so that it never sees half of one: the
last rule sees to that when it sends the commit on its way, and `SessionMachine.start_commit` at the last
moment, on the worker. A turn that begins after that does not wait for it, and is not covered by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from greenroom.actors.session.machine import effects as do
from greenroom.actors.session.machine.data import Departure, Ended, SessionData
from greenroom.actors.session.machine.states import (
    COMMIT,
    DEPARTURE,
    MODE,
    PLACE,
    CommitState,
    Mode,
    Phase,
)
from greenroom.messages import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RULES", "settle"]

Effects: TypeAlias = list[do.Effect]
Rule: TypeAlias = "Callable[[SessionData, Effects], bool]"


def settle(data: SessionData, effects: Effects) -> Effects:
    """Run the rules until none has anything to do."""
    about = data.deferred or data.waiting or data.departures or data.flush_to or data.leaving
    if not about and data.rare is None:
        return effects  # the usual case: nothing that any rule is about
    again = True
    while again:
        again = False
        for rule in RULES:
            if rule(data, effects):
                again = True
                break
    return effects


# Agents come and go.


def put_in_place(data: SessionData, incarnation: int, effects: Effects) -> None:
    """The agent is there."""
    data.place = PLACE["fill"][data.place]
    data.agent = incarnation
    data.generations.take_over(incarnation)
    data.remembered = True
    effects.append(do.Insert(incarnation, data.last_reason))
    data.last_reason = None


def let_go(data: SessionData, reason: Reason, effects: Effects, *, close: bool = False) -> None:
    """The agent leaves its place. The next one may be built beside it, whatever it still commits."""
    data.place = PLACE["go"][data.place]
    departure = Departure(data.agent, reason, close, data.session)
    data.agent, data.leaving = 0, None
    data.last_reason = None if close else reason
    depart(data, departure, effects)


def depart(data: SessionData, departure: Departure, effects: Effects) -> None:
    """An agent is on its way out."""
    data.departures = (*data.departures, departure)
    _judge(data, departure, effects)


def move_departure(data: SessionData, departure: Departure, given: str, effects: Effects) -> bool:
    """An input of a departure, and what each phase begins with. False: the phase does not know it."""
    after = DEPARTURE[given].get(departure.phase)
    if after is None:
        return False
    departure.phase = after
    if after is Phase.TEARING:
        if departure.reason is Reason.RECOVERY:
            _leave_the_rest(data, departure)
        effects.append(do.TearDown(departure.incarnation, departure.close, departure.reason))
    elif after is Phase.RETAINED:
        effects.append(do.Retain(departure.incarnation, departure.reason))
    return True


def _leave_the_rest(data: SessionData, departure: Departure) -> None:
    """What a recovery agent has not committed is for another try: the ledger has it."""
    departure.in_vain = data.generations.owes(departure.incarnation)
    data.generations.leave_to_nobody(departure.incarnation)
    if data.agent:
        data.generations.take_over(data.agent)


def _judge(data: SessionData, departure: Departure, effects: Effects) -> bool:
    """Whether it waits for a commit no longer."""
    if not data.generations.owes(departure.incarnation):
        return move_departure(data, departure, "committed", effects)
    if data.mode is Mode.ABANDONED:
        return move_departure(data, departure, "give up", effects)
    stuck = data.commit is CommitState.STUCK and departure.phase is Phase.COMMITTING
    return stuck and _fail_departure(data, departure, effects)


def _fail_departure(data: SessionData, departure: Departure, effects: Effects) -> bool:
    last_try = data.draining or departure.reason is Reason.RECOVERY
    return move_departure(data, departure, "give up" if last_try else "fail", effects)


def retry_departures(data: SessionData) -> None:
    """Those that were retained are tried again, unless a commit is stuck."""
    if data.commit is not CommitState.STUCK:
        for departure in data.departures:
            departure.phase = DEPARTURE["retry"].get(departure.phase, departure.phase)


def commit_failed(data: SessionData, effects: Effects) -> None:
    """Nothing waits for the commit any more: what was leaving goes, and is retained."""
    data.tries += 1
    data.flush_to = 0
    effects.append(do.CommitGaveUp())
    if data.leaving is not None:
        let_go(data, data.leaving, effects)
    for departure in data.departures:
        _fail_departure(data, departure, effects)
    if data.retained and data.commit is not CommitState.STUCK:
        effects.append(do.Pause(data.tries))


def disown(data: SessionData, session_id: str, epoch: int) -> None:
    """Another room answers for what was uncommitted of a session id."""
    gone = data.generations.disown(session_id, epoch)
    if data.flush_to:
        # They may have been among those that were to be committed, or come after them.
        data.flush_to = min(data.flush_to + gone, data.generations.generation)


def end_session(data: SessionData, reason: Reason, effects: Effects) -> None:
    """The session is over. The next turn begins another one, whatever is still leaving."""
    if data.agent:
        let_go(data, reason, effects, close=True)
    for departure in data.departures:
        if departure.session == data.session and departure.phase is not Phase.TEARING:
            departure.close = True
            if departure.reason is not Reason.RECOVERY:
                departure.reason = reason
    effects.append(do.EndSession(data.session))
    data.ended = (*data.ended, Ended(data.session, reason))
    data.session += 1
    data.session_began = data.generations.generation
    data.remembered, data.last_reason = False, None
    data.mode = MODE["end"].get(data.mode, data.mode)


# Turns begin.


def call_off_release(data: SessionData, turn: do.Turn) -> None:
    """The agent that is to be released is wanted, if it fits."""
    if data.fits(turn):
        data.leaving = None


def seat(data: SessionData, turn: do.Turn, effects: Effects) -> None:
    """Give the turn the agent that is there, or begin to build one."""
    if data.agent and data.fits(turn):
        data.generations.take_over(data.agent)
        grant(data, turn, effects, reused=True)
        return
    if data.agent:
        let_go(data, Reason.SPEC, effects)
    data.place = PLACE["build"][data.place]
    data.incarnations += 1
    data.building, data.next_turn, data.signature = data.incarnations, turn, turn.signature
    effects.append(do.Build(turn, data.building))


def grant(
    data: SessionData, turn: do.Turn, effects: Effects, *, reused: bool, reason: Reason | None = None
) -> None:
    """The turn begins."""
    data.place = PLACE["grant"][data.place]
    data.turn, data.leaving = turn, None
    effects.append(do.Grant(turn, reused, reason))


# The rules. Each tells whether it had something to do.


def committed_agents_go(data: SessionData, effects: Effects) -> bool:
    """An agent that leaves, and has committed or cannot, goes. A departure that has is torn down."""
    if data.leaving is not None:
        waits = data.commit is not CommitState.STUCK and data.generations.owes(data.agent)
        if not waits:
            let_go(data, data.leaving, effects)
            return True
    for departure in data.departures:  # noqa: SIM110  # asked again and again: any() takes thrice as long
        if _judge(data, departure, effects):
            return True
    return False


def what_was_deferred_happens(data: SessionData, effects: Effects) -> bool:
    """At rest, the agent is let go, or the session ends."""
    deferred = data.deferred
    if deferred is None or not data.at_rest:
        return False
    data.deferred = None
    if deferred.close:
        end_session(data, deferred.reason, effects)
        data.conversation = deferred.conversation
    elif data.agent and (deferred.at_once or data.waiting):
        let_go(data, deferred.reason, effects)
    elif data.agent:
        data.place = PLACE["leave"][data.place]
        data.leaving = deferred.reason
    return True


def resources_are_closed(data: SessionData, effects: Effects) -> bool:
    """Of a session that has ended and of which no agent is left."""
    if data.rare is None or not data.ended:
        return False
    present = {departure.session for departure in data.departures}
    for ended in data.ended:
        if not ended.closing and ended.number not in present:
            ended.closing = True
            effects.append(do.CloseResources(ended.number))
            return True
    return False


def the_next_turn_is_served(data: SessionData, effects: Effects) -> bool:
    """The one that has waited longest, when the place is at rest."""
    if not data.waiting or not data.at_rest:
        return False
    turn, data.waiting = data.waiting[0], data.waiting[1:]
    if data.has_store:
        data.place = PLACE["enter"][data.place]
        data.next_turn = turn
        call_off_release(data, turn)
        effects.append(do.Enter(turn))
    else:
        seat(data, turn, effects)
    return True


def the_next_commit_begins(data: SessionData, effects: Effects) -> bool:
    """If one is wanted, none is in flight, and its owner is not in a turn."""
    generations = data.generations
    if generations.committed >= data.flush_to:
        data.flush_to = 0
    if not (data.flush_to or data.leaving is not None or data.departures):
        return False
    waited_for = any(departure.phase is Phase.COMMITTING for departure in data.departures)
    wanted = data.flush_to or data.leaving is not None or waited_for
    may = data.commit in COMMIT["send"] and data.mode is not Mode.ABANDONED
    if not wanted or not may or not generations.dirty:
        return False
    committer = _committer(data)
    if data.turn is not None and committer == data.agent:
        return False
    segment = generations.begin_commit(committer) if committer else None
    if segment is None:
        commit_failed(data, effects)  # there is no agent that could
    else:
        data.commit = COMMIT["send"][data.commit]
        generation = segment.token or segment.last
        effects.append(do.Commit(committer, generation, segment.session_id, segment.epoch))
    return True


def _committer(data: SessionData) -> int:
    """The agent that would commit the oldest turns. 0: none can."""
    owner = data.generations.next_owner
    able = [d.incarnation for d in data.departures if d.phase is not Phase.TEARING]
    if data.agent:
        able.insert(0, data.agent)
    if owner is None:
        return able[0] if able else 0
    return owner if owner in able or owner in data.commit_only else 0


RULES: tuple[Rule, ...] = (
    committed_agents_go,
    what_was_deferred_happens,
    resources_are_closed,
    the_next_turn_is_served,
    the_next_commit_begins,
)
