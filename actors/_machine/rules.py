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

from typing import TYPE_CHECKING

from greenroom.actors._machine.data import Departure, Ended, SessionData
from greenroom.actors._machine.effects import (
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    Effect,
    EndSession,
    Enter,
    Grant,
    Insert,
    Pause,
    Retain,
    TearDown,
)
from greenroom.actors._machine.states import (
    AT_REST,
    COMMIT,
    DEPARTURE,
    MODE,
    PLACE,
    CommitInput,
    CommitState,
    DepartureInput,
    Mode,
    ModeInput,
    Phase,
    PlaceInput,
)
from greenroom.messages import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors._machine.effects import Turn

__all__ = ["RULES", "settle"]


def settle(data: SessionData, effects: list[Effect]) -> list[Effect]:
    """Run the rules until none has anything to do."""
    while any(rule(data, effects) for rule in RULES):
        pass
    return effects


# The tables. Each tells whether the state knows the input; if not, nothing changes.


def move_place(data: SessionData, given: PlaceInput) -> bool:
    """What happens to the place."""
    after = PLACE.get((data.place, given))
    data.place = after or data.place
    return after is not None


def move_commit(data: SessionData, given: CommitInput) -> bool:
    """What happens to the commit."""
    after = COMMIT.get((data.commit, given))
    data.commit = after or data.commit
    return after is not None


def move_mode(data: SessionData, given: ModeInput) -> bool:
    """What happens to the mode."""
    after = MODE.get((data.mode, given))
    data.mode = after or data.mode
    return after is not None


def move_departure(
    data: SessionData, departure: Departure, given: DepartureInput, effects: list[Effect]
) -> bool:
    """What happens to a departure, and what each phase begins with."""
    after = DEPARTURE.get((departure.phase, given))
    departure.phase = after or departure.phase
    if after is Phase.TEARING:
        if departure.reason is Reason.RECOVERY:
            _leave_the_rest(data, departure)
        effects.append(TearDown(departure.incarnation, departure.close, departure.reason))
    elif after is Phase.RETAINED:
        effects.append(Retain(departure.incarnation, departure.reason))
    elif after is Phase.GONE:
        data.departures = tuple(other for other in data.departures if other is not departure)
    return after is not None


def _leave_the_rest(data: SessionData, departure: Departure) -> None:
    """What a recovery agent has not committed is for another try: the ledger has it."""
    departure.in_vain = data.generations.owes(departure.incarnation)
    data.generations.leave_to_nobody(departure.incarnation)
    if data.agent:
        data.generations.take_over(data.agent)


# Agents come and go.


def put_in_place(data: SessionData, incarnation: int, effects: list[Effect]) -> None:
    """The agent is there."""
    data.agent = incarnation
    data.generations.take_over(incarnation)
    data.remembered = True
    effects.append(Insert(incarnation, data.last_reason))
    data.last_reason = None


def let_go(data: SessionData, reason: Reason, effects: list[Effect], *, close: bool = False) -> None:
    """The agent leaves its place. The next one may be built beside it, whatever it still commits."""
    incarnation, data.agent, data.leaving = data.agent, 0, None
    data.last_reason = None if close else reason
    move_place(data, PlaceInput.GO)
    depart(data, Departure(incarnation, reason, close, data.session), effects)


def depart(data: SessionData, departure: Departure, effects: list[Effect]) -> None:
    """An agent is on its way out."""
    data.departures = (*data.departures, departure)
    _judge(data, departure, effects)


def _judge(data: SessionData, departure: Departure, effects: list[Effect]) -> bool:
    """Whether it waits for a commit no longer."""
    if not data.generations.owes(departure.incarnation):
        return move_departure(data, departure, DepartureInput.COMMITTED, effects)
    if data.mode is Mode.ABANDONED:
        return move_departure(data, departure, DepartureInput.GIVE_UP, effects)
    if data.commit is CommitState.STUCK and departure.phase is Phase.COMMITTING:
        return _fail_departure(data, departure, effects)
    return False


def _fail_departure(data: SessionData, departure: Departure, effects: list[Effect]) -> bool:
    last_try = data.draining or departure.reason is Reason.RECOVERY
    given = DepartureInput.GIVE_UP if last_try else DepartureInput.FAIL
    return move_departure(data, departure, given, effects)


def retry_departures(data: SessionData, effects: list[Effect]) -> None:
    """Those that were retained are tried again."""
    for departure in data.departures:
        move_departure(data, departure, DepartureInput.RETRY, effects)


def commit_failed(data: SessionData, effects: list[Effect]) -> None:
    """Nothing waits for the commit any more: what was leaving goes, and is retained."""
    data.tries += 1
    data.flush_to = 0
    effects.append(CommitGaveUp())
    if data.leaving is not None:
        let_go(data, data.leaving, effects)
    for departure in data.departures:
        _fail_departure(data, departure, effects)
    if data.retained and data.commit is not CommitState.STUCK:
        effects.append(Pause(data.tries))


def disown(data: SessionData, session_id: str | None, epoch: int) -> None:
    """Another room answers for what was uncommitted of a session id."""
    if session_id is not None:
        gone = data.generations.disown(session_id, epoch)
        if data.flush_to:
            # They may have been among those that were to be committed, or come after them.
            data.flush_to = min(data.flush_to + gone, data.generations.generation)


def end_session(data: SessionData, reason: Reason, effects: list[Effect]) -> None:
    """The session is over. The next turn begins another one, whatever is still leaving."""
    number = data.session
    if data.agent:
        let_go(data, reason, effects, close=True)
    for departure in data.departures:
        if departure.session == number and departure.phase is not Phase.TEARING:
            departure.close = True
            if departure.reason is not Reason.RECOVERY:
                departure.reason = reason
    data.ended = {**data.ended, number: Ended(reason)}
    data.session += 1
    data.session_began = data.generations.generation
    data.remembered = False
    data.last_reason = None
    move_mode(data, ModeInput.END)
    effects.append(EndSession(number))


# Turns begin.


def serve(data: SessionData, turn: Turn, effects: list[Effect]) -> None:
    """Nothing else is done at the place: it is this turn's turn."""
    if data.has_store:
        data.next_turn = turn
        if data.fits(turn):
            data.leaving = None  # a release is called off: the agent is wanted
        move_place(data, PlaceInput.ENTER)
        effects.append(Enter(turn))
    else:
        seat(data, turn, effects)


def seat(data: SessionData, turn: Turn, effects: list[Effect]) -> None:
    """Give the turn the agent that is there, or begin to build one."""
    if data.agent and data.fits(turn):
        data.generations.take_over(data.agent)
        grant(data, turn)
        effects.append(Grant(turn, reused=True, reason=None))
        return
    if data.agent:
        let_go(data, Reason.SPEC, effects)
    data.incarnations += 1
    data.building = data.incarnations
    data.next_turn = turn
    data.signature = turn.signature
    move_place(data, PlaceInput.BUILD)
    effects.append(Build(turn, data.building))


def grant(data: SessionData, turn: Turn) -> None:
    """The turn begins."""
    data.turn = turn
    data.leaving = None
    move_place(data, PlaceInput.GRANT)


# The rules. Each tells whether it had something to do.


def committed_agents_go(data: SessionData, effects: list[Effect]) -> bool:
    """An agent that leaves, and has committed or cannot, goes. A departure that has is torn down."""
    if data.leaving is not None and (
        data.commit is CommitState.STUCK or not data.generations.owes(data.agent)
    ):
        let_go(data, data.leaving, effects)
        return True
    return any(_judge(data, departure, effects) for departure in data.departures)


def what_was_deferred_happens(data: SessionData, effects: list[Effect]) -> bool:
    """At rest, the agent is let go, or the session ends."""
    deferred = data.deferred
    if deferred is None or data.place not in AT_REST:
        return False
    data.deferred = None
    if deferred.close:
        end_session(data, deferred.reason, effects)
    elif data.agent and (deferred.at_once or data.waiting):
        let_go(data, deferred.reason, effects)
    elif data.agent:
        data.leaving = deferred.reason
        move_place(data, PlaceInput.LEAVE)
    return True


def resources_are_closed(data: SessionData, effects: list[Effect]) -> bool:
    """Of a session that has ended and of which no agent is left."""
    for number, ended in data.ended.items():
        if not ended.closing and all(departure.session != number for departure in data.departures):
            data.ended = {**data.ended, number: Ended(ended.reason, closing=True)}
            effects.append(CloseResources(number))
            return True
    return False


def the_next_turn_is_served(data: SessionData, effects: list[Effect]) -> bool:
    """The one that has waited longest, when the place is at rest."""
    if not data.waiting or data.place not in AT_REST:
        return False
    turn, data.waiting = data.waiting[0], data.waiting[1:]
    serve(data, turn, effects)
    return True


def the_next_commit_begins(data: SessionData, effects: list[Effect]) -> bool:
    """If one is wanted, none is in flight, and its owner is not in a turn."""
    generations = data.generations
    if generations.committed >= data.flush_to:
        data.flush_to = 0
    committing = any(departure.phase is Phase.COMMITTING for departure in data.departures)
    wanted = data.flush_to or data.leaving is not None or committing
    if not wanted or not generations.dirty:
        return False
    if data.commit is not CommitState.NONE or data.mode is Mode.ABANDONED:
        return False
    committer = _committer(data)
    if data.turn is not None and committer == data.agent:
        return False
    segment = generations.begin_commit(committer) if committer else None
    if segment is None:
        commit_failed(data, effects)  # there is no agent that could
    else:
        move_commit(data, CommitInput.SEND)
        generation = segment.token or segment.last
        effects.append(Commit(committer, generation, segment.session_id, segment.epoch))
    return True


def _committer(data: SessionData) -> int:
    """The agent that would commit the oldest turns. 0: none can."""
    owner = data.generations.next_owner
    staying = [d.incarnation for d in data.departures if d.phase is not Phase.TEARING]
    able = [data.agent, *staying] if data.agent else staying
    if owner is None:
        return able[0] if able else 0
    return owner if owner in able or owner in data.commit_only else 0


RULES: tuple[Callable[[SessionData, list[Effect]], bool], ...] = (
    committed_agents_go,
    what_was_deferred_happens,
    resources_are_closed,
    the_next_turn_is_served,
    the_next_commit_begins,
)
